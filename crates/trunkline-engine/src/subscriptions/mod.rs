//! The readers' side: a consumer has any number of subscriptions and takes their pending updates.
//!
//! Each network session and each in-process subscriber has one consumer. All consumers see the same
//! deliveries, in the same order, with the same counts.
//!
//! # Layout
//! - `items`: the items, their variables and their side of the ledger.
//! - `sink`: delivery to a subscriber.
//! - `subscribe`: adds and removes items; `indices`: the items of a subscription.
//! - `drain`: from marks to deliveries, `feeding` for `all`; `membership`: a subscription's
//!   membership in a feed; `sharing`: feeds shared by several subscriptions; `in_flight`:
//!   unconfirmed deliveries.
//! - `resume`: state of a lost session, left to the next one; `teardown`: the rest of an ended
//!   consumer.
//! - `ledger`: counts all updates, and compares deliveries with current values.

mod drain;
mod feeding;
mod in_flight;
mod indices;
mod items;
mod ledger;
mod membership;
mod resume;
mod sharing;
mod sink;
mod subscribe;
mod teardown;

use std::collections::BTreeMap;
use std::fmt;

use trunkline_ring::Cursor;
use trunkline_types::ledger::EndedItem;
use trunkline_types::name::is_reserved;
use trunkline_types::{Contract, Tick};

use self::in_flight::InFlight;
use self::indices::Indices;
use self::items::{ItemVariables, Items, VariableItem};
pub use self::ledger::SweepSlice;
use self::membership::Membership;
use self::resume::{DetachedSessions, Resume, SCAN_ENTRIES_PER_REQUEST, leave};
pub use self::sink::{Delivery, Sink, Subscribe};
pub(crate) use self::subscribe::forget;
use self::teardown::{Leftover, RemainingReference, Teardown};
use crate::caller::Caller;
use crate::delivery::feed::QueueSize;
use crate::delivery::late::LateSamples;
use crate::delivery::mail::ProviderOrder;
use crate::delivery::outbox::{Outbox, Wake, Wakes};
use crate::outcome::WriteOutcome;
use crate::outcome::orders::OrderResult;
use crate::sync::Arc;
use crate::update::Update;
use crate::variable::Variable;
use crate::write::{Completion, EngineCore, SLICE};

pub const ITEMS_MAX: usize = 2_000_000;

#[derive(Debug)]
pub struct Subscriptions {
    core: Arc<EngineCore>,
    pub(crate) absences: DetachedSessions,
}

impl Subscriptions {
    pub(crate) fn new(core: &Arc<EngineCore>) -> Self {
        Self {
            core: Arc::clone(core),
            absences: DetachedSessions::default(),
        }
    }

    /// Counts a subscribed variable, unless it belongs to one of the engine's own libraries.
    fn count(&self, variable: &Variable) {
        if !is_reserved(variable.name()) {
            self.core.counters.subscribed.add(1);
        }
    }

    fn uncount(&self, variable: &Variable) {
        if !is_reserved(variable.name()) {
            self.core.counters.subscribed.subtract_one();
        }
    }
}

/// The subscriptions of one session or program, and their pending updates.
///
/// [`Consumer::drain`] takes the pending updates. Call it when the consumer is woken, and also
/// after everything that may create pending updates without a wake-up: [`Consumer::subscribe`],
/// [`Consumer::grant`], [`Consumer::poll`], and a drain that reported that some remain.
pub struct Consumer {
    home: Arc<Subscriptions>,
    pub(crate) outbox: Arc<Outbox>,
    items: Items,
    variables: ItemVariables,
    subscriptions: BTreeMap<u32, Subscription>,
    /// Numbers of its `sampled` subscriptions, in the order in which they are served.
    sampled: Vec<u32>,
    cursor: Cursor,
    in_flight: InFlight,
    /// Reused between drains to avoid allocations.
    taken: Vec<u32>,
    updates: Vec<Update>,
    /// True if its `all` subscriptions may share feeds with other consumers.
    shares_feeds: bool,
    resume: Resume,
    /// Fields opened by its peer, by handle. A field is closed when no user is left.
    pub(crate) fields: BTreeMap<u32, Arc<Variable>>,
    /// Items of subscriptions that have ended or were left to the next session, until they are
    /// removed.
    leftovers: Vec<Leftover>,
    /// `None` until the consumer requests late samples.
    late: Option<Arc<LateSamples>>,
}

struct Subscription {
    contract: Contract,
    only_changes: bool,
    items: Indices,
    feed: Option<Membership>,
    /// Number of deliveries that the subscriber still accepts (`all` over a network); `None` if
    /// only the feed limits them.
    credit: Option<u64>,
    /// Time of the next sampling of a `sampled` subscription; `None` until the first poll.
    next_due: Option<Tick>,
    /// Index of the item at which the next slice continues in this period.
    sweep: u32,
}

impl Consumer {
    /// Creates a consumer without subscriptions. `wake` is called when it has something pending.
    pub fn new(engine: impl Into<Arc<Subscriptions>>, wake: Box<dyn Wake>) -> Self {
        let home = engine.into();
        let outbox = Outbox::new(wake, false, home.core.memory.as_ref());
        Self::with_outbox(home, outbox)
    }

    /// Creates a consumer for one of the engine's own services, such as retention. It does not
    /// count as a subscriber of a variable.
    pub fn service(engine: impl Into<Arc<Subscriptions>>, wake: Box<dyn Wake>) -> Self {
        Self::with_outbox(engine.into(), Outbox::new(wake, true, None))
    }

    fn with_outbox(home: Arc<Subscriptions>, outbox: Outbox) -> Self {
        Self {
            home,
            outbox: Arc::new(outbox),
            items: Items::default(),
            variables: ItemVariables::default(),
            subscriptions: BTreeMap::new(),
            sampled: Vec::new(),
            cursor: Cursor::default(),
            in_flight: InFlight::default(),
            taken: Vec::new(),
            updates: Vec::new(),
            shares_feeds: false,
            resume: Resume::none(),
            fields: BTreeMap::new(),
            leftovers: Vec::new(),
            late: None,
        }
    }

    /// Stores the deliveries of `all` subscriptions until the peer has confirmed them, so that
    /// [`Consumer::leave`] can leave them to the next session. They may use a tenth of the bytes
    /// that may be queued. Call after [`Consumer::queue_bytes_max`] and
    /// [`Consumer::confirmed_by_peer`].
    #[must_use]
    pub fn resumable(mut self) -> Self {
        let (max, is_confirmed) = (
            self.outbox.budget.max(),
            self.in_flight.tracks_confirmations(),
        );
        self.resume = Resume::keeping(&self.home.core, max, is_confirmed);
        self
    }

    /// Ends a lost session, and stores its `all` subscriptions until `until` for a session that
    /// names it as its predecessor. From now on no writer waits for them. A session with very many
    /// items is processed in slices, by the engine's [polls](crate::Engine::poll) or by the session
    /// that takes over.
    pub fn leave(self, caller: &Caller, until: Tick) {
        leave(self, caller, until);
    }

    /// Makes this session the successor of a lost session of the same peer. Re-created
    /// subscriptions resume from the state that the lost session left. Returns false if there is
    /// none.
    pub fn follow(&mut self, caller: &Caller, session: u32) -> bool {
        self.resume.follow(&self.home, caller, session)
    }

    /// Begins another request of the peer. Subscriptions that the request re-creates get updates
    /// that are still in the feeds of other subscribers; one request examines at most about 65,000
    /// of their entries.
    pub fn begin_request(&mut self) {
        self.resume.scan_budget = SCAN_ENTRIES_PER_REQUEST;
    }

    /// Returns the number of entries in other subscribers' feeds that this request may still
    /// examine.
    pub fn scan_budget_left(&self) -> usize {
        self.resume.scan_budget
    }

    /// Counts deliveries as received only once they are confirmed with [`Consumer::confirm`].
    #[must_use]
    pub fn confirmed_by_peer(mut self) -> Self {
        self.in_flight = InFlight::confirmed_by_peer();
        self
    }

    /// Limits the bytes queued in its `all` and `first:n` subscriptions together to about `max`.
    /// Each update costs the bytes of its value plus 64. A subscription that needs more counts as
    /// full, as at its own bound. Call before the first subscription.
    #[must_use]
    pub fn queue_bytes_max(self, max: usize) -> Self {
        self.outbox.budget.limit(max);
        self
    }

    /// Lets its `all` subscriptions share feeds with those of other consumers that have the same
    /// variables. An update is then stored once for all of them, and encoded once if the sink
    /// encodes. Bounds, credit, losses and ends remain separate for each subscription. A shared
    /// feed has at most 4,096 variables, none of them an alias or a field, and no `only_changes`.
    #[must_use]
    pub fn sharing_feeds(mut self) -> Self {
        self.shares_feeds = true;
        self
    }

    /// Returns the engine that hosts the variables, without its features.
    pub fn engine(&self) -> &EngineCore {
        &self.home.core
    }

    pub fn has_subscription(&self, subscription: u32) -> bool {
        self.subscriptions.contains_key(&subscription)
    }

    /// Returns true if the subscription requests only updates that differ from the previous one, or
    /// `None` if there is no such subscription.
    pub fn only_changes(&self, subscription: u32) -> Option<bool> {
        Some(self.subscriptions.get(&subscription)?.only_changes)
    }

    pub fn item_count(&self) -> usize {
        self.items.variable_count()
    }

    pub fn drop_field(&mut self, handle: u32) {
        if let Some(field) = self.fields.remove(&handle) {
            self.home.core.release(&field);
        }
    }

    /// Allows `more` additional deliveries of an `all` subscription, including first readings.
    /// Counting begins with the first grant; from then on, only granted deliveries are made.
    pub fn grant(&mut self, subscription: u32, more: u64) {
        let Some(entry) = self.subscriptions.get_mut(&subscription) else {
            return;
        };
        entry.credit = Some(entry.credit.unwrap_or(0).saturating_add(more));
        if let Some(membership) = &entry.feed {
            self.outbox.marks.mark(membership.mark);
        }
    }

    /// Confirms the `records` oldest unconfirmed deliveries. Returns false if the peer confirms
    /// more than were sent.
    pub fn confirm(&mut self, records: u64) -> bool {
        let before = self.in_flight.len();
        let is_valid = self.in_flight.confirm(records, &mut self.items);
        if let Some(sent) = &mut self.resume.unacked {
            sent.confirm(before - self.in_flight.len(), &mut Wakes::new());
        }
        is_valid
    }

    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Returns the destination for the outcome of write `id`, needed if its provider has to be
    /// asked.
    pub fn completion(&self, id: u64) -> Completion {
        Completion {
            outbox: Arc::clone(&self.outbox),
            id,
            named: None,
        }
    }

    /// Returns the next outcome delivered by a provider, with the id of its write.
    pub fn take_completion(&mut self) -> Option<(u64, WriteOutcome)> {
        self.outbox.take_completion()
    }

    pub fn take_report(&mut self) -> Option<(u32, OrderResult)> {
        self.outbox.take_report()
    }

    /// Takes the next order for a provider that uses this consumer.
    pub fn take_provider_order(&mut self) -> Option<ProviderOrder> {
        self.outbox.orders.lock().pop_front()
    }

    /// From now on, wakes the consumer when names appear or disappear.
    /// [`take_names_changed`](Self::take_names_changed) then returns true.
    pub fn watch_names(&self) {
        self.engine().variables.watch(&self.outbox);
    }

    /// Returns true if names appeared or disappeared since the last call.
    pub fn take_names_changed(&self) -> bool {
        self.outbox.take_names_changed()
    }

    /// Returns true if nothing is pending: no mark, no outcome and no late sample. After a
    /// subscription was closed, it may return false until the next drain.
    pub fn is_idle(&self) -> bool {
        self.outbox.marks.is_empty() && !self.outbox.has_answers() && !self.has_late()
    }

    /// Like [`is_idle`](Self::is_idle), for a consumer drained by several threads: if nothing is
    /// pending, the next mark wakes it, even if it was woken for marks that another thread has
    /// taken.
    pub fn rearm_if_idle(&self) -> bool {
        if !self.is_idle() {
            return false;
        }
        self.outbox.begin_drain();
        // A mark made before that call is found below; a later mark wakes the consumer.
        self.is_idle()
    }

    /// From now on, takes the samples of this variable that are too late to become its value. At
    /// most 65,536 samples with 16 MiB of values wait; a sample that does not fit is refused. Only
    /// one consumer takes the late samples of a variable: the last one to request them. Late
    /// samples wake the consumer like updates.
    pub fn keep_late(&mut self, variable: &Variable) {
        let late = self
            .late
            .get_or_insert_with(|| Arc::new(LateSamples::of(&self.outbox)));
        variable.lock().set_late(late);
    }

    /// Takes the oldest waiting late sample, with the handle of its variable. Its sequence is above
    /// [`LATE_SEQUENCES`](trunkline_types::history::LATE_SEQUENCES), and is unique within the
    /// epoch.
    pub fn take_late(&mut self) -> Option<(u32, Update)> {
        self.late.as_ref()?.take()
    }

    /// Returns true if late samples are waiting.
    pub fn has_late(&self) -> bool {
        self.late.as_ref().is_some_and(|late| !late.is_empty())
    }

    /// Refuses late samples from now on. Waiting samples can still be taken.
    pub fn close_late(&mut self) {
        if let Some(late) = &self.late {
            late.close();
        }
    }

    /// Registers for a wake-up when there is room again in the audit trail, or in an `all` feed
    /// that blocks writes to `variable`. Returns false if there is room already; then retry at
    /// once.
    pub fn wait_for_room(&self, variable: &Variable) -> bool {
        let mut parked = false;
        let state = variable.lock();
        for subscriber in state.subscribers().into_iter().flat_map(|all| all.feeds()) {
            parked |= subscriber.feed.park(&self.outbox);
        }
        drop(state);
        self.wait_for_audit() || parked
    }

    /// Registers for a wake-up when the audit trail has room again. Returns false if there may be
    /// room already; then retry at once.
    pub fn wait_for_audit(&self) -> bool {
        self.engine().park(&self.outbox)
    }

    /// Removes expired state of earlier sessions, and performs the tasks due for `sampled`
    /// subscriptions, at most [`SLICE`] items per call. Returns the time of the next call. A
    /// subscription's periods begin with the first call after it was made.
    pub fn poll(&mut self, now: Tick) -> Option<Tick> {
        let mut next = (self.resume).release_expired(now, &self.home, &mut Wakes::new());
        let mut budget = SLICE;
        let mut first_next_time = None;
        for (place, id) in self.sampled.iter().enumerate() {
            let Some(subscription) = self.subscriptions.get_mut(id) else {
                continue;
            };
            let had_budget = budget > 0;
            let due =
                subscription.poll(now, &mut budget, &self.variables, &self.items, &self.outbox);
            if had_budget && budget == 0 {
                // Other subscriptions are served before this one continues.
                first_next_time = Some(place + 1);
            }
            let due = due.max(now);
            next = Some(next.map_or(due, |known| known.min(due)));
        }
        if let Some(first) = first_next_time {
            let count = self.sampled.len();
            self.sampled.rotate_left(first % count);
        }
        next
    }
}

impl Subscription {
    /// If due, marks the items that have changed since the last call, within `budget`. Returns the
    /// time of the next call.
    fn poll(
        &mut self,
        now: Tick,
        budget: &mut usize,
        variables: &ItemVariables,
        items: &Items,
        outbox: &Outbox,
    ) -> Tick {
        let Contract::Sampled(period) = self.contract else {
            return Tick::MAX;
        };
        let due = *self.next_due.get_or_insert(now.saturating_add(period));
        if due > now || *budget == 0 {
            return due;
        }
        let mut slice = self.items.from(self.sweep);
        for index in slice.by_ref().take(*budget) {
            *budget -= 1;
            let has_news = |item: &VariableItem| {
                let variable = variables.get(index);
                variable.is_some_and(|one| one.highest_sequence() != item.last())
            };
            if items.get(index).is_some_and(has_news) {
                outbox.marks.mark(index);
            }
        }
        if let Some(next) = slice.next() {
            self.sweep = next;
            return due;
        }
        drop(slice);
        self.sweep = 0;
        // The next time is a multiple of the subscription's own period. Missed periods are skipped.
        let next = due.saturating_add(period);
        let next = if next > now {
            next
        } else {
            now.saturating_add(period)
        };
        self.next_due = Some(next);
        next
    }

    /// Returns the room left for updates from before a re-created subscription: twice its bound,
    /// for all its variables together. At most that many updates were in flight and queued, and the
    /// subscriber has room for them. With more, the subscription would end with `overrun`, be
    /// re-created and get the same updates again, endlessly.
    fn room_for_past(&self) -> QueueSize {
        let (Contract::All { elements, bytes }, Some(membership)) = (self.contract, &self.feed)
        else {
            return QueueSize::default();
        };
        QueueSize {
            updates: (elements as usize)
                .saturating_mul(2)
                .saturating_sub(membership.past.updates),
            bytes: (bytes as usize)
                .saturating_mul(2)
                .saturating_sub(membership.past.bytes),
        }
    }

    /// Returns the items of a subscription that ended with `overrun`, each with the exact number of
    /// updates that it misses.
    fn overrun_items(&self, items: &Items, variables: &ItemVariables) -> Vec<EndedItem> {
        let Some(membership) = &self.feed else {
            return Vec::new();
        };
        let is_alone = !membership.feed.shut();
        let mut ended = Vec::with_capacity(self.items.len());
        for index in self.items.iter() {
            let Some(item) = items.get(index) else {
                continue;
            };
            let Some(variable) = variables.get(index) else {
                continue;
            };
            let mut state = variable.lock();
            let subscriber = match is_alone {
                true => state
                    .subscribers_mut()
                    .and_then(|i| i.remove_feed(&membership.feed)),
                // The other members continue. A shared feed filters nothing out.
                false => None,
            };
            let filtered = subscriber.map_or(0, |subscriber| subscriber.filtered);
            let held_back = filtered.saturating_sub(items.filtered(index));
            let behind = variable.sequence().saturating_sub(item.last());
            ended.push(EndedItem {
                handle: variable.handle(),
                last_sequence: item.last(),
                lost: behind.saturating_sub(held_back),
            });
        }
        ended
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        let mut wakes = Wakes::new();
        let mut leftovers = std::mem::take(&mut self.leftovers);
        for subscription in std::mem::take(&mut self.subscriptions).into_values() {
            let items = subscription.items;
            leftovers.push(match subscription.feed {
                Some(membership) => Leftover::of_feed(items, membership, &mut wakes),
                None => Leftover {
                    items,
                    reference: RemainingReference::Own,
                },
            });
        }
        self.resume
            .release_expired(Tick::MAX, &self.home, &mut wakes);
        self.outbox.end();
        let mut departing = Teardown {
            outbox: Arc::clone(&self.outbox),
            variables: std::mem::take(&mut self.variables),
            subscriptions: leftovers,
            fields: std::mem::take(&mut self.fields).into_values().collect(),
        };
        if !departing.give_up_some(&self.home, &mut { SLICE }, &mut wakes) {
            self.home.absences.depart(departing);
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
