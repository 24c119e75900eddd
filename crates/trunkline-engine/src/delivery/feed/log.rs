//! The state protected by a feed's lock: the entries, and the members with their positions.

use std::collections::VecDeque;
use std::num::NonZeroUsize;

use super::member::{Member, MemberOptions};
use super::{Event, FeedEntry, QueueSize, SharedRun};
use crate::delivery::outbox::{Outbox, Wakes};
use crate::delivery::subscribers::Pressure;
use crate::sync::Arc;
use crate::update::Update;

#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) entries: VecDeque<FeedEntry>,
    /// Number of the first entry: the position of the slowest member that has not ended.
    pub(super) start: u64,
    pub(super) runs: VecDeque<Arc<SharedRun>>,
    /// Runs that all members have passed, retained to reuse their memory.
    pub(super) spare_runs: VecDeque<Arc<SharedRun>>,
    /// Number and bytes of all updates added so far that count against the bound. Wraps on
    /// overflow.
    pub(super) written: QueueSize,
    pub(super) reserved: QueueSize,
    /// Room that every member is known to have. A write within it need not check the members.
    pub(super) headroom: Headroom,
    /// Room taken from `headroom` and not yet recorded in the members.
    pub(super) unsettled: QueueSize,
    /// Members by number. Numbers are reused.
    pub(super) members: Vec<Option<Member>>,
    pub(super) live: usize,
    /// Number of members whose consumer may not have been woken for their newest entry. Every
    /// writer checks them.
    pub(super) unwoken: usize,
    /// Number of the wake-up list that contains the consumers of all those members. A writer with
    /// the same list can skip them.
    pub(super) wake_list: Option<NonZeroUsize>,
    pub(super) places: u32,
    pub(super) next_place: u32,
    /// Number of members that have ended so far. A reservation is this number at its time, and so
    /// identifies the members that it includes.
    pub(super) end_count: u32,
    pub(super) open: bool,
    pub(super) parked: Vec<Arc<Outbox>>,
}

/// Room that a write can use without checking the members.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Headroom {
    pub(super) room: QueueSize,
    pub(super) claimed: usize,
}

impl Log {
    /// Returns true if this room is available without checking the members.
    #[inline]
    pub(super) fn has_headroom(&self, room: QueueSize) -> bool {
        room.updates <= self.headroom.room.updates
            && room.bytes <= self.headroom.room.bytes
            && room.cost() <= self.headroom.claimed
    }

    /// Adds an update whose room is within the [headroom](Self::has_headroom).
    #[inline]
    pub(super) fn put(&mut self, place: u32, update: Update, room: QueueSize, wakes: &mut Wakes) {
        self.headroom.room = self.headroom.room.minus(room);
        self.headroom.claimed = self.headroom.claimed.wrapping_sub(room.cost());
        self.unsettled.add(room);
        self.written.add(room);
        let event = Event::Next(update);
        self.entries.push_back(FeedEntry { place, event });
        self.ensure_members_woken(wakes);
    }

    /// Charges the members for entries that were added without checking them. Must be called before
    /// any operation that depends on the members' charges.
    pub(super) fn settle(&mut self) {
        let room = std::mem::take(&mut self.unsettled);
        if !room.is_none() {
            self.live_mut().for_each(|one| one.spend(room));
        }
    }

    /// Like `settle`, and clears the headroom. Must be called before the members change, or before
    /// their room shrinks.
    pub(super) fn settle_all(&mut self) {
        self.settle();
        self.headroom = Headroom::default();
    }

    /// Computes the headroom from the current state of the members.
    pub(super) fn update_headroom(&mut self) {
        let total = self.total();
        let live = self.members.iter().flatten().filter(|one| !one.ended);
        let least = |least: Headroom, one: Headroom| Headroom {
            room: QueueSize {
                updates: least.room.updates.min(one.room.updates),
                bytes: least.room.bytes.min(one.room.bytes),
            },
            claimed: least.claimed.min(one.claimed),
        };
        let headroom = live.map(|one| one.headroom(total)).reduce(least);
        self.headroom = headroom.unwrap_or_default();
    }

    pub(super) fn end_count(&self) -> u32 {
        self.end_count
    }

    pub(super) fn new(options: MemberOptions) -> Self {
        Self {
            members: vec![Some(Member::new(options))],
            live: 1,
            unwoken: 1,
            ..Self::default()
        }
    }

    pub(super) fn add_place(&mut self) -> u32 {
        self.places += 1;
        let place = self.next_place;
        self.next_place += 1;
        place
    }

    pub(super) fn remove_place(&mut self) {
        self.places = self.places.saturating_sub(1);
    }

    pub(super) fn end(&self) -> u64 {
        self.start + self.entries.len() as u64
    }

    /// Returns the total of everything added so far, plus the reserved room.
    pub(super) fn total(&self) -> QueueSize {
        let mut total = self.written;
        total.add(self.reserved);
        total
    }

    pub(super) fn member(&self, member: usize) -> Option<&Member> {
        self.members.get(member)?.as_ref()
    }

    pub(super) fn member_mut(&mut self, member: usize) -> Option<&mut Member> {
        self.members.get_mut(member)?.as_mut()
    }

    pub(super) fn live_mut(&mut self) -> impl Iterator<Item = &mut Member> {
        self.members.iter_mut().flatten().filter(|one| !one.ended)
    }

    pub(super) fn is_shared(&self) -> bool {
        self.members.len() > 1 && self.members.iter().flatten().nth(1).is_some()
    }

    /// Ensures that every member is woken for an added entry.
    #[inline]
    pub(super) fn ensure_members_woken(&mut self, wakes: &mut Wakes) {
        if self.unwoken > 0 && !wakes.has_number(self.wake_list) {
            self.wake_members(wakes);
        }
    }

    #[cold]
    fn wake_members(&mut self, wakes: &mut Wakes) {
        let mut unwoken = 0;
        for member in self.live_mut() {
            member.wake(wakes);
            unwoken += usize::from(member.is_unwoken());
        }
        self.unwoken = unwoken;
        self.wake_list = Some(wakes.number());
    }

    /// Counts a member that is new or has found its queue empty. Its next wake-up is on no list
    /// yet.
    pub(super) fn add_unwoken(&mut self) {
        self.unwoken += 1;
        self.wake_list = None;
    }

    pub(super) fn wake_parked(&mut self, wakes: &mut Wakes) {
        for outbox in self.parked.drain(..) {
            wakes.add(&outbox);
        }
    }

    /// Adds an entry that does not count against the bound.
    pub(super) fn push(&mut self, entry: FeedEntry) {
        let mut ended = self.members.iter_mut().flatten().filter(|one| one.ended);
        match ended.next().filter(|_| self.live == 0) {
            Some(member) => member.backlog.push_back(entry),
            None => self.entries.push_back(entry),
        }
    }

    pub(super) fn push_gone(&mut self, place: u32, wakes: &mut Wakes) {
        if self.live > 0 {
            let event = Event::Gone;
            self.entries.push_back(FeedEntry { place, event });
        }
        self.ensure_members_woken(wakes);
        self.wake_parked(wakes);
        for member in self.members.iter().flatten() {
            member.wake_parked(wakes);
        }
    }

    /// Advances a member's position to `cursor`, unless it is already further.
    pub(super) fn skip_to(&mut self, member: usize, cursor: u64) {
        if let Some(member) = self.member_mut(member).filter(|one| !one.ended) {
            member.cursor = member.cursor.max(cursor);
        }
        self.trim();
    }

    pub(super) fn trim(&mut self) {
        let live = self.members.iter().flatten().filter(|one| !one.ended);
        let slowest = live.map(|one| one.cursor).min();
        // Ended members keep their remaining entries in their own backlog.
        let slowest = slowest.unwrap_or(self.end());
        if slowest > self.start {
            let count = ((slowest - self.start) as usize).min(self.entries.len());
            self.entries.drain(..count);
            self.start = slowest;
            self.drop_runs();
        }
    }

    pub(super) fn pass(&mut self, member: usize, room: QueueSize, wakes: &mut Wakes) {
        self.settle();
        let total = self.total();
        if let Some(member) = self.members.get_mut(member).and_then(Option::as_mut) {
            let mut passed = member.passed;
            passed.add(room);
            let is_last = total.minus(passed).is_none();
            member.pass(room, is_last, wakes);
            if is_last {
                // Returns the bytes that the member had claimed in advance.
                self.headroom = Headroom::default();
            }
            self.wake_parked(wakes);
        }
    }

    fn entries_of(&self, member: usize) -> impl DoubleEndedIterator<Item = &FeedEntry> {
        let one = self.member(member);
        let backlog = one.into_iter().flat_map(|one| one.backlog.iter());
        let from = match one.filter(|one| !one.ended) {
            Some(one) => one.cursor.saturating_sub(self.start) as usize,
            None => self.entries.len(),
        };
        backlog.chain(self.entries.range(from.min(self.entries.len())..))
    }

    pub(super) fn waiting_of(&self, member: usize, place: u32) -> u64 {
        let entries = self.entries_of(member);
        entries.filter(|entry| entry.is_update_of(place)).count() as u64
    }

    pub(super) fn newest_of(&self, member: usize, place: u32) -> Option<u64> {
        let mut entries = self.entries_of(member).rev();
        let newest = entries.find(|entry| entry.is_update_of(place))?;
        Some(newest.sequence())
    }

    pub(super) fn has_ended(&self, member: usize) -> bool {
        self.member(member).is_some_and(|one| one.ended)
    }

    pub(super) fn visit(&self, visit: &mut dyn FnMut(&Arc<Outbox>)) -> usize {
        let present = self.members.iter().flatten().filter(|one| !one.is_absent());
        let outboxes = present.map(|one| &one.options.outbox);
        outboxes
            .filter(|outbox| !outbox.is_service)
            .map(visit)
            .count()
    }

    /// Reports the buffer pressure of each member before an update of this size.
    pub(super) fn pressures(&mut self, room: QueueSize, visit: &mut dyn FnMut(Pressure)) {
        self.settle();
        let total = self.total();
        let members = self.members.iter().flatten().filter(|one| !one.is_absent());
        for member in members.filter(|one| !one.options.outbox.is_service) {
            visit(match (member.ended, member.has_room(total, room)) {
                (true, _) => Pressure::Ended,
                (false, false) => Pressure::Full,
                (false, true) => Pressure::None,
            });
        }
    }
}
