//! The readers' side: one consumer holds any number of subscriptions and takes their pending
//! updates.
//!
//! Each network session and each in-process subscriber has one consumer. All see the same
//! deliveries, in the same order, with the same counts.
//!
//! # Layout
//! - `item`: the items and their side of the ledger; `bound`: their variables.
//! - `sink`: delivery to a subscriber.
//! - `subscribe`: adds and removes items; `indices`: the items of a subscription.
//! - `drain`: from marks to deliveries, `feeding` for `all`; `membership`: a subscription's part in
//!   a feed; `sharing`: feeds shared by several subscriptions; `in_flight`: unconfirmed deliveries.
//! - `absence`: state left to the next session when one breaks. `leaving`: leaves it; `kept`:
//!   updates kept outside the feeds; `reaching`: hands them to the next session. `departing`: the
//!   rest of an ended consumer.
//! - `sent`: sent and unconfirmed updates; `charge`: the bytes of everything kept.
//! - `ledger`: counts all updates; `sweep`: compares deliveries with current values.

mod absence;
mod bound;
mod charge;
mod departing;
mod drain;
mod feeding;
mod in_flight;
mod indices;
mod item;
mod kept;
mod leaving;
mod ledger;
mod membership;
mod reaching;
mod sent;
mod sharing;
mod sink;
mod subscribe;
mod sweep;

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use trunkline_ring::Cursor;
use trunkline_types::{Contract, Tick};

pub(crate) use self::absence::Absences;
pub use self::absence::Absent;
use self::bound::Bound;
use self::charge::Charge;
use self::departing::{Departing, LeftInterest, Leftover};
use self::in_flight::InFlight;
use self::indices::Indices;
use self::item::{Items, VariableItem};
use self::membership::Membership;
use self::sent::Sent;
pub use self::sink::{Delivery, Sink, Subscribe};
pub(crate) use self::subscribe::forget;
pub use self::sweep::Looked;
use crate::delivery::outbox::{Outbox, Wake, Wakes};
use crate::engine::{Engine, SLICE};
use crate::features::fields::FIELDS_MAX;
use crate::host::orders::Reply;
use crate::outcome::orders::OrderResult;
use crate::outcome::{AccessError, WriteOutcome};
use crate::sync::Arc;
use crate::update::Update;
use crate::variable::Variable;
use crate::write::Completion;

/// Maximum number of items of one consumer.
pub const ITEMS_MAX: usize = 2_000_000;

/// The subscriptions of one session or program, and their pending updates.
///
/// [`Consumer::drain`] takes the pending updates. Call it when the consumer is woken. Also call it
/// after everything that may create pending updates without a wake-up: [`Consumer::subscribe`],
/// [`Consumer::grant`], [`Consumer::poll`], and a drain that reported that more is left.
pub struct Consumer {
    engine: Engine,
    pub(crate) outbox: Arc<Outbox>,
    items: Items,
    bound: Bound,
    subscriptions: BTreeMap<u32, Subscription>,
    /// Numbers of its `sampled` subscriptions, in the order of their turns.
    sampled: Vec<u32>,
    cursor: Cursor,
    in_flight: InFlight,
    /// Reused between drains to avoid allocations.
    taken: Vec<u32>,
    updates: Vec<Update>,
    /// True if its `all` subscriptions may share feeds with those of other consumers.
    shares_feeds: bool,
    /// Sent updates that the peer may ask for again; `None` if it never does.
    sent: Option<Sent>,
    /// Remains of the sessions before this one.
    followed: Vec<Absent>,
    /// Charge of queued updates from before its subscriptions were made.
    past: Charge,
    /// Fields opened by its peer, by handle. A field is closed when no user is left.
    fields: HashMap<u32, Arc<Variable>>,
    /// Entries of other subscribers' feeds that this request may still examine.
    looks: usize,
    /// Items of subscriptions that it has left to the next session.
    leftovers: Vec<Leftover>,
}

struct Subscription {
    contract: Contract,
    only_changes: bool,
    items: Indices,
    /// Set for an `all` subscription.
    feed: Option<Membership>,
    /// Deliveries that the subscriber still accepts (`all` over a network); `None` if only the feed
    /// limits them.
    credit: Option<u64>,
    /// Time of the next look of a `sampled` subscription; `None` until the first poll.
    next_due: Option<Tick>,
    /// Index at which the period's look at the items continues in the next slice.
    sweep: u32,
}

impl Consumer {
    /// Creates a consumer without subscriptions. `wake` is called when it has something pending.
    pub fn new(engine: Engine, wake: Box<dyn Wake>) -> Self {
        let outbox = Outbox::new(wake, false, engine.memory());
        Self::with_outbox(engine, outbox)
    }

    /// Creates a consumer for one of the engine's own services, such as the one that retains
    /// values. It is not counted among the subscribers of a variable.
    pub fn service(engine: Engine, wake: Box<dyn Wake>) -> Self {
        Self::with_outbox(engine, Outbox::new(wake, true, None))
    }

    fn with_outbox(engine: Engine, outbox: Outbox) -> Self {
        Self {
            engine,
            outbox: Arc::new(outbox),
            items: Items::default(),
            bound: Bound::default(),
            subscriptions: BTreeMap::new(),
            sampled: Vec::new(),
            cursor: Cursor::default(),
            in_flight: InFlight::default(),
            taken: Vec::new(),
            updates: Vec::new(),
            shares_feeds: false,
            sent: None,
            followed: Vec::new(),
            past: Charge::default(),
            fields: HashMap::new(),
            looks: reaching::LOOKS_PER_REQUEST,
            leftovers: Vec::new(),
        }
    }

    /// Counts deliveries as received only after they are confirmed with [`Consumer::confirm`].
    #[must_use]
    pub fn confirmed_by_peer(mut self) -> Self {
        self.in_flight = InFlight::confirmed_by_peer();
        self
    }

    /// Limits the bytes queued in its `all` and `first:n` subscriptions together to about `max`,
    /// counting the values and 64 bytes per update. A subscription that needs more is full, as at
    /// its own bound. Call before the first subscription.
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

    /// The engine that hosts the variables.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns true if this subscription number is in use.
    pub fn has_subscription(&self, subscription: u32) -> bool {
        self.subscriptions.contains_key(&subscription)
    }

    /// Returns true if the subscription asks only for updates that differ from the previous one,
    /// and `None` if there is no such subscription.
    pub fn only_changes(&self, subscription: u32) -> Option<bool> {
        Some(self.subscriptions.get(&subscription)?.only_changes)
    }

    /// Number of subscribed items.
    pub fn item_count(&self) -> usize {
        self.items.variable_count()
    }

    /// Keeps `variable` open if it is a field, until [`drop_field`](Self::drop_field) or the end of
    /// this consumer. Returns any other variable unchanged.
    ///
    /// # Errors
    /// [`AccessError::Limit`] if it has more fields open than are left for all others.
    pub fn keep_field(&mut self, variable: Arc<Variable>) -> Result<Arc<Variable>, AccessError> {
        if !variable.name().contains('#') || self.fields.contains_key(&variable.handle()) {
            return Ok(variable);
        }
        let left = u64::from(FIELDS_MAX).saturating_sub(self.engine.open_fields());
        if self.fields.len() as u64 > left {
            self.engine.release_field(variable);
            return Err(AccessError::Limit {
                what: "the number of fields that one session may have open while others need some",
                max: self.fields.len() as u64,
                hint: "close fields, or subscribe the variables; their readings carry quality and \
                       times",
            });
        }
        let handle = variable.handle();
        self.fields.insert(handle, Arc::clone(&variable));
        Ok(variable)
    }

    /// Closes a field that the peer does not need any more.
    pub fn drop_field(&mut self, handle: u32) {
        if let Some(field) = self.fields.remove(&handle) {
            self.engine.release_field(field);
        }
    }

    /// Allows `more` further deliveries of an `all` subscription, including first readings. The
    /// first grant starts the counting; from then on at most the granted number is delivered.
    pub fn grant(&mut self, subscription: u32, more: u64) {
        let Some(entry) = self.subscriptions.get_mut(&subscription) else {
            return;
        };
        entry.credit = Some(entry.credit.unwrap_or(0).saturating_add(more));
        if let Some(membership) = &entry.feed {
            self.outbox.marks.mark(membership.mark);
        }
    }

    /// Confirms the `records` oldest unconfirmed deliveries. Returns false if the peer claims more
    /// than were sent.
    pub fn confirm(&mut self, records: u64) -> bool {
        let before = self.in_flight.len();
        let is_right = self.in_flight.confirm(records, &mut self.items);
        if let Some(sent) = &mut self.sent {
            sent.confirm(before - self.in_flight.len(), &mut Wakes::new());
        }
        is_right
    }

    /// Number of deliveries that the peer has not confirmed.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Returns the destination for the outcome of write `id`, in case its provider has to be asked.
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

    /// Returns the destination for the result of order `id`.
    pub fn reply(&self, id: u32) -> Reply {
        Reply::new(Arc::clone(&self.outbox), id)
    }

    /// Returns the next finished order, with its id.
    pub fn take_report(&mut self) -> Option<(u32, OrderResult)> {
        self.outbox.take_report()
    }

    /// Returns true if nothing is pending: no mark and no outcome. After a subscription was closed
    /// it may return false until the next drain.
    pub fn is_idle(&self) -> bool {
        self.outbox.marks.is_empty() && !self.outbox.has_answers()
    }

    /// Registers for a wake-up when the audit has room again, or an `all` feed that blocks writes
    /// to `variable`. Returns false if there is room already; try again at once.
    pub fn wait_for_room(&self, variable: &Variable) -> bool {
        let mut parked = false;
        let state = variable.lock();
        for interest in state.interests().into_iter().flat_map(|all| all.feeds()) {
            parked |= interest.feed.park(&self.outbox);
        }
        drop(state);
        self.wait_for_audit() || parked
    }

    /// Registers for a wake-up when the audit has room again. Returns false if there may be room
    /// already; try again at once.
    pub fn wait_for_audit(&self) -> bool {
        self.engine.park_for_audit(&self.outbox)
    }

    /// Gives up expired remains of earlier sessions, and does the work due for `sampled`
    /// subscriptions, at most [`SLICE`] items per call. Returns the time of the next call. A
    /// subscription's periods are counted from the first call after it was made.
    pub fn poll(&mut self, now: Tick) -> Option<Tick> {
        let mut next: Option<Tick> = None;
        if !self.followed.is_empty() {
            next = self.release_followed(now, &mut Wakes::new());
        }
        let mut budget = SLICE;
        let mut first_next_time = None;
        for (place, id) in self.sampled.iter().enumerate() {
            let Some(subscription) = self.subscriptions.get_mut(id) else {
                continue;
            };
            let had_budget = budget > 0;
            let due = subscription.look(now, &mut budget, &self.bound, &self.items, &self.outbox);
            if had_budget && budget == 0 {
                // The others get their turn before this one continues.
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
    /// If due, marks the items that changed since the last look, as far as `budget` allows. Returns
    /// the time of the next look.
    fn look(
        &mut self,
        now: Tick,
        budget: &mut usize,
        bound: &Bound,
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
                let variable = bound.get(index);
                variable.is_some_and(|one| one.sequence() != item.last())
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
        // The next time is on the subscription's own grid. Missed periods are skipped.
        let next = due.saturating_add(period);
        let next = if next > now {
            next
        } else {
            now.saturating_add(period)
        };
        self.next_due = Some(next);
        next
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
                    interest: LeftInterest::Own,
                },
            });
        }
        self.release_followed(Tick::MAX, &mut wakes);
        self.outbox.end();
        let mut departing = Departing {
            outbox: Arc::clone(&self.outbox),
            bound: std::mem::take(&mut self.bound),
            subscriptions: leftovers,
            fields: std::mem::take(&mut self.fields).into_values().collect(),
        };
        if !departing.give_up_some(&self.engine, &mut { SLICE }, &mut wakes) {
            self.engine.absences().depart(departing);
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
