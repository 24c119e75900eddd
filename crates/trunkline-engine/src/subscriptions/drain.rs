//! Takes the pending work of a consumer: from marks to deliveries, contract by contract.
//!
//! A mark is cleared before the data that it represents is read. A write in between sets it again
//! and causes another delivery; nothing is lost between the two. For the same reason the end of an
//! item is checked before its updates are read: nothing is added after the end, and the end marks
//! the item again.

use trunkline_ring::Cursor;
use trunkline_types::{Contract, Lost};

use super::feeding::{FeedDrain, Step, Stop};
use super::items::{ItemUpdate, Slot};
use super::{Consumer, Sink};
use crate::delivery::outbox::Wakes;
use crate::delivery::subscribers::Kind;
use crate::sync::crossing;
use crate::update::Update;
use crate::variable::Variable;

/// Number of marks taken at a time, and of updates delivered for one item before other items are
/// served.
pub(super) const BATCH_MAX: usize = 64;

impl Consumer {
    /// Delivers pending updates until there are none or the sink accepts no more. Returns true if
    /// some remain. The consumer is not woken for the rest, so the caller must call again.
    ///
    /// Does not return while the sink accepts more and writers are faster than the sink. A sink
    /// must limit what it accepts, so that other sessions are served.
    pub fn drain(&mut self, sink: &mut dyn Sink, wakes: &mut Wakes) -> bool {
        self.outbox.begin_drain();
        let mut taken = std::mem::take(&mut self.taken);
        let more = loop {
            if !sink.wants() {
                break !self.outbox.marks.is_empty();
            }
            taken.clear();
            let marks = &self.outbox.marks;
            // The next iteration finds further marks.
            let _taken = marks.take(&mut self.cursor, BATCH_MAX, &mut |index| taken.push(index));
            if taken.is_empty() {
                break false;
            }
            for (place, index) in taken.iter().enumerate() {
                crossing();
                if !sink.wants() {
                    // Items that were not served come first next time.
                    self.cursor = Cursor::at(*index);
                    let rest = taken.iter().skip(place);
                    rest.for_each(|index| {
                        self.outbox.marks.mark(*index);
                    });
                    break;
                }
                if self.deliver(*index, sink, wakes) {
                    self.outbox.marks.mark(*index);
                }
            }
        };
        self.taken = taken;
        more
    }

    /// Delivers the pending updates of one mark. Returns true if some remain.
    fn deliver(&mut self, index: u32, sink: &mut dyn Sink, wakes: &mut Wakes) -> bool {
        let id = match self.items.slot(index) {
            None => return false,
            Some(Slot::Feed { subscription }) => {
                return self.deliver_feed(subscription, sink, wakes);
            }
            Some(Slot::Variable(item)) => item.subscription,
        };
        let Some(variable) = self.variables.get(index) else {
            return false;
        };
        let gone = variable.is_gone();
        let Some(subscription) = self.subscriptions.get(&id) else {
            return false;
        };
        let only_changes = subscription.only_changes;
        let left = match subscription.contract {
            Contract::Latest | Contract::Sampled(_) => {
                let (update, held_back) = match only_changes {
                    false => (variable.update(), 0),
                    true => self.newest_filtered(index, variable),
                };
                let in_flight = &mut self.in_flight;
                self.items
                    .deliver_newest(index, variable, &update, held_back, in_flight, sink);
                false
            }
            Contract::Last(n) => self.deliver_last(index, n, only_changes, sink),
            Contract::First(_) => self.deliver_first(index, sink, wakes),
            // The feed contains its updates, its first reading and its end.
            Contract::All { .. } => return false,
        };
        if gone && !left {
            self.end_gone(index, sink, wakes);
            self.remove_if_empty(id, wakes);
        }
        left
    }

    /// Returns the newest update, and the number of updates that `only_changes` has filtered out
    /// since the previous delivery.
    fn newest_filtered(&self, index: u32, variable: &Variable) -> (Update, u64) {
        let state = variable.lock();
        let subscriber = state
            .subscribers()
            .and_then(|subscribers| subscribers.find(&self.outbox, index));
        let held_back = subscriber.map_or(0, |subscriber| subscriber.filtered);
        (
            variable.update_locked(&state),
            held_back.saturating_sub(self.items.filtered(index)),
        )
    }

    /// Delivers the first reading of a buffered contract. Returns false if the sink accepts nothing
    /// more after it.
    fn deliver_initial(&mut self, index: u32, sink: &mut dyn Sink) -> bool {
        let initial = self
            .items
            .extra_mut(index)
            .and_then(|extra| extra.initial.take());
        let Some(update) = initial else { return true };
        let Some(variable) = self.variables.get(index) else {
            return false;
        };
        let update = ItemUpdate {
            index,
            variable,
            update: &update,
            lost: Lost::NONE,
            filtered: 0,
        };
        self.items.deliver(update, &mut self.in_flight, sink);
        sink.wants()
    }

    fn deliver_last(
        &mut self,
        index: u32,
        n: u32,
        only_changes: bool,
        sink: &mut dyn Sink,
    ) -> bool {
        if !self.deliver_initial(index, sink) {
            return true;
        }
        let Some(variable) = self.variables.get(index) else {
            return false;
        };
        let cursor = self.items.make_extra(index).cursor;
        let mut updates = std::mem::take(&mut self.updates);
        let read = {
            let state = variable.lock();
            let ring = state
                .subscribers()
                .and_then(|subscribers| subscribers.ring(only_changes));
            ring.map(|ring| ring.read(cursor, n, BATCH_MAX, &mut updates))
        };
        let mut left = false;
        if let Some(read) = read {
            if !updates.is_empty() {
                self.home.core.counters.lost.add(read.dropped);
            }
            let mut delivered = 0;
            for update in &updates {
                if delivered > 0 && !sink.wants() {
                    break;
                }
                let dropped = if delivered == 0 { read.dropped } else { 0 };
                let in_flight = &mut self.in_flight;
                self.items
                    .deliver_buffered(index, variable, update, dropped, in_flight, sink);
                delivered += 1;
                self.items.make_extra(index).cursor = read.first + delivered;
            }
            left = delivered < read.kept;
        }
        updates.clear();
        self.updates = updates;
        left
    }

    fn deliver_first(&mut self, index: u32, sink: &mut dyn Sink, wakes: &mut Wakes) -> bool {
        if !self.deliver_initial(index, sink) {
            return true;
        }
        for _ in 0..BATCH_MAX {
            if !sink.wants() {
                return true;
            }
            let Some((dropped, update, cost)) = self.pop_first(index) else {
                return false;
            };
            self.home.core.counters.lost.add(dropped);
            let Some(variable) = self.variables.get(index) else {
                return false;
            };
            let in_flight = &mut self.in_flight;
            self.items
                .deliver_buffered(index, variable, &update, dropped, in_flight, sink);
            self.outbox.budget.release(cost, wakes);
        }
        true
    }

    fn pop_first(&self, index: u32) -> Option<(u64, Update, usize)> {
        let mut state = self.variables.get(index)?.lock();
        let subscriber = state.subscribers_mut()?.find_mut(&self.outbox, index)?;
        let Kind::First(queue) = &mut subscriber.kind else {
            return None;
        };
        queue.pop()
    }

    /// Delivers the entries of an `all` subscription as far as its credit allows, and its end after
    /// the last one. Returns true if more entries wait for the sink. For entries that wait for
    /// credit, the grant sets the mark.
    fn deliver_feed(&mut self, id: u32, sink: &mut dyn Sink, wakes: &mut Wakes) -> bool {
        let mut delivered = 0;
        loop {
            // Checked before entries are taken that would then have to be delivered singly.
            if delivered >= BATCH_MAX || (delivered > 0 && !sink.wants()) {
                return true;
            }
            let Some(subscription) = self.subscriptions.get_mut(&id) else {
                return false;
            };
            let Some(membership) = &mut subscription.feed else {
                return false;
            };
            if self.shares_feeds && !membership.is_settled && !subscription.only_changes {
                membership.settle(&self.home.core.feeds, &self.variables, wakes);
            }
            let mut drain = FeedDrain {
                id,
                credit: &mut subscription.credit,
                membership,
                items: &mut self.items,
                variables: &self.variables,
                in_flight: &mut self.in_flight,
                resume: &mut self.resume,
                shares_feeds: self.shares_feeds,
            };
            if drain.membership.taken.is_empty() {
                match drain.take(sink, wakes) {
                    Step::Run(count) => {
                        delivered += count;
                        continue;
                    }
                    Step::Entries => {}
                    Step::Nothing { ended } => {
                        self.remove_if_empty(id, wakes);
                        if ended {
                            self.end_overrun(id, sink, wakes);
                        }
                        return false;
                    }
                }
            }
            let (count, stop) = drain.deliver_taken(sink, wakes);
            delivered += count;
            match stop {
                Stop::Credit => return false,
                Stop::Sink => return true,
                Stop::Gone(index) => self.end_gone(index, sink, wakes),
                Stop::Taken => {}
            }
        }
    }

    fn end_overrun(&mut self, id: u32, sink: &mut dyn Sink, wakes: &mut Wakes) {
        let Some(subscription) = self.subscriptions.get(&id) else {
            return;
        };
        let ended = subscription.overrun_items(&self.items, &self.variables);
        let counters = &self.home.core.counters;
        counters.overruns.add(1);
        counters.lost.add(ended.iter().map(|item| item.lost).sum());
        self.unsubscribe(id, None, wakes);
        sink.overrun(id, &ended);
    }

    pub(super) fn end_gone(&mut self, index: u32, sink: &mut dyn Sink, wakes: &mut Wakes) {
        let Some(item) = self.items.get(index) else {
            return;
        };
        let Some(handle) = self.variables.get(index).map(|variable| variable.handle()) else {
            return;
        };
        let subscription = item.subscription;
        self.close(index, wakes);
        sink.gone(subscription, handle);
    }
}
