//! Adds members and variables to a log, removes them, and handles members whose session is lost.

use std::collections::{HashSet, VecDeque};

use super::detached::Older;
use super::log::Log;
use super::member::{Member, Moved, WakeState};
use super::reading::move_behind;
use super::{Event, FeedEntry, QueueSize};
use crate::delivery::outbox::{Outbox, Wakes};
use crate::sync::Arc;
use crate::update::Update;

impl Log {
    pub(super) fn depart(&mut self, member: usize, wakes: &mut Wakes) {
        let Some(mut gone) = self.remove(member) else {
            return;
        };
        gone.drop_older(wakes);
        gone.close(wakes);
        self.wake_parked(wakes);
    }

    fn remove(&mut self, member: usize) -> Option<Member> {
        self.settle_all();
        let gone = self.members.get_mut(member)?.take()?;
        if !gone.ended {
            self.live -= 1;
            self.unwoken -= usize::from(gone.is_unwoken());
        }
        self.trim();
        Some(gone)
    }

    pub(super) fn shut(&mut self) -> bool {
        self.open = false;
        self.is_shared()
    }

    pub(super) fn set_open(&mut self) {
        self.open = true;
    }

    pub(super) fn moved_in(moved: Moved, places: u32, next_place: u32) -> Self {
        let Moved {
            mut member,
            waiting,
        } = moved;
        let mut log = Self {
            written: waiting,
            live: usize::from(!member.ended),
            unwoken: usize::from(!member.ended && member.is_unwoken()),
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

    /// Takes out a member with all its queued entries. Its variables must not be written in the
    /// meantime.
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

    /// Adds a member whose `places` variables are the variables of this log. They must not be
    /// written in the meantime. Returns the member if it can no longer join.
    pub(super) fn join(&mut self, moved: Moved, places: u32) -> Result<usize, Box<Moved>> {
        let outbox = &moved.member.options.outbox;
        if !self.open || self.live == 0 || self.places != places || self.is_of(outbox) {
            return Err(Box::new(moved));
        }
        self.settle_all();
        let mut member = moved.member;
        member.place_at(self.end(), self.written);
        self.live += 1;
        if member.is_unwoken() {
            self.add_unwoken();
        }
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

    pub(super) fn is_of(&self, outbox: &Arc<Outbox>) -> bool {
        let mut members = self.members.iter().flatten();
        members.any(|one| Arc::ptr_eq(&one.options.outbox, outbox))
    }

    pub(super) fn remove_places(
        &mut self,
        places: &HashSet<u32>,
        mut freed: QueueSize,
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
        // Runs refer to entries by number, and the numbers have changed. The next member encodes
        // the entries again.
        self.runs.clear();
        for member in self.members.iter_mut().flatten() {
            member.backlog.retain(&mut keep);
        }
        let end = self.end();
        self.wake_parked(wakes);
        for member in self.members.iter_mut().flatten() {
            // The member had not taken the removed entries, so its position does not change.
            member.cursor = member.cursor.min(end);
            if !freed.is_none() {
                member.pass(freed, false, wakes);
            }
            member.wake_parked(wakes);
        }
    }

    pub(super) fn set_absent(&mut self, member: usize, older: Box<dyn Older>, wakes: &mut Wakes) {
        self.settle_all();
        let Some(one) = self.members.get_mut(member).and_then(Option::as_mut) else {
            return;
        };
        one.older = Some(older);
        one.forget_full();
        let was_unwoken = one.is_unwoken() && !one.ended;
        // There is no consumer to mark.
        one.wake_state = WakeState::Draining;
        self.unwoken -= usize::from(was_unwoken);
        one.wake_parked(wakes);
        self.wake_parked(wakes);
    }

    pub(super) fn take_rest(
        &mut self,
        member: usize,
        out: &mut VecDeque<FeedEntry>,
        wakes: &mut Wakes,
    ) -> usize {
        self.settle_all();
        let (start, end, is_alone) = (self.start, self.end(), self.live == 1);
        let Some(one) = self.members.get_mut(member).and_then(Option::as_mut) else {
            return 0;
        };
        let before = out.len();
        move_behind(&mut one.backlog, out);
        if !one.ended {
            if is_alone && one.cursor <= start {
                // No other member needs these entries.
                move_behind(&mut self.entries, out);
                self.start = end;
            } else {
                let from = one.cursor.saturating_sub(start) as usize;
                out.extend(self.entries.iter().skip(from).cloned());
            }
            one.cursor = end;
            if let Some(older) = &mut one.older {
                older.reset_gaps();
            }
        }
        let mut freed = QueueSize::default();
        let taken = out.iter().skip(before);
        taken.for_each(|entry| freed.add(entry.room()));
        let handed_over = match freed.is_none() {
            true => 0,
            false => self.hand_over(member, freed, wakes),
        };
        self.drop_runs();
        self.trim();
        handed_over
    }

    pub(super) fn hand_over(&mut self, member: usize, room: QueueSize, wakes: &mut Wakes) -> usize {
        self.settle_all();
        let total = self.total();
        let Some(one) = self.member_mut(member) else {
            return 0;
        };
        let mut passed = one.passed;
        passed.add(room);
        let handed_over = one.hand_over(room, total.minus(passed).is_none(), wakes);
        self.wake_parked(wakes);
        handed_over
    }

    pub(super) fn recent_of(
        &self,
        place: u32,
        after: u64,
        scan_budget: &mut usize,
        out: &mut Vec<Update>,
    ) {
        for entry in self.entries.iter().rev().take(*scan_budget) {
            *scan_budget -= 1;
            if entry.place == place
                && let Event::Next(update) = &entry.event
            {
                if update.sequence <= after {
                    return;
                }
                out.push(update.clone());
            }
        }
    }

    /// Drops an absent member's oldest entries until `room` fits within its bound. Drops at least
    /// an eighth of the queue, so that this is not needed for every write. A member that [gives
    /// way](Member::gives_way) drops at least as many bytes as are added. Returns false if nothing
    /// was left to drop.
    #[cold]
    pub(super) fn drop_oldest(&mut self, at: usize, room: QueueSize, wakes: &mut Wakes) -> bool {
        let (start, total) = (self.start, self.total());
        let Some(one) = self.members.get_mut(at).and_then(Option::as_mut) else {
            return false;
        };
        let waiting = total.minus(one.passed);
        let least = match one.gives_way() {
            true => (1, room.cost()),
            false => (1 + waiting.updates / 8, 0),
        };
        let (updates, bytes) = (one.options.updates_max, one.options.bytes_max);
        let fits = |freed: QueueSize| {
            let left = waiting.minus(freed);
            freed.updates >= least.0
                && freed.cost() >= least.1
                && left.updates + room.updates <= updates
                && left.bytes.saturating_add(room.bytes) <= bytes
        };
        let mut freed = QueueSize::default();
        while !fits(freed)
            && let Some(entry) = one.backlog.pop_front()
        {
            freed.add(entry.room());
            if let Some(older) = &mut one.older {
                older.miss(entry.place);
            }
        }
        let from = one.cursor.saturating_sub(start) as usize;
        for entry in self.entries.iter().skip(from) {
            if fits(freed) {
                break;
            }
            freed.add(entry.room());
            one.cursor += 1;
            if let Some(older) = &mut one.older {
                older.miss(entry.place);
            }
        }
        if let Some(older) = &mut one.older {
            older.forget_missed(wakes);
        }
        if !freed.is_none() {
            one.pass(freed, waiting.minus(freed).is_none(), wakes);
        }
        self.trim();
        !freed.is_none()
    }

    /// Drops the older data of a member whose queue is empty, because the engine lacks bytes for
    /// new updates. Returns false if there was none.
    #[cold]
    pub(super) fn drop_older(&mut self, at: usize, wakes: &mut Wakes) -> bool {
        self.member_mut(at).is_some_and(|one| one.drop_older(wakes))
    }
}

impl Member {
    /// Sets its position in a log whose total is `written`. Its queued updates stay the same.
    fn place_at(&mut self, cursor: u64, written: QueueSize) {
        let waiting = self.charged.minus(self.passed);
        self.cursor = cursor;
        self.charged = written;
        self.passed = written.minus(waiting);
    }
}
