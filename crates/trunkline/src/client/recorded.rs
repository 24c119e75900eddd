//! A subscription that begins in the past: recorded readings first, then live ones.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use trunkline_client::{Event, SubscribeOptions};
use trunkline_proto::message::ended::EndReason;
use trunkline_types::history::{HistoryItem, HistoryPage, HistoryQuery, is_late_sequence};
use trunkline_types::{Contract, Lost, Pattern, Position, Reading, Timestamp};

use super::{CallError, Client, Subscription};

/// Assumed maximum disorder of source timestamps: the search for rows of another engine start
/// begins this long before the last reading.
const DISORDER: i64 = 3_600_000_000_000;

/// Readings of variables from a given time on: first the recorded ones, then live ones, each
/// exactly once (B-63). Late samples, which never were the current value of their variable, are
/// included in the part recorded before the subscription began, but not later. After a lost
/// connection, a restart of the engine or an overrun, missing readings are read from the history.
/// Recorded readings come in the order of their source timestamps.
///
/// If the history records only some updates of a variable, readings from the history skip the
/// others, and the next reading counts them as coalesced. Updates that are neither recorded nor
/// delivered count in `lost`.
pub struct RecordedSubscription {
    client: Client,
    subscription: Subscription,
    items: Vec<FollowedItem>,
    timeout: Duration,
    ready: VecDeque<Event>,
    /// Events that arrived while the history was read.
    held: VecDeque<Event>,
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

impl RecordedSubscription {
    /// Subscribes to variables under the contract `all`, beginning with the readings recorded since
    /// a given time. Each query of the history waits at most `timeout` for an answer.
    ///
    /// # Errors
    /// [`CallError::Subscribe`].
    pub fn new<N: AsRef<str>>(
        client: &Client,
        names: &[N],
        since: Timestamp,
        timeout: Duration,
    ) -> Result<Self, CallError> {
        let subscription = client.subscribe(names, Contract::ALL, SubscribeOptions::default())?;
        let items = names.iter().map(|name| FollowedItem {
            // An invalid name is reported as an event of the subscription.
            pattern: Pattern::parse(name.as_ref()).ok(),
            since,
            last: None,
            last_time: since,
            done: HashSet::new(),
            has_gap: true,
        });
        Ok(Self {
            client: client.clone(),
            items: items.collect(),
            subscription,
            timeout,
            ready: VecDeque::new(),
            held: VecDeque::new(),
            filling: None,
        })
    }

    /// Returns the next event; `None` if none arrives within the timeout. Reading a page of the
    /// history may take longer.
    ///
    /// # Errors
    /// [`CallError`] if the engine cannot read the history. The next call returns the reading after
    /// the gap, with an unknown loss.
    pub fn next(&mut self, timeout: Option<Duration>) -> Result<Option<Event>, CallError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            if let Some(filling) = self.filling.take() {
                let page = self.client.history(filling.query.clone(), self.timeout);
                match page {
                    Ok(page) => self.take_page(filling, page),
                    Err(CallError::NotConnected { .. }) => {
                        // The page is read when the connection is up again.
                        self.filling = Some(filling);
                        match self.subscription.next(timeout) {
                            Some(event @ Event::Reading { .. }) => self.held.push_back(event),
                            Some(event) => self.note(event),
                            None => return Ok(None),
                        }
                    }
                    Err(error) => {
                        let mut reading = filling.reading;
                        reading.lost.unknown = true;
                        self.push(filling.item, reading);
                        return Err(error);
                    }
                }
                continue;
            }
            let event = match self.held.pop_front() {
                Some(event) => Some(event),
                None => self.subscription.next(timeout),
            };
            match event {
                None => return Ok(None),
                Some(Event::Reading { item, reading }) => self.take_reading(item, reading),
                Some(event) => self.note(event),
            }
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

    fn take_page(&mut self, mut filling: Filling, page: HistoryPage) {
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

impl std::fmt::Debug for RecordedSubscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordedSubscription")
            .field("items", &self.items)
            .finish_non_exhaustive()
    }
}
