//! What is behind a feed's lock.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use trunkline_types::Tick;

use super::member::{Member, Moved, Terms};
use super::{Event, FeedEntry, Reserve, Room, SharedRun};
use crate::interest::Pressure;
use crate::outbox::{Outbox, Wakes};
use crate::sync::Arc;
use crate::update::Update;

#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) entries: VecDeque<FeedEntry>,
    /// Number of the first of them: where the last of the members is that are still given any.
    pub(super) start: u64,
    /// Pieces of them that somebody has encoded, in their order.
    pub(super) runs: VecDeque<Arc<SharedRun>>,
    /// Pieces that all have come past, kept for their memory.
    pub(super) spent: VecDeque<Arc<SharedRun>>,
    /// Updates within the bound that were ever put in. Wraps.
    written: Room,
    reserved: Room,
    /// What every member has room for, whatever the others do: spent before anybody is asked.
    at_hand: AtHand,
    /// What was spent of it and the members have not noted.
    unsettled: Room,
    /// By number; a number is used again.
    pub(super) members: Vec<Option<Member>>,
    /// Members that have not ended.
    live: usize,
    /// Of them, those that are to be marked when there is something to take.
    pub(super) asleep: usize,
    /// Variables, and the number of the next one.
    places: u32,
    next_place: u32,
    /// Members that have ended so far: tells what was reserved for whom.
    turn: u32,
    /// Others may join.
    open: bool,
    /// Consumers whose writes wait for room here.
    parked: Vec<Arc<Outbox>>,
}

/// Room that needs no look at the members.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AtHand {
    pub(super) room: Room,
    /// Bytes that are claimed in advance.
    pub(super) claimed: usize,
}

impl Log {
    /// Whether there is this room without a look at the members.
    #[inline]
    pub(super) fn has_at_hand(&self, room: Room) -> bool {
        room.updates <= self.at_hand.room.updates
            && room.bytes <= self.at_hand.room.bytes
            && room.cost() <= self.at_hand.claimed
    }

    /// Puts an update where [there is room at hand](Self::has_at_hand).
    #[inline]
    pub(super) fn put(&mut self, place: u32, update: Update, room: Room, wakes: &mut Wakes) {
        self.at_hand.room = self.at_hand.room.minus(room);
        self.at_hand.claimed = self.at_hand.claimed.wrapping_sub(room.cost());
        self.unsettled.add(room);
        self.written.add(room);
        let event = Event::Next(update);
        self.entries.push_back(FeedEntry { place, event });
        if self.asleep > 0 {
            self.wake_members(wakes);
        }
    }

    /// Lets the members note what was put in without them. To be called before anything that goes
    /// by what they have charged.
    fn settle(&mut self) {
        let room = std::mem::take(&mut self.unsettled);
        if !room.is_none() {
            self.live_mut().for_each(|one| one.spend(room));
        }
    }

    /// The same before the members or what they have room for change in another way than that more
    /// room is there.
    pub(super) fn settle_all(&mut self) {
        self.settle();
        self.at_hand = AtHand::default();
    }

    /// Sees how much there is at hand from now on.
    fn look(&mut self) {
        let total = self.total();
        let live = self.members.iter().flatten().filter(|one| !one.ended);
        let least = |least: AtHand, one: AtHand| AtHand {
            room: Room {
                updates: least.room.updates.min(one.room.updates),
                bytes: least.room.bytes.min(one.room.bytes),
            },
            claimed: least.claimed.min(one.claimed),
        };
        let at_hand = live.map(|one| one.at_hand(total)).reduce(least);
        self.at_hand = at_hand.unwrap_or_default();
    }

    pub(super) fn turn(&self) -> u32 {
        self.turn
    }

    pub(super) fn new(terms: Terms) -> Self {
        Self {
            members: vec![Some(Member::new(terms))],
            live: 1,
            asleep: 1,
            ..Self::default()
        }
    }

    pub(super) fn moved_in(moved: Moved, places: u32, next_place: u32) -> Self {
        let Moved {
            mut member,
            waiting,
        } = moved;
        let mut log = Self {
            written: waiting,
            live: usize::from(!member.ended),
            asleep: usize::from(!member.ended && member.asleep),
            places,
            next_place,
            ..Self::default()
        };
        member.place_at(0, waiting);
        if !member.ended {
            log.entries = std::mem::take(&mut member.backlog);
        }
        log.members.push(Some(member));
        log
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

    /// What was put in and what is reserved.
    pub(super) fn total(&self) -> Room {
        let mut total = self.written;
        total.add(self.reserved);
        total
    }

    pub(super) fn member(&self, member: usize) -> Option<&Member> {
        self.members.get(member)?.as_ref()
    }

    fn member_mut(&mut self, member: usize) -> Option<&mut Member> {
        self.members.get_mut(member)?.as_mut()
    }

    fn live_mut(&mut self) -> impl Iterator<Item = &mut Member> {
        self.members.iter_mut().flatten().filter(|one| !one.ended)
    }

    pub(super) fn is_shared(&self) -> bool {
        self.members.len() > 1 && self.members.iter().flatten().nth(1).is_some()
    }

    pub(super) fn has_room(&mut self, room: Room) -> bool {
        self.settle();
        let total = self.total();
        let mut live = self.members.iter().flatten().filter(|one| !one.ended);
        self.live > 0 && live.all(|one| one.has_room(total, room))
    }

    pub(super) fn reserve(
        &mut self,
        room: Room,
        now: Tick,
        stall: Duration,
        wakes: &mut Wakes,
    ) -> Reserve {
        self.settle_all();
        // Those that have none first: a write that one of them refuses takes no room from others.
        let several = self.live > 1;
        let mut blocked = self.reserve_where(several, room, (now, stall), wakes);
        if blocked.is_none() && several {
            blocked = self.reserve_where(false, room, (now, stall), wakes);
        }
        if let Some(until) = blocked {
            return Reserve::WouldBlock { until };
        }
        if self.live == 0 {
            return Reserve::Ended;
        }
        self.reserved.add(room);
        self.live_mut().for_each(Member::forget_full);
        self.look();
        Reserve::Reserved(self.turn)
    }

    /// Claims room for every member; `look`: only sees who has none. Returns until when those who
    /// have none may be waited for, the earliest end; whoever may not be waited for ends.
    fn reserve_where(
        &mut self,
        look: bool,
        room: Room,
        (now, stall): (Tick, Duration),
        wakes: &mut Wakes,
    ) -> Option<Tick> {
        let (total, is_shared) = (self.total(), self.live > 1);
        let mut blocked: Option<Tick> = None;
        for at in 0..self.members.len() {
            let Some(member) = self.member_mut(at).filter(|one| !one.ended) else {
                continue;
            };
            let has_room = |member: &mut Member| match look {
                true => member.has_room(total, room),
                false => member.fits(total, room) && member.claim(room, is_shared),
            };
            let gives_way = !look && member.gives_way();
            if !gives_way && has_room(member) {
                continue;
            }
            if member.is_absent() {
                // Nobody waits for it: what it holds longest goes, until there is room.
                loop {
                    let dropped = self.drop_oldest(at, room, wakes);
                    if self.member_mut(at).is_some_and(has_room) {
                        break;
                    }
                    if !dropped && !self.drop_older(at, wakes) {
                        self.end_member(at, wakes);
                        break;
                    }
                }
                continue;
            }
            match member.full(now, stall) {
                None => self.end_member(at, wakes),
                Some(until) if look => {
                    blocked = Some(blocked.map_or(until, |known| known.min(until)));
                }
                Some(until) => {
                    let before = self.members.iter_mut().take(at).flatten();
                    for member in before.filter(|one| !one.ended) {
                        member.unclaim(room, wakes);
                    }
                    return Some(until);
                }
            }
        }
        blocked
    }

    /// A member ends with `overrun`: it takes with it what it is still to get, so that the log does
    /// not wait for it.
    #[cold]
    fn end_member(&mut self, at: usize, wakes: &mut Wakes) {
        self.trim();
        let (start, end) = (self.start, self.end());
        let slowest_other = self.members.iter().enumerate();
        let slowest_other = slowest_other.filter(|(other, _)| *other != at);
        let slowest_other = slowest_other.filter_map(|(_, one)| one.as_ref());
        let slowest_other = slowest_other.filter(|one| !one.ended);
        let rest = slowest_other.map(|one| one.cursor).min().unwrap_or(end);
        self.turn += 1;
        let (turn, asleep) = (self.turn, self.asleep);
        let Some(member) = self.members.get_mut(at).and_then(Option::as_mut) else {
            return;
        };
        let mut own: VecDeque<FeedEntry>;
        if member.cursor <= start {
            // The others hold little of it as a rule: they copy theirs.
            let theirs = self.entries.iter().skip((rest - start) as usize).cloned();
            let theirs = theirs.collect();
            own = std::mem::replace(&mut self.entries, theirs);
            self.start = rest;
        } else {
            let from = (member.cursor - start) as usize;
            own = self.entries.iter().skip(from).cloned().collect();
        }
        member.backlog.append(&mut own);
        self.asleep = asleep - usize::from(member.asleep);
        member.asleep = false;
        member.end(turn, wakes);
        self.live -= 1;
        self.drop_runs();
        self.wake_parked(wakes);
    }

    pub(super) fn note_needs(&mut self, room: Room, of: Option<(&Arc<Outbox>, usize)>) {
        let total = self.total();
        for member in self.live_mut().filter(|one| one.full_since.is_some()) {
            match of {
                None => member.note_need(total, room, 0),
                Some((outbox, held)) if Arc::ptr_eq(outbox, &member.terms.outbox) => {
                    member.note_need(total, room, held);
                }
                Some(_) => {}
            }
        }
    }

    pub(super) fn full_outboxes(&mut self) -> Vec<Arc<Outbox>> {
        let full = self.live_mut().filter(|one| one.full_since.is_some());
        full.map(|one| Arc::clone(&one.terms.outbox)).collect()
    }

    pub(super) fn release(&mut self, room: Room, turn: u32, wakes: &mut Wakes) {
        self.settle_all();
        self.reserved = self.reserved.minus(room);
        let members = self.members.iter_mut().flatten();
        for member in members.filter(|one| one.has_reserved(turn)) {
            member.unclaim(room, wakes);
            member.forget_full();
        }
        self.wake_parked(wakes);
    }

    /// Puts an update where room was reserved for it at `turn`; false when nobody is left to get
    /// it.
    pub(super) fn fill(
        &mut self,
        place: u32,
        update: Update,
        turn: u32,
        wakes: &mut Wakes,
    ) -> bool {
        let event = Event::Next(update);
        let entry = FeedEntry { place, event };
        let room = entry.room();
        self.reserved = self.reserved.minus(room);
        let owed = turn != self.turn && self.fill_ended(&entry, turn, wakes);
        if self.live == 0 {
            return owed;
        }
        self.written.add(room);
        self.entries.push_back(entry);
        if self.asleep > 0 {
            self.wake_members(wakes);
        }
        true
    }

    /// Who has ended since the room was reserved still gets what it was for.
    #[cold]
    fn fill_ended(&mut self, entry: &FeedEntry, turn: u32, wakes: &mut Wakes) -> bool {
        let members = self.members.iter_mut().flatten();
        let mut owed = false;
        for member in members.filter(|one| one.ended && one.has_reserved(turn)) {
            member.backlog.push_back(entry.clone());
            member.wake(wakes);
            owed = true;
        }
        owed
    }

    fn wake_members(&mut self, wakes: &mut Wakes) {
        self.asleep = 0;
        for member in self.live_mut().filter(|one| one.asleep) {
            member.wake(wakes);
        }
    }

    pub(super) fn wake_parked(&mut self, wakes: &mut Wakes) {
        for outbox in self.parked.drain(..) {
            wakes.add(&outbox);
        }
    }

    /// Puts in what the bound is not about.
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
        self.wake_members(wakes);
        self.wake_parked(wakes);
        for member in self.members.iter().flatten() {
            member.wake_parked(wakes);
        }
    }

    /// A member's place in the log is now at least here.
    pub(super) fn skip_to(&mut self, member: usize, cursor: u64) {
        if let Some(member) = self.member_mut(member).filter(|one| !one.ended) {
            member.cursor = member.cursor.max(cursor);
        }
        self.trim();
    }

    /// Drops what all have taken.
    pub(super) fn trim(&mut self) {
        let live = self.members.iter().flatten().filter(|one| !one.ended);
        let slowest = live.map(|one| one.cursor).min();
        // Who has ended has taken along what it still gets.
        let slowest = slowest.unwrap_or(self.end());
        if slowest > self.start {
            let count = ((slowest - self.start) as usize).min(self.entries.len());
            self.entries.drain(..count);
            self.start = slowest;
            self.drop_runs();
        }
    }

    pub(super) fn pass(&mut self, member: usize, room: Room, wakes: &mut Wakes) {
        self.settle();
        let total = self.total();
        if let Some(member) = self.members.get_mut(member).and_then(Option::as_mut) {
            let mut passed = member.passed;
            passed.add(room);
            let is_last = total.minus(passed).is_none();
            member.pass(room, is_last, wakes);
            if is_last {
                // What it had claimed in advance is given back.
                self.at_hand = AtHand::default();
            }
            self.wake_parked(wakes);
        }
    }

    pub(super) fn remove_places(
        &mut self,
        places: &HashSet<u32>,
        mut freed: Room,
        wakes: &mut Wakes,
    ) {
        self.settle_all();
        let mut keep = |entry: &FeedEntry| {
            let stays = !places.contains(&entry.place);
            if !stays {
                freed.add(entry.room());
            }
            stays
        };
        self.entries.retain(&mut keep);
        // They are numbered by entries that may be gone; who comes next encodes anew.
        self.runs.clear();
        for member in self.members.iter_mut().flatten() {
            member.backlog.retain(&mut keep);
        }
        let end = self.end();
        self.wake_parked(wakes);
        for member in self.members.iter_mut().flatten() {
            // What was taken out it had not taken: its place is where it was.
            member.cursor = member.cursor.min(end);
            if !freed.is_none() {
                member.pass(freed, false, wakes);
            }
            member.wake_parked(wakes);
        }
    }

    pub(super) fn park(&mut self, outbox: &Arc<Outbox>) -> bool {
        let mut waits = false;
        for member in self.members.iter().flatten() {
            waits |= member.park(outbox);
        }
        if waits && !self.parked.iter().any(|known| Arc::ptr_eq(known, outbox)) {
            self.parked.push(Arc::clone(outbox));
        }
        waits
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

    pub(super) fn depart(&mut self, member: usize, wakes: &mut Wakes) {
        let Some(gone) = self.remove(member) else {
            return;
        };
        gone.close(wakes);
        self.wake_parked(wakes);
    }

    fn remove(&mut self, member: usize) -> Option<Member> {
        self.settle_all();
        let gone = self.members.get_mut(member)?.take()?;
        if !gone.ended {
            self.live -= 1;
            self.asleep -= usize::from(gone.asleep);
        }
        self.trim();
        Some(gone)
    }

    pub(super) fn shut(&mut self) -> bool {
        self.open = false;
        self.is_shared()
    }

    /// Others with the same variables may join from now on.
    pub(super) fn set_open(&mut self) {
        self.open = true;
    }

    /// Takes a member out with all that waits for it. Nobody writes its variables meanwhile.
    pub(super) fn move_out(&mut self, member: usize, wakes: &mut Wakes) -> Option<Moved> {
        let one = self.members.get_mut(member)?.as_mut()?;
        let mut rest = VecDeque::new();
        if !one.ended {
            let from = one.cursor.saturating_sub(self.start) as usize;
            rest = self.entries.iter().skip(from).cloned().collect();
        }
        one.backlog.append(&mut rest);
        let member = self.remove(member)?;
        self.wake_parked(wakes);
        let waiting = member.charged.minus(member.passed);
        Some(Moved { member, waiting })
    }

    /// Takes a member in whose variables are these, as many as `places`. Nobody writes them
    /// meanwhile. The member comes back where that is not so any more.
    pub(super) fn join(&mut self, moved: Moved, places: u32) -> Result<usize, Box<Moved>> {
        let outbox = &moved.member.terms.outbox;
        if !self.open || self.live == 0 || self.places != places || self.is_of(outbox) {
            return Err(Box::new(moved));
        }
        self.settle_all();
        let mut member = moved.member;
        member.place_at(self.end(), self.written);
        self.live += 1;
        self.asleep += usize::from(member.asleep);
        let free = self.members.iter().position(Option::is_none);
        Ok(match free {
            Some(at) => {
                if let Some(slot) = self.members.get_mut(at) {
                    *slot = Some(member);
                }
                at
            }
            None => {
                self.members.push(Some(member));
                self.members.len() - 1
            }
        })
    }

    pub(super) fn visit(&self, visit: &mut dyn FnMut(&Arc<Outbox>)) -> usize {
        let present = self.members.iter().flatten().filter(|one| !one.is_absent());
        let outboxes = present.map(|one| &one.terms.outbox);
        outboxes
            .filter(|outbox| !outbox.is_service)
            .map(visit)
            .count()
    }

    /// How each stands before an update of this room.
    pub(super) fn pressures(&mut self, room: Room, visit: &mut dyn FnMut(Pressure)) {
        self.settle();
        let total = self.total();
        let members = self.members.iter().flatten().filter(|one| !one.is_absent());
        for member in members.filter(|one| !one.terms.outbox.is_service) {
            visit(match (member.ended, member.has_room(total, room)) {
                (true, _) => Pressure::Ended,
                (false, false) => Pressure::Full,
                (false, true) => Pressure::None,
            });
        }
    }

    pub(super) fn is_of(&self, outbox: &Arc<Outbox>) -> bool {
        let mut members = self.members.iter().flatten();
        members.any(|one| Arc::ptr_eq(&one.terms.outbox, outbox))
    }
}

impl Member {
    /// Its place is now here, in a log with this total, and nothing of it waits.
    fn place_at(&mut self, cursor: u64, written: Room) {
        let waiting = self.charged.minus(self.passed);
        self.cursor = cursor;
        self.charged = written;
        self.passed = written.minus(waiting);
    }
}
