//! One subscription's place in a log, its bound, and what it charges its consumer.

use std::collections::VecDeque;
use std::time::Duration;

use trunkline_types::Tick;

use super::absent::Older;
use super::log::AtHand;
use super::{FeedEntry, Room};
use crate::budget::Budget;
use crate::outbox::{Outbox, Wakes};
use crate::sync::Arc;

/// Bytes of the consumer's budget that a member of a shared feed claims at a time, where the budget
/// is large: an update then costs no atomic operation per member.
const CLAIM: usize = 64 << 10;
/// The same of the only member of a feed: what the consumer borrows at a time.
const CLAIM_ALONE: usize = 4 << 10;
/// Budgets from which on that is done, as long as most of it is free: subscriptions that have
/// little waiting each do not use it up for others.
const LARGE: usize = 16 * CLAIM;

/// Who subscribes, and how much may wait.
#[derive(Debug)]
pub(crate) struct Terms {
    pub(crate) outbox: Arc<Outbox>,
    /// The index in the outbox that stands for the subscription.
    pub(crate) mark: u32,
    pub(crate) elements_max: usize,
    pub(crate) bytes_max: usize,
}

/// A member on its way from one log to another, under the locks of all variables.
#[derive(Debug)]
pub(crate) struct Moved {
    pub(super) member: Member,
    /// What waits for it.
    pub(super) waiting: Room,
}

impl Moved {
    /// The entries that it brings.
    pub(crate) fn entries_mut(&mut self) -> impl Iterator<Item = &mut FeedEntry> {
        self.member.backlog.iter_mut()
    }
}

/// Whether a member that has not ended comes for what is put into the log.
///
/// The thread that marks it may lose its processor before it wakes the consumer. So a mark alone
/// does not relieve the writers after it: each of them wakes the consumer too, until one sees that
/// a wake-up was delivered behind the mark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Attention {
    /// It has found nothing: it is to be marked, and its consumer woken, when something is put in.
    Asleep,
    /// It is marked, and the wake-up of its consumer may still be on some writer's list.
    Marked,
    /// Its consumer was woken behind the mark, or is taking: it comes until it finds nothing.
    Coming,
}

#[derive(Debug)]
pub(super) struct Member {
    pub(super) terms: Terms,
    /// What comes before its place in the log: from before it shared, or all that is left after its
    /// end.
    pub(super) backlog: VecDeque<FeedEntry>,
    /// Its place in the log: the number of the entry to be taken next.
    pub(super) cursor: u64,
    /// The log's total when all that waits for it had not come yet: the difference is what waits.
    /// Wraps.
    pub(super) passed: Room,
    /// Up to which total its consumer's budget is charged. Wraps.
    pub(super) charged: Room,
    /// Claimed beyond that, for updates to come.
    pub(super) ahead: usize,
    /// Since when writers have found it full and it has taken nothing.
    pub(super) full_since: Option<Tick>,
    /// What the least of them needs of the consumer's budget, where it was that which had no room.
    short_of: Option<usize>,
    /// The budget's ebbs when one of them was last told to wait.
    ebbs: usize,
    pub(super) ended: bool,
    /// The log's turn from then on.
    ended_at: u32,
    pub(super) attention: Attention,
    /// Its session broke: it holds what comes for whoever comes back, behind this, and nobody waits
    /// for it.
    pub(super) older: Option<Box<dyn Older>>,
}

impl Member {
    pub(super) fn new(terms: Terms) -> Self {
        Self {
            terms,
            backlog: VecDeque::new(),
            cursor: 0,
            passed: Room::default(),
            charged: Room::default(),
            ahead: 0,
            full_since: None,
            short_of: None,
            ebbs: 0,
            ended: false,
            ended_at: 0,
            attention: Attention::Asleep,
            older: None,
        }
    }

    fn budget(&self) -> &Budget {
        &self.terms.outbox.budget
    }

    /// Whether its own bound has room, `total` being the log's with what is reserved. A feed
    /// without elements takes an update of any length, and a group of any size: otherwise it would
    /// never go over.
    pub(super) fn fits(&self, total: Room, room: Room) -> bool {
        let waiting = total.minus(self.passed);
        waiting.is_none()
            || (waiting.updates + room.updates <= self.terms.elements_max
                && waiting.bytes.saturating_add(room.bytes) <= self.terms.bytes_max)
    }

    /// Whether the consumer's budget has room as well.
    pub(super) fn has_room(&self, total: Room, room: Room) -> bool {
        let need = room.cost();
        self.fits(total, room)
            && (self.ahead >= need || self.budget().has(self.budget().need(need, 0)))
    }

    /// Of what is kept of it elsewhere nothing is of use any more on its behalf. False when it had
    /// nothing that others do not need.
    pub(super) fn miss_all(&mut self, wakes: &mut Wakes) -> bool {
        self.older.as_mut().is_some_and(|older| {
            older.miss_all();
            older.forget_missed(wakes)
        })
    }

    pub(super) fn is_absent(&self) -> bool {
        self.older.is_some()
    }

    /// Whether what it takes must not be more than what it gives up: it is there for who may come
    /// back, and half of the engine's bytes are for those who are there.
    pub(super) fn gives_way(&self) -> bool {
        self.is_absent()
            && self
                .budget()
                .engine()
                .is_some_and(|engine| engine.used() > engine.max() / 2)
    }

    /// Charges the consumer for `room`; false when its bytes are not free.
    pub(super) fn claim(&mut self, room: Room, is_shared: bool) -> bool {
        let cost = room.cost();
        if self.ahead >= cost {
            self.ahead -= cost;
        } else {
            let claim = if is_shared { CLAIM } else { CLAIM_ALONE }.max(cost);
            if self.budget().is_ample(LARGE) && self.budget().claim(claim) {
                self.ahead += claim - cost;
            } else if !self.budget().claim(cost) {
                return false;
            }
        }
        self.charged.add(room);
        true
    }

    /// What it has room for without a look at its budget.
    pub(super) fn at_hand(&self, total: Room) -> AtHand {
        let waiting = total.minus(self.passed);
        AtHand {
            room: Room {
                updates: self.terms.elements_max.saturating_sub(waiting.updates),
                bytes: self.terms.bytes_max.saturating_sub(waiting.bytes),
            },
            claimed: match self.budget().counts() {
                true => self.ahead,
                false => usize::MAX,
            },
        }
    }

    /// [`claim`](Self::claim) of what was [at hand](Self::at_hand).
    pub(super) fn spend(&mut self, room: Room) {
        if self.budget().counts() {
            self.ahead = self.ahead.saturating_sub(room.cost());
        }
        self.charged.add(room);
    }

    /// Gives back what [`claim`](Self::claim) took: nothing came of it.
    pub(super) fn unclaim(&mut self, room: Room, wakes: &mut Wakes) {
        self.charged = self.charged.minus(room);
        let cost = room.cost() + std::mem::take(&mut self.ahead);
        self.budget().give_back(cost, wakes);
    }

    /// It has no room: until when it may be waited for, `None` when that time is over.
    pub(super) fn full(&mut self, now: Tick, stall: Duration) -> Option<Tick> {
        let ebbs = self.budget().ebbs();
        if self.short_of.is_some() && self.ebbs != ebbs {
            // The consumer has caught up since: whoever was told to wait then waits no more.
            self.forget_full();
        }
        self.ebbs = ebbs;
        let until = self.full_since.get_or_insert(now).saturating_add(stall);
        (now < until).then_some(until)
    }

    /// Notes what a write that waits for it needs of the budget.
    pub(super) fn note_need(&mut self, total: Room, room: Room, held: usize) {
        let known = self.short_of.filter(|need| !self.budget().has(*need));
        let need = self
            .fits(total, room)
            .then(|| self.budget().need(room.cost(), held));
        self.short_of = known.into_iter().chain(need).min();
    }

    pub(super) fn forget_full(&mut self) {
        self.full_since = None;
        self.short_of = None;
    }

    /// Asks for `outbox` to be woken at the next room; false when it is not this member that has
    /// none.
    pub(super) fn park(&self, outbox: &Arc<Outbox>) -> bool {
        let full = self.full_since.is_some() && !self.ended;
        full && self
            .short_of
            .is_none_or(|need| self.budget().park(outbox, need))
    }

    /// What took this room is delivered; `is_last`: nothing else waits.
    pub(super) fn pass(&mut self, room: Room, is_last: bool, wakes: &mut Wakes) {
        let freed = self.note_passed(room, is_last);
        self.budget().release(freed, wakes);
    }

    /// [`pass`](Self::pass) of what is kept elsewhere: returns the bytes that stay lent for it.
    pub(super) fn hand_over(&mut self, room: Room, is_last: bool, wakes: &mut Wakes) -> usize {
        let freed = self.note_passed(room, is_last);
        self.budget().hand_over(freed, wakes)
    }

    /// Returns what it cost.
    #[inline]
    fn note_passed(&mut self, room: Room, is_last: bool) -> usize {
        debug_assert!(
            room.updates <= self.charged.minus(self.passed).updates,
            "more is delivered than was put in"
        );
        self.passed.add(room);
        self.forget_full();
        let mut freed = room.cost();
        if is_last {
            freed += std::mem::take(&mut self.ahead);
        }
        freed
    }

    /// Nothing is reserved for it any more; what was reserved before `turn` it still gets.
    pub(super) fn end(&mut self, turn: u32, wakes: &mut Wakes) {
        self.ended = true;
        self.ended_at = turn;
        let too_much = std::mem::take(&mut self.ahead);
        if too_much > 0 {
            self.budget().give_back(too_much, wakes);
        }
        self.budget().wake_parked(wakes);
        self.terms.outbox.mark(self.terms.mark, wakes);
    }

    /// Whether what was reserved at `turn` was reserved for it, too.
    pub(super) fn has_reserved(&self, turn: u32) -> bool {
        !self.ended || turn < self.ended_at
    }

    /// It goes, with all that waits.
    pub(super) fn close(mut self, wakes: &mut Wakes) {
        let rest = self.charged.minus(self.passed).cost() + std::mem::take(&mut self.ahead);
        self.budget().release(rest, wakes);
        self.budget().wake_parked(wakes);
    }

    /// Its writers try again, whatever they waited for.
    pub(super) fn wake_parked(&self, wakes: &mut Wakes) {
        self.budget().wake_parked(wakes);
    }

    /// Sees to it that its consumer comes for what was put in: marks it unless it is marked, and
    /// adds the consumer to those to be woken unless one was woken behind the mark.
    pub(super) fn wake(&mut self, wakes: &mut Wakes) {
        let outbox = &self.terms.outbox;
        let is_woken = match self.attention {
            Attention::Asleep => outbox.mark(self.terms.mark, wakes),
            Attention::Marked => outbox.see_to_wake(wakes),
            Attention::Coming => return,
        };
        self.attention = match is_woken {
            true => Attention::Coming,
            false => Attention::Marked,
        };
    }

    pub(super) fn is_unattended(&self) -> bool {
        self.attention != Attention::Coming
    }
}
