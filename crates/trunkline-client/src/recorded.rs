//! Readings from a given time on: recorded ones first, then live ones, each exactly once (B-63).
//!
//! ```text
//! events of the subscription --> gap? --no--> ready
//!                                 |yes          ^
//!                                 v             |
//!                              query ----> pages of the history, then the reading after the gap
//! ```

use std::collections::{HashSet, VecDeque};

use trunkline_proto::message::ended::EndReason;
use trunkline_types::history::{HistoryItem, HistoryPage, HistoryQuery, is_late_sequence};
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
/// that it passes in are held until the gap is filled; the subscription's bound is theirs.
#[derive(Debug)]
pub struct RecordedEvents {
    items: Vec<FollowedItem>,
    ready: VecDeque<Event>,
    /// Readings that arrived while a gap was being filled.
    held: VecDeque<(u32, Reading)>,
    filling: Option<Filling>,
}

#[derive(Debug)]
struct FollowedItem {
    /// `None` if the name is invalid.
    pattern: Option<Pattern>,
    /// Time from which readings are returned.
    since: Timestamp,
    /// The newest update that was returned, and the latest source timestamp.
    last: Option<Position>,
    last_time: Timestamp,
    /// Engine starts that have no more missing updates.
    done: HashSet<u64>,
    /// True if updates after `last` may be missing.
    has_gap: bool,
}

/// A gap that is being filled from the history.
#[derive(Debug)]
struct Filling {
    item: u32,
    /// The reading after the gap.
    reading: Reading,
    query: HistoryQuery,
    done: HashSet<u64>,
    /// Starts of the engine of which the history has returned readings.
    epochs: HashSet<u64>,
    /// True if the history has the variable.
    is_recorded: bool,
    /// Updates missing after the last row.
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
            done: HashSet::new(),
            has_gap: true,
        });
        Self {
            items: items.collect(),
            ready: VecDeque::new(),
            held: VecDeque::new(),
            filling: None,
        }
    }

    /// Returns the next event. `None` if more must be passed in.
    pub fn next_event(&mut self) -> Option<Event> {
        while self.ready.is_empty() && self.filling.is_none() {
            let (item, reading) = self.held.pop_front()?;
            self.take_reading(item, reading);
        }
        self.ready.pop_front()
    }

    /// Returns the query whose page must be passed in next, if a gap is being filled.
    pub fn query(&self) -> Option<&HistoryQuery> {
        self.filling.as_ref().map(|filling| &filling.query)
    }

    /// Passes in an event of the subscription.
    pub fn take_event(&mut self, event: Event) {
        match event {
            Event::Reading { item, reading } if self.filling.is_some() => {
                self.held.push_back((item, reading));
            }
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
        if let Some(Filling {
            item, mut reading, ..
        }) = self.filling.take()
        {
            reading.lost.unknown = true;
            self.push(item, reading);
        }
    }

    fn note(&mut self, event: Event) {
        if let Event::Ended { item, reason, .. } = &event
            && let Some(item) = self.items.get_mut(*item as usize)
        {
            item.has_gap = true;
            if *reason == EndReason::Gone {
                // The sequence of a redeployed variable starts again at 1.
                item.since = item.last_time.saturating_add_nanos(1);
                item.last = None;
            }
        }
        self.ready.push_back(event);
    }

    fn take_reading(&mut self, item: u32, reading: Reading) {
        let Some(known) = self.items.get_mut(item as usize) else {
            return;
        };
        let at = reading.position;
        let in_epoch = known.last.filter(|last| last.epoch == at.epoch);
        if in_epoch.is_some_and(|last| last.sequence >= at.sequence) {
            // The first reading of a restored subscription may already have been returned.
            return;
        }
        let follows = in_epoch.is_some_and(|last| last.sequence + 1 == at.sequence);
        if !std::mem::take(&mut known.has_gap) && follows {
            return self.push(item, reading);
        }
        let since = match known.last {
            None => known.since,
            Some(_) => known
                .last_time
                .saturating_add_nanos(-DISORDER)
                .max(known.since),
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
            done: known.done.clone(),
            epochs: HashSet::new(),
            is_recorded: false,
            lost: Lost::NONE,
        });
    }

    fn fill(&mut self, mut filling: Filling, page: HistoryPage) {
        let before = filling.reading.position;
        for series in &page.series {
            filling.is_recorded = true;
            for row in series.items() {
                let HistoryItem::Reading(reading) = row else {
                    continue;
                };
                let at = reading.position;
                let is_late = is_late_sequence(at.sequence);
                // Skips rows that come later, and rows of engine starts that are complete.
                let is_later =
                    at.epoch == before.epoch && at.sequence >= before.sequence && !is_late;
                if is_later || filling.done.contains(&at.epoch) {
                    continue;
                }
                filling.epochs.insert(at.epoch);
                self.push(filling.item, reading);
            }
            filling.lost = series.lost_after_last().unwrap_or(Lost::NONE);
        }
        if !page.state.is_empty() {
            filling.lost.unknown = true;
        }
        filling.query.from = page.next;
        if filling.query.from.is_some() {
            self.filling = Some(filling);
            return;
        }
        self.finish(filling);
    }

    /// Returns the reading after a gap, with the number of updates missing before it.
    fn finish(&mut self, filling: Filling) {
        let mut reading = filling.reading;
        let at = reading.position;
        let mut known = self.items.get_mut(filling.item as usize);
        if let Some(known) = &mut known {
            // Earlier starts have ended, and were read to their end.
            let earlier = filling.epochs.iter().filter(|epoch| **epoch != at.epoch);
            known.done.extend(earlier);
        }
        let last = known.and_then(|known| known.last);
        if filling.is_recorded && at.sequence > 0 {
            let before = last.filter(|last| last.epoch == at.epoch);
            let missing = at.sequence - before.map_or(0, |last| last.sequence) - 1;
            reading.lost = filling.lost;
            if filling.lost.is_none() && last.is_some() {
                // If nothing was lost, unrecorded updates were left out on request.
                reading.lost.coalesced = missing;
            }
        }
        self.push(filling.item, reading);
    }

    fn push(&mut self, item: u32, reading: Reading) {
        if let Some(known) = self.items.get_mut(item as usize)
            && reading.position.sequence > 0
            && !is_late_sequence(reading.position.sequence)
        {
            let last = known.last.replace(reading.position);
            if let Some(last) = last.filter(|last| last.epoch != reading.position.epoch) {
                known.done.insert(last.epoch);
            }
            known.last_time = known.last_time.max(reading.sample.source_timestamp);
        }
        self.ready.push_back(Event::Reading { item, reading });
    }
}
