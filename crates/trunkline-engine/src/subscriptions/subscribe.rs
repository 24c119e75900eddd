//! Adds and removes items.

use std::collections::HashMap;

use trunkline_access::Action;
use trunkline_types::Contract;
use trunkline_types::contract::{BUFFER_ELEMENTS_MAX, SAMPLED_PERIOD_MIN};

use super::indices::Indices;
use super::items::{ResumePoint, VariableItem};
use super::membership::Membership;
use super::teardown::{Leftover, RemainingReference};
use super::{Consumer, ITEMS_MAX, Subscribe, Subscription};
use crate::caller::Caller;
use crate::delivery::outbox::{Outbox, Wakes};
use crate::delivery::rings::FirstQueue;
use crate::delivery::subscribers::{FeedSubscriber, Kind, Subscriber};
use crate::outcome::AccessError;
use crate::sync::Arc;
use crate::variable::{State, Variable};
use crate::write::SLICE;

impl Consumer {
    /// Adds a variable to a subscription. The first variable creates the subscription. A variable
    /// that is already in the subscription is left unchanged.
    ///
    /// The first reading is the variable's current update. It is pending like any other update, and
    /// delivered by [`Consumer::drain`].
    pub fn subscribe(
        &mut self,
        caller: &Caller,
        variable: &Arc<Variable>,
        wanted: Subscribe,
    ) -> Result<(), AccessError> {
        let subscription = wanted.subscription;
        variable.check_readable(caller)?;
        if !variable.permits(caller, Action::Subscribe) {
            return Err(AccessError::Denied {
                action: Action::Subscribe,
            });
        }
        check_contract(wanted.contract)?;
        if self.item_count() >= ITEMS_MAX {
            return Err(items_limit());
        }
        if !self.resume.takes_over(subscription, variable) {
            self.check_memory(wanted.contract)?;
        }
        self.make_subscription(wanted)?;
        let opened = self.open(variable, wanted);
        if opened.is_err() {
            self.remove_if_empty(subscription, &mut Wakes::new());
        }
        opened
    }

    /// Checks that the engine has memory left for queuing updates under this contract.
    fn check_memory(&self, contract: Contract) -> Result<(), AccessError> {
        let is_buffered = !matches!(contract, Contract::Latest | Contract::Sampled(_));
        match &self.home.core.memory {
            Some(memory) if is_buffered && !self.outbox.is_service && memory.is_full() => {
                memory.count_refusal();
                Err(AccessError::MemoryFull {
                    max: memory.max() as u64,
                })
            }
            _ => Ok(()),
        }
    }

    fn make_subscription(&mut self, wanted: Subscribe) -> Result<(), AccessError> {
        let Subscribe {
            subscription: id,
            contract,
            only_changes,
            ..
        } = wanted;
        if let Some(known) = self.subscriptions.get(&id) {
            if (known.contract, known.only_changes) != (contract, only_changes) {
                return Err(AccessError::Contract(
                    "the subscription already has another contract; use another subscription number",
                ));
            }
            return Ok(());
        }
        let feed = match contract {
            Contract::All { elements, bytes } => {
                let mark = self.new_feed(id)?;
                Some(Membership::new(&self.outbox, mark, elements, bytes))
            }
            Contract::Latest | Contract::Sampled(_) | Contract::Last(_) | Contract::First(_) => {
                None
            }
        };
        if matches!(contract, Contract::Sampled(_)) {
            self.sampled.push(id);
        }
        let subscription = Subscription {
            contract,
            only_changes,
            items: Indices::default(),
            feed,
            credit: None,
            next_due: None,
            sweep: 0,
        };
        self.subscriptions.insert(id, subscription);
        Ok(())
    }

    /// Records the sequence and registers the subscriber in one step under the variable's lock, so
    /// that no update falls between the first reading and the next.
    fn open(&mut self, variable: &Arc<Variable>, wanted: Subscribe) -> Result<(), AccessError> {
        let Subscribe {
            subscription: id,
            resume,
            first_is_free,
            ..
        } = wanted;
        let epoch = self.home.core.epoch();
        self.stop_sharing(id);
        let mut wakes = Wakes::new();
        self.resume.gather(id, &mut wakes);
        let mut state = variable.lock();
        if variable.is_gone() {
            return Err(AccessError::Gone);
        }
        let handle = variable.handle();
        if self.in_feed(id, handle).is_some() || self.index_in(&state, id).is_some() {
            return Ok(());
        }
        let current = variable.update_locked(&state);
        let (is_written, base) = (current.sequence > 0, variable.base_sequence());
        let sequence = current.sequence.max(base);
        // Allocates the mark first, because a subscriber must never refer to a missing mark.
        let index = self.items.next_index();
        self.outbox.marks.ensure(index).map_err(|_| items_limit())?;
        let Some(subscription) = self.subscriptions.get_mut(&id) else {
            return Err(AccessError::Gone);
        };
        let (only_changes, room) = (subscription.only_changes, subscription.room_for_past());
        let is_whole =
            subscription.feed.is_some() && !only_changes && self.resume.unacked.is_some();
        let had = resume.map(|had| had.sequence);
        // A position from another engine start cannot be resumed.
        let is_known = resume.is_none_or(|had| had.epoch == epoch && had.sequence <= sequence);
        let is_kept = self.resume.takes_over(id, variable);
        let (mut past, opened) = match is_whole && is_known {
            true => (self.resume).reach_back(id, variable, &state, had, &current, &mut wakes),
            false => (Vec::new(), None),
        };
        if !is_written {
            // Earlier updates are those of a former variable.
            past.clear();
        }
        let past = self.resume.count_past(room, past, is_kept);
        if is_kept {
            self.resume.past.settle(&mut wakes);
        }
        // A subscriber without a position still needs a report of the updates that it was owed but
        // will not get.
        let opened = opened.filter(|before| *before < sequence);
        let had = match had.or(opened) {
            None => ResumePoint::Nothing,
            Some(had) if is_known => ResumePoint::Sequence(had),
            Some(_) => ResumePoint::Unknown,
        };
        let first = match (past.first(), is_written) {
            (Some(first), _) => first.sequence,
            (None, true) => sequence,
            (None, false) => sequence + 1,
        };
        // A subscriber that has the last update of a former variable does not know that this one has
        // no value.
        let complete = (is_written || base == 0).then_some(sequence);
        let index = self.items.insert(id, complete, had, first);
        self.variables.put(index, variable);
        let Some(subscription) = self.subscriptions.get_mut(&id) else {
            return Err(AccessError::Gone);
        };
        let awaits_first = self
            .items
            .get(index)
            .is_some_and(VariableItem::awaits_first);
        let mut mark = awaits_first.then_some(index);
        let kind = match subscription.contract {
            Contract::Latest => Some(Kind::Mark),
            Contract::Sampled(_) => Some(Kind::Sampled),
            Contract::Last(n) => {
                let ring = state
                    .subscribers()
                    .and_then(|subscribers| subscribers.ring(only_changes));
                self.items.make_extra(index).cursor = ring.map_or(0, |ring| ring.end());
                Some(Kind::Last(n))
            }
            Contract::First(n) => Some(Kind::First(Box::new(FirstQueue::new(n)))),
            Contract::All { .. } => None,
        };
        if let Some(membership) = subscription.feed.as_mut().filter(|_| kind.is_none()) {
            if first_is_free && let Some(item) = self.items.get_mut(index) {
                item.set_first_is_free();
                subscription.credit = Some(subscription.credit.unwrap_or(0).saturating_add(1));
            }
            let place = membership.add(handle, index);
            if past.len() > 1 {
                membership.put_past(place, past);
                mark = Some(membership.mark);
            } else if awaits_first {
                membership.feed.push_first(place, current.clone());
                mark = Some(membership.mark);
            }
            let feed = Arc::clone(&membership.feed);
            let subscriber = FeedSubscriber::new(feed, place, only_changes);
            state.make_subscribers().add_feed(subscriber);
        }
        if awaits_first && matches!(kind, Some(Kind::Last(_) | Kind::First(_))) {
            self.items.make_extra(index).initial = Some(Box::new(current));
        }
        subscription.items.insert(index);
        if !self.outbox.is_service {
            self.home.count(variable);
        }
        if let Some(kind) = kind {
            state.add_subscriber(Subscriber {
                outbox: Arc::clone(&self.outbox),
                item: index,
                only_changes,
                filtered: 0,
                kind,
            });
        }
        drop(state);
        if let Some(mark) = mark {
            self.outbox.marks.mark(mark);
        }
        self.resume.release_settled(id, &self.home, &mut wakes);
        Ok(())
    }

    /// Ends a subscription, or removes some variables from it. Returns the number of items closed.
    pub fn unsubscribe(
        &mut self,
        subscription: u32,
        handles: Option<&[u32]>,
        wakes: &mut Wakes,
    ) -> usize {
        let Some(entry) = self.subscriptions.get(&subscription) else {
            return 0;
        };
        if entry.feed.is_some() {
            return self.unsubscribe_feed(subscription, handles, wakes);
        }
        let closing: Vec<u32> = match handles {
            None => entry.items.iter().collect(),
            Some(handles) => handles
                .iter()
                .filter_map(|handle| self.index_of(subscription, *handle))
                .collect(),
        };
        let closed = closing
            .into_iter()
            .filter(|index| self.close(*index, wakes));
        let closed = closed.count();
        self.remove_if_empty(subscription, wakes);
        closed
    }

    /// Ends a subscription in slices: stops its deliveries at once, and closes at most [`SLICE`]
    /// items per call. Returns false if it must be called again before any new subscription.
    ///
    /// [`SLICE`]: crate::write::SLICE
    pub fn unsubscribe_some(&mut self, subscription: u32, wakes: &mut Wakes) -> bool {
        if let Some(entry) = self.subscriptions.remove(&subscription) {
            self.sampled.retain(|sampled| *sampled != subscription);
            let items = entry.items;
            let leftover = match entry.feed {
                None => Leftover {
                    items,
                    reference: RemainingReference::Own,
                },
                Some(mut membership) => {
                    let past = std::mem::take(&mut membership.past);
                    self.resume.past.give_back(past.cost(), wakes);
                    self.free(membership.mark);
                    Leftover::of_feed(items, membership, wakes)
                }
            };
            self.leftovers.push(leftover);
        }
        let mut budget = SLICE;
        while let Some(mut leftover) = self.leftovers.pop() {
            while let Some(index) = leftover.items.pop() {
                if budget == 0 {
                    leftover.items.insert(index);
                    self.leftovers.push(leftover);
                    return false;
                }
                budget -= 1;
                if let Some(variable) = self.variables.get(index) {
                    leftover.give_up(index, variable, &self.outbox, wakes);
                }
                self.free(index);
            }
        }
        true
    }

    /// Removes one item from its variable's subscribers and from its subscription, and frees it.
    pub(super) fn close(&mut self, index: u32, wakes: &mut Wakes) -> bool {
        let Some(item) = self.items.get(index).copied() else {
            return false;
        };
        if let Some(subscription) = self.subscriptions.get_mut(&item.subscription)
            && let Some(variable) = self.variables.get(index)
        {
            match &mut subscription.feed {
                Some(membership) => {
                    membership.forget(variable);
                    if let Some(credit) = &mut subscription.credit {
                        *credit = credit.saturating_sub(u64::from(item.has_free_credit()));
                    }
                }
                None => {
                    let subscriber = forget(variable, &self.outbox, index);
                    if let Some(Kind::First(queue)) = subscriber.map(|subscriber| subscriber.kind) {
                        self.outbox.budget.release(queue.charged(), wakes);
                    }
                }
            }
            subscription.items.remove(index);
        }
        self.free(index);
        true
    }

    pub(super) fn remove_if_empty(&mut self, id: u32, wakes: &mut Wakes) {
        if self
            .subscriptions
            .get(&id)
            .is_none_or(|subscription| !subscription.items.is_empty())
        {
            return;
        }
        if let Some(subscription) = self.subscriptions.remove(&id)
            && let Some(membership) = subscription.feed
        {
            self.resume.past.give_back(membership.past.cost(), wakes);
            membership.feed.depart(membership.member, wakes);
            self.free(membership.mark);
        }
        self.sampled.retain(|sampled| *sampled != id);
    }

    pub(super) fn index_of(&self, subscription: u32, handle: u32) -> Option<u32> {
        if self.subscriptions.get(&subscription)?.feed.is_some() {
            return self.in_feed(subscription, handle);
        }
        let variable = self.home.core.variable(handle)?;
        let state = variable.lock();
        self.index_in(&state, subscription)
    }

    fn index_in(&self, state: &State, subscription: u32) -> Option<u32> {
        let is_of = |index: &u32| {
            let item = self.items.get(*index);
            item.is_some_and(|item| item.subscription == subscription)
        };
        state.items_of(&self.outbox).find(is_of)
    }

    fn in_feed(&self, id: u32, handle: u32) -> Option<u32> {
        let membership = self.subscriptions.get(&id)?.feed.as_ref()?;
        Some(membership.by_handle.get(&handle)?.0)
    }

    pub(crate) fn has_in_feed(&self, handle: u32) -> bool {
        let mut feeds = self
            .subscriptions
            .values()
            .filter_map(|one| one.feed.as_ref());
        feeds.any(|membership| membership.by_handle.contains_key(&handle))
    }

    fn unsubscribe_feed(&mut self, id: u32, handles: Option<&[u32]>, wakes: &mut Wakes) -> usize {
        let subscription = self.subscriptions.get(&id);
        let Some(membership) = subscription.and_then(|one| one.feed.as_ref()) else {
            return 0;
        };
        let closing: HashMap<u32, (u32, u32)> = match handles {
            None => membership.by_handle.clone(),
            Some(handles) => {
                let found = |handle: &u32| Some((*handle, *membership.by_handle.get(handle)?));
                handles.iter().filter_map(found).collect()
            }
        };
        let is_whole = closing.len() == membership.by_handle.len();
        if is_whole && membership.feed.depart_from_others(membership.member, wakes) {
            return self.leave_feed(id, wakes);
        }
        self.stop_sharing(id);
        let mut indices: Vec<u32> = closing.values().map(|(index, _)| *index).collect();
        indices.sort_unstable();
        let closed = indices.iter().filter(|index| self.close(**index, wakes));
        let closed = closed.count();
        // Done only after the subscribers are removed, so that none of them can add entries.
        let places = closing.values().map(|(_, place)| *place).collect();
        let subscription = self.subscriptions.get_mut(&id);
        if let Some(membership) = subscription.and_then(|one| one.feed.as_mut()) {
            let (freed, past) = membership.drop_taken(&places);
            membership.feed.remove_places(&places, freed, wakes);
            self.resume.past.give_back(past, wakes);
        }
        self.remove_if_empty(id, wakes);
        closed
    }

    fn leave_feed(&mut self, id: u32, wakes: &mut Wakes) -> usize {
        let Some(subscription) = self.subscriptions.remove(&id) else {
            return 0;
        };
        for index in subscription.items.iter() {
            self.free(index);
        }
        if let Some(membership) = subscription.feed {
            self.resume.past.give_back(membership.past.cost(), wakes);
            self.free(membership.mark);
        }
        subscription.items.len()
    }

    /// Moves an `all` subscription to its own feed, because its variables are about to change.
    fn stop_sharing(&mut self, id: u32) {
        let subscription = self.subscriptions.get_mut(&id);
        if let Some(membership) = subscription.and_then(|one| one.feed.as_mut()) {
            membership.stop_sharing(&self.variables);
        }
    }

    fn new_feed(&mut self, subscription: u32) -> Result<u32, AccessError> {
        self.outbox
            .marks
            .ensure(self.items.next_index())
            .map_err(|_| items_limit())?;
        Ok(self.items.insert_feed(subscription))
    }

    pub(super) fn free(&mut self, index: u32) {
        if let Some(variable) = self.variables.take(index) {
            if !self.outbox.is_service {
                self.home.uncount(&variable);
            }
            self.home.core.release(&variable);
        }
        self.items.remove(index);
        self.outbox.marks.unmark(index);
    }
}

/// Removes a subscriber, and frees memory that no other subscriber needs.
pub(crate) fn forget(variable: &Variable, outbox: &Arc<Outbox>, index: u32) -> Option<Subscriber> {
    let mut state = variable.lock();
    let removed = state.remove_subscriber(outbox, index);
    variable.clear_slow_path(&state);
    removed
}

fn items_limit() -> AccessError {
    AccessError::Limit {
        what: "the number of items of one session",
        max: ITEMS_MAX as u64,
        hint: "close subscriptions or open another connection",
    }
}

fn check_contract(contract: Contract) -> Result<(), AccessError> {
    let elements = match contract {
        Contract::Last(n) | Contract::First(n) => n,
        Contract::All { elements, .. } => elements,
        Contract::Latest => return Ok(()),
        Contract::Sampled(period) if period < SAMPLED_PERIOD_MIN => {
            return Err(AccessError::Contract(
                "the period of `sampled` is too short; use at least 100 us",
            ));
        }
        Contract::Sampled(_) => return Ok(()),
    };
    if (1..=BUFFER_ELEMENTS_MAX).contains(&elements) {
        return Ok(());
    }
    Err(AccessError::Contract(
        "the buffer size is out of range; use 1 to 1,000,000 elements",
    ))
}
