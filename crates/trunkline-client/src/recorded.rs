//! Readings from a given time on: recorded ones first, then live ones, each exactly once (B-63).
//!
//! ```text
//! events of the subscription --> gap? --no--> ready
//!                                 |yes          ^
//!                                 v             |
//!                              query ----> pages of the history, then the reading after the gap
//! ```

use std::cmp::Ordering;
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

/// Assumed maximum disorder of engine timestamps: a write takes its timestamp before it waits for the
/// variable.
const ENGINE_DISORDER: i64 = 10_000_000_000;

/// Combines the events of a subscription under the contract `all` with pages of the history. A
/// program passes in the events, carries out the [`query`](Self::query) when there is one, and takes
/// the events with recorded readings in their places.
///
/// While there is a query, the program leaves the readings in the subscription if it can. Readings
/// that it passes in are held until the gap is filled; the subscription's bound is theirs.
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
    /// The latest source timestamp of all readings that were returned.
    latest_time: Timestamp,
    /// The readings that were returned of each engine start. A page may have updates of a start that
    /// the subscription has not reached yet.
    returned: HashMap<u64, ReturnedReadings>,
    /// The readings that were returned of earlier deployments in the same start. A variable that is
    /// deployed again begins again at sequence 1.
    former: HashMap<u64, ReturnedReadings>,
    /// Recorded losses that were reported. Queries overlap, so a later one may return them again; those
    /// before the time of the last query are dropped.
    reported_losses: HashSet<RowKey>,
    /// The damage of the history that was reported last, as the engine describes it.
    state: String,
    /// Losses before a reading that is not returned, or has no value. The next reading reports them.
    unreported: Lost,
    /// True if updates after `last` may be missing.
    has_gap: bool,
    /// True once everything that was recorded before the subscription began was returned.
    has_begun: bool,
}

/// The readings of one engine start that were returned: updates up to this sequence that the engine
/// accepted up to this time. The time tells apart the updates of two deployments.
#[derive(Clone, Copy, Debug)]
struct ReturnedReadings {
    /// The highest sequence.
    sequence: u64,
    /// The latest engine timestamp; `None` if the variable has no timestamps.
    engine_timestamp: Option<Timestamp>,
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
    /// The readings that were returned before this gap. Rows of a start that come after each other are
    /// compared with this, because only the order of their times is known.
    returned: HashMap<u64, ReturnedReadings>,
    former: HashMap<u64, ReturnedReadings>,
    /// The last row that was returned, and its source timestamp. Rows come in the order of their
    /// source timestamps.
    last: Option<(Position, Timestamp)>,
    /// True if the history has the variable.
    is_recorded: bool,
    /// True if the start of `reading` was interrupted, so its last updates may not be recorded.
    is_interrupted: bool,
    /// Time at which the variable was last undeployed in the start of `reading`, if the pages so far
    /// show it. The updates of the deployments before it have earlier engine timestamps.
    retired: Option<Timestamp>,
    /// The earliest source timestamp of the rows that are left to the subscription, although they may be
    /// of an earlier deployment.
    doubtful: Option<Timestamp>,
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
            latest_time: since,
            returned: HashMap::new(),
            former: HashMap::new(),
            reported_losses: HashSet::new(),
            state: String::new(),
            unreported: Lost::NONE,
            has_gap: true,
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
        {
            item.has_gap = true;
            if *reason == EndReason::Gone {
                item.begin_deployment();
            }
        }
        self.ready.push_back(event);
    }

    fn take_reading(&mut self, item: u32, reading: Reading) {
        let Some(known) = self.items.get_mut(item as usize) else {
            return;
        };
        let at = reading.position;
        if reading.lost.unknown && known.last.is_some_and(|last| last.epoch == at.epoch) {
            // A program that is slow may not receive the event of an end.
            known.begin_deployment();
        }
        if let Some(last) = known.last.filter(|last| last.epoch == at.epoch) {
            if last.sequence >= at.sequence {
                // The first reading of a restored subscription may already have been returned.
                return;
            }
            if last.sequence + 1 == at.sequence && !known.has_gap {
                return self.push_live(item, reading);
            }
        }
        known.has_gap = false;
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
            after_time: known.last.and_then(|last| {
                let returned = known.returned.get(&last.epoch)?;
                returned.engine_timestamp
            }),
            ..HistoryQuery::default()
        };
        self.filling = Some(Filling {
            item,
            reading,
            query,
            takes_late: !known.has_begun,
            returned: known.returned.clone(),
            former: known.former.clone(),
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
                let origin = match is_late {
                    true => Origin::Present,
                    false => filling.origin(&reading, self.epoch),
                };
                // Skips rows that come later, and rows that were returned already.
                if origin == Origin::Later || is_late && !filling.takes_late {
                    filling.skipped = filling.skipped.plus(reading.lost);
                    continue;
                }
                let returned = returned_with(&reading, &filling.returned, &filling.former);
                if !is_late && returned.is_some() {
                    // The times of the starts overlap, so the loss may be one of another start.
                    filling.lost = reading.lost;
                    continue;
                }
                if !is_late && origin == Origin::Present {
                    filling.last = Some((at, reading.sample.source_timestamp));
                }
                self.push(filling.item, reading, origin);
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
        let highest = known.returned.get(&at.epoch);
        let highest = highest.map(|returned| returned.sequence);
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
                let highest = known.returned.get(&last.epoch);
                let highest = highest.map_or(0, |returned| returned.sequence);
                let sequence = last.sequence.max(highest);
                known.last = Some(Position { sequence, ..last });
                known.last_time = time;
            }
            if let Some(time) = filling.doubtful.filter(|_| filling.retired.is_some()) {
                // The engine timestamp of the next reading shows which deployment the rows belong to.
                known.has_gap = true;
                known.last_time = known.last_time.min(time);
            }
            known.unreported = lost.unwrap_or(filling.lost);
        } else if let Some(highest) = returned_with(&reading, &known.returned, &known.former) {
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
        self.push(item, reading, Origin::Present);
    }

    fn push(&mut self, item: u32, reading: Reading, origin: Origin) {
        let Position { epoch, sequence } = reading.position;
        if let Some(known) = self.items.get_mut(item as usize)
            && sequence > 0
            && !is_late_sequence(sequence)
        {
            let time = reading.sample.source_timestamp;
            known.latest_time = known.latest_time.max(time);
            let map = match origin {
                Origin::Former => &mut known.former,
                Origin::Present | Origin::Later => &mut known.returned,
            };
            ReturnedReadings::of(&reading).add_to(map, epoch);
        }
        self.ready.push_back(Event::Reading { item, reading });
    }
}

/// The origin of a row, compared with the reading after the gap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Origin {
    /// An earlier deployment of the variable in the same start of the engine.
    Former,
    /// An earlier update, or one of another start.
    Present,
    /// A later update, which the subscription will deliver.
    Later,
}

impl Filling {
    /// Notes how the starts and the deployments in this part of a page ended.
    fn note_ends(&mut self, series: &HistorySeries) {
        let SeriesData::Rows(rows) = &series.data else {
            return;
        };
        let epoch = self.reading.position.epoch;
        for mark in rows.events().iter().filter(|mark| mark.key.epoch == epoch) {
            match mark.event {
                HistoryEvent::Interrupted => self.is_interrupted = true,
                HistoryEvent::Retired => {
                    self.retired = self.retired.max(Some(Timestamp::from_nanos(mark.key.time)));
                    let is_in_doubt = self.doubtful.is_some() && self.reading.position.sequence > 0;
                    self.skipped.unknown |= is_in_doubt && self.may_be_followed();
                }
                HistoryEvent::Started
                | HistoryEvent::Stopped
                | HistoryEvent::Lost(_)
                | HistoryEvent::Added
                | HistoryEvent::Other(_) => {}
            }
        }
    }

    /// Returns the origin of a row. `connected` is the start to which the client is connected.
    ///
    /// Two deployments in one start may use the same sequences. The engine timestamps show the order
    /// of their updates, unless the clock was set back in the meantime.
    fn origin(&mut self, row: &Reading, connected: Option<u64>) -> Origin {
        let (at, gap) = (row.position, self.reading.position);
        if at.epoch != gap.epoch {
            // The subscription continues with the start to which the client is connected.
            return match connected == Some(at.epoch) {
                true => Origin::Later,
                false => Origin::Present,
            };
        }
        let (time, before) = (
            row.sample.engine_timestamp,
            self.reading.sample.engine_timestamp,
        );
        let is_former = self.retired.is_some_and(|end| time <= end);
        if gap.sequence == 0 {
            // The variable has no value yet, so there is no time to compare with.
            return match is_former && self.doubtful.is_none() {
                true => Origin::Former,
                false => self.leave_in_doubt(row),
            };
        }
        let order = before.is_plausible().then(|| time.cmp(&before));
        match (at.sequence >= gap.sequence, order) {
            (true, Some(Ordering::Less)) => {
                let is_much_earlier = time.saturating_add_nanos(ENGINE_DISORDER) < before;
                match is_much_earlier || is_former {
                    true => Origin::Former,
                    false => self.leave_in_doubt(row),
                }
            }
            (true, _) => Origin::Later,
            (false, Some(Ordering::Greater)) if self.may_be_followed() => {
                // If the clock was set back, the row may be an earlier update.
                self.skipped.unknown = true;
                Origin::Later
            }
            (false, _) => Origin::Present,
        }
    }

    fn leave_in_doubt(&mut self, row: &Reading) -> Origin {
        let time = row.sample.source_timestamp;
        self.doubtful = Some(self.doubtful.map_or(time, |earliest| earliest.min(time)));
        Origin::Later
    }

    /// Returns true if a later deployment may follow that of the reading after the gap.
    fn may_be_followed(&self) -> bool {
        let before = self.reading.sample.engine_timestamp;
        self.retired
            .is_some_and(|end| end.saturating_add_nanos(ENGINE_DISORDER) > before)
    }
}

/// Returns the highest sequence of the returned readings that include this one; `None` if it was not
/// returned.
fn returned_with(
    reading: &Reading,
    returned: &HashMap<u64, ReturnedReadings>,
    former: &HashMap<u64, ReturnedReadings>,
) -> Option<u64> {
    let epoch = reading.position.epoch;
    let maps = [returned, former].into_iter();
    let mut known = maps.filter_map(|map| map.get(&epoch));
    let known = known.find(|known| known.include(reading))?;
    Some(known.sequence)
}

impl ReturnedReadings {
    fn of(reading: &Reading) -> Self {
        let time = reading.sample.engine_timestamp;
        Self {
            sequence: reading.position.sequence,
            engine_timestamp: time.is_plausible().then_some(time),
        }
    }

    /// Returns true if this reading is among them.
    fn include(&self, reading: &Reading) -> bool {
        let time = reading.sample.engine_timestamp;
        reading.position.sequence <= self.sequence
            && self.engine_timestamp.is_none_or(|latest| time <= latest)
    }

    fn add_to(self, map: &mut HashMap<u64, Self>, epoch: u64) {
        let all = map.entry(epoch).or_insert(self);
        all.sequence = all.sequence.max(self.sequence);
        let times = all.engine_timestamp.zip(self.engine_timestamp);
        all.engine_timestamp = times.map(|(one, other)| one.max(other));
    }
}

impl FollowedItem {
    /// The variable was undeployed. If it is deployed again, its sequence begins again at 1.
    fn begin_deployment(&mut self) {
        self.last = None;
        for (epoch, returned) in self.returned.drain() {
            if returned.engine_timestamp.is_some() {
                returned.add_to(&mut self.former, epoch);
            } else {
                // Nothing tells apart the updates of the two deployments.
                self.since = self.latest_time.saturating_add_nanos(1);
                self.unreported.unknown = true;
            }
        }
    }

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
