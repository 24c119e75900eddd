//! Compares the last deliveries with the values that the variables hold (B-10).
//!
//! The sweep goes through the items by index, a few at a time. It shows the caller the items whose
//! last delivery is the variable's current update; the caller computes digests of them. An item
//! that is behind must have a mark. If the mark is missing, it is set again and counted: only a
//! fault of this program loses a mark.

use std::ops::Range;

use super::Consumer;
use super::item::Slot;
use crate::delivery::subscribers::Kind;
use crate::sync::{Arc, Ordering};
use crate::update::Update;
use crate::variable::Variable;

/// The result of examining some items.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Looked {
    /// Items that had something to deliver but no mark. They are marked now.
    pub marked: usize,
    /// True if the consumer must be drained, because something was marked.
    pub drain: bool,
}

impl Consumer {
    /// One more than the largest item index.
    pub fn index_end(&self) -> u32 {
        self.items.end()
    }

    /// Examines the items of these indices. Calls `show` for those that are up to date, with the
    /// subscription, the variable and the update delivered last.
    ///
    /// Must be called between two drains, by the thread that drains.
    pub fn look(
        &mut self,
        indices: Range<u32>,
        mut show: impl FnMut(u32, &Arc<Variable>, &Update),
    ) -> Looked {
        let mut looked = Looked::default();
        for index in indices {
            let item = match self.items.slot(index) {
                None => continue,
                Some(Slot::Feed { .. }) => {
                    // Only its own lock could tell whether the feed holds anything. A drain that
                    // finds nothing costs no more than that.
                    self.outbox.marks.mark(index);
                    looked.drain = true;
                    continue;
                }
                Some(Slot::Variable(item)) => item,
            };
            if !self.leftovers.is_empty() && !self.subscriptions.contains_key(&item.subscription) {
                // Its subscription has ended, but the item is not removed yet.
                continue;
            }
            let Some(variable) = self.bound_in_use(index) else {
                continue;
            };
            let update = variable.update();
            if !item.is_first() && update.sequence == item.last() {
                if !variable.is_gone() {
                    show(item.subscription, variable, &update);
                }
            } else if self.mark_is_missing(index) {
                self.outbox.marks.mark(index);
                looked.marked += 1;
                looked.drain = true;
            }
        }
        self.engine.losses().add_marked(looked.marked as u64);
        looked
    }

    /// The variable of an item, unless it is gone.
    fn bound_in_use(&self, index: u32) -> Option<&Arc<Variable>> {
        self.bound.get(index).filter(|variable| !variable.is_gone())
    }

    /// Returns true if an item has something to deliver but no mark.
    fn mark_is_missing(&self, index: u32) -> bool {
        let Some(item) = self.items.get(index) else {
            return false;
        };
        let Some(variable) = self.bound_in_use(index) else {
            return false;
        };
        // While the lock is held, no writer is between publishing an update and marking it.
        let state = variable.lock();
        let behind = variable.sequence().saturating_sub(item.last());
        let has_initial = self
            .items
            .rest(index)
            .is_some_and(|rest| rest.initial.is_some());
        let waits = if state.is_plain(&self.outbox, index) {
            item.is_first() || behind > 0
        } else {
            let interests = state.interests();
            let Some(interest) =
                interests.and_then(|interests| interests.find(&self.outbox, index))
            else {
                return false;
            };
            let held_back = interest.filtered.saturating_sub(self.items.filtered(index));
            match &interest.kind {
                Kind::Mark => item.is_first() || behind > held_back,
                Kind::Last(n) => {
                    let cursor = self.items.rest(index).map_or(0, |rest| rest.cursor);
                    let ring =
                        interests.and_then(|interests| interests.ring(interest.only_changes));
                    has_initial || ring.is_some_and(|ring| ring.pending(cursor, *n).kept > 0)
                }
                Kind::First(queue) => has_initial || queue.len() > 0,
                // These have no marks of their own, or are polled.
                Kind::Sampled => item.is_first(),
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

    /// Returns the update that a peer must hold, or `None` while deliveries are unconfirmed or
    /// pending.
    pub fn settled(&self, subscription: u32, handle: u32) -> Option<Update> {
        let index = self.index_of(subscription, handle)?;
        let item = self.items.get(index)?;
        let variable = self.engine.variable(handle)?;
        let update = variable.update();
        let is_settled = !item.is_first()
            && self.items.unconfirmed(index) == 0
            && update.sequence == item.last()
            && !variable.is_gone();
        is_settled.then_some(update)
    }

    /// Records that the newest update of an item is sent again because its peer held something
    /// else. The peer confirms it like every delivery.
    pub fn repair(&mut self, subscription: u32, handle: u32) {
        let Some(index) = self.index_of(subscription, handle) else {
            return;
        };
        self.items.repair(index, &mut self.in_flight);
        self.outbox.repaired.fetch_add(1, Ordering::Relaxed);
        self.engine.losses().add_repaired();
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

    struct Nobody;

    impl Wake for Nobody {
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
    fn a_mark_that_was_lost_is_set_again_and_counted() {
        for contract in ["latest", "last:5", "first:5", "all:5"] {
            let contract: Contract = contract.parse().unwrap();
            let engine = Engine::new(EngineOptions::new("sut", 7));
            let library = LibraryDefinition {
                name: "rig".to_owned(),
                description: String::new(),
                variables: vec![VariableDefinition::new("x", DataType::F64)],
            };
            let (now, wall) = (Tick::from_nanos(1), Timestamp::from_nanos(1));
            let handle = engine.deploy(&library, now, wall).unwrap()[0];
            let x = Arc::clone(&engine.variable(handle).unwrap());
            write(&engine, &x, 1.0);
            let mut consumer = Consumer::new(engine.clone(), Box::new(Nobody));
            let caller = Caller::engine();
            consumer
                .subscribe(&caller, &x, Subscribe::new(1, contract))
                .unwrap();
            assert_eq!(drain(&mut consumer), [1.0]);
            write(&engine, &x, 2.0);
            // The pending update is marked, and is not the one delivered last.
            let looked = consumer.look(0..consumer.index_end(), |_, _, update| {
                panic!("{update:?} waits");
            });
            assert_eq!(looked.marked, 0, "{contract}");
            for index in 0..consumer.index_end() {
                consumer.outbox.marks.unmark(index);
            }
            assert!(
                drain(&mut consumer).is_empty(),
                "{contract}: nobody knows of it"
            );
            let looked = consumer.look(0..consumer.index_end(), |_, _, _| {});
            assert!(looked.drain);
            // For a feed it is not known which member's mark was missing.
            let counted = usize::from(!matches!(contract, Contract::All { .. }));
            assert_eq!(looked.marked, counted, "{contract}");
            assert_eq!(engine.repaired_and_marked(), (0, counted as u64));
            assert_eq!(drain(&mut consumer), [2.0], "{contract}");
            let mut shown = 0;
            consumer.look(0..consumer.index_end(), |_, _, _| shown += 1);
            assert_eq!(shown, 1, "{contract}");
        }
    }
}
