//! The bounded log behind `all` subscriptions: every update of their variables in commit order.
//!
//! A write reserves room before it is numbered and fills it at commit, so commit cannot fail. First
//! readings and ends stand in the log too, where they belong in the order, but outside its bound.
//!
//! Subscriptions of the same variables share one log: each is a *member* with its own place in it,
//! its own bound and its own bytes, and an update is put down once for all of them. Lock order:
//! variable, then feed.
//!
//! # Layout
//! - `log`: what is behind the lock; `reserving`: room in it; `reading`: what members take out of
//!   it.
//! - `member`: one subscription's place, bound and charge; `moving`: they come and go;
//!   `share`: who joins whom.
//! - `run`: a piece of the log as it was encoded once for all.
//! - `absent`: members whose session broke, and what a log still has for who comes back.

mod absent;
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

pub(crate) use self::absent::Older;
use self::log::Log;
pub(crate) use self::member::{Moved, Terms};
pub use self::run::SharedRun;
pub(crate) use self::share::Feeds;
use crate::budget::cost_of;
use crate::interest::Pressure;
use crate::outbox::{Outbox, Wakes};
use crate::sync::{Arc, Mutex};
use crate::update::Update;

/// Entries that are copied out of a shared log at a time, and most updates of a run.
const RUN: usize = 256;
/// Bytes of their values after which no other one is added.
const RUN_BYTES: usize = 16 << 10;

/// One entry of the log.
#[derive(Clone, Debug)]
pub(crate) struct FeedEntry {
    /// The variable's place in the feed.
    pub(crate) place: u32,
    pub(crate) event: Event,
}

/// What an entry says.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// What the variable held when the item was subscribed; outside the bound.
    First(Update),
    /// An update; what the bound is about.
    Next(Update),
    /// An update from before the subscription was made again, which another feed still had; outside
    /// the bound of what comes, and in one of its own. Never in a log.
    Past(Update),
    /// The variable was undeployed; outside the bound.
    Gone,
}

impl FeedEntry {
    /// What it takes of the bound.
    pub(crate) fn room(&self) -> Room {
        match &self.event {
            Event::Next(update) => Room::one(update.value.as_slice().len()),
            Event::First(_) | Event::Past(_) | Event::Gone => Room::default(),
        }
    }

    /// What it costs to keep it, whatever the bound counts.
    pub(crate) fn cost(&self) -> usize {
        self.update()
            .map_or(0, |update| cost_of(1, update.value.as_slice().len()))
    }

    /// What it takes of the bound of what is from before the subscription.
    pub(crate) fn past(&self) -> Room {
        match &self.event {
            Event::Past(update) => Room::one(update.value.as_slice().len()),
            Event::First(_) | Event::Next(_) | Event::Gone => Room::default(),
        }
    }

    /// Its update, or the first reading that it is.
    pub(crate) fn update(&self) -> Option<&Update> {
        match &self.event {
            Event::First(update) | Event::Next(update) | Event::Past(update) => Some(update),
            Event::Gone => None,
        }
    }

    /// Its update, if it is one.
    pub(crate) fn into_update(self) -> Option<Update> {
        match self.event {
            Event::First(update) | Event::Next(update) | Event::Past(update) => {
                (update.sequence > 0).then_some(update)
            }
            Event::Gone => None,
        }
    }

    /// Whether it is an update, or a first reading that is one, of this place.
    pub(crate) fn is_update_of(&self, place: u32) -> bool {
        self.place == place && self.sequence() > 0
    }

    /// The number of its update; 0 where it has none.
    pub(crate) fn sequence(&self) -> u64 {
        self.update().map_or(0, |update| update.sequence)
    }
}

/// Room for updates: for those that are committed together, one or a group, or of all that wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Room {
    pub(crate) updates: usize,
    /// Bytes of their values.
    pub(crate) bytes: usize,
}

impl Room {
    /// For one update with a value of `bytes`.
    pub(crate) fn one(bytes: usize) -> Self {
        Self { updates: 1, bytes }
    }

    /// What it costs of the consumer's budget.
    pub(crate) fn cost(self) -> usize {
        cost_of(self.updates, self.bytes)
    }

    pub(crate) fn is_none(self) -> bool {
        self.updates == 0
    }

    pub(crate) fn add(&mut self, other: Room) {
        self.updates = self.updates.wrapping_add(other.updates);
        self.bytes = self.bytes.wrapping_add(other.bytes);
    }

    /// Takes `other` out, which is part of it.
    pub(crate) fn leave(&mut self, other: Room) {
        *self = self.minus(other);
    }

    fn minus(self, other: Room) -> Room {
        Room {
            updates: self.updates.wrapping_sub(other.updates),
            bytes: self.bytes.wrapping_sub(other.bytes),
        }
    }
}

/// What reserving room came to.
#[derive(Debug)]
pub(crate) enum Reserve {
    /// The room is there; commit or release it, with this number.
    Reserved(u32),
    /// Every subscription has ended with `overrun`; nothing is to be pushed.
    Ended,
    /// Somebody has no room, and writers may wait for it.
    WouldBlock {
        /// When that subscription ends instead.
        until: Tick,
    },
}

/// What there is for a member to take.
#[derive(Debug)]
pub(crate) enum Taken {
    /// Entries were put behind those it had.
    Entries,
    /// The same, and nobody has encoded them yet: they begin at this place of the log.
    Fresh(u64),
    /// What comes next, as somebody has encoded it.
    Run(Arc<SharedRun>),
    /// Nothing; it is marked when there is something again.
    Nothing {
        /// And never will be: it ended with `overrun`.
        ended: bool,
    },
}

/// A log and its members.
#[derive(Debug)]
pub(crate) struct Feed {
    log: Mutex<Log>,
}

impl Feed {
    /// A log with one member, which has number 0.
    pub(crate) fn new(terms: Terms) -> Self {
        Self {
            log: Mutex::new(Log::new(terms)),
        }
    }

    /// A log whose only member comes from another one, with all that waits for it; it has number 0.
    /// It has so many variables, the next of which gets the number `next`.
    pub(crate) fn moved_in(moved: Moved, places: u32, next: u32) -> Self {
        Self {
            log: Mutex::new(Log::moved_in(moved, places, next)),
        }
    }

    /// The number of a variable that joins the feed.
    pub(crate) fn add_place(&self) -> u32 {
        self.log.lock().add_place()
    }

    /// A variable left it.
    pub(crate) fn remove_place(&self) {
        self.log.lock().remove_place();
    }

    /// Whether there would be such room now.
    pub(crate) fn has_room(&self, room: Room) -> bool {
        self.log.lock().has_room(room)
    }

    /// Reserves room. `stall` is how long the variable's owner lets writers wait.
    pub(crate) fn reserve(
        &self,
        room: Room,
        now: Tick,
        stall: Duration,
        wakes: &mut Wakes,
    ) -> Reserve {
        self.log.lock().reserve(room, now, stall, wakes)
    }

    /// [`Feed::reserve`] and [`Feed::commit`] of one update under one lock, with `publish` between
    /// them, which gives it its number. It is published unless the write would block.
    pub(crate) fn commit_one(
        &self,
        place: u32,
        update: &mut Update,
        (now, stall): (Tick, Duration),
        wakes: &mut Wakes,
        publish: impl FnOnce(&mut Update),
    ) -> Reserve {
        let room = Room::one(update.value.as_slice().len());
        let mut log = self.log.lock();
        if log.has_at_hand(room) {
            publish(update);
            log.put(place, update.clone(), room, wakes);
            return Reserve::Reserved(log.turn());
        }
        let reserve = log.reserve(room, now, stall, wakes);
        match reserve {
            Reserve::Reserved(turn) => {
                publish(update);
                log.fill(place, update.clone(), turn, wakes);
            }
            Reserve::Ended => {
                drop(log);
                publish(update);
            }
            Reserve::WouldBlock { .. } => log.note_needs(room, None),
        }
        reserve
    }

    /// [`Feed::commit_one`] of an update of a value that is kept in place, where all members have
    /// room at hand; else nothing is done. Returns its number.
    #[inline]
    pub(crate) fn commit_short(
        &self,
        place: u32,
        mut update: Update,
        wakes: &mut Wakes,
        publish: impl FnOnce() -> u64,
    ) -> Option<u64> {
        let room = Room::one(update.value.as_slice().len());
        let mut log = self.log.lock();
        if !log.has_at_hand(room) {
            return None;
        }
        update.sequence = publish();
        let sequence = update.sequence;
        log.put(place, update, room, wakes);
        Some(sequence)
    }

    /// Notes what a write that was told to wait here needs of the budgets of those who have no
    /// room.
    pub(crate) fn note_need(&self, room: Room) {
        self.log.lock().note_needs(room, None);
    }

    /// The same, where the write has given `held` bytes back to the consumer of this outbox. What
    /// other writers need stays noted as long as it is not free.
    pub(crate) fn note_need_of(&self, outbox: &Arc<Outbox>, room: Room, held: usize) {
        self.log.lock().note_needs(room, Some((outbox, held)));
    }

    /// The consumers that have no room.
    pub(crate) fn full_outboxes(&self) -> Vec<Arc<Outbox>> {
        self.log.lock().full_outboxes()
    }

    /// Gives reserved room back: the write was not committed after all.
    pub(crate) fn release(&self, room: Room, turn: u32, wakes: &mut Wakes) {
        self.log.lock().release(room, turn, wakes);
    }

    /// Fills reserved room; false when every subscription has ended since.
    pub(crate) fn commit(&self, place: u32, update: &Update, turn: u32, wakes: &mut Wakes) -> bool {
        self.log.lock().fill(place, update.clone(), turn, wakes)
    }

    /// Fills reserved room with the updates of a group: nobody else's come between them.
    pub(crate) fn commit_run(&self, run: Vec<(u32, Update)>, turn: u32, wakes: &mut Wakes) {
        let mut log = self.log.lock();
        for (place, update) in run {
            log.fill(place, update, turn, wakes);
        }
    }

    /// Adds a first reading, which the bound is not about. Nobody shares the feed yet.
    pub(crate) fn push_first(&self, place: u32, update: Update) {
        self.log.lock().push(FeedEntry {
            place,
            event: Event::First(update),
        });
    }

    /// Notes behind its last update that a variable was undeployed, and lets writers that wait to
    /// write it go on. Of a subscription that has ended that end is told, with what it misses.
    pub(crate) fn push_gone(&self, place: u32, wakes: &mut Wakes) {
        self.log.lock().push_gone(place, wakes);
    }

    /// Takes what comes next for a member out of the log, behind what is in `out`: it counts there
    /// until [`Feed::pass`]. `accepts`: pieces that were encoded for all are welcome, if they are
    /// such; it is asked under the lock.
    pub(crate) fn take(
        &self,
        member: usize,
        accepts: Option<&dyn Fn(&SharedRun) -> bool>,
        out: &mut VecDeque<FeedEntry>,
    ) -> Taken {
        self.log.lock().take(member, accepts, out)
    }

    /// A piece whose memory can be used again.
    pub(crate) fn spare_run(&self) -> Option<Arc<SharedRun>> {
        self.log.lock().spare_run()
    }

    /// Keeps a piece that was encoded, for the other members.
    pub(crate) fn put_run(&self, run: &Arc<SharedRun>) {
        self.log.lock().put_run(run);
    }

    /// A member has delivered what took this room, and writers that waited for it go on.
    pub(crate) fn pass(&self, member: usize, room: Room, wakes: &mut Wakes) {
        if !room.is_none() {
            self.log.lock().pass(member, room, wakes);
        }
    }

    /// Takes the entries of these places out, `freed` being what was taken of them already, and
    /// lets every waiting writer try again. The time that writers have waited goes on unless this
    /// has made room: nobody gets more of it for nothing. Nobody shares the feed.
    pub(crate) fn remove_places(&self, places: &HashSet<u32>, freed: Room, wakes: &mut Wakes) {
        if !places.is_empty() {
            self.log.lock().remove_places(places, freed, wakes);
        }
    }

    /// Asks for `outbox` to be woken at the next room. False when there is room already, or will
    /// never be any.
    pub(crate) fn park(&self, outbox: &Arc<Outbox>) -> bool {
        self.log.lock().park(outbox)
    }

    /// Updates of one place that wait for a member in the log, its first reading included.
    pub(crate) fn waiting_of(&self, member: usize, place: u32) -> u64 {
        self.log.lock().waiting_of(member, place)
    }

    /// The number of the newest update of a place that a member is still to get from the log.
    pub(crate) fn newest_of(&self, member: usize, place: u32) -> Option<u64> {
        self.log.lock().newest_of(member, place)
    }

    /// Whether a member ended with `overrun`; what was in it before is still to be taken.
    pub(crate) fn has_ended(&self, member: usize) -> bool {
        self.log.lock().has_ended(member)
    }

    /// A member goes; writers that waited for it go on.
    pub(crate) fn depart(&self, member: usize, wakes: &mut Wakes) {
        self.log.lock().depart(member, wakes);
    }

    /// A member goes if it is not the last one: those who stay go on with the same variables.
    pub(crate) fn depart_from_others(&self, member: usize, wakes: &mut Wakes) -> bool {
        let mut log = self.log.lock();
        let is_shared = log.is_shared();
        if is_shared {
            log.depart(member, wakes);
        }
        is_shared
    }

    /// Nobody may join it any more, because its variables are about to change. Returns whether
    /// others have.
    pub(crate) fn shut(&self) -> bool {
        self.log.lock().shut()
    }

    /// Visits the consumers behind it; returns how many there are beside the engine's own.
    pub(crate) fn visit(&self, visit: &mut dyn FnMut(&Arc<Outbox>)) -> usize {
        self.log.lock().visit(visit)
    }

    /// Tells how each of them stands before an update of this room, the engine's own left out.
    pub(crate) fn pressures(&self, room: Room, visit: &mut dyn FnMut(Pressure)) {
        self.log.lock().pressures(room, visit);
    }

    /// Whether this consumer is among them.
    pub(crate) fn is_of(&self, outbox: &Arc<Outbox>) -> bool {
        self.log.lock().is_of(outbox)
    }
}
