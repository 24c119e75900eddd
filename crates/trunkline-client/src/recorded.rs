//! Readings from a given time or position on: recorded ones first, then live ones, each exactly once
//! (B-63).
//!
//! ```text
//! events of the subscription --> gap? --no--> ready
//!                                 |yes          ^
//!                                 v             |
//!                              query ----> pages of the history, then the reading after the gap
//! ```

use std::collections::{HashMap, HashSet, VecDeque};

use trunkline_proto::FaultCode;
use trunkline_proto::message::ended::EndReason;
use trunkline_types::history::{
    HistoryEvent, HistoryEventRow, HistoryItem, HistoryPage, HistoryQuery, HistorySeries, RowKey,
    SeriesData, is_late_sequence,
};
use trunkline_types::{DataType, Lost, Pattern, Position, Reading, Timestamp};

use crate::event::Event;

/// Assumed maximum disorder of source timestamps: the search for rows of another engine start
/// begins this long before the last reading.
const DISORDER: i64 = 3_600_000_000_000;

/// Combines the events of a subscription under the contract `all` with pages of the history. A
/// program passes in the events with [`ClientCore::next_recorded`](crate::ClientCore::next_recorded),
/// carries out the [`query`](Self::query) when there is one, and takes the events with recorded
/// readings in their places.
///
/// While there is a query, the program leaves the readings in the subscription if it can. Readings
/// that it passes in are held until the gap is filled; the subscription's bound limits their number.
#[derive(Clone, Debug)]
pub struct RecordedEvents {
    items: Vec<FollowedItem>,
    ready: VecDeque<Event>,
    /// Events of items that arrived while a gap was being filled, readings with the sequences in
    /// their records.
    held: VecDeque<(Event, u64)>,
    filling: Option<Filling>,
}

#[derive(Clone, Debug)]
struct FollowedItem {
    /// `None` if the name is invalid.
    pattern: Option<Pattern>,
    /// Time from which readings are returned.
    since: Timestamp,
    /// Position of the last update of the subscription. After a reading without a value, that of
    /// the last update before it.
    last: Option<Position>,
    /// Source timestamp of the last reading that was returned.
    last_time: Timestamp,
    /// The highest sequence that was returned of each engine start. Updates up to it were returned,
    /// or cannot be. A page may have updates of a start that the subscription has not reached yet.
    returned: HashMap<u64, u64>,
    /// Recorded losses that were reported, each with the sequence after its last reported update. The
    /// key contains true for an interruption. Queries overlap, so a later one may return losses again;
    /// those before the time of the last query are dropped.
    reported_losses: HashMap<(RowKey, bool), u64>,
    /// The damage of the history that was reported last, as the engine describes it.
    state: String,
    /// Losses before a reading that is not returned. The next reading reports them.
    unreported: Lost,
    /// True once everything that was recorded before the subscription began was returned.
    has_begun: bool,
    /// The update after which the subscription began, if it began at a position.
    bookmark: Option<Bookmark>,
    /// False until the first reading of a subscription that began after a bookmark. Such a
    /// subscription does not know how many updates the program missed.
    counts_missed: bool,
    /// The count of updates before the last reading, if it has no value and some are missing.
    incomplete: Option<Counted>,
}

/// A count of the updates of a start, from the last one that was returned before a gap.
#[derive(Clone, Copy, Debug)]
struct Counted {
    /// Sequence of the last update before the counted ones.
    from: u64,
    /// Number of updates that were returned, or that the history reports as lost. `None` if the
    /// history reports an unknown loss.
    returned_or_lost: Option<u64>,
}

/// The start of a subscription to recorded and live readings of a variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordedStart {
    /// Returns the updates with source timestamps from this time on.
    Since(Timestamp),
    /// Returns the updates after this one: those of the same start of the engine with higher
    /// sequences, and those of later starts. An update of another start is one of a later start if
    /// the engine accepted it later. If the engine's clock was set back in between, updates may be
    /// missing. Losses that were reported before the program stopped may be reported again. The
    /// updates of a field are those after the source timestamp.
    After(Bookmark),
}

/// An update after which a subscription to recorded and live readings continues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bookmark {
    pub position: Position,
    pub source_timestamp: Timestamp,
    pub engine_timestamp: Timestamp,
}

impl Bookmark {
    /// Returns the bookmark of a reading. Returns `None` if the reading is not an update: there is
    /// no value yet, or it is a late sample.
    pub fn of(reading: &Reading) -> Option<Self> {
        let sequence = reading.position.sequence;
        (sequence > 0 && !is_late_sequence(sequence)).then_some(Self {
            position: reading.position,
            source_timestamp: reading.sample.source_timestamp,
            engine_timestamp: reading.sample.engine_timestamp,
        })
    }

    /// Returns the updates that a program missed between the bookmark and a reading, if `before` is
    /// the last sequence before the reading.
    fn missed(&self, epoch: u64, before: u64, is_field: bool) -> Lost {
        let missed = before.saturating_sub(self.position.sequence);
        let is_countable =
            epoch == self.position.epoch && (!is_field || before == self.position.sequence);
        Lost {
            disconnect: if is_countable { missed } else { 0 },
            unknown: !is_countable,
            ..Lost::NONE
        }
    }
}

/// A gap that is being filled from the history.
#[derive(Clone, Debug)]
struct Filling {
    item: u32,
    /// The reading after the gap.
    reading: Reading,
    /// Sequence of the last update before the reading in the same start.
    before: u64,
    query: HistoryQuery,
    /// Late samples are returned only in the part before the subscription began.
    takes_late: bool,
    bookmark: Option<Bookmark>,
    /// The highest sequences that were returned before this gap. Rows of a start that come after each
    /// other are compared with this, because only the order of their times is known.
    returned: HashMap<u64, u64>,
    /// Counts the updates of the start of `reading`; `None` if the first one is not known.
    counted: Option<Counted>,
    /// [`FollowedItem::counts_missed`] before `reading` arrived.
    counts_missed: bool,
    /// Other starts whose rows are left to the subscription.
    deferred: HashSet<u64>,
    /// Source timestamp of the last row of the start of `reading` that was returned.
    last_time: Option<Timestamp>,
    /// The type of the last series of the pages so far; `None` if the history does not have the variable.
    data_type: Option<DataType>,
    /// True if the start of `reading` was interrupted, or its log is damaged, so its last updates may
    /// be missing.
    is_interrupted: bool,
    /// Updates missing before rows that are not returned, or after the last row of a series. Their
    /// times do not show whether they are missing before or after `reading`.
    skipped: Lost,
    /// Updates missing after the last row of the pages so far.
    lost: Lost,
}

impl RecordedEvents {
    /// Items with these names, in the order of the subscription's. Readings are wanted from `since` on.
    pub fn new<N: AsRef<str>>(names: &[N], since: Timestamp) -> Self {
        let items = names
            .iter()
            .map(|name| FollowedItem::new(name.as_ref(), since));
        Self::of(items.collect())
    }

    /// Items with these names and starts, in the order of the subscription's.
    pub fn starting_at<N: AsRef<str>>(items: &[(N, RecordedStart)]) -> Self {
        let items = items.iter().map(|(name, start)| match start {
            RecordedStart::Since(time) => FollowedItem::new(name.as_ref(), *time),
            RecordedStart::After(bookmark) => FollowedItem::after(name.as_ref(), bookmark),
        });
        Self::of(items.collect())
    }

    fn of(items: Vec<FollowedItem>) -> Self {
        Self {
            items,
            ready: VecDeque::new(),
            held: VecDeque::new(),
            filling: None,
        }
    }

    /// Returns the next event. `None` if more must be passed in.
    pub fn next_event(&mut self) -> Option<Event> {
        while self.ready.is_empty() && self.filling.is_none() {
            let (event, sequence) = self.held.pop_front()?;
            self.take(event, sequence);
        }
        self.ready.pop_front()
    }

    /// Returns the query whose page must be passed in next, if a gap is being filled.
    pub fn query(&self) -> Option<&HistoryQuery> {
        self.filling.as_ref().map(|filling| &filling.query)
    }

    /// Passes in an event of the subscription. For a reading, `sequence` is the sequence in its
    /// record.
    pub(crate) fn take_event(&mut self, event: Event, sequence: u64) {
        match event {
            Event::Connected { .. } | Event::Disconnected { .. } => self.ready.push_back(event),
            Event::Reading { .. } | Event::ItemError { .. } | Event::Ended { .. } => {
                match self.filling {
                    Some(_) => self.held.push_back((event, sequence)),
                    None => self.take(event, sequence),
                }
            }
        }
    }

    fn take(&mut self, event: Event, sequence: u64) {
        match event {
            Event::Reading { item, reading } => self.take_reading(item, reading, sequence),
            event => self.note(event),
        }
    }

    /// Passes in the page of the present query.
    pub fn take_page(&mut self, page: HistoryPage) {
        if let Some(filling) = self.filling.take() {
            self.fill(filling, page);
        }
    }

    /// Leaves the gap open, because the engine cannot read the history: the loss before the reading
    /// after it is unknown.
    pub fn give_up(&mut self) {
        if let Some(mut filling) = self.filling.take() {
            filling.reading.lost.unknown = true;
            self.finish(filling, None);
        }
    }

    fn note(&mut self, event: Event) {
        let gone = match &event {
            Event::Ended { item, reason, .. } => (*reason == EndReason::Gone).then_some(*item),
            // The fault of the next attempt to subscribe may replace the report of the end.
            Event::ItemError { item, fault } => {
                matches!(fault.code, FaultCode::UnknownName | FaultCode::Gone).then_some(*item)
            }
            Event::Connected { .. } | Event::Disconnected { .. } | Event::Reading { .. } => None,
        };
        if let Some(item) = gone.and_then(|item| self.items.get_mut(item as usize))
            && item.is_field()
        {
            // The sequences of a field begin again at 1.
            item.since = item.last_time.saturating_add_nanos(1);
            item.last = None;
            item.bookmark = None;
            item.returned.clear();
        }
        self.ready.push_back(event);
    }

    fn take_reading(&mut self, item: u32, mut reading: Reading, sequence: u64) {
        let Some(known) = self.items.get_mut(item as usize) else {
            return;
        };
        let at = reading.position;
        let counts_missed = std::mem::replace(&mut known.counts_missed, true);
        if known
            .bookmark
            .is_some_and(|bookmark| Bookmark::of(&reading) == Some(bookmark))
        {
            return;
        }
        // The record of a variable without a value has the sequence that precedes the first update.
        let before = match at.sequence {
            0 => sequence,
            _ => at.sequence - 1,
        };
        if let Some(last) = known.last.filter(|last| last.epoch == at.epoch) {
            if before < last.sequence {
                // The first reading of a restored subscription may already have been returned.
                return;
            }
            if before == last.sequence {
                // The subscription does not count across deployments; the sequences show that
                // nothing is missing.
                reading.lost = Lost::NONE;
                return self.push_live(item, reading, before);
            }
        }
        let since = match known.has_begun {
            false => known.since,
            true => {
                // The engine's clock may have been set back.
                let time = match at.sequence {
                    0 => known.last_time,
                    _ => known.last_time.min(reading.sample.source_timestamp),
                };
                time.saturating_add_nanos(-DISORDER).max(known.since)
            }
        };
        let query = HistoryQuery {
            patterns: known.pattern.iter().cloned().collect(),
            since: Some(since),
            after: known.last,
            ..HistoryQuery::default()
        };
        let counted = known.counted(at.epoch);
        known.incomplete = None;
        self.filling = Some(Filling {
            item,
            reading,
            before,
            query,
            takes_late: !known.has_begun,
            bookmark: known.bookmark,
            counted,
            counts_missed,
            deferred: HashSet::new(),
            returned: known.returned.clone(),
            last_time: None,
            data_type: None,
            is_interrupted: false,
            skipped: Lost::NONE,
            lost: std::mem::take(&mut known.unreported),
        });
    }

    fn fill(&mut self, mut filling: Filling, mut page: HistoryPage) {
        if page.epoch != filling.reading.position.epoch {
            filling.deferred.insert(page.epoch);
        }
        if let Some(known) = self.items.get_mut(filling.item as usize) {
            for series in &mut page.series {
                filling.note_interruption(series);
                known.keep_new_losses(series, &filling);
                filling.count_losses(series);
            }
        }
        for series in &page.series {
            // A loss after the last row of a series does not precede the rows of the next one.
            let former = filling.data_type.replace(series.data_type.clone());
            if former.is_some_and(|former| former != series.data_type) {
                filling.skipped = filling.skipped.plus(std::mem::take(&mut filling.lost));
            }
            for row in series.items() {
                let HistoryItem::Reading(mut reading) = row else {
                    continue;
                };
                // The page before may have ended between the loss and this row.
                reading.lost = std::mem::take(&mut filling.lost).plus(reading.lost);
                let at = reading.position;
                let is_late = is_late_sequence(at.sequence);
                // Skips rows that come later, and rows that were returned already.
                let is_unwanted = match is_late {
                    true => !filling.takes_late,
                    false => filling.comes_later(at),
                };
                if is_unwanted {
                    filling.skipped = filling.skipped.plus(reading.lost);
                    continue;
                }
                let highest = filling.returned.get(&at.epoch).filter(|_| !is_late);
                let is_returned = highest.is_some_and(|highest| at.sequence <= *highest);
                let accepted = reading.sample.engine_timestamp;
                if is_returned || filling.precedes_bookmark(at.epoch, accepted) {
                    // The times of the starts overlap, so the loss may be one of another start.
                    filling.lost = reading.lost;
                    continue;
                }
                if !is_late && at.epoch == filling.reading.position.epoch {
                    filling.last_time = Some(reading.sample.source_timestamp);
                    filling.count(Some(1));
                }
                self.push_recorded(filling.item, reading);
            }
            let lost = series.lost_after_last().unwrap_or(Lost::NONE);
            filling.lost = filling.lost.plus(lost);
        }
        if let Some(known) = self.items.get_mut(filling.item as usize)
            && known.state != page.state
        {
            // The engine repeats a damage that it found at its start in every page.
            if !page.state.is_empty() {
                filling.lost.unknown = true;
                filling.count(None);
            }
            known.state = page.state;
        }
        filling.query.from = page.next;
        if filling.query.from.is_some() {
            self.filling = Some(filling);
            return;
        }
        let lost = filling.skipped.plus(filling.lost);
        let lost = filling.data_type.is_some().then_some(lost);
        self.finish(filling, lost);
    }

    /// Returns the reading after a gap. `lost` counts the updates that the history lacks before it;
    /// `None` if the history does not have the variable.
    fn finish(&mut self, filling: Filling, lost: Option<Lost>) {
        let (mut reading, before) = (filling.reading, filling.before);
        let (at, after) = (reading.position, filling.query.after);
        let Some(known) = self.items.get_mut(filling.item as usize) else {
            return;
        };
        let highest = known.returned.get(&at.epoch).copied();
        let counted = filling.counted.or_else(|| {
            // Initial values are not recorded, and `since` may lie in the middle of this start. So only
            // the updates after its last row are counted.
            Some(Counted {
                from: highest.or(after.map(|_| 0))?,
                returned_or_lost: lost.map_or(Some(0), |lost| lost.count()),
            })
        });
        let missing = counted.and_then(|counted| counted.missing(before));
        match lost {
            Some(lost) => {
                reading.lost = lost;
                if let Some(missing) = missing.filter(|_| at.sequence > 0 && !lost.unknown) {
                    // Updates that are neither recorded nor lost were left out on request.
                    match filling.is_interrupted {
                        true => reading.lost.unknown = missing > 0,
                        false => {
                            reading.lost.coalesced = reading.lost.coalesced.saturating_add(missing);
                        }
                    }
                }
            }
            None => {
                reading.lost = filling.lost.plus(reading.lost);
                if let Some(bookmark) = filling.bookmark.filter(|_| !filling.counts_missed) {
                    let missed = bookmark.missed(at.epoch, before, known.is_field());
                    reading.lost = reading.lost.plus(missed);
                }
            }
        }
        known.has_begun = true;
        if let Some(since) = filling.query.since {
            let since = since.as_nanos();
            known
                .reported_losses
                .retain(|(loss, _), _| loss.time >= since);
        }
        let time = match at.sequence {
            0 => filling.last_time,
            _ => Some(reading.sample.source_timestamp),
        };
        known.last_time = time.unwrap_or(known.last_time);
        if let Some(highest) = highest.filter(|highest| *highest > before) {
            // The page of an earlier gap had this reading already, or a later one.
            known.last = Some(Position {
                sequence: highest,
                ..at
            });
            known.unreported = reading.lost;
            return;
        }
        // The query for a reading without a value may begin too late, because the reading has no
        // time. The query for the next update then finds the missing ones, or they are counted.
        known.incomplete = counted.filter(|_| at.sequence == 0 && missing != Some(0));
        let before = match known.incomplete {
            Some(counted) => highest.unwrap_or(counted.from),
            None => before,
        };
        self.push_live(filling.item, reading, before);
    }

    /// Returns a reading that becomes the newest one. If it has no value, the updates up to the
    /// sequence `before` were returned.
    fn push_live(&mut self, item: u32, mut reading: Reading, before: u64) {
        if let Some(known) = self.items.get_mut(item as usize) {
            let at = reading.position;
            if at.sequence > 0 {
                known.last_time = reading.sample.source_timestamp;
                known.incomplete = None;
            }
            let sequence = match at.sequence {
                0 => before,
                sequence => sequence,
            };
            known.note_returned(at.epoch, sequence);
            known.last = Some(Position { sequence, ..at });
            reading.lost = std::mem::take(&mut known.unreported).plus(reading.lost);
        }
        self.ready.push_back(Event::Reading { item, reading });
    }

    /// Returns a recorded reading.
    fn push_recorded(&mut self, item: u32, reading: Reading) {
        let Position { epoch, sequence } = reading.position;
        if let Some(known) = self.items.get_mut(item as usize)
            && !is_late_sequence(sequence)
        {
            known.note_returned(epoch, sequence);
        }
        self.ready.push_back(Event::Reading { item, reading });
    }
}

impl Filling {
    /// Notes whether the last updates of the reading's start may be missing.
    fn note_interruption(&mut self, series: &HistorySeries) {
        let SeriesData::Rows(rows) = &series.data else {
            return;
        };
        let epoch = self.reading.position.epoch;
        self.is_interrupted |= rows.events().iter().any(|mark| {
            let is_end = matches!(
                mark.event,
                HistoryEvent::Interrupted | HistoryEvent::Lost(None)
            );
            is_end && mark.key.epoch == epoch
        });
    }

    /// Counts losses that the history reports in the start of the reading after the gap.
    fn count_losses(&mut self, series: &HistorySeries) {
        let SeriesData::Rows(rows) = &series.data else {
            return;
        };
        for mark in rows.events() {
            match mark.event {
                HistoryEvent::Lost(Some(count))
                    if mark.key.epoch == self.reading.position.epoch =>
                {
                    self.count(Some(count));
                }
                // A damaged file does not show which start its rows belong to.
                HistoryEvent::Lost(None) => self.count(None),
                HistoryEvent::Lost(Some(_))
                | HistoryEvent::Interrupted
                | HistoryEvent::Started
                | HistoryEvent::Stopped
                | HistoryEvent::Added
                | HistoryEvent::Retired
                | HistoryEvent::Other(_) => {}
            }
        }
    }

    /// Counts updates of the start of the reading after the gap that were returned or lost. `count` is
    /// `None` if the number is not known.
    fn count(&mut self, count: Option<u64>) {
        if let Some(counted) = &mut self.counted {
            let both = counted.returned_or_lost.zip(count);
            counted.returned_or_lost = both.map(|(before, count)| before.saturating_add(count));
        }
    }

    /// Returns true if this event ended a start, or lost its last updates, later than the reading. The
    /// next gap reports it: the page is from a later start.
    fn is_later_end(&self, mark: &HistoryEventRow) -> bool {
        let is_end = matches!(
            mark.event,
            HistoryEvent::Interrupted | HistoryEvent::Lost(None)
        );
        if !is_end || self.deferred.is_empty() {
            return false;
        }
        let Position { epoch, sequence } = self.reading.position;
        let accepted = self.reading.sample.engine_timestamp;
        let is_accepted_before = sequence == 0
            || !accepted.is_plausible()
            || Timestamp::from_nanos(mark.key.time) > accepted;
        mark.key.epoch == epoch || is_accepted_before
    }

    /// Returns the sequences of a loss of `count` updates that this gap contains: the first, and the one
    /// after the last.
    fn part_of_loss(&self, key: &RowKey, count: u64) -> (u64, u64) {
        let end = key.sequence.saturating_add(count);
        let is_same = key.epoch == self.reading.position.epoch;
        let from = match self.counted.filter(|_| is_same) {
            Some(counted) => Some(counted.from),
            None => self.returned.get(&key.epoch).copied(),
        };
        let first = key
            .sequence
            .max(from.map_or(0, |from| from.saturating_add(1)));
        match is_same {
            true => (first, end.min(self.before.saturating_add(1))),
            false => (first, end),
        }
    }

    /// Returns true if the subscription delivers the row at this position as the present reading or
    /// after it.
    fn comes_later(&self, row: Position) -> bool {
        match row.epoch == self.reading.position.epoch {
            true => row.sequence > self.before,
            // The subscription continues with the start that sent the page.
            false => self.deferred.contains(&row.epoch),
        }
    }

    /// Returns true if an update or event of this start and engine time is of a start before that of
    /// the bookmark.
    fn precedes_bookmark(&self, epoch: u64, time: Timestamp) -> bool {
        self.bookmark.is_some_and(|bookmark| {
            // Sequences decide for these starts.
            let is_known = self.returned.contains_key(&epoch);
            !is_known && epoch != self.reading.position.epoch && time <= bookmark.engine_timestamp
        })
    }
}

impl Counted {
    /// Returns the number of updates up to `last` that were neither returned nor reported as lost.
    fn missing(self, last: u64) -> Option<u64> {
        let updates = last.saturating_sub(self.from);
        Some(updates.saturating_sub(self.returned_or_lost?))
    }
}

impl FollowedItem {
    fn new(name: &str, since: Timestamp) -> Self {
        Self {
            // An invalid name is reported as an event of the subscription.
            pattern: Pattern::parse(name).ok(),
            since,
            last: None,
            last_time: since,
            returned: HashMap::new(),
            reported_losses: HashMap::new(),
            state: String::new(),
            unreported: Lost::NONE,
            has_begun: false,
            bookmark: None,
            counts_missed: true,
            incomplete: None,
        }
    }

    fn after(name: &str, bookmark: &Bookmark) -> Self {
        if name.contains('#') {
            // The sequences of a field may have begun again.
            return Self {
                bookmark: Some(*bookmark),
                counts_missed: false,
                ..Self::new(name, bookmark.source_timestamp.saturating_add_nanos(1))
            };
        }
        let Position { epoch, sequence } = bookmark.position;
        Self {
            last: Some(bookmark.position),
            last_time: bookmark.source_timestamp,
            returned: HashMap::from([(epoch, sequence)]),
            has_begun: true,
            bookmark: Some(*bookmark),
            counts_missed: false,
            ..Self::new(name, Timestamp::from_nanos(i64::MIN))
        }
    }

    /// Returns the count of updates of a start before a gap; `None` if no update of it was returned.
    fn counted(&self, epoch: u64) -> Option<Counted> {
        let last = self.last?;
        let incomplete = self.incomplete.filter(|_| last.epoch == epoch);
        incomplete.or_else(|| {
            Some(Counted {
                from: *self.returned.get(&epoch)?,
                returned_or_lost: Some(0),
            })
        })
    }

    fn is_field(&self) -> bool {
        let name = self.pattern.as_ref();
        name.is_some_and(|name| name.as_str().contains('#'))
    }

    fn note_returned(&mut self, epoch: u64, sequence: u64) {
        let highest = self.returned.entry(epoch).or_default();
        *highest = sequence.max(*highest);
    }

    /// Removes the losses that were reported already, those before the bookmark, and those that a later
    /// gap reports. Notes the others as reported.
    fn keep_new_losses(&mut self, series: &mut HistorySeries, filling: &Filling) {
        let SeriesData::Rows(rows) = &mut series.data else {
            return;
        };
        for mut mark in rows.take_events() {
            let key = mark.key;
            let time = Timestamp::from_nanos(key.time);
            let is_other_gap = filling.deferred.contains(&key.epoch)
                || filling.precedes_bookmark(key.epoch, time)
                || filling.is_later_end(&mark);
            let id = (key, mark.event == HistoryEvent::Interrupted);
            let reported = self.reported_losses.get(&id).copied();
            match mark.event {
                HistoryEvent::Lost(_) | HistoryEvent::Interrupted if is_other_gap => continue,
                HistoryEvent::Lost(Some(count)) => {
                    let (first, end) = filling.part_of_loss(&key, count);
                    let first = first.max(reported.unwrap_or(0));
                    if first >= end {
                        continue;
                    }
                    mark.event = HistoryEvent::Lost(Some(end - first));
                    self.reported_losses.insert(id, end);
                }
                HistoryEvent::Lost(None) | HistoryEvent::Interrupted => {
                    if self.reported_losses.insert(id, 0).is_some() {
                        continue;
                    }
                }
                HistoryEvent::Started
                | HistoryEvent::Stopped
                | HistoryEvent::Added
                | HistoryEvent::Retired
                | HistoryEvent::Other(_) => {}
            }
            rows.push_event(mark);
        }
    }
}

#[cfg(test)]
mod tests;
