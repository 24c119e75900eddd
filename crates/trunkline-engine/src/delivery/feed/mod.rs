//! The bounded log behind `all` subscriptions: every update of their variables in commit order.
//!
//! A write reserves room before it gets its sequence, and fills the room at commit, so that a
//! commit cannot fail. First readings and undeployments are also in the log, at their place in the
//! order, but do not count against its bound.
//!
//! Subscriptions of the same variables share one log. Each subscription is a *member* with its own
//! position in the log, its own bound and its own byte count. An update is stored once for all
//! members. Each variable has a number in the log, its *place*. Lock order: variable, then feed.
//!
//! # Layout
//! - `log`: the state protected by the lock; `reserving`: room in the log; `reading`: how members
//!   take entries out.
//! - `member`: one subscription's position, bound and charge; `moving`: how members join and leave;
//!   `share`: merging the feeds of the same variables.
//! - `run`: a piece of the log, encoded once for all members.
//! - `detached`: members whose session is lost, and which stay in the log for some time.

mod detached;
mod log;
mod member;
mod moving;
mod reading;
mod reserving;
mod run;
mod share;

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use trunkline_types::Tick;

pub(crate) use self::detached::Older;
use self::log::Log;
pub(crate) use self::member::{MemberOptions, Moved};
pub use self::run::SharedRun;
pub(crate) use self::share::Feeds;
use crate::delivery::budget::cost_of;
use crate::delivery::outbox::{Outbox, Wakes};
use crate::delivery::subscribers::Pressure;
use crate::sync::{Arc, Mutex};
use crate::update::Update;

/// Maximum number of entries copied out of a shared log at a time, and of updates in a run.
const RUN_UPDATES_MAX: usize = 256;
/// Total size of the values, in bytes, at which a run accepts no further update.
const RUN_BYTES: usize = 16 << 10;

#[derive(Clone, Debug)]
pub(crate) struct FeedEntry {
    pub(crate) place: u32,
    pub(crate) event: Event,
}

#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// The variable's current update at the time of the subscription. Does not count against the
    /// bound.
    First(Update),
    /// An update. Counts against the bound.
    Next(Update),
    /// An update from before a re-created subscription, found in another feed. Counts against a
    /// separate bound, and is never in a log.
    Past(Update),
    /// The variable was undeployed. Does not count against the bound.
    Gone,
}

impl FeedEntry {
    pub(crate) fn room(&self) -> QueueSize {
        match &self.event {
            Event::Next(update) => QueueSize::one(update.value.as_slice().len()),
            Event::First(_) | Event::Past(_) | Event::Gone => QueueSize::default(),
        }
    }

    /// Returns the memory cost of storing the entry, even if it does not count against the bound.
    pub(crate) fn cost(&self) -> usize {
        self.update()
            .map_or(0, |update| cost_of(1, update.value.as_slice().len()))
    }

    /// Returns the room that the entry takes within the separate bound for updates from before the
    /// subscription.
    pub(crate) fn past(&self) -> QueueSize {
        match &self.event {
            Event::Past(update) => QueueSize::one(update.value.as_slice().len()),
            Event::First(_) | Event::Next(_) | Event::Gone => QueueSize::default(),
        }
    }

    pub(crate) fn update(&self) -> Option<&Update> {
        match &self.event {
            Event::First(update) | Event::Next(update) | Event::Past(update) => Some(update),
            Event::Gone => None,
        }
    }

    pub(crate) fn into_update(self) -> Option<Update> {
        match self.event {
            Event::First(update) | Event::Next(update) | Event::Past(update) => {
                (update.sequence > 0).then_some(update)
            }
            Event::Gone => None,
        }
    }

    /// Returns true if the entry is an update of the variable at this place, including a first
    /// reading that has a value.
    pub(crate) fn is_update_of(&self, place: u32) -> bool {
        self.place == place && self.sequence() > 0
    }

    pub(crate) fn sequence(&self) -> u64 {
        self.update().map_or(0, |update| update.sequence)
    }
}

/// A number of updates and their bytes: one update, a group committed together, or a whole queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct QueueSize {
    pub(crate) updates: usize,
    pub(crate) bytes: usize,
}

impl QueueSize {
    pub(crate) fn one(bytes: usize) -> Self {
        Self { updates: 1, bytes }
    }

    pub(crate) fn cost(self) -> usize {
        cost_of(self.updates, self.bytes)
    }

    pub(crate) fn is_none(self) -> bool {
        self.updates == 0
    }

    pub(crate) fn add(&mut self, other: QueueSize) {
        self.updates = self.updates.wrapping_add(other.updates);
        self.bytes = self.bytes.wrapping_add(other.bytes);
    }

    /// Subtracts `other`, which must not exceed `self`.
    pub(crate) fn leave(&mut self, other: QueueSize) {
        *self = self.minus(other);
    }

    fn minus(self, other: QueueSize) -> QueueSize {
        QueueSize {
            updates: self.updates.wrapping_sub(other.updates),
            bytes: self.bytes.wrapping_sub(other.bytes),
        }
    }
}

/// How long a write may wait for room.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stall {
    pub(crate) now: Tick,
    /// The time for which the variable's configuration lets writers wait.
    pub(crate) limit: Duration,
}

#[derive(Debug)]
pub(crate) enum Reserve {
    /// Room is reserved. Pass this number when committing or releasing it.
    Reserved(u32),
    /// Every subscription has ended with `overrun`. Nothing may be pushed.
    Ended,
    /// A member has no room, and writers may wait for it.
    WouldBlock {
        /// Time at which the full subscription ends if it still has no room.
        until: Tick,
    },
}

#[derive(Debug)]
pub(crate) enum Taken {
    /// Entries were appended to the caller's queue.
    Entries,
    /// Entries that are not encoded yet were appended to the caller's queue. The first one has this
    /// number in the log.
    Fresh(u64),
    /// The next updates, already encoded for another member.
    Run(Arc<SharedRun>),
    /// There is nothing to take. The next entry marks the member.
    Nothing {
        /// True if the member ended with `overrun`, so that nothing will follow.
        ended: bool,
    },
}

#[derive(Debug)]
pub(crate) struct Feed {
    log: Mutex<Log>,
}

impl Feed {
    /// Creates a log with one member, which has number 0.
    pub(crate) fn new(options: MemberOptions) -> Self {
        Self {
            log: Mutex::new(Log::new(options)),
        }
    }

    /// Creates a log whose only member, number 0, comes from another log with all its queued
    /// entries. The log has `places` variables; the next one gets the number `next`.
    pub(crate) fn moved_in(moved: Moved, places: u32, next: u32) -> Self {
        Self {
            log: Mutex::new(Log::moved_in(moved, places, next)),
        }
    }

    pub(crate) fn add_place(&self) -> u32 {
        self.log.lock().add_place()
    }

    pub(crate) fn remove_place(&self) {
        self.log.lock().remove_place();
    }

    pub(crate) fn has_room(&self, room: QueueSize) -> bool {
        self.log.lock().has_room(room)
    }

    pub(crate) fn reserve(&self, room: QueueSize, stall: Stall, wakes: &mut Wakes) -> Reserve {
        self.log.lock().reserve(room, stall, wakes)
    }

    /// Calls [`Feed::reserve`] and [`Feed::commit`] for one update under one lock. In between, it
    /// calls `publish`, which gives the update its sequence, unless the write would block.
    pub(crate) fn commit_one(
        &self,
        place: u32,
        update: &mut Update,
        stall: Stall,
        wakes: &mut Wakes,
        publish: impl FnOnce(&mut Update),
    ) -> Reserve {
        let room = QueueSize::one(update.value.as_slice().len());
        let mut log = self.log.lock();
        if log.has_headroom(room) {
            publish(update);
            log.put(place, update.clone(), room, wakes);
            return Reserve::Reserved(log.end_count());
        }
        let reserve = log.reserve(room, stall, wakes);
        match reserve {
            Reserve::Reserved(reservation) => {
                publish(update);
                log.fill(place, update.clone(), reservation, wakes);
            }
            Reserve::Ended => {
                drop(log);
                publish(update);
            }
            Reserve::WouldBlock { .. } => log.note_needs(room, None),
        }
        reserve
    }

    /// Like [`Feed::commit_one`], for an update whose value is stored in place. Returns the
    /// sequence of the update. Does nothing and returns `None` unless the room is within the log's
    /// headroom.
    #[inline(always)] // Otherwise the update is copied on the stack, which costs each write 3 ns.
    pub(crate) fn commit_inline(
        &self,
        place: u32,
        mut update: Update,
        wakes: &mut Wakes,
        publish: impl FnOnce() -> u64,
    ) -> Option<u64> {
        let room = QueueSize::one(update.value.as_slice().len());
        let mut log = self.log.lock();
        if !log.has_headroom(room) {
            return None;
        }
        update.sequence = publish();
        let sequence = update.sequence;
        log.put(place, update, room, wakes);
        Some(sequence)
    }

    /// Records how many bytes of the full members' budgets a blocked write needs.
    pub(crate) fn note_need(&self, room: QueueSize) {
        self.log.lock().note_needs(room, None);
    }

    /// Like `note_need`, for a write that has released `held` bytes to the consumer of this outbox.
    /// The recorded needs of other writers remain until they can be satisfied.
    pub(crate) fn note_need_of(&self, outbox: &Arc<Outbox>, room: QueueSize, held: usize) {
        self.log.lock().note_needs(room, Some((outbox, held)));
    }

    pub(crate) fn full_outboxes(&self) -> Vec<Arc<Outbox>> {
        self.log.lock().full_outboxes()
    }

    pub(crate) fn release(&self, room: QueueSize, reservation: u32, wakes: &mut Wakes) {
        self.log.lock().release(room, reservation, wakes);
    }

    /// Fills reserved room. Returns false if every subscription has ended in the meantime.
    pub(crate) fn commit(
        &self,
        place: u32,
        update: &Update,
        reservation: u32,
        wakes: &mut Wakes,
    ) -> bool {
        self.log
            .lock()
            .fill(place, update.clone(), reservation, wakes)
    }

    /// Fills reserved room with the updates of a group, contiguously.
    pub(crate) fn commit_run(&self, run: Vec<(u32, Update)>, reservation: u32, wakes: &mut Wakes) {
        let mut log = self.log.lock();
        for (place, update) in run {
            log.fill(place, update, reservation, wakes);
        }
    }

    /// Adds a first reading that does not count against the bound. The feed is not shared yet.
    pub(crate) fn push_first(&self, place: u32, update: Update) {
        self.log.lock().push(FeedEntry {
            place,
            event: Event::First(update),
        });
    }

    /// Adds the entry that ends an undeployed variable, and wakes the writers waiting for room. A
    /// member that has already ended gets no such entry, because the report of its end lists its
    /// variables.
    pub(crate) fn push_gone(&self, place: u32, wakes: &mut Wakes) {
        self.log.lock().push_gone(place, wakes);
    }

    /// Takes the next updates for a member from the log and appends them to `out`. They count
    /// against the bound until [`Feed::pass`]. `accepts` returns true if the member can use a run
    /// encoded for all members; it is called under the lock.
    pub(crate) fn take(
        &self,
        member: usize,
        accepts: Option<&dyn Fn(&SharedRun) -> bool>,
        out: &mut VecDeque<FeedEntry>,
    ) -> Taken {
        self.log.lock().take(member, accepts, out)
    }

    pub(crate) fn spare_run(&self) -> Option<Arc<SharedRun>> {
        self.log.lock().spare_run()
    }

    pub(crate) fn put_run(&self, run: &Arc<SharedRun>) {
        self.log.lock().put_run(run);
    }

    /// Frees the room of updates that a member has delivered, and wakes the writers waiting for it.
    pub(crate) fn pass(&self, member: usize, room: QueueSize, wakes: &mut Wakes) {
        if !room.is_none() {
            self.log.lock().pass(member, room, wakes);
        }
    }

    /// Removes the entries of these places, and lets every waiting writer retry. `freed` is the
    /// room of entries that were already taken. If this makes no room, the time limit of waiting
    /// writers stays the same. The feed must not be shared.
    pub(crate) fn remove_places(&self, places: &HashSet<u32>, freed: QueueSize, wakes: &mut Wakes) {
        if !places.is_empty() {
            self.log.lock().remove_places(places, freed, wakes);
        }
    }

    /// Registers `outbox` to be woken when room becomes free. Returns false if there is room
    /// already, or if there will never be any.
    pub(crate) fn park(&self, outbox: &Arc<Outbox>) -> bool {
        self.log.lock().park(outbox)
    }

    /// Returns the number of updates of one place that are queued in the log for a member,
    /// including the first reading.
    pub(crate) fn waiting_of(&self, member: usize, place: u32) -> u64 {
        self.log.lock().waiting_of(member, place)
    }

    /// Returns the sequence of the newest update of a place that is queued in the log for a member.
    pub(crate) fn newest_of(&self, member: usize, place: u32) -> Option<u64> {
        self.log.lock().newest_of(member, place)
    }

    /// Returns true if a member has ended with `overrun`. Updates queued before that can still be
    /// taken.
    pub(crate) fn has_ended(&self, member: usize) -> bool {
        self.log.lock().has_ended(member)
    }

    pub(crate) fn depart(&self, member: usize, wakes: &mut Wakes) {
        self.log.lock().depart(member, wakes);
    }

    /// Removes a member unless it is the last one. The other members continue with the same
    /// variables. Returns true if the member was removed.
    pub(crate) fn depart_from_others(&self, member: usize, wakes: &mut Wakes) -> bool {
        let mut log = self.log.lock();
        let is_shared = log.is_shared();
        if is_shared {
            log.depart(member, wakes);
        }
        is_shared
    }

    /// Prevents more members from joining, because the variables of the feed are about to change.
    /// Returns true if the feed is shared.
    pub(crate) fn shut(&self) -> bool {
        self.log.lock().shut()
    }

    /// Visits the consumers of the feed, except those of the engine itself. Returns their number.
    pub(crate) fn visit(&self, visit: &mut dyn FnMut(&Arc<Outbox>)) -> usize {
        self.log.lock().visit(visit)
    }

    /// Reports the buffer pressure of each consumer before an update of this size, except those of
    /// the engine itself.
    pub(crate) fn pressures(&self, room: QueueSize, visit: &mut dyn FnMut(Pressure)) {
        self.log.lock().pressures(room, visit);
    }

    /// Returns true if this consumer is a member of the feed.
    pub(crate) fn is_of(&self, outbox: &Arc<Outbox>) -> bool {
        self.log.lock().is_of(outbox)
    }
}
