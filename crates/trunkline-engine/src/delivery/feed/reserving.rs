//! Reserves, releases and fills room in a log.

use std::collections::VecDeque;

use trunkline_types::Tick;

use super::log::Log;
use super::member::Member;
use super::{Event, FeedEntry, QueueSize, Reserve, Stall};
use crate::delivery::outbox::{Outbox, Wakes};
use crate::sync::Arc;
use crate::update::Update;

impl Log {
    pub(super) fn has_room(&mut self, room: QueueSize) -> bool {
        self.settle();
        let total = self.total();
        let mut live = self.members.iter().flatten().filter(|one| !one.ended);
        self.live > 0 && live.all(|one| one.has_room(total, room))
    }

    pub(super) fn reserve(&mut self, room: QueueSize, stall: Stall, wakes: &mut Wakes) -> Reserve {
        self.settle_all();
        // Checks full members first, so that a write refused by one of them takes no room from the
        // others.
        let several = self.live > 1;
        let mut blocked = self.reserve_where(several, room, stall, wakes);
        if blocked.is_none() && several {
            blocked = self.reserve_where(false, room, stall, wakes);
        }
        if let Some(until) = blocked {
            return Reserve::WouldBlock { until };
        }
        if self.live == 0 {
            return Reserve::Ended;
        }
        self.reserved.add(room);
        self.live_mut().for_each(Member::forget_full);
        self.update_headroom();
        Reserve::Reserved(self.end_count)
    }

    /// Claims room for every member. With `check_only`, only determines which members have none.
    /// Returns the earliest time at which writers must stop waiting for full members. Ends members
    /// for which writers may not wait.
    fn reserve_where(
        &mut self,
        check_only: bool,
        room: QueueSize,
        stall: Stall,
        wakes: &mut Wakes,
    ) -> Option<Tick> {
        let (total, is_shared) = (self.total(), self.live > 1);
        let mut blocked: Option<Tick> = None;
        for at in 0..self.members.len() {
            let Some(member) = self.member_mut(at).filter(|one| !one.ended) else {
                continue;
            };
            let has_room = |member: &mut Member| match check_only {
                true => member.has_room(total, room),
                false => member.fits(total, room) && member.claim(room, is_shared),
            };
            let gives_way = !check_only && member.gives_way();
            if !gives_way && has_room(member) {
                continue;
            }
            if member.is_absent() {
                // Writers do not wait for an absent member. Instead its oldest entries are dropped
                // until there is room.
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
            match member.note_full(stall) {
                None => self.end_member(at, wakes),
                Some(until) if check_only => {
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

    pub(super) fn note_needs(&mut self, room: QueueSize, of: Option<(&Arc<Outbox>, usize)>) {
        let total = self.total();
        for member in self.live_mut().filter(|one| one.full_since.is_some()) {
            match of {
                None => member.note_need(total, room, 0),
                Some((outbox, held)) if Arc::ptr_eq(outbox, &member.options.outbox) => {
                    member.note_need(total, room, held);
                }
                Some(_) => {}
            }
        }
    }

    pub(super) fn full_outboxes(&mut self) -> Vec<Arc<Outbox>> {
        let full = self.live_mut().filter(|one| one.full_since.is_some());
        full.map(|one| Arc::clone(&one.options.outbox)).collect()
    }

    pub(super) fn release(&mut self, room: QueueSize, reservation: u32, wakes: &mut Wakes) {
        self.settle_all();
        self.reserved = self.reserved.minus(room);
        let members = self.members.iter_mut().flatten();
        for member in members.filter(|one| one.has_reserved(reservation)) {
            member.unclaim(room, wakes);
            member.forget_full();
        }
        self.wake_parked(wakes);
    }

    /// Adds an update to the room reserved for it. Returns false if no member is left to receive
    /// it.
    pub(super) fn fill(
        &mut self,
        place: u32,
        update: Update,
        reservation: u32,
        wakes: &mut Wakes,
    ) -> bool {
        let event = Event::Next(update);
        let entry = FeedEntry { place, event };
        let room = entry.room();
        self.reserved = self.reserved.minus(room);
        let is_delivered =
            reservation != self.end_count && self.fill_ended(&entry, reservation, wakes);
        if self.live == 0 {
            return is_delivered;
        }
        self.written.add(room);
        self.entries.push_back(entry);
        self.ensure_members_woken(wakes);
        true
    }

    /// Gives the update to members that have ended after room was reserved for them.
    #[cold]
    fn fill_ended(&mut self, entry: &FeedEntry, reservation: u32, wakes: &mut Wakes) -> bool {
        let members = self.members.iter_mut().flatten();
        let mut is_delivered = false;
        for member in members.filter(|one| one.ended && one.has_reserved(reservation)) {
            member.backlog.push_back(entry.clone());
            member.options.outbox.mark(member.options.mark, wakes);
            is_delivered = true;
        }
        is_delivered
    }

    /// Ends a member with `overrun`. Its remaining entries move to its own backlog, so that the log
    /// need not store them.
    #[cold]
    pub(super) fn end_member(&mut self, at: usize, wakes: &mut Wakes) {
        self.trim();
        let (start, end) = (self.start, self.end());
        let slowest_other = self.members.iter().enumerate();
        let slowest_other = slowest_other.filter(|(other, _)| *other != at);
        let slowest_other = slowest_other.filter_map(|(_, one)| one.as_ref());
        let slowest_other = slowest_other.filter(|one| !one.ended);
        let keep_from = slowest_other.map(|one| one.cursor).min().unwrap_or(end);
        self.end_count += 1;
        let end_number = self.end_count;
        let Some(member) = self.members.get_mut(at).and_then(Option::as_mut) else {
            return;
        };
        let mut own: VecDeque<FeedEntry>;
        if member.cursor <= start {
            // The other members usually need only a few of these entries, so those few are copied.
            let kept_for_others = self
                .entries
                .iter()
                .skip((keep_from - start) as usize)
                .cloned();
            let kept_for_others = kept_for_others.collect();
            own = std::mem::replace(&mut self.entries, kept_for_others);
            self.start = keep_from;
        } else {
            let from = (member.cursor - start) as usize;
            own = self.entries.iter().skip(from).cloned().collect();
        }
        member.backlog.append(&mut own);
        let was_unwoken = member.is_unwoken();
        member.end(end_number, wakes);
        member.drop_older(wakes);
        self.unwoken -= usize::from(was_unwoken);
        self.live -= 1;
        self.drop_runs();
        self.wake_parked(wakes);
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
}
