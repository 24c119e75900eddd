//! The subscriptions of one variable, and what a commit does for each of them.

use std::time::Duration;

use trunkline_types::Tick;

use crate::delivery::feed::{Feed, QueueSize, Reserve, Stall};
use crate::delivery::group_room::GroupRooms;
use crate::delivery::outbox::{Outbox, Wakes};
use crate::delivery::rings::{FirstQueue, Ring, Rings};
use crate::fifo::ReaderFifo;
use crate::sync::Arc;
use crate::update::Update;

/// A subscription of one variable, as seen by a commit.
#[derive(Debug)]
pub(crate) struct Subscriber {
    pub(crate) outbox: Arc<Outbox>,
    /// The item to mark in the outbox.
    pub(crate) item: u32,
    /// Delivers only updates whose value or quality differs from the previous one (catch-all off).
    pub(crate) only_changes: bool,
    pub(crate) filtered: u64,
    pub(crate) kind: Kind,
}

/// The part of the subscription's contract that determines what a commit does.
#[derive(Debug)]
pub(crate) enum Kind {
    /// `latest`: commits only mark the item; the value is read when it is sent.
    Mark,
    /// `sampled`: commits do not mark the item. The consumer reads its value once per period.
    Sampled,
    /// `last:n`: the variable's ring stores the updates.
    Last(u32),
    /// `first:n`: the subscription has its own queue of updates.
    First(Box<FirstQueue>),
    /// A real-time reader with its own FIFO (NV-03).
    Fifo(Arc<ReaderFifo>),
}

/// A variable's entry in a feed, through which `all` subscriptions receive its updates.
#[derive(Debug)]
pub(crate) struct FeedSubscriber {
    pub(crate) feed: Arc<Feed>,
    pub(crate) place: u32,
    /// Delivers only updates whose value or quality differs from the previous one (catch-all off).
    pub(crate) only_changes: bool,
    /// Reservation of the current write in the feed; `None` if it has none.
    reserved: Option<u32>,
    /// True if the feed has no room for the current write.
    blocked: bool,
    pub(crate) filtered: u64,
    /// Number of updates written after every subscription of the feed had ended.
    pub(crate) missed: u64,
}

impl FeedSubscriber {
    pub(crate) fn new(feed: Arc<Feed>, place: u32, only_changes: bool) -> Self {
        Self {
            feed,
            place,
            only_changes,
            reserved: None,
            blocked: false,
            filtered: 0,
            missed: 0,
        }
    }
}

/// The subscriptions of one variable that need more than a mark per update.
#[derive(Debug, Default)]
pub(crate) struct Subscribers {
    list: Vec<Subscriber>,
    feeds: Vec<FeedSubscriber>,
    /// Number of subscriptions, including feeds, that deliver only changes.
    filters: u32,
    rings: Option<Box<Rings>>,
}

impl Subscribers {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty() && self.feeds.is_empty()
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Subscriber> {
        self.list.iter()
    }

    /// Returns true if a subscription needs to know whether an update differs from the previous
    /// one.
    pub(crate) fn wants_changes(&self) -> bool {
        self.filters > 0
    }

    pub(crate) fn add(&mut self, subscriber: Subscriber) {
        self.filters += u32::from(subscriber.only_changes);
        let is_last = matches!(subscriber.kind, Kind::Last(_));
        let only_changes = subscriber.only_changes;
        if self.list.len() < EXACT_GROWTH_MAX {
            // Most variables have one or two subscribers; doubling the capacity for them would
            // waste memory.
            self.list.reserve_exact(1);
        }
        self.list.push(subscriber);
        if is_last {
            self.resize_ring(only_changes);
        }
    }

    /// Removes a subscription, and frees memory that no other subscription needs.
    pub(crate) fn remove(&mut self, outbox: &Arc<Outbox>, item: u32) -> Option<Subscriber> {
        let place = self
            .list
            .iter()
            .position(|subscriber| subscriber.is(outbox, item))?;
        let subscriber = self.list.remove(place);
        if self.list.is_empty() {
            self.list = Vec::new();
        }
        self.filters -= u32::from(subscriber.only_changes);
        if matches!(subscriber.kind, Kind::Last(_)) {
            self.resize_ring(subscriber.only_changes);
        }
        Some(subscriber)
    }

    pub(crate) fn find(&self, outbox: &Arc<Outbox>, item: u32) -> Option<&Subscriber> {
        self.list
            .iter()
            .find(|subscriber| subscriber.is(outbox, item))
    }

    pub(crate) fn find_mut(&mut self, outbox: &Arc<Outbox>, item: u32) -> Option<&mut Subscriber> {
        self.list
            .iter_mut()
            .find(|subscriber| subscriber.is(outbox, item))
    }

    pub(crate) fn feeds(&self) -> std::slice::Iter<'_, FeedSubscriber> {
        self.feeds.iter()
    }

    pub(crate) fn add_feed(&mut self, subscriber: FeedSubscriber) {
        self.filters += u32::from(subscriber.only_changes);
        if self.feeds.len() < EXACT_GROWTH_MAX {
            self.feeds.reserve_exact(1);
        }
        self.feeds.push(subscriber);
    }

    pub(crate) fn remove_feed(&mut self, feed: &Arc<Feed>) -> Option<FeedSubscriber> {
        let is_same = |subscriber: &FeedSubscriber| Arc::ptr_eq(&subscriber.feed, feed);
        let place = self.feeds.iter().position(is_same)?;
        let subscriber = self.feeds.remove(place);
        if self.feeds.is_empty() {
            self.feeds = Vec::new();
        }
        self.filters -= u32::from(subscriber.only_changes);
        Some(subscriber)
    }

    pub(crate) fn find_feed(&self, feed: &Arc<Feed>) -> Option<&FeedSubscriber> {
        self.feeds
            .iter()
            .find(|subscriber| Arc::ptr_eq(&subscriber.feed, feed))
    }

    pub(crate) fn ring(&self, only_changes: bool) -> Option<&Ring> {
        self.rings.as_ref()?.of(only_changes)
    }

    fn resize_ring(&mut self, only_changes: bool) {
        let longest = self
            .list
            .iter()
            .filter(|subscriber| subscriber.only_changes == only_changes);
        let mut memory = None;
        let longest = longest.filter_map(|subscriber| match subscriber.kind {
            Kind::Last(n) => {
                memory = memory.or(subscriber.outbox.budget.engine());
                Some(n as usize)
            }
            Kind::Mark | Kind::Sampled | Kind::First(_) | Kind::Fifo(_) => None,
        });
        match longest.max() {
            Some(n) => {
                let rings = self.rings.get_or_insert_default();
                let ring = rings.of_mut(only_changes).get_or_insert_with(Ring::new);
                if let Some(memory) = memory {
                    ring.borrow_from(memory);
                }
                ring.resize(n);
            }
            None => {
                if let Some(rings) = &mut self.rings {
                    *rings.of_mut(only_changes) = None;
                    if rings.all.is_none() && rings.changes.is_none() {
                        self.rings = None;
                    }
                }
            }
        }
    }

    /// The last part of step 3: reserves room for one update of `bytes` bytes in every `all` feed
    /// or in none. If a feed is full, returns the time until which the write may wait for it.
    ///
    /// If the write may not wait, the full subscription ends here. It is marked, so that its
    /// consumer learns of the end at once.
    pub(crate) fn reserve_room(
        &mut self,
        changed: bool,
        bytes: usize,
        stall: Stall,
        wakes: &mut Wakes,
    ) -> Result<(), Tick> {
        if self.feeds.is_empty() {
            return Ok(());
        }
        let room = QueueSize::one(bytes);
        // Checks full feeds first. A write refused by one feed must not take room from the others
        // even for a moment, because their writers could then find them full.
        let several = self.feeds.len() > 1;
        let mut blocked = self.reserve_where(changed, room, stall, wakes, several);
        if blocked.is_none() && several {
            blocked = self.reserve_where(changed, room, stall, wakes, false);
        }
        let Some(until) = blocked else {
            return Ok(());
        };
        let mut released = Vec::new();
        for subscriber in &mut self.feeds {
            if let Some(reservation) = subscriber.reserved.take() {
                subscriber.feed.release(room, reservation, wakes);
                released.push((Arc::clone(&subscriber.feed), room));
            }
        }
        for subscriber in &mut self.feeds {
            if std::mem::take(&mut subscriber.blocked) {
                note_need(&subscriber.feed, room, &released);
            }
        }
        Err(until)
    }

    fn reserve_where(
        &mut self,
        changed: bool,
        room: QueueSize,
        stall: Stall,
        wakes: &mut Wakes,
        full_only: bool,
    ) -> Option<Tick> {
        let mut blocked: Option<Tick> = None;
        for subscriber in &mut self.feeds {
            if (subscriber.only_changes && !changed)
                || subscriber.reserved.is_some()
                || (full_only && subscriber.feed.has_room(room))
            {
                continue;
            }
            match subscriber.feed.reserve(room, stall, wakes) {
                Reserve::Reserved(reservation) => subscriber.reserved = Some(reservation),
                Reserve::Ended => {}
                Reserve::WouldBlock { until } => {
                    subscriber.blocked = true;
                    blocked = Some(blocked.map_or(until, |known| known.min(until)));
                    if !full_only {
                        break;
                    }
                }
            }
        }
        blocked
    }

    #[inline]
    pub(crate) fn has_one_feed(&self) -> bool {
        self.feeds.len() == 1
    }

    /// Returns true if there are no subscriptions except at most one feed without a filter.
    #[inline]
    pub(crate) fn has_at_most_one_feed(&self) -> bool {
        self.feeds.len() <= 1 && self.has_only_feeds()
    }

    /// Returns true if there are no subscriptions except `all` ones without filters.
    #[inline]
    pub(crate) fn has_only_feeds(&self) -> bool {
        self.filters == 0 && self.list.is_empty() && self.rings.is_none()
    }

    /// Performs the last part of step 3, and step 4, if there is [at most one
    /// feed](Self::has_at_most_one_feed). `publish` gives the update its sequence. If the feed lacks
    /// room, returns `None` without publishing.
    #[inline(always)] // Otherwise the update is copied on the stack, which costs each write 3 ns.
    pub(crate) fn commit_inline(
        &mut self,
        update: Update,
        wakes: &mut Wakes,
        publish: impl FnOnce() -> u64,
    ) -> Option<u64> {
        match self.feeds.first() {
            Some(subscriber) => {
                subscriber
                    .feed
                    .commit_inline(subscriber.place, update, wakes, publish)
            }
            None => Some(publish()),
        }
    }

    /// Performs the last part of step 3, and step 4, if there is [one feed](Self::has_one_feed).
    /// Locks the feed only once. `publish` gives the update its sequence.
    #[inline]
    pub(crate) fn commit_one(
        &mut self,
        update: &mut Update,
        changed: bool,
        stall: Stall,
        wakes: &mut Wakes,
        publish: impl FnOnce(&mut Update),
    ) -> Result<(), Tick> {
        let Some(subscriber) = self.feeds.first_mut() else {
            return Ok(());
        };
        if subscriber.only_changes && !changed {
            subscriber.filtered += 1;
            publish(update);
        } else {
            let place = subscriber.place;
            match subscriber
                .feed
                .commit_one(place, update, stall, wakes, publish)
            {
                Reserve::Reserved(_) => {}
                Reserve::Ended => subscriber.missed += 1,
                Reserve::WouldBlock { until } => return Err(until),
            }
        }
        self.announce_outside_feeds(update, changed, wakes);
        Ok(())
    }

    /// Adds the room that one update of a group needs in each `all` feed to `rooms`.
    pub(crate) fn ask_for_room(
        &self,
        changed: bool,
        bytes: usize,
        stall: Duration,
        handle: u32,
        rooms: &mut GroupRooms,
    ) {
        for subscriber in &self.feeds {
            if changed || !subscriber.only_changes {
                rooms.ask(&subscriber.feed, QueueSize::one(bytes), stall, handle);
            }
        }
    }

    pub(crate) fn announce(
        &mut self,
        update: &Update,
        changed: bool,
        mut group: Option<&mut GroupRooms>,
        wakes: &mut Wakes,
    ) {
        for subscriber in &mut self.feeds {
            if subscriber.only_changes && !changed {
                subscriber.filtered += 1;
                continue;
            }
            let is_in = match &mut group {
                Some(rooms) => rooms.put(&subscriber.feed, subscriber.place, update),
                None => subscriber.reserved.take().is_some_and(|reservation| {
                    let (feed, place) = (&subscriber.feed, subscriber.place);
                    feed.commit(place, update, reservation, wakes)
                }),
            };
            subscriber.missed += u64::from(!is_in);
        }
        self.announce_outside_feeds(update, changed, wakes);
    }

    fn announce_outside_feeds(&mut self, update: &Update, changed: bool, wakes: &mut Wakes) {
        if let Some(rings) = &mut self.rings {
            if let Some(ring) = &mut rings.all {
                ring.push(update.clone());
            }
            if changed && let Some(ring) = &mut rings.changes {
                ring.push(update.clone());
            }
        }
        for subscriber in &mut self.list {
            if subscriber.only_changes && !changed {
                subscriber.filtered += 1;
                continue;
            }
            let marked = match &mut subscriber.kind {
                Kind::Mark | Kind::Last(_) => Some(subscriber.item),
                Kind::Sampled => None,
                Kind::First(queue) => queue
                    .push(update, &subscriber.outbox.budget)
                    .then_some(subscriber.item),
                Kind::Fifo(fifo) => {
                    fifo.deliver(update);
                    None
                }
            };
            if let Some(mark) = marked {
                subscriber.outbox.mark(mark, wakes);
            }
        }
    }

    pub(crate) fn announce_gone(&self, wakes: &mut Wakes) {
        for subscriber in &self.feeds {
            subscriber.feed.push_gone(subscriber.place, wakes);
        }
        for subscriber in &self.list {
            match &subscriber.kind {
                // The reader polls, and will find nothing new.
                Kind::Fifo(_) => {}
                Kind::Mark | Kind::Sampled | Kind::Last(_) | Kind::First(_) => {
                    subscriber.outbox.mark(subscriber.item, wakes);
                }
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pressure {
    None,
    Full,
    Ended,
    Dropping,
}

impl Subscriber {
    /// Returns the state of the subscription's own buffer. The caller holds the variable's lock.
    pub(crate) fn pressure(&self) -> Pressure {
        match &self.kind {
            Kind::First(queue) if queue.unreported() > 0 => Pressure::Dropping,
            Kind::Mark | Kind::Sampled | Kind::Last(_) | Kind::First(_) | Kind::Fifo(_) => {
                Pressure::None
            }
        }
    }

    pub(crate) fn is_of(&self, outbox: &Arc<Outbox>) -> bool {
        Arc::ptr_eq(&self.outbox, outbox)
    }

    fn is(&self, outbox: &Arc<Outbox>, item: u32) -> bool {
        self.item == item && Arc::ptr_eq(&self.outbox, outbox)
    }
}

/// Records how many bytes a blocked write needs from the budgets of the full consumers, in addition
/// to the bytes that it has just released to them in other feeds.
pub(crate) fn note_need(full: &Arc<Feed>, room: QueueSize, released: &[(Arc<Feed>, QueueSize)]) {
    if released.is_empty() {
        return full.note_need(room);
    }
    for outbox in full.full_outboxes() {
        let own = released.iter().filter(|(feed, _)| feed.is_of(&outbox));
        let held = own.map(|(_, room)| room.cost()).sum();
        full.note_need_of(&outbox, room, held);
    }
}

/// Length up to which a variable's list grows one entry at a time.
const EXACT_GROWTH_MAX: usize = 4;
