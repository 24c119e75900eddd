//! The subscriptions' side of the ledger, and the sweep that compares last deliveries with the
//! current values of the variables (B-10).
//!
//! The sweep visits the items by index, a few at a time. It passes items whose last delivery is the
//! variable's current update to the caller, which computes their digests. An item that is behind
//! must have a mark. If the mark is missing, it is set again and counted: only a defect of this
//! program can lose a mark.

use std::ops::Range;

use trunkline_types::Contract;
use trunkline_types::ledger::SubscriptionLedger;

use super::Consumer;
use super::items::{ItemExtra, Slot, VariableItem};
use crate::delivery::subscribers::{Kind, Subscriber, Subscribers};
use crate::sync::{Arc, Ordering};
use crate::update::Update;
use crate::variable::Variable;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SweepSlice {
    /// Number of items with pending deliveries but no mark. They are now marked.
    pub marked: usize,
    /// True if the consumer must be drained, because an item was marked.
    pub drain: bool,
}

impl Consumer {
    /// Returns the exact current ledger of one variable in one subscription.
    pub fn ledger(&self, subscription: u32, handle: u32) -> Option<SubscriptionLedger> {
        let index = self.index_of_any(subscription, handle)?;
        let item = self.items.get(index)?;
        let variable = self.variables.get(index)?;
        let state = variable.lock();
        let subscribers = state.subscribers();
        let membership = self.subscriptions.get(&subscription)?.feed.as_ref();
        let feed_subscriber = membership.and_then(|one| subscribers?.find_feed(&one.feed));
        let subscriber = match membership {
            Some(_) => None,
            None if state.is_plain(&self.outbox, index) => None,
            None => Some(subscribers?.find(&self.outbox, index)?),
        };
        // Under the lock, so that no update gets a sequence while the parts of the sum are read.
        let sequence = variable.highest_sequence();
        let items = &self.items;
        let mut ledger = SubscriptionLedger {
            written: sequence.saturating_sub(item.opened_at()),
            filtered: subscriber.map_or(0, |one| one.filtered)
                + feed_subscriber.map_or(0, |one| one.filtered),
            coalesced: items.coalesced(index),
            sent_unconfirmed: items.unconfirmed(index),
            received: items
                .delivered(index)
                .saturating_sub(items.unconfirmed(index)),
            ..SubscriptionLedger::default()
        };
        if let Some(extra) = items.extra(index) {
            ledger.dropped_queue = extra.queue;
            ledger.dropped_disconnect = extra.disconnect;
            ledger.repaired = extra.repaired;
            let first = extra.initial.as_ref();
            ledger.waiting = u64::from(first.is_some_and(|first| first.sequence > 0));
        }
        if let Some(membership) = membership {
            let waiting = membership.waiting_of(handle);
            ledger.waiting += waiting.count;
            if waiting.ended {
                // Nothing was filtered out after the end, so everything after it was not delivered.
                let newest = waiting.newest.unwrap_or(item.last());
                ledger.dropped_overrun = match feed_subscriber {
                    Some(feed_subscriber) if feed_subscriber.only_changes => feed_subscriber.missed,
                    _ => sequence.saturating_sub(newest),
                };
            }
        } else if let (Some(subscriber), Some(subscribers)) = (subscriber, subscribers) {
            let extra = items.extra(index);
            add_waiting(&mut ledger, item, extra, subscriber, subscribers, sequence);
        } else {
            add_pending(&mut ledger, sequence.saturating_sub(item.last()));
        }
        Some(ledger)
    }

    /// Returns the sequence of the last update of a variable that was delivered in a subscription,
    /// or of its update when it was subscribed.
    pub fn last_delivered(&self, subscription: u32, handle: u32) -> Option<u64> {
        let index = self.index_of_any(subscription, handle)?;
        Some(self.items.get(index)?.last())
    }

    /// Returns the item of a variable in a subscription, even if the variable was removed and the
    /// item still has updates to deliver.
    fn index_of_any(&self, subscription: u32, handle: u32) -> Option<u32> {
        let known = self.index_of(subscription, handle);
        known.or_else(|| {
            let mut items = self.subscriptions.get(&subscription)?.items.iter();
            items.find(|index| {
                let variable = self.variables.get(*index);
                variable.is_some_and(|variable| variable.handle() == handle)
            })
        })
    }

    pub fn subscriptions_of(&self, handle: u32) -> Vec<(u32, Contract)> {
        let Some(variable) = self.home.core.variable(handle) else {
            return Vec::new();
        };
        let state = variable.lock();
        let own = state.items_of(&self.outbox);
        let from_feeds = self.subscriptions.iter().filter_map(|(id, one)| {
            one.feed.as_ref()?.by_handle.get(&handle)?;
            Some((*id, one.contract))
        });
        let mut subscriptions: Vec<(u32, Contract)> = own
            .filter_map(|index| {
                let id = self.items.get(index)?.subscription;
                Some((id, self.subscriptions.get(&id)?.contract))
            })
            .chain(from_feeds)
            .collect();
        subscriptions.sort_by_key(|(id, _)| *id);
        subscriptions
    }

    pub fn index_end(&self) -> u32 {
        self.items.end()
    }

    /// Examines the items with these indices. Calls `show` for each item that is up to date, with
    /// the subscription, the variable and the last delivered update.
    ///
    /// Must be called between two drains, by the thread that drains.
    pub fn sweep(
        &mut self,
        indices: Range<u32>,
        mut show: impl FnMut(u32, &Arc<Variable>, &Update),
    ) -> SweepSlice {
        let mut slice = SweepSlice::default();
        for index in indices {
            let item = match self.items.slot(index) {
                None => continue,
                Some(Slot::Feed { .. }) => {
                    // Only the feed's own lock could show whether the feed contains anything. A
                    // drain that finds nothing costs no more than taking that lock.
                    self.outbox.marks.mark(index);
                    slice.drain = true;
                    continue;
                }
                Some(Slot::Variable(item)) => item,
            };
            if !self.leftovers.is_empty() && !self.subscriptions.contains_key(&item.subscription) {
                // The item's subscription has ended, but the item is not removed yet.
                continue;
            }
            let Some(variable) = self.variable_in_use(index) else {
                continue;
            };
            let update = variable.update();
            let sequence = update.sequence.max(variable.base_sequence());
            if !item.awaits_first() && sequence == item.last() {
                if !variable.is_gone() {
                    show(item.subscription, variable, &update);
                }
            } else if self.mark_is_missing(index) {
                self.outbox.marks.mark(index);
                slice.marked += 1;
                slice.drain = true;
            }
        }
        self.home.core.counters.marked.add(slice.marked as u64);
        slice
    }

    fn variable_in_use(&self, index: u32) -> Option<&Arc<Variable>> {
        self.variables
            .get(index)
            .filter(|variable| !variable.is_gone())
    }

    fn mark_is_missing(&self, index: u32) -> bool {
        let Some(item) = self.items.get(index) else {
            return false;
        };
        let Some(variable) = self.variable_in_use(index) else {
            return false;
        };
        // While the lock is held, no writer can be between publishing an update and marking the
        // item.
        let state = variable.lock();
        let behind = variable.sequence().saturating_sub(item.last());
        let has_initial = self
            .items
            .extra(index)
            .is_some_and(|extra| extra.initial.is_some());
        let waits = if state.is_plain(&self.outbox, index) {
            item.awaits_first() || behind > 0
        } else {
            let subscribers = state.subscribers();
            let Some(subscriber) =
                subscribers.and_then(|subscribers| subscribers.find(&self.outbox, index))
            else {
                return false;
            };
            let held_back = subscriber
                .filtered
                .saturating_sub(self.items.filtered(index));
            match &subscriber.kind {
                Kind::Mark => item.awaits_first() || behind > held_back,
                Kind::Last(n) => {
                    let cursor = self.items.extra(index).map_or(0, |extra| extra.cursor);
                    let ring = subscribers
                        .and_then(|subscribers| subscribers.ring(subscriber.only_changes));
                    has_initial || ring.is_some_and(|ring| ring.pending(cursor, *n).kept > 0)
                }
                Kind::First(queue) => has_initial || queue.len() > 0,
                // `sampled` items and real-time FIFOs are polled, so writers do not mark them.
                Kind::Sampled => item.awaits_first(),
                Kind::Fifo(_) => false,
            }
        };
        if !waits {
            return false;
        }
        let was_marked = self.outbox.marks.unmark(index);
        if was_marked {
            self.outbox.marks.mark(index);
        }
        !was_marked
    }

    /// Returns the update that a peer must have, or `None` while deliveries are unconfirmed or
    /// pending.
    pub fn settled(&self, subscription: u32, handle: u32) -> Option<Update> {
        let index = self.index_of(subscription, handle)?;
        let item = self.items.get(index)?;
        let variable = self.home.core.variable(handle)?;
        let update = variable.update();
        let is_settled = !item.awaits_first()
            && self.items.unconfirmed(index) == 0
            && update.sequence.max(variable.base_sequence()) == item.last()
            && !variable.is_gone();
        is_settled.then_some(update)
    }

    /// Records that the newest update of an item is resent because its peer had a different value.
    /// The peer confirms it like any delivery.
    pub fn repair(&mut self, subscription: u32, handle: u32) {
        let Some(index) = self.index_of(subscription, handle) else {
            return;
        };
        let is_update = self.items.get(index).is_some_and(|item| {
            let variable = self.variables.get(index);
            variable.is_some_and(|variable| item.last() > variable.base_sequence())
        });
        self.items.repair(index, is_update, &mut self.in_flight);
        self.outbox.repaired.fetch_add(1, Ordering::Relaxed);
        self.home.core.counters.repaired.add(1);
    }
}

/// Counts the pending updates of a contract that delivers only the newest: one is waiting, the
/// others are coalesced.
fn add_pending(ledger: &mut SubscriptionLedger, pending: u64) {
    ledger.waiting += u64::from(pending > 0);
    ledger.coalesced += pending.saturating_sub(1);
}

/// Adds the updates that the contract's own buffer contains and those that it has dropped.
fn add_waiting(
    ledger: &mut SubscriptionLedger,
    item: &VariableItem,
    extra: Option<&ItemExtra>,
    subscriber: &Subscriber,
    subscribers: &Subscribers,
    sequence: u64,
) {
    match &subscriber.kind {
        Kind::Mark | Kind::Sampled => {
            let reported = extra.map_or(0, |extra| extra.filtered);
            let held_back = subscriber.filtered.saturating_sub(reported);
            let behind = sequence.saturating_sub(item.last());
            add_pending(ledger, behind.saturating_sub(held_back));
        }
        Kind::Last(n) => {
            let cursor = extra.map_or(0, |extra| extra.cursor);
            if let Some(ring) = subscribers.ring(subscriber.only_changes) {
                let pending = ring.pending(cursor, *n);
                ledger.waiting += pending.kept;
                ledger.dropped_queue += pending.dropped;
            }
        }
        Kind::First(queue) => {
            ledger.waiting += queue.len() as u64;
            ledger.dropped_queue += queue.unreported();
        }
        Kind::Fifo(_) => {}
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use trunkline_types::ledger::EndedItem;
    use trunkline_types::{
        Contract, DataType, LibraryDefinition, Tick, Timestamp, Value, VariableDefinition,
    };

    use super::*;
    use crate::caller::Caller;
    use crate::delivery::outbox::{Wake, Wakes};
    use crate::engine::{Engine, EngineOptions};
    use crate::subscriptions::{Delivery, Sink, Subscribe};
    use crate::write::Write;

    struct NoWake;

    impl Wake for NoWake {
        fn wake(&self) {}
    }

    #[derive(Default)]
    struct Values(Vec<f64>);

    impl Sink for Values {
        fn wants(&self) -> bool {
            true
        }

        fn deliver(&mut self, delivery: &Delivery<'_>) {
            let sample = delivery.variable.sample_of(delivery.update);
            self.0.extend(sample.value.as_f64());
        }

        fn overrun(&mut self, _: u32, _: &[EndedItem]) {}

        fn gone(&mut self, _: u32, _: u32) {}
    }

    fn write(engine: &Engine, variable: &Arc<Variable>, value: f64) {
        let (now, wall) = (Tick::from_nanos(1), Timestamp::from_nanos(1));
        let value = Value::F64(value);
        let (caller, write) = (Caller::engine(), Write::value(&value));
        engine.try_write(&caller, now, wall, variable, &write, &mut Wakes::new());
    }

    fn drain(consumer: &mut Consumer) -> Vec<f64> {
        let mut values = Values::default();
        consumer.drain(&mut values, &mut Wakes::new());
        values.0
    }

    /// Behaviour: B-10.
    #[test]
    fn lost_mark_is_set_again_and_counted() {
        for contract in ["latest", "last:5", "first:5", "all:5"] {
            let contract: Contract = contract.parse().unwrap();
            let engine = Engine::new(EngineOptions::new("sut", 7));
            let library = LibraryDefinition {
                name: "rig".to_owned(),
                description: String::new(),
                variables: vec![VariableDefinition::new("x", DataType::F64)],
            };
            let (now, wall) = (Tick::from_nanos(1), Timestamp::from_nanos(1));
            let handle = engine.libraries().deploy(&library, now, wall).unwrap()[0];
            let x = Arc::clone(&engine.variable(handle).unwrap());
            write(&engine, &x, 1.0);
            let mut consumer = Consumer::new(engine.clone(), Box::new(NoWake));
            let caller = Caller::engine();
            consumer
                .subscribe(&caller, &x, Subscribe::new(1, contract))
                .unwrap();
            assert_eq!(drain(&mut consumer), [1.0]);
            write(&engine, &x, 2.0);
            // The pending update is marked, and is not the last delivered one.
            let slice = consumer.sweep(0..consumer.index_end(), |_, _, update| {
                panic!("{update:?} is not delivered yet");
            });
            assert_eq!(slice.marked, 0, "{contract}");
            for index in 0..consumer.index_end() {
                consumer.outbox.marks.unmark(index);
            }
            assert!(
                drain(&mut consumer).is_empty(),
                "{contract}: without a mark nothing is delivered"
            );
            let slice = consumer.sweep(0..consumer.index_end(), |_, _, _| {});
            assert!(slice.drain);
            // In a feed, it is unknown which member's mark was missing.
            let counted = usize::from(!matches!(contract, Contract::All { .. }));
            assert_eq!(slice.marked, counted, "{contract}");
            assert_eq!(engine.health().repaired_and_marked(), (0, counted as u64));
            assert_eq!(drain(&mut consumer), [2.0], "{contract}");
            let mut shown = 0;
            consumer.sweep(0..consumer.index_end(), |_, _, _| shown += 1);
            assert_eq!(shown, 1, "{contract}");
        }
    }
}
