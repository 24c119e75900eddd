//! Readings from a given time on: recorded ones first, then live ones, each exactly once (B-63).
//!
//! ```text
//! events of the subscription --> gap? --no--> ready
//!                                 |yes          ^
//!                                 v             |
//!                              query ----> pages of the history, then the reading after the gap
//! ```

use std::collections::{HashMap, HashSet, VecDeque};

use trunkline_proto::message::ended::EndReason;
use trunkline_types::history::{
    HistoryEvent, HistoryItem, HistoryPage, HistoryQuery, HistorySeries, RowKey, SeriesData,
    is_late_sequence,
};
use trunkline_types::{Lost, Pattern, Position, Reading, Timestamp};

use crate::event::Event;

/// Assumed maximum disorder of source timestamps: the search for rows of another engine start
/// begins this long before the last reading.
const DISORDER: i64 = 3_600_000_000_000;

/// Combines the events of a subscription under the contract `all` with pages of the history. A
/// program passes in the events, carries out the [`query`](Self::query) when there is one, and takes
/// the events with recorded readings in their places.
///
/// While there is a query, the program leaves the readings in the subscription if it can. Readings
/// that it passes in are held until the gap is filled; the subscription's bound limits their number.
#[derive(Debug)]
pub struct RecordedEvents {
    items: Vec<FollowedItem>,
    ready: VecDeque<Event>,
    /// Events of items that arrived while a gap was being filled.
    held: VecDeque<Event>,
    filling: Option<Filling>,
    /// The start of the engine to which the client is or was last connected.
    epoch: Option<u64>,
}

#[derive(Debug)]
struct FollowedItem {
    /// `None` if the name is invalid.
    pattern: Option<Pattern>,
    /// Time from which readings are returned.
    since: Timestamp,
    /// The newest update of the subscription that was returned, and its source timestamp.
    last: Option<Position>,
    last_time: Timestamp,
    /// The highest sequence that was returned of each engine start. Updates up to it were returned,
    /// or cannot be. A page may have updates of a start that the subscription has not reached yet.
    returned: HashMap<u64, u64>,
    /// Recorded losses that were reported. Queries overlap, so a later one may return them again; those
    /// before the time of the last query are dropped.
    reported_losses: HashSet<RowKey>,
    /// The damage of the history that was reported last, as the engine describes it.
    state: String,
    /// Losses before a reading that is not returned, or has no value. The next reading reports them.
    unreported: Lost,
    /// True once everything that was recorded before the subscription began was returned.
    has_begun: bool,
}

/// A gap that is being filled from the history.
#[derive(Debug)]
struct Filling {
    item: u32,
    /// The reading after the gap.
    reading: Reading,
    query: HistoryQuery,
    /// Late samples are returned only in the part before the subscription began.
    takes_late: bool,
    /// The highest sequences that were returned before this gap. Rows of a start that come after each
    /// other are compared with this, because only the order of their times is known.
    returned: HashMap<u64, u64>,
    /// The last row that was returned, and its source timestamp. Rows come in the order of their
    /// source timestamps.
    last: Option<(Position, Timestamp)>,
    /// True if the history has the variable.
    is_recorded: bool,
    /// True if the start of `reading` was interrupted, so its last updates may not be recorded.
    is_interrupted: bool,
    /// Time at which the variable was last undeployed in the start of `reading`, if the pages so far
    /// show it.
    retired: Option<Timestamp>,
    /// The lowest sequence and the earliest source timestamp of the rows that may be later than a reading
    /// without a value.
    doubtful: Option<(u64, Timestamp)>,
    /// Updates missing before rows that are not returned. Their times do not show whether they are
    /// missing before or after `reading`.
    skipped: Lost,
    /// Updates missing after the last row of the pages so far.
    lost: Lost,
}

impl RecordedEvents {
    /// Items with these names, in the order of the subscription's. Readings are wanted from `since` on.
    pub fn new<N: AsRef<str>>(names: &[N], since: Timestamp) -> Self {
        let items = names.iter().map(|name| FollowedItem {
            // An invalid name is reported as an event of the subscription.
            pattern: Pattern::parse(name.as_ref()).ok(),
            since,
            last: None,
            last_time: since,
            returned: HashMap::new(),
            reported_losses: HashSet::new(),
            state: String::new(),
            unreported: Lost::NONE,
            has_begun: false,
        });
        Self {
            items: items.collect(),
            ready: VecDeque::new(),
            held: VecDeque::new(),
            filling: None,
            epoch: None,
        }
    }

    /// Returns the next event. `None` if more must be passed in.
    pub fn next_event(&mut self) -> Option<Event> {
        while self.ready.is_empty() && self.filling.is_none() {
            let event = self.held.pop_front()?;
            self.take(event);
        }
        self.ready.pop_front()
    }

    /// Returns the query whose page must be passed in next, if a gap is being filled.
    pub fn query(&self) -> Option<&HistoryQuery> {
        self.filling.as_ref().map(|filling| &filling.query)
    }

    /// Passes in an event of the subscription.
    pub fn take_event(&mut self, event: Event) {
        if let Event::Connected { epoch, .. } = event {
            self.epoch = Some(epoch);
        }
        match event {
            Event::Connected { .. } | Event::Disconnected { .. } => self.ready.push_back(event),
            Event::Reading { .. } | Event::ItemError { .. } | Event::Ended { .. } => {
                match self.filling {
                    Some(_) => self.held.push_back(event),
                    None => self.take(event),
                }
            }
        }
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Reading { item, reading } => self.take_reading(item, reading),
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
        if let Event::Ended { item, reason, .. } = &event
            && let Some(item) = self.items.get_mut(*item as usize)
            && let Some(name) = &item.pattern
            && *reason == EndReason::Gone
            && name.as_str().contains('#')
        {
            // The sequences of a field begin again at 1.
            item.since = item.last_time.saturating_add_nanos(1);
            item.last = None;
            item.returned.clear();
        }
        self.ready.push_back(event);
    }

    fn take_reading(&mut self, item: u32, reading: Reading) {
        let Some(known) = self.items.get_mut(item as usize) else {
            return;
        };
        let at = reading.position;
        if let Some(last) = known.last.filter(|last| last.epoch == at.epoch) {
            if (1..=last.sequence).contains(&at.sequence) {
                // The first reading of a restored subscription may already have been returned.
                return;
            }
            if last.sequence + 1 == at.sequence {
                return self.push_live(item, reading);
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
        self.filling = Some(Filling {
            item,
            reading,
            query,
            takes_late: !known.has_begun,
            returned: known.returned.clone(),
            last: None,
            is_recorded: false,
            is_interrupted: false,
            retired: None,
            doubtful: None,
            skipped: Lost::NONE,
            lost: std::mem::take(&mut known.unreported),
        });
    }

    fn fill(&mut self, mut filling: Filling, mut page: HistoryPage) {
        if let Some(known) = self.items.get_mut(filling.item as usize) {
            for series in &mut page.series {
                filling.note_ends(series);
                known.keep_new_losses(series);
            }
        }
        for series in &page.series {
            filling.is_recorded = true;
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
                    false => filling.comes_later(&reading, self.epoch),
                };
                if is_unwanted {
                    filling.skipped = filling.skipped.plus(reading.lost);
                    continue;
                }
                let highest = filling.returned.get(&at.epoch).filter(|_| !is_late);
                if highest.is_some_and(|highest| at.sequence <= *highest) {
                    // The times of the starts overlap, so the loss may be one of another start.
                    filling.lost = reading.lost;
                    continue;
                }
                if !is_late {
                    filling.last = Some((at, reading.sample.source_timestamp));
                }
                self.push(filling.item, reading);
            }
            let lost = series.lost_after_last().unwrap_or(Lost::NONE);
            filling.lost = filling.lost.plus(lost);
        }
        if let Some(known) = self.items.get_mut(filling.item as usize)
            && known.state != page.state
        {
            // The engine repeats a damage that it found at its start in every page.
            filling.lost.unknown |= !page.state.is_empty();
            known.state = page.state;
        }
        filling.query.from = page.next;
        if filling.query.from.is_some() {
            self.filling = Some(filling);
            return;
        }
        let lost = filling.skipped.plus(filling.lost);
        let lost = filling.is_recorded.then_some(lost);
        self.finish(filling, lost);
    }

    /// Returns the reading after a gap. `lost` counts the updates that the history lacks before it;
    /// `None` if the history does not have the variable.
    fn finish(&mut self, filling: Filling, lost: Option<Lost>) {
        let mut reading = filling.reading;
        let (at, after) = (reading.position, filling.query.after);
        let Some(known) = self.items.get_mut(filling.item as usize) else {
            return;
        };
        let highest = known.returned.get(&at.epoch).copied();
        if lost.is_none() {
            reading.lost = filling.lost.plus(reading.lost);
        }
        if let Some(lost) = lost.filter(|_| at.sequence > 0) {
            reading.lost = lost;
            let before = highest.or(after.map(|_| 0));
            if let Some(before) = before.filter(|_| lost.nothing_lost()) {
                // If nothing was lost, unrecorded updates were left out on request.
                let missing = at.sequence.saturating_sub(before + 1);
                match filling.is_interrupted {
                    true => reading.lost.unknown = missing > 0,
                    false => reading.lost.coalesced = missing,
                }
            }
        }
        known.has_begun = true;
        if let Some(since) = filling.query.since {
            let since = since.as_nanos();
            known.reported_losses.retain(|loss| loss.time >= since);
        }
        if at.sequence == 0 {
            if let Some((last, time)) = filling.last {
                // A value that is bad may be followed by one with an earlier source timestamp.
                let highest = known.returned.get(&last.epoch).copied();
                let sequence = last.sequence.max(highest.unwrap_or(0));
                known.last = Some(Position { sequence, ..last });
                known.last_time = time;
            }
            if let Some((_, time)) = filling.doubtful {
                // The query for the next reading, whose sequence decides, must find the rows again.
                known.last_time = known.last_time.min(time);
            }
            known.unreported = lost.unwrap_or(filling.lost);
            if let Some((sequence, _)) = filling.doubtful
                && known
                    .returned
                    .get(&at.epoch)
                    .is_some_and(|highest| *highest > sequence)
            {
                known.unreported.unknown = true;
            }
        } else if let Some(highest) = highest.filter(|highest| *highest >= at.sequence) {
            // The page of an earlier gap had this reading already.
            known.last = Some(Position {
                sequence: highest,
                ..at
            });
            known.last_time = reading.sample.source_timestamp;
            known.unreported = reading.lost;
            return;
        }
        self.push_live(filling.item, reading);
    }

    /// Returns a reading that becomes the newest one.
    fn push_live(&mut self, item: u32, mut reading: Reading) {
        if let Some(known) = self.items.get_mut(item as usize)
            && reading.position.sequence > 0
        {
            known.last = Some(reading.position);
            known.last_time = reading.sample.source_timestamp;
            reading.lost = std::mem::take(&mut known.unreported).plus(reading.lost);
        }
        self.push(item, reading);
    }

    fn push(&mut self, item: u32, reading: Reading) {
        let Position { epoch, sequence } = reading.position;
        if let Some(known) = self.items.get_mut(item as usize)
            && sequence > 0
            && !is_late_sequence(sequence)
        {
            let highest = known.returned.entry(epoch).or_default();
            *highest = sequence.max(*highest);
        }
        self.ready.push_back(Event::Reading { item, reading });
    }
}

impl Filling {
    /// Notes how the start and the deployments of the reading after the gap ended.
    fn note_ends(&mut self, series: &HistorySeries) {
        let SeriesData::Rows(rows) = &series.data else {
            return;
        };
        let epoch = self.reading.position.epoch;
        for mark in rows.events().iter().filter(|mark| mark.key.epoch == epoch) {
            match mark.event {
                HistoryEvent::Interrupted => self.is_interrupted = true,
                HistoryEvent::Retired => {
                    let time = Timestamp::from_nanos(mark.key.time);
                    self.retired = self.retired.max(Some(time));
                }
                HistoryEvent::Started
                | HistoryEvent::Stopped
                | HistoryEvent::Lost(_)
                | HistoryEvent::Added
                | HistoryEvent::Other(_) => {}
            }
        }
    }

    /// Returns true if the subscription will deliver this row after the present reading. `connected` is
    /// the start to which the client is connected.
    fn comes_later(&mut self, row: &Reading, connected: Option<u64>) -> bool {
        let (at, gap) = (row.position, self.reading.position);
        if at.epoch != gap.epoch {
            // The subscription continues with the start to which the client is connected.
            return connected == Some(at.epoch);
        }
        if gap.sequence > 0 {
            return at.sequence >= gap.sequence;
        }
        // The variable has no value yet. Rows of this start are later, or of an earlier deployment.
        let time = row.sample.source_timestamp;
        let is_former = self.retired.is_some_and(|end| time <= end);
        if !is_former || self.doubtful.is_some() {
            let (sequence, earliest) = self.doubtful.unwrap_or((at.sequence, time));
            self.doubtful = Some((sequence.min(at.sequence), earliest.min(time)));
        }
        self.doubtful.is_some()
    }
}

impl FollowedItem {
    /// Removes the losses that were reported already, and notes the others as reported.
    fn keep_new_losses(&mut self, series: &mut HistorySeries) {
        let SeriesData::Rows(rows) = &mut series.data else {
            return;
        };
        for mark in rows.take_events() {
            let is_loss = matches!(
                mark.event,
                HistoryEvent::Lost(_) | HistoryEvent::Interrupted
            );
            if !is_loss || self.reported_losses.insert(mark.key) {
                rows.push_event(mark);
            }
        }
    }
}

#[cfg(test)]
mod tests;
