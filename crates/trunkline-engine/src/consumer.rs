//! The readers' side: one consumer holds any number of subscriptions and takes what waits for them.
//!
//! A network session has one, and so has every in-process subscriber; both see the same deliveries, in
//! the same order, with the same counts.

use std::collections::{HashMap, VecDeque};
use std::fmt;

use trunkline_ring::Cursor;
use trunkline_types::contract::BUFFER_ELEMENTS_MAX;
use trunkline_types::ledger::SubscriptionLedger;
use trunkline_types::{Contract, Lost, Position, Tick};

use crate::caller::Caller;
use crate::engine::{Engine, SLICE};
use crate::feed::{Feed, FeedEntry};
use crate::interest::{Interest, Kind};
use crate::outbox::{Outbox, Wake, Wakes};
use crate::outcome::{AccessError, WriteOutcome};
use crate::retained::{FirstQueue, Ring};
use crate::sync::Arc;
use crate::update::Update;
use crate::variable::Variable;
use crate::write::Completion;

/// What a subscriber wants beside the contract.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SubscribeOptions {
    /// Only updates that differ from the one before in value or quality.
    pub only_changes: bool,
}

/// Items one consumer may have.
pub const ITEMS_MAX: usize = 2_000_000;

/// One delivery: an update of one item of one subscription, and what was missed before it.
#[derive(Debug)]
pub struct Delivery<'a> {
    /// The subscription, by the number its subscriber gave it.
    pub subscription: u32,
    /// The variable.
    pub variable: &'a Arc<Variable>,
    /// The update; sequence 0 and no value when nothing was written yet.
    pub update: &'a Update,
    /// What this item missed since its previous delivery.
    pub lost: Lost,
    /// Updates held back by `only_changes` since its previous delivery; not lost.
    pub filtered: u64,
}

/// How a subscription that overran its bound ended, item by item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EndedItem {
    /// The variable's handle.
    pub handle: u32,
    /// The last update that was delivered.
    pub last: Position,
    /// Updates written after it that were not.
    pub lost: u64,
}

/// Takes deliveries; asked before each whether it still has room.
pub trait Sink {
    /// Whether one more delivery is welcome.
    fn wants(&self) -> bool;
    /// One delivery. Deliveries of one subscription come in runs.
    fn deliver(&mut self, delivery: &Delivery<'_>);
    /// The subscription has ended because it overran its bound; all it held was delivered before.
    fn overrun(&mut self, subscription: u32, items: &[EndedItem]);
    /// The variable was undeployed; all it had was delivered before.
    fn gone(&mut self, subscription: u32, handle: u32);
}

/// The subscriptions of one session or program, and what waits for them.
pub struct Consumer {
    engine: Engine,
    outbox: Arc<Outbox>,
    items: Vec<Option<Item>>,
    free: Vec<u32>,
    subscriptions: HashMap<u32, Subscription>,
    cursor: Cursor,
    /// Items whose deliveries the peer has not confirmed, oldest first; only when it confirms.
    in_flight: Option<VecDeque<(u32, u32)>>,
    /// Rises with every item, so that a confirmation is never credited to a later item of that place.
    generation: u32,
    taken: Vec<u32>,
    updates: Vec<Update>,
    entries: Vec<FeedEntry>,
}

/// One variable under one subscription, or the feed of a subscription.
pub(crate) enum Item {
    Variable(VariableItem),
    Feed { subscription: u32 },
}

pub(crate) struct VariableItem {
    pub(crate) variable: Arc<Variable>,
    pub(crate) subscription: u32,
    generation: u32,
    /// Sequence before the first update that counts for this subscription.
    opened_at: u64,
    /// Sequence of the last delivery.
    pub(crate) last: u64,
    /// The ring's push number to read next (`last:n`).
    pub(crate) cursor: u64,
    /// The first reading of a buffered contract, until it is delivered.
    pub(crate) initial: Option<Box<Update>>,
    /// Nothing has been delivered yet.
    pub(crate) first: bool,
    pub(crate) filtered_seen: u64,
    pub(crate) coalesced: u64,
    pub(crate) delivered: u64,
    received: u64,
    pub(crate) dropped: Option<Box<Dropped>>,
}

/// Counters that most items never need.
#[derive(Default)]
pub(crate) struct Dropped {
    pub(crate) queue: u64,
    disconnect: u64,
    /// Still to be told with the next delivery.
    pub(crate) untold: Lost,
}

pub(crate) struct Subscription {
    pub(crate) contract: Contract,
    pub(crate) options: SubscribeOptions,
    pub(crate) items: Vec<u32>,
    pub(crate) feed: Option<(Arc<Feed>, u32)>,
    /// Deliveries the subscriber has room for (`all` over a network); `None`: only the feed bounds it.
    pub(crate) credit: Option<u64>,
    /// An item's variable was undeployed while updates of it were in the feed.
    pub(crate) gone_behind_feed: bool,
    next_due: Tick,
    /// Where the period's look at the items goes on, in slices.
    sweep: usize,
}

impl Consumer {
    /// A consumer without subscriptions. `wake` is called when something begins to wait.
    pub fn new(engine: Engine, wake: Box<dyn Wake>) -> Self {
        Self {
            engine,
            outbox: Arc::new(Outbox::new(wake)),
            items: Vec::new(),
            free: Vec::new(),
            subscriptions: HashMap::new(),
            cursor: Cursor::default(),
            in_flight: None,
            generation: 0,
            taken: Vec::new(),
            updates: Vec::new(),
            entries: Vec::new(),
        }
    }

    /// From now on deliveries count as received only when [`Consumer::confirm`] says so.
    #[must_use]
    pub fn confirmed_by_peer(mut self) -> Self {
        self.in_flight = Some(VecDeque::new());
        self
    }

    /// The engine whose variables these are.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Whether this subscription number is in use.
    pub fn has_subscription(&self, subscription: u32) -> bool {
        self.subscriptions.contains_key(&subscription)
    }

    /// Number of items subscribed.
    pub fn item_count(&self) -> usize {
        self.subscriptions.values().map(|subscription| subscription.items.len()).sum()
    }

    /// Adds a variable to a subscription, which is made with the first one. `resume` is the last update
    /// the subscriber already has, from a connection before this one.
    ///
    /// The first reading is what the variable holds now; there is no separate way for it.
    ///
    /// # Errors
    /// Rights, limits, a variable that is gone, or a contract that differs from the subscription's.
    pub fn subscribe(
        &mut self,
        caller: &Caller,
        subscription: u32,
        contract: Contract,
        options: SubscribeOptions,
        variable: &Arc<Variable>,
        resume: Option<Position>,
    ) -> Result<(), AccessError> {
        variable.check_readable(caller)?;
        check_contract(contract)?;
        if self.items.len() - self.free.len() >= ITEMS_MAX {
            return Err(items_limit());
        }
        let (feed, options) = self.subscription(subscription, contract, options)?;
        let index = self.new_item(Item::Feed { subscription })?;
        self.generation = self.generation.wrapping_add(1);
        let mut item = VariableItem {
            variable: Arc::clone(variable),
            subscription,
            generation: self.generation,
            opened_at: 0,
            last: 0,
            cursor: 0,
            initial: None,
            first: true,
            filtered_seen: 0,
            coalesced: 0,
            delivered: 0,
            received: 0,
            dropped: None,
        };
        let opened = self.open_locked(&mut item, index, contract, options, feed, resume);
        if !opened {
            self.free_item(index);
            return Err(AccessError::Gone);
        }
        if let Some(entry) = self.subscriptions.get_mut(&subscription) {
            entry.items.push(index);
        }
        let is_due = item.first;
        if let Some(place) = self.items.get_mut(index as usize) {
            *place = Some(Item::Variable(item));
        }
        if is_due {
            self.outbox.marks.mark(index);
        }
        Ok(())
    }

    /// The part of [`Consumer::subscribe`] under the variable's lock: notes the sequence and registers
    /// the interest in one step, so that no update falls between the first reading and the next.
    fn open_locked(
        &self,
        item: &mut VariableItem,
        index: u32,
        contract: Contract,
        options: SubscribeOptions,
        feed: Option<(Arc<Feed>, u32)>,
        resume: Option<Position>,
    ) -> bool {
        let variable = Arc::clone(&item.variable);
        let mut state = variable.lock();
        if variable.is_gone() {
            return false;
        }
        let current = variable.update_locked(&state);
        item.start_at(current.sequence, resume, self.engine.epoch());
        let kind = match contract {
            Contract::Latest => Kind::Mark,
            Contract::Sampled(_) => Kind::Sampled,
            Contract::Last(n) => {
                let extra = state.extra();
                let ring = match options.only_changes {
                    true => &mut extra.ring_changes,
                    false => &mut extra.ring_all,
                };
                let ring = ring.get_or_insert_with(|| Ring::new(n as usize));
                ring.grow(n as usize);
                item.cursor = ring.end();
                Kind::Last
            }
            Contract::First(n) => Kind::First(Box::new(FirstQueue::new(n))),
            Contract::All { .. } => match feed {
                Some((feed, mark)) => Kind::Feed { feed, mark },
                None => return false,
            },
        };
        if !matches!(kind, Kind::Mark | Kind::Sampled) && item.first {
            item.initial = Some(Box::new(current));
        }
        state.extra().interests.push(Interest {
            outbox: Arc::clone(&self.outbox),
            item: index,
            only_changes: options.only_changes,
            filtered: 0,
            kind,
        });
        true
    }

    /// The subscription's feed and options; made with its first item.
    fn subscription(
        &mut self,
        id: u32,
        contract: Contract,
        options: SubscribeOptions,
    ) -> Result<(Option<(Arc<Feed>, u32)>, SubscribeOptions), AccessError> {
        if let Some(known) = self.subscriptions.get(&id) {
            if known.contract != contract {
                return Err(AccessError::Contract(
                    "a subscription has one contract; use another subscription number",
                ));
            }
            return Ok((known.feed.clone(), known.options));
        }
        let feed = match contract {
            Contract::All { elements, bytes } => {
                let mark = self.new_item(Item::Feed { subscription: id })?;
                Some((Arc::new(Feed::new(elements, bytes)), mark))
            }
            _ => None,
        };
        let subscription = Subscription {
            contract,
            options,
            items: Vec::new(),
            feed: feed.clone(),
            credit: None,
            gone_behind_feed: false,
            next_due: Tick::ZERO,
            sweep: 0,
        };
        self.subscriptions.insert(id, subscription);
        Ok((feed, options))
    }

    /// Ends a subscription, or takes some variables out of it. Returns how many items were closed.
    pub fn unsubscribe(
        &mut self,
        subscription: u32,
        handles: Option<&[u32]>,
        wakes: &mut Wakes,
    ) -> usize {
        let Some(entry) = self.subscriptions.get(&subscription) else { return 0 };
        let closing: Vec<u32> = match handles {
            None => entry.items.clone(),
            Some(handles) => {
                let wanted: std::collections::HashSet<u32> = handles.iter().copied().collect();
                let is_wanted = |index: &u32| {
                    self.item(*index).is_some_and(|item| wanted.contains(&item.variable.handle()))
                };
                entry.items.iter().copied().filter(is_wanted).collect()
            }
        };
        for index in &closing {
            self.close_item(*index);
        }
        let gone: std::collections::HashSet<u32> = closing.iter().copied().collect();
        let Some(entry) = self.subscriptions.get_mut(&subscription) else { return 0 };
        entry.items.retain(|index| !gone.contains(index));
        if entry.items.is_empty()
            && let Some(entry) = self.subscriptions.remove(&subscription)
            && let Some((feed, mark)) = entry.feed
        {
            feed.close(wakes);
            self.free_item(mark);
        }
        closing.len()
    }

    /// Room for this many deliveries in all, since the subscription began, that the subscriber has taken
    /// or will keep (`all` only): it never has to hold more than it granted.
    pub fn grant(&mut self, subscription: u32, more: u64) {
        let Some(entry) = self.subscriptions.get_mut(&subscription) else { return };
        entry.credit = Some(entry.credit.unwrap_or(0).saturating_add(more));
        if let Some((_, mark)) = &entry.feed {
            self.outbox.marks.mark(*mark);
        }
    }

    /// The peer has received the `records` oldest unconfirmed deliveries. Returns false when it claims
    /// more than were sent.
    pub fn confirm(&mut self, records: u64) -> bool {
        let Some(in_flight) = &mut self.in_flight else { return records == 0 };
        for _ in 0..records {
            let Some((index, generation)) = in_flight.pop_front() else { return false };
            if let Some(Some(Item::Variable(item))) = self.items.get_mut(index as usize)
                && item.generation == generation
            {
                item.received += 1;
            }
        }
        true
    }

    /// Deliveries the peer has not confirmed.
    pub fn in_flight(&self) -> usize {
        self.in_flight.as_ref().map_or(0, VecDeque::len)
    }

    /// Where a write's outcome is to go if its provider has to be asked.
    pub fn completion(&self, id: u64) -> Completion {
        Completion { outbox: Arc::clone(&self.outbox), id }
    }

    /// The next outcome that a provider delivered, with its write's id.
    pub fn take_completion(&mut self) -> Option<(u64, WriteOutcome)> {
        self.outbox.take_completion()
    }

    /// Whether nothing waits: no mark, no outcome.
    pub fn is_idle(&self) -> bool {
        self.outbox.marks.is_empty() && !self.outbox.has_completions()
    }

    /// Asks to be woken when an `all` feed that blocks writes to `variable` has room again. False when
    /// there is room already: try again at once.
    pub fn wait_for_room(&self, variable: &Variable) -> bool {
        let state = variable.lock();
        let Some(extra) = &state.extra else { return false };
        let mut parked = false;
        for interest in &extra.interests {
            if let Kind::Feed { feed, .. } = &interest.kind {
                parked |= feed.park(&self.outbox);
            }
        }
        parked
    }

    /// Does what is due for `sampled` subscriptions, in slices; returns when to come again.
    pub fn poll(&mut self, now: Tick) -> Option<Tick> {
        let mut next: Option<Tick> = None;
        let mut budget = SLICE;
        for subscription in self.subscriptions.values_mut() {
            let Contract::Sampled(period) = subscription.contract else { continue };
            if subscription.next_due <= now && budget > 0 {
                let from = subscription.sweep;
                let slice = subscription.items.iter().skip(from).take(budget);
                let mut looked = 0;
                for index in slice {
                    looked += 1;
                    if let Some(Some(Item::Variable(item))) = self.items.get(*index as usize)
                        && item.variable.sequence() != item.last
                    {
                        self.outbox.marks.mark(*index);
                    }
                }
                budget -= looked;
                subscription.sweep = from + looked;
                if subscription.sweep >= subscription.items.len() {
                    subscription.sweep = 0;
                    subscription.next_due = next_period(subscription.next_due, period, now);
                }
            }
            let due = subscription.next_due.max(now);
            next = Some(next.map_or(due, |known| known.min(due)));
        }
        next
    }

    /// The ledger of one variable under one subscription, exact at this moment.
    pub fn ledger(&self, subscription: u32, handle: u32) -> Option<SubscriptionLedger> {
        let entry = self.subscriptions.get(&subscription)?;
        let index = *entry.items.iter().find(|index| {
            self.item(**index).is_some_and(|item| item.variable.handle() == handle)
        })?;
        let item = self.item(index)?;
        let state = item.variable.lock();
        let interest =
            state.extra.as_ref()?.interests.iter().find(|i| i.is(&self.outbox, index))?;
        let sequence = item.variable.sequence();
        let mut ledger = SubscriptionLedger {
            written: sequence - item.opened_at,
            filtered: interest.filtered,
            coalesced: item.coalesced,
            received: item.delivered,
            waiting: u64::from(item.initial.as_ref().is_some_and(|first| first.sequence > 0)),
            ..SubscriptionLedger::default()
        };
        if let Some(dropped) = &item.dropped {
            ledger.dropped_queue = dropped.queue;
            ledger.dropped_disconnect = dropped.disconnect;
        }
        if self.in_flight.is_some() {
            ledger.received = item.received;
            ledger.sent_unconfirmed = item.delivered - item.received;
        }
        match (&interest.kind, entry.contract) {
            (Kind::Mark | Kind::Sampled, _) => {
                let pending =
                    (sequence - item.last).saturating_sub(interest.filtered - item.filtered_seen);
                ledger.waiting += u64::from(pending > 0);
                ledger.coalesced += pending.saturating_sub(1);
            }
            (Kind::Last, Contract::Last(n)) => {
                let extra = state.extra.as_ref()?;
                let ring = match interest.only_changes {
                    true => extra.ring_changes.as_ref()?,
                    false => extra.ring_all.as_ref()?,
                };
                let (waiting, dropped) = ring.pending(item.cursor, n);
                ledger.waiting += waiting;
                ledger.dropped_queue += dropped;
            }
            (Kind::First(queue), _) => {
                ledger.waiting += queue.len() as u64;
                ledger.dropped_queue += queue.untold();
            }
            (Kind::Feed { feed, .. }, _) => {
                ledger.waiting += feed.waiting_of(index);
                if feed.has_ended() {
                    let held = sequence - item.last - interest.filtered + item.filtered_seen;
                    ledger.dropped_overrun = held - feed.waiting_of(index);
                }
            }
            (Kind::Last | Kind::Fifo(_), _) => {}
        }
        Some(ledger)
    }

    /// The subscriptions in which a variable takes part.
    pub fn subscriptions_of(&self, handle: u32) -> Vec<(u32, Contract)> {
        let has = |subscription: &Subscription| {
            subscription.items.iter().any(|index| {
                self.item(*index).is_some_and(|item| item.variable.handle() == handle)
            })
        };
        self.subscriptions
            .iter()
            .filter(|(_, subscription)| has(subscription))
            .map(|(id, subscription)| (*id, subscription.contract))
            .collect()
    }

    pub(crate) fn item(&self, index: u32) -> Option<&VariableItem> {
        match self.items.get(index as usize)? {
            Some(Item::Variable(item)) => Some(item),
            _ => None,
        }
    }

    pub(crate) fn parts(&mut self) -> Parts<'_> {
        Parts {
            outbox: &self.outbox,
            items: &mut self.items,
            subscriptions: &mut self.subscriptions,
            cursor: &mut self.cursor,
            in_flight: &mut self.in_flight,
            taken: &mut self.taken,
            updates: &mut self.updates,
            entries: &mut self.entries,
            epoch: self.engine.epoch(),
        }
    }

    fn new_item(&mut self, item: Item) -> Result<u32, AccessError> {
        let index = match self.free.pop() {
            Some(index) => {
                if let Some(place) = self.items.get_mut(index as usize) {
                    *place = Some(item);
                }
                index
            }
            None => {
                self.items.push(Some(item));
                (self.items.len() - 1) as u32
            }
        };
        if self.outbox.marks.ensure(index).is_err() {
            self.items.truncate(index as usize);
            return Err(items_limit());
        }
        Ok(index)
    }

    fn free_item(&mut self, index: u32) {
        if let Some(place) = self.items.get_mut(index as usize) {
            *place = None;
            self.outbox.marks.unmark(index);
            self.free.push(index);
        }
    }

    /// Takes one item out of its variable's interests.
    fn close_item(&mut self, index: u32) {
        if let Some(item) = self.item(index) {
            forget(&item.variable, &self.outbox, index);
        }
        self.free_item(index);
    }
}

/// The parts of a consumer that draining borrows at the same time.
pub(crate) struct Parts<'a> {
    pub(crate) outbox: &'a Arc<Outbox>,
    pub(crate) items: &'a mut Vec<Option<Item>>,
    pub(crate) subscriptions: &'a mut HashMap<u32, Subscription>,
    pub(crate) cursor: &'a mut Cursor,
    pub(crate) in_flight: &'a mut Option<VecDeque<(u32, u32)>>,
    pub(crate) taken: &'a mut Vec<u32>,
    pub(crate) updates: &'a mut Vec<Update>,
    pub(crate) entries: &'a mut Vec<FeedEntry>,
    pub(crate) epoch: u64,
}

impl VariableItem {
    /// Sets where counting begins, from what the subscriber has and what the variable holds.
    fn start_at(&mut self, sequence: u64, resume: Option<Position>, epoch: u64) {
        let untold = match resume {
            None => {
                self.opened_at = sequence.saturating_sub(1);
                self.last = self.opened_at;
                return;
            }
            Some(position) if position.epoch != epoch || position.sequence > sequence => {
                self.opened_at = sequence.saturating_sub(1);
                self.last = self.opened_at;
                Lost { unknown: true, ..Lost::NONE }
            }
            Some(position) if position.sequence == sequence => {
                self.opened_at = sequence;
                self.last = sequence;
                // What the subscriber has is what there is: nothing to deliver.
                self.first = false;
                return;
            }
            Some(position) => {
                self.opened_at = position.sequence;
                self.last = sequence - 1;
                Lost { disconnect: sequence - 1 - position.sequence, ..Lost::NONE }
            }
        };
        if untold != Lost::NONE {
            let disconnect = untold.disconnect;
            self.dropped = Some(Box::new(Dropped { queue: 0, disconnect, untold }));
        }
    }

    /// Notes a delivery as in flight, when the peer confirms.
    pub(crate) fn sent(&mut self, index: u32, in_flight: &mut Option<VecDeque<(u32, u32)>>) {
        if let Some(in_flight) = in_flight {
            // Nothing written yet is no update: generation 0 is nobody's.
            let generation = if self.last > 0 { self.generation } else { 0 };
            in_flight.push_back((index, generation));
        }
    }
}

/// Removes an interest, and the rings nobody reads any more.
pub(crate) fn forget(variable: &Variable, outbox: &Arc<Outbox>, index: u32) {
    let mut state = variable.lock();
    let Some(extra) = &mut state.extra else { return };
    extra.interests.retain(|interest| !interest.is(outbox, index));
    let needed = |only_changes| {
        let mut interests = extra.interests.iter();
        interests.any(|i| matches!(i.kind, Kind::Last) && i.only_changes == only_changes)
    };
    let (all, changes) = (needed(false), needed(true));
    if !all {
        extra.ring_all = None;
    }
    if !changes {
        extra.ring_changes = None;
    }
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
        Contract::Sampled(period) => {
            return match period < trunkline_types::contract::SAMPLED_PERIOD_MIN {
                true => Err(AccessError::Contract("the period of `sampled` is at least 100 us")),
                false => Ok(()),
            };
        }
    };
    if (1..=BUFFER_ELEMENTS_MAX).contains(&elements) {
        return Ok(());
    }
    Err(AccessError::Contract("a buffer has 1 to 1,000,000 elements"))
}

/// The next due time on the subscription's own grid; periods that passed meanwhile are not made up for.
fn next_period(due: Tick, period: std::time::Duration, now: Tick) -> Tick {
    if due == Tick::ZERO {
        return now.saturating_add(period);
    }
    let next = due.saturating_add(period);
    if next > now { next } else { now.saturating_add(period) }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        let mut wakes = Wakes::new();
        let ids: Vec<u32> = self.subscriptions.keys().copied().collect();
        for id in ids {
            self.unsubscribe(id, None, &mut wakes);
        }
    }
}

impl fmt::Debug for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer")
            .field("subscriptions", &self.subscriptions.len())
            .field("items", &self.item_count())
            .finish_non_exhaustive()
    }
}
