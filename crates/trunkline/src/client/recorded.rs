//! A subscription that begins in the past: first what was recorded, then what happens.

use std::collections::VecDeque;
use std::time::Duration;

use trunkline_client::{Event, SubscribeOptions};
use trunkline_types::history::{HistoryItem, HistoryQuery};
use trunkline_types::{Contract, Lost, Pattern, Position, Reading, Timestamp};

use super::{CallError, Client, Subscription};

/// Readings of a variable from a time on: those that were recorded, and then those that arrive, each
/// once and in the order of their sequences within an epoch (B-63). After a lost connection, a
/// restart of the engine or an overrun, what is missing is read from the history.
///
/// A variable of which not every update is recorded misses the others while they come from the
/// history. If an update is neither recorded nor delivered, the next reading counts it in `lost`.
pub struct RecordedSubscription {
    client: Client,
    subscription: Subscription,
    items: Vec<FollowedItem>,
    since: Timestamp,
    timeout: Duration,
    ready: VecDeque<Event>,
}

#[derive(Debug)]
struct FollowedItem {
    /// `None` if the name is invalid.
    pattern: Option<Pattern>,
    /// The newest update that was returned.
    last: Option<Position>,
    /// True if updates after `last` may be missing.
    has_gap: bool,
}

impl RecordedSubscription {
    /// Subscribes to variables under the contract `all`, beginning with what was recorded since a
    /// time. Queries of the history wait for an answer for at most `timeout`.
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
            last: None,
            has_gap: true,
        });
        Ok(Self {
            client: client.clone(),
            items: items.collect(),
            subscription,
            since,
            timeout,
            ready: VecDeque::new(),
        })
    }

    /// Returns the next event; `None` if none arrives within the timeout.
    ///
    /// # Errors
    /// [`CallError`] if the history cannot be read. The reading that it was needed for is returned
    /// by the next call, and counts as after a loss of an unknown number.
    pub fn next(&mut self, timeout: Option<Duration>) -> Result<Option<Event>, CallError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            let Some(event) = self.subscription.next(timeout) else {
                return Ok(None);
            };
            self.take(event)?;
        }
    }

    fn take(&mut self, event: Event) -> Result<(), CallError> {
        match event {
            Event::Reading { item, reading } => self.take_reading(item, reading),
            other => {
                if let Event::Ended { item, .. } = &other
                    && let Some(item) = self.items.get_mut(*item as usize)
                {
                    item.has_gap = true;
                }
                self.ready.push_back(other);
                Ok(())
            }
        }
    }

    fn take_reading(&mut self, item: u32, mut reading: Reading) -> Result<(), CallError> {
        let Some(known) = self.items.get_mut(item as usize) else {
            return Ok(());
        };
        let at = reading.position;
        let follows = known.last.is_some_and(|last| {
            last.epoch == at.epoch && last.sequence.checked_add(1) == Some(at.sequence)
        });
        let is_known = known
            .last
            .is_some_and(|last| last.epoch == at.epoch && last.sequence >= at.sequence);
        if is_known {
            // Re-created subscriptions begin with a reading that may be known.
            return Ok(());
        }
        let has_gap = std::mem::take(&mut known.has_gap) || !follows;
        if has_gap && at.sequence > 0 {
            let filled = self.fill(item, at);
            let known = self.items.get_mut(item as usize);
            let last = known.and_then(|known| known.last);
            reading.lost = match (&filled, last) {
                (Err(_), _) => Lost {
                    unknown: true,
                    ..Lost::NONE
                },
                (Ok(lost), Some(last)) if last.epoch == at.epoch => {
                    let missing = at.sequence.saturating_sub(last.sequence).saturating_sub(1);
                    match lost.is_none() {
                        // What is not recorded, although nothing was lost, was left out on request.
                        true => Lost {
                            coalesced: missing,
                            ..Lost::NONE
                        },
                        false => *lost,
                    }
                }
                (Ok(lost), _) => *lost,
            };
            self.push(item, reading);
            return filled.map(|_| ());
        }
        self.push(item, reading);
        Ok(())
    }

    fn push(&mut self, item: u32, reading: Reading) {
        if let Some(known) = self.items.get_mut(item as usize)
            && reading.position.sequence > 0
        {
            known.last = Some(reading.position);
        }
        self.ready.push_back(Event::Reading { item, reading });
    }

    /// Reads what was recorded after the last reading and before this position. Returns what is
    /// missing after the last row.
    fn fill(&mut self, item: u32, before: Position) -> Result<Lost, CallError> {
        let Some(known) = self.items.get(item as usize) else {
            return Ok(Lost::NONE);
        };
        let mut query = HistoryQuery {
            patterns: known.pattern.iter().cloned().collect(),
            since: known.last.is_none().then_some(self.since),
            after: known.last,
            ..HistoryQuery::default()
        };
        let mut lost = Lost::NONE;
        loop {
            let page = self.client.history(query.clone(), self.timeout)?;
            for series in &page.series {
                for row in series.items() {
                    let HistoryItem::Reading(reading) = row else {
                        continue;
                    };
                    let at = reading.position;
                    let is_later = at.epoch == before.epoch && at.sequence >= before.sequence;
                    if is_later {
                        continue;
                    }
                    lost = Lost::NONE;
                    self.push(item, reading);
                }
                if let Some(after) = series.lost_after_last() {
                    lost = after;
                }
            }
            query.from = page.next;
            if query.from.is_none() {
                return Ok(lost);
            }
        }
    }
}

impl std::fmt::Debug for RecordedSubscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordedSubscription")
            .field("items", &self.items)
            .finish_non_exhaustive()
    }
}
