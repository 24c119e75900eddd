//! What a variable knows of its subscriptions, and what a commit does for each.

use std::time::Duration;

use trunkline_types::Tick;

use crate::feed::{Feed, Reserve, Room};
use crate::group::GroupRooms;
use crate::outbox::{Outbox, Wakes};
use crate::realtime::ReaderFifo;
use crate::retained::{FirstQueue, Ring, Rings};
use crate::sync::{Arc, crossing};
use crate::update::Update;

/// One subscription of one variable, as its commits see it.
#[derive(Debug)]
pub(crate) struct Interest {
    pub(crate) outbox: Arc<Outbox>,
    /// The item to mark in the outbox.
    pub(crate) item: u32,
    /// Only updates whose value or quality differs from the one before (catch-all off).
    pub(crate) only_changes: bool,
    /// Updates that `only_changes` held back.
    pub(crate) filtered: u64,
    pub(crate) kind: Kind,
}

/// The contract, as far as commits are concerned.
#[derive(Debug)]
pub(crate) enum Kind {
    /// `latest`: the mark is all, the value is read when it is sent.
    Mark,
    /// `sampled`: not even a mark; the consumer looks once per period.
    Sampled,
    /// `last:n`: the variable's ring keeps the updates.
    Last(u32),
    /// `first:n`: its own queue.
    First(Box<FirstQueue>),
    /// `all`: the consumer's feed.
    Feed(Box<Place>),
    /// A real-time reader's FIFO of its own (NV-03).
    Fifo(Arc<ReaderFifo>),
}

/// A variable's place in the feed of an `all` subscription.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) feed: Arc<Feed>,
    /// The index in the outbox that stands for the feed.
    pub(crate) mark: u32,
    /// Room is reserved for the write that is going on.
    reserved: bool,
    /// Updates that came after the feed had ended.
    pub(crate) missed: u64,
}

impl Place {
    pub(crate) fn new(feed: Arc<Feed>, mark: u32) -> Self {
        Self {
            feed,
            mark,
            reserved: false,
            missed: 0,
        }
    }
}

/// A feed that has no room, and until when it may be waited for.
struct Blocked {
    /// Its place in the list.
    at: usize,
    until: Tick,
}

/// All subscriptions of one variable.
#[derive(Debug, Default)]
pub(crate) struct Interests {
    list: Vec<Interest>,
    /// How many of them are feeds.
    feeds: u32,
    /// How many of them want changes only.
    filters: u32,
    rings: Option<Box<Rings>>,
}

impl Interests {
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Interest> {
        self.list.iter()
    }

    /// Whether anybody asks if an update differs from the one before.
    pub(crate) fn wants_changes(&self) -> bool {
        self.filters > 0
    }

    pub(crate) fn add(&mut self, interest: Interest) {
        self.feeds += u32::from(matches!(interest.kind, Kind::Feed(_)));
        self.filters += u32::from(interest.only_changes);
        let is_last = matches!(interest.kind, Kind::Last(_));
        let only_changes = interest.only_changes;
        if self.list.len() < FEW {
            // Most variables have one subscriber or two: the usual doubling would cost them more.
            self.list.reserve_exact(1);
        }
        self.list.push(interest);
        if is_last {
            self.fit_ring(only_changes);
        }
    }

    /// Takes one out, with the memory that nobody else needs.
    pub(crate) fn remove(&mut self, outbox: &Arc<Outbox>, item: u32) -> Option<Interest> {
        let place = self
            .list
            .iter()
            .position(|interest| interest.is(outbox, item))?;
        let interest = self.list.remove(place);
        if self.list.is_empty() {
            self.list = Vec::new();
        }
        self.feeds -= u32::from(matches!(interest.kind, Kind::Feed(_)));
        self.filters -= u32::from(interest.only_changes);
        if matches!(interest.kind, Kind::Last(_)) {
            self.fit_ring(interest.only_changes);
        }
        Some(interest)
    }

    pub(crate) fn find(&self, outbox: &Arc<Outbox>, item: u32) -> Option<&Interest> {
        self.list.iter().find(|interest| interest.is(outbox, item))
    }

    pub(crate) fn find_mut(&mut self, outbox: &Arc<Outbox>, item: u32) -> Option<&mut Interest> {
        self.list
            .iter_mut()
            .find(|interest| interest.is(outbox, item))
    }

    /// The ring behind `last:n`.
    pub(crate) fn ring(&self, only_changes: bool) -> Option<&Ring> {
        self.rings.as_ref()?.of(only_changes)
    }

    /// Makes the ring as long as the longest buffer that uses it.
    fn fit_ring(&mut self, only_changes: bool) {
        let longest = self
            .list
            .iter()
            .filter(|interest| interest.only_changes == only_changes);
        let mut memory = None;
        let longest = longest.filter_map(|interest| match interest.kind {
            Kind::Last(n) => {
                memory = memory.or(interest.outbox.budget.engine());
                Some(n as usize)
            }
            _ => None,
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

    /// Step 3, last part: room for one update of `bytes` in every `all` feed, or none taken at all.
    /// Returns until when a feed may be waited for if one is full.
    ///
    /// A subscription that ends here, because nobody may wait for it, is marked so that its
    /// consumer hears of it at once.
    pub(crate) fn reserve_room(
        &mut self,
        changed: bool,
        bytes: usize,
        now: Tick,
        stall: Duration,
        wakes: &mut Wakes,
    ) -> Result<(), Tick> {
        if self.feeds == 0 {
            return Ok(());
        }
        let room = Room::one(bytes);
        // The full ones first: a write that one of them refuses takes no room from others, not even
        // for a moment, in which their writers would find them full.
        let mut blocked = self.reserve_where(changed, room, now, stall, wakes, self.feeds > 1);
        if blocked.is_none() && self.feeds > 1 {
            blocked = self.reserve_where(changed, room, now, stall, wakes, false);
        }
        let Some(Blocked { at, until }) = blocked else {
            return Ok(());
        };
        let outbox = self.list.get(at).map(|full| Arc::clone(&full.outbox));
        let mut held = 0;
        for interest in &mut self.list {
            if let Kind::Feed(place) = &mut interest.kind
                && std::mem::take(&mut place.reserved)
            {
                place.feed.release(room, wakes);
                if outbox.as_ref().is_some_and(|full| interest.is_of(full)) {
                    held += room.cost();
                }
            }
        }
        if let Some(Kind::Feed(place)) = self.list.get(at).map(|full| &full.kind) {
            place.feed.note_need(room, held);
        }
        Err(until)
    }

    fn reserve_where(
        &mut self,
        changed: bool,
        room: Room,
        now: Tick,
        stall: Duration,
        wakes: &mut Wakes,
        full_only: bool,
    ) -> Option<Blocked> {
        for (at, interest) in self.list.iter_mut().enumerate() {
            let Kind::Feed(place) = &mut interest.kind else {
                continue;
            };
            if (interest.only_changes && !changed)
                || place.reserved
                || (full_only && place.feed.has_room(room))
            {
                continue;
            }
            match place.feed.reserve(room, now, stall, wakes) {
                Reserve::Reserved => place.reserved = true,
                Reserve::Ended => interest.outbox.mark(place.mark, wakes),
                Reserve::WouldBlock { until } => return Some(Blocked { at, until }),
            }
        }
        None
    }

    /// Adds what one update of a group needs in each `all` feed to what the others need there.
    pub(crate) fn ask_for_room(
        &self,
        changed: bool,
        bytes: usize,
        stall: Duration,
        handle: u32,
        rooms: &mut GroupRooms,
    ) {
        for interest in &self.list {
            if let Kind::Feed(place) = &interest.kind
                && (changed || !interest.only_changes)
            {
                rooms.ask(place, &interest.outbox, Room::one(bytes), stall, handle);
            }
        }
    }

    /// Step 4, last part: hands a numbered update to every subscription.
    pub(crate) fn announce(&mut self, update: &Update, changed: bool, wakes: &mut Wakes) {
        self.announce_of(update, changed, None, wakes);
    }

    /// As [`announce`](Self::announce); what belongs to `group` goes into the feeds when all of it
    /// is there.
    pub(crate) fn announce_of(
        &mut self,
        update: &Update,
        changed: bool,
        mut group: Option<&mut GroupRooms>,
        wakes: &mut Wakes,
    ) {
        if let Some(rings) = &mut self.rings {
            if let Some(ring) = &mut rings.all {
                ring.push(update.clone());
            }
            if changed && let Some(ring) = &mut rings.changes {
                ring.push(update.clone());
            }
        }
        for interest in &mut self.list {
            if interest.only_changes && !changed {
                interest.filtered += 1;
                continue;
            }
            let marked = match &mut interest.kind {
                Kind::Mark | Kind::Last(_) => Some(interest.item),
                Kind::Sampled => None,
                Kind::First(queue) => queue
                    .push(update, &interest.outbox.budget)
                    .then_some(interest.item),
                Kind::Feed(place) => {
                    if let Some(rooms) = &mut group {
                        if !rooms.put(&place.feed, interest.item, update) {
                            place.missed += 1;
                        }
                        None
                    } else if std::mem::take(&mut place.reserved) {
                        place.feed.commit(interest.item, update);
                        Some(place.mark)
                    } else {
                        place.missed += 1;
                        None
                    }
                }
                Kind::Fifo(fifo) => {
                    fifo.deliver(update);
                    None
                }
            };
            if let Some(mark) = marked {
                interest.outbox.mark(mark, wakes);
            }
        }
    }

    /// Tells every subscription that the variable was undeployed, behind its last update.
    pub(crate) fn announce_gone(&self, wakes: &mut Wakes) {
        for interest in &self.list {
            match &interest.kind {
                Kind::Feed(place) => {
                    place.feed.push_gone(interest.item, wakes);
                    interest.outbox.mark(place.mark, wakes);
                }
                // Its reader polls, and finds nothing new any more.
                Kind::Fifo(_) => {}
                Kind::Mark | Kind::Sampled | Kind::Last(_) | Kind::First(_) => {
                    interest.outbox.mark(interest.item, wakes);
                }
            }
        }
    }
}

/// How a subscription's own buffer stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pressure {
    None,
    /// An `all` feed without room.
    Full,
    /// An `all` feed that has ended with `overrun`.
    Ended,
    /// A buffer whose newest updates were dropped.
    Dropping,
}

impl Interest {
    /// How its buffer stands before an update of `bytes`. The variable's lock is held.
    pub(crate) fn pressure(&self, bytes: usize) -> Pressure {
        match &self.kind {
            Kind::Feed(place) if place.feed.has_ended() => Pressure::Ended,
            Kind::Feed(place) if !place.feed.has_room(Room::one(bytes)) => Pressure::Full,
            Kind::First(queue) if queue.untold() > 0 => Pressure::Dropping,
            _ => Pressure::None,
        }
    }

    pub(crate) fn is_of(&self, outbox: &Arc<Outbox>) -> bool {
        Arc::ptr_eq(&self.outbox, outbox)
    }

    fn is(&self, outbox: &Arc<Outbox>, item: u32) -> bool {
        self.item == item && Arc::ptr_eq(&self.outbox, outbox)
    }
}

impl Outbox {
    /// Marks an item, and notes that the consumer is to be woken if nothing waited before.
    pub(crate) fn mark(self: &Arc<Self>, index: u32, wakes: &mut Wakes) {
        crossing();
        if self.marks.mark(index) {
            wakes.add(self);
        }
    }
}

/// Interests up to which a variable's list grows one by one.
const FEW: usize = 4;
