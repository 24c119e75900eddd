//! Members and variables that join and leave a log.

use std::collections::{HashSet, VecDeque};

use super::log::Log;
use super::member::{Member, Moved};
use super::{FeedEntry, Room};
use crate::delivery::outbox::{Outbox, Wakes};
use crate::sync::Arc;

impl Log {
    pub(super) fn depart(&mut self, member: usize, wakes: &mut Wakes) {
        let Some(mut gone) = self.remove(member) else {
            return;
        };
        gone.miss_all(wakes);
        gone.close(wakes);
        self.wake_parked(wakes);
    }

    fn remove(&mut self, member: usize) -> Option<Member> {
        self.settle_all();
        let gone = self.members.get_mut(member)?.take()?;
        if !gone.ended {
            self.live -= 1;
            self.unattended -= usize::from(gone.is_unattended());
        }
        self.trim();
        Some(gone)
    }

    pub(super) fn shut(&mut self) -> bool {
        self.open = false;
        self.is_shared()
    }

    /// Lets other subscriptions of the same variables join from now on.
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
            unattended: usize::from(!member.ended && member.is_unattended()),
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

    /// Takes out a member with everything queued for it. Its variables must not be written
    /// meanwhile.
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

    /// Adds a member whose `places` variables are those of this log. They must not be written
    /// meanwhile. Returns the member if it can no longer join.
    pub(super) fn join(&mut self, moved: Moved, places: u32) -> Result<usize, Box<Moved>> {
        let outbox = &moved.member.terms.outbox;
        if !self.open || self.live == 0 || self.places != places || self.is_of(outbox) {
            return Err(Box::new(moved));
        }
        self.settle_all();
        let mut member = moved.member;
        member.place_at(self.end(), self.written);
        self.live += 1;
        if member.is_unattended() {
            self.add_unattended();
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
        members.any(|one| Arc::ptr_eq(&one.terms.outbox, outbox))
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
        // Runs are numbered by entries that may be gone. The next member encodes anew.
        self.runs.clear();
        for member in self.members.iter_mut().flatten() {
            member.backlog.retain(&mut keep);
        }
        let end = self.end();
        self.wake_parked(wakes);
        for member in self.members.iter_mut().flatten() {
            // The member had not taken the removed entries, so its place does not move.
            member.cursor = member.cursor.min(end);
            if !freed.is_none() {
                member.pass(freed, false, wakes);
            }
            member.wake_parked(wakes);
        }
    }
}

impl Member {
    /// Sets its place in a log with this total, keeping the amount of its queued updates.
    fn place_at(&mut self, cursor: u64, written: Room) {
        let waiting = self.charged.minus(self.passed);
        self.cursor = cursor;
        self.charged = written;
        self.passed = written.minus(waiting);
    }
}
