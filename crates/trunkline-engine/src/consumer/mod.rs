//! The readers' side: one consumer holds any number of subscriptions and takes what waits for them.
//!
//! A network session has one, and so has every in-process subscriber; both see the same deliveries,
//! in the same order, with the same counts.
//!
//! # Layout
//! - `item`: the items and their side of the ledger; `bound`: their variables.
//! - `sink`: what a subscriber gets.
//! - `subscribe`: items come and go; `indices`: which are a subscription's.
//! - `drain`: from marks to deliveries, `feeding` for `all`; `membership`: a
//!   subscription's part in a feed; `sharing`: who has a feed in common;
//!   `in_flight`: what the peer has not confirmed.
//! - `absence`: what is left to the next session when this one breaks. `leaving`: how; `kept`: what
//!   lies outside the feeds; `reaching`: what the next one is given. `departing`: what is left of
//!   one that has ended.
//! - `sent`: what was sent and is not confirmed; `charge`: the bytes of all that.
//! - `ledger`: what became of all; `sweep`: whether what was delivered is what there is; `provide`:
//!   a provider behind a consumer.

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
mod provide;
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
pub use self::provide::ProviderOrder;
use self::sent::Sent;
pub use self::sink::{Delivery, EndedItem, Sink, SubscribeOptions};
pub(crate) use self::subscribe::forget;
pub use self::sweep::Looked;
use crate::engine::{Engine, SLICE};
use crate::field::FIELDS_MAX;
use crate::order::{OrderResult, Reply};
use crate::outbox::{Outbox, Wake, Wakes};
use crate::outcome::{AccessError, WriteOutcome};
use crate::sync::Arc;
use crate::update::Update;
use crate::variable::Variable;
use crate::write::Completion;

/// Items one consumer may have.
pub const ITEMS_MAX: usize = 2_000_000;

/// The subscriptions of one session or program, and what waits for them.
///
/// [`Consumer::drain`] takes what waits. It is to be called when the consumer is woken, and again
/// after every call that may make something wait without waking anybody: [`Consumer::subscribe`],
/// [`Consumer::grant`], [`Consumer::poll`], and a drain that said that more is left.
pub struct Consumer {
    engine: Engine,
    pub(crate) outbox: Arc<Outbox>,
    items: Items,
    bound: Bound,
    subscriptions: BTreeMap<u32, Subscription>,
    /// The `sampled` ones among them, in the order in which they are looked at.
    sampled: Vec<u32>,
    cursor: Cursor,
    in_flight: InFlight,
    /// Kept between drains for their memory.
    taken: Vec<u32>,
    updates: Vec<Update>,
    /// Its `all` subscriptions may have their feeds in common with others'.
    shares_feeds: bool,
    /// What the peer may ask for again; `None`: it never does.
    sent: Option<Sent>,
    /// What sessions before this one have left.
    followed: Vec<Absent>,
    /// What waits from before its subscriptions were made.
    past: Charge,
    /// The fields that its peer has opened, by handle: each is closed when nobody has it any more.
    fields: HashMap<u32, Arc<Variable>>,
    /// Entries of others' feeds that this request may still look through.
    looks: usize,
    /// Items of subscriptions that it has left to the next session.
    leftovers: Vec<Leftover>,
}

struct Subscription {
    contract: Contract,
    options: SubscribeOptions,
    items: Indices,
    /// Of `all`.
    feed: Option<Membership>,
    /// Deliveries the subscriber has room for (`all` over a network); `None`: only the feed bounds
    /// it.
    credit: Option<u64>,
    /// When `sampled` looks again; `None` until time is first known.
    next_due: Option<Tick>,
    /// The index at which the period's look at the items goes on, in slices.
    sweep: u32,
}

impl Consumer {
    /// A consumer without subscriptions. `wake` is called when something begins to wait.
    pub fn new(engine: Engine, wake: Box<dyn Wake>) -> Self {
        let outbox = Outbox::new(wake, false, engine.memory());
        Self::with_outbox(engine, outbox)
    }

    /// A consumer of the engine's own, such as what keeps values: it does not count among the
    /// subscribers of a variable.
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

    /// From now on deliveries count as received only when [`Consumer::confirm`] says so.
    #[must_use]
    pub fn confirmed_by_peer(mut self) -> Self {
        self.in_flight = InFlight::confirmed_by_peer();
        self
    }

    /// From now on at most about `max` bytes wait in its `all` and `first:n` subscriptions
    /// together: values, and 64 bytes for each update. A subscription that would need more is full,
    /// as at its own bound. To be set before the first subscription.
    #[must_use]
    pub fn queue_bytes_max(self, max: usize) -> Self {
        self.outbox.budget.limit(max);
        self
    }

    /// From now on its `all` subscriptions share their feeds with those that other consumers have
    /// of the same variables: an update is put down once for all of them, and what the sink encodes
    /// is encoded once. Bounds, credit, losses and ends stay each subscription's own. At most 4,096
    /// variables, none of them an alias or a field; without `only_changes`.
    #[must_use]
    pub fn sharing_feeds(mut self) -> Self {
        self.shares_feeds = true;
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

    /// The options of a subscription.
    pub fn options(&self, subscription: u32) -> Option<SubscribeOptions> {
        Some(self.subscriptions.get(&subscription)?.options)
    }

    /// Number of items subscribed.
    pub fn item_count(&self) -> usize {
        self.items.variable_count()
    }

    /// Where `variable` is a field, it stays open until [`drop_field`](Self::drop_field), or until
    /// this consumer ends.
    ///
    /// # Errors
    /// [`AccessError::Limit`]: it has as many fields open as are left for all others.
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

    /// The peer has no use for a field any more.
    pub fn drop_field(&mut self, handle: u32) {
        if let Some(field) = self.fields.remove(&handle) {
            self.engine.release_field(field);
        }
    }

    /// Room for `more` further deliveries of an `all` subscription, first readings included: with
    /// the first grant it begins to count, and never hands over more than was granted.
    pub fn grant(&mut self, subscription: u32, more: u64) {
        let Some(entry) = self.subscriptions.get_mut(&subscription) else {
            return;
        };
        entry.credit = Some(entry.credit.unwrap_or(0).saturating_add(more));
        if let Some(membership) = &entry.feed {
            self.outbox.marks.mark(membership.mark);
        }
    }

    /// The peer has received the `records` oldest unconfirmed deliveries. Returns false when it
    /// claims more than were sent.
    pub fn confirm(&mut self, records: u64) -> bool {
        let before = self.in_flight.len();
        let is_right = self.in_flight.confirm(records, &mut self.items);
        if let Some(sent) = &mut self.sent {
            sent.confirm(before - self.in_flight.len(), &mut Wakes::new());
        }
        is_right
    }

    /// Deliveries the peer has not confirmed.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Where a write's outcome is to go if its provider has to be asked.
    pub fn completion(&self, id: u64) -> Completion {
        Completion {
            outbox: Arc::clone(&self.outbox),
            id,
            alias: None,
        }
    }

    /// The next outcome that a provider delivered, with its write's id.
    pub fn take_completion(&mut self) -> Option<(u64, WriteOutcome)> {
        self.outbox.take_completion()
    }

    /// Where the end of the order `id` is to be told.
    pub fn reply(&self, id: u32) -> Reply {
        Reply::new(Arc::clone(&self.outbox), id)
    }

    /// The next order that has ended, with its id.
    pub fn take_report(&mut self) -> Option<(u32, OrderResult)> {
        self.outbox.take_report()
    }

    /// Whether nothing waits: no mark, no outcome. After a subscription was closed it may say that
    /// something does until the next drain.
    pub fn is_idle(&self) -> bool {
        self.outbox.marks.is_empty() && !self.outbox.has_answers()
    }

    /// Asks to be woken when the audit has room again, or an `all` feed that blocks writes to
    /// `variable`. False when there is room already: try again at once.
    pub fn wait_for_room(&self, variable: &Variable) -> bool {
        let mut parked = false;
        let state = variable.lock();
        for interest in state.interests().into_iter().flat_map(|all| all.feeds()) {
            parked |= interest.feed.park(&self.outbox);
        }
        drop(state);
        self.wait_for_audit() || parked
    }

    /// Asks to be woken when the audit has room again. False when it may have: try again at once.
    pub fn wait_for_audit(&self) -> bool {
        self.engine.park_for_audit(&self.outbox)
    }

    /// Gives up what sessions before this one have left, when its time is over, and does what is
    /// due for `sampled` subscriptions, at most [`SLICE`] items per call; returns when
    /// to come again. A subscription's periods are counted from the first call that knows of it.
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
                // The others get their turn before this one goes on.
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
    /// Marks what has changed since the last look, as far as `budget` goes, when it is time to;
    /// returns when it is next.
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
        // On its own grid; periods that passed meanwhile are not made up for.
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
