//! One subscription's place in a log, its bound, and the bytes it charges to its consumer.

use std::collections::VecDeque;

use trunkline_types::Tick;

use super::detached::Older;
use super::log::AtHand;
use super::{FeedEntry, Room, Stall};
use crate::delivery::budget::Budget;
use crate::delivery::outbox::{Outbox, Wakes};
use crate::sync::Arc;

/// Bytes of the consumer's budget that a member of a shared feed claims at a time if the budget is
/// large. Most updates then cost no atomic operation per member.
const CLAIM: usize = 64 << 10;
/// Bytes claimed at a time by the only member of a feed: as many as the consumer borrows at a time.
const CLAIM_ALONE: usize = 4 << 10;
/// Minimum budget for claims in advance. They also require that most of the budget is free. This
/// keeps subscriptions with little queued from using up the budget of others.
const CLAIM_BUDGET_MIN: usize = 16 * CLAIM;

/// The subscriber, and the bounds of its queue.
#[derive(Debug)]
pub(crate) struct Terms {
    pub(crate) outbox: Arc<Outbox>,
    /// The index in the outbox that represents the subscription.
    pub(crate) mark: u32,
    pub(crate) updates_max: usize,
    pub(crate) bytes_max: usize,
}

/// A member moving from one log to another, under the locks of all variables.
#[derive(Debug)]
pub(crate) struct Moved {
    pub(super) member: Member,
    /// The room taken by its queued updates.
    pub(super) waiting: Room,
}

impl Moved {
    /// The entries it brings along.
    pub(crate) fn entries_mut(&mut self) -> impl Iterator<Item = &mut FeedEntry> {
        self.member.backlog.iter_mut()
    }
}

/// The wake-up state of a member that has not ended.
///
/// The thread that marks a member may be preempted before it wakes the consumer. A mark alone
/// therefore does not relieve later writers: each of them wakes the consumer too, until one sees
/// that a wake-up was delivered after the mark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Attention {
    /// It has found nothing. The next entry must mark it and wake its consumer.
    Asleep,
    /// It is marked, and the wake-up of its consumer may still be on a writer's list.
    Marked,
    /// Its consumer was woken after the mark, or is taking entries. It continues until it finds no
    /// more.
    Coming,
}

#[derive(Debug)]
pub(super) struct Member {
    pub(super) terms: Terms,
    /// Entries that precede its place in the log: from before it joined a shared feed, or all that
    /// is left after its end.
    pub(super) backlog: VecDeque<FeedEntry>,
    /// Its place in the log: the number of the next entry to take.
    pub(super) cursor: u64,
    /// The log's total at the point up to which it has delivered. The difference between this and
    /// the current total is the room taken by its queue. Wraps.
    pub(super) passed: Room,
    /// The total up to which its consumer's budget is charged. Wraps.
    pub(super) charged: Room,
    /// Bytes claimed in advance for future updates, in addition to `charged`.
    pub(super) claimed_ahead: usize,
    /// Time at which a writer first found it full since it last had room or its consumer last took
    /// something.
    pub(super) full_since: Option<Tick>,
    /// The smallest number of free bytes of the budget that one of those writers needs, if the
    /// budget lacked room.
    least_need: Option<usize>,
    /// The [`recoveries`](Budget::recoveries) of the budget when a writer last found it full.
    recoveries: usize,
    pub(super) ended: bool,
    /// The log's turn since it ended. A reservation made in an earlier turn includes it.
    end_turn: u32,
    pub(super) attention: Attention,
    /// Set if its session broke: the data that precedes its queue, kept for the return of the
    /// session. Such a member is absent, and no writer waits for it.
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
            claimed_ahead: 0,
            full_since: None,
            least_need: None,
            recoveries: 0,
            ended: false,
            end_turn: 0,
            attention: Attention::Asleep,
            older: None,
        }
    }

    fn budget(&self) -> &Budget {
        &self.terms.outbox.budget
    }

    /// Returns true if its own bound has room. `total` is the log's total including reservations.
    /// An empty queue takes an update of any length and a group of any size, because otherwise they
    /// could never be sent.
    pub(super) fn fits(&self, total: Room, room: Room) -> bool {
        let waiting = total.minus(self.passed);
        waiting.is_none()
            || (waiting.updates + room.updates <= self.terms.updates_max
                && waiting.bytes.saturating_add(room.bytes) <= self.terms.bytes_max)
    }

    /// Returns true if both its bound and the consumer's budget have room.
    pub(super) fn has_room(&self, total: Room, room: Room) -> bool {
        let cost = room.cost();
        self.fits(total, room)
            && (self.claimed_ahead >= cost || self.budget().has(self.budget().need(cost, 0)))
    }

    /// Drops all older data kept for it, unless others need it. Returns false if nothing was
    /// dropped.
    pub(super) fn drop_older(&mut self, wakes: &mut Wakes) -> bool {
        self.older.as_mut().is_some_and(|older| {
            older.miss_all();
            older.forget_missed(wakes)
        })
    }

    pub(super) fn is_absent(&self) -> bool {
        self.older.is_some()
    }

    /// Returns true if it may take only as many bytes as it gives up: it is absent, and half of the
    /// engine's bytes are kept for sessions that are present.
    pub(super) fn gives_way(&self) -> bool {
        self.is_absent()
            && self
                .budget()
                .engine()
                .is_some_and(|engine| engine.used() > engine.max() / 2)
    }

    /// Charges the consumer for `room`. Returns false if the bytes are not free.
    pub(super) fn claim(&mut self, room: Room, is_shared: bool) -> bool {
        let cost = room.cost();
        if self.claimed_ahead >= cost {
            self.claimed_ahead -= cost;
        } else {
            let claim = if is_shared { CLAIM } else { CLAIM_ALONE }.max(cost);
            if self.budget().is_ample(CLAIM_BUDGET_MIN) && self.budget().claim(claim) {
                self.claimed_ahead += claim - cost;
            } else if !self.budget().claim(cost) {
                return false;
            }
        }
        self.charged.add(room);
        true
    }

    /// The room it has without asking its budget.
    pub(super) fn at_hand(&self, total: Room) -> AtHand {
        let waiting = total.minus(self.passed);
        AtHand {
            room: Room {
                updates: self.terms.updates_max.saturating_sub(waiting.updates),
                bytes: self.terms.bytes_max.saturating_sub(waiting.bytes),
            },
            claimed: match self.budget().counts() {
                true => self.claimed_ahead,
                false => usize::MAX,
            },
        }
    }

    /// Like [`claim`](Self::claim), for room that was [at hand](Self::at_hand).
    pub(super) fn spend(&mut self, room: Room) {
        if self.budget().counts() {
            self.claimed_ahead = self.claimed_ahead.saturating_sub(room.cost());
        }
        self.charged.add(room);
    }

    /// Gives back the bytes that [`claim`](Self::claim) took, because the write was not committed,
    /// and those claimed in advance.
    pub(super) fn unclaim(&mut self, room: Room, wakes: &mut Wakes) {
        self.charged = self.charged.minus(room);
        let cost = room.cost() + std::mem::take(&mut self.claimed_ahead);
        self.budget().give_back(cost, wakes);
    }

    /// Records that a writer found it full. Returns the time until which writers may wait for it,
    /// or `None` if that time is over.
    pub(super) fn note_full(&mut self, stall: Stall) -> Option<Tick> {
        let recoveries = self.budget().recoveries();
        if self.least_need.is_some() && self.recoveries != recoveries {
            // The consumer has caught up since, so the wait that began then has ended.
            self.forget_full();
        }
        self.recoveries = recoveries;
        let since = *self.full_since.get_or_insert(stall.now);
        let until = since.saturating_add(stall.limit);
        (stall.now < until).then_some(until)
    }

    /// Records the budget that a write waiting for it needs.
    pub(super) fn note_need(&mut self, total: Room, room: Room, held: usize) {
        // A recorded need that the budget meets now is no longer waited for.
        let known = self.least_need.filter(|need| !self.budget().has(*need));
        let need = self
            .fits(total, room)
            .then(|| self.budget().need(room.cost(), held));
        self.least_need = known.into_iter().chain(need).min();
    }

    pub(super) fn forget_full(&mut self) {
        self.full_since = None;
        self.least_need = None;
    }

    /// Registers `outbox` to be woken when this member has room. Returns false if it is not full or
    /// has ended, or if the bytes that it lacked are free.
    pub(super) fn park(&self, outbox: &Arc<Outbox>) -> bool {
        let full = self.full_since.is_some() && !self.ended;
        full && self
            .least_need
            .is_none_or(|need| self.budget().park(outbox, need))
    }

    /// Frees the room of delivered updates. `is_last` is true if nothing else is queued.
    pub(super) fn pass(&mut self, room: Room, is_last: bool, wakes: &mut Wakes) {
        let freed = self.note_passed(room, is_last);
        self.budget().release(freed, wakes);
    }

    /// Like [`pass`](Self::pass), for entries that are kept elsewhere. Returns the bytes that stay
    /// borrowed for them.
    pub(super) fn hand_over(&mut self, room: Room, is_last: bool, wakes: &mut Wakes) -> usize {
        let freed = self.note_passed(room, is_last);
        self.budget().hand_over(freed, wakes)
    }

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
            freed += std::mem::take(&mut self.claimed_ahead);
        }
        freed
    }

    /// Ends the member. Nothing is reserved for it any more, but it still gets the updates reserved
    /// before `turn`.
    pub(super) fn end(&mut self, turn: u32, wakes: &mut Wakes) {
        self.ended = true;
        self.end_turn = turn;
        let unused = std::mem::take(&mut self.claimed_ahead);
        if unused > 0 {
            self.budget().give_back(unused, wakes);
        }
        self.budget().wake_parked(wakes);
        self.terms.outbox.mark(self.terms.mark, wakes);
    }

    /// Returns true if a reservation made at `turn` includes it.
    pub(super) fn has_reserved(&self, turn: u32) -> bool {
        !self.ended || turn < self.end_turn
    }

    pub(super) fn close(mut self, wakes: &mut Wakes) {
        let rest = self.charged.minus(self.passed).cost() + std::mem::take(&mut self.claimed_ahead);
        self.budget().release(rest, wakes);
        self.budget().wake_parked(wakes);
    }

    /// Lets its writers try again, whatever they waited for.
    pub(super) fn wake_parked(&self, wakes: &mut Wakes) {
        self.budget().wake_parked(wakes);
    }

    /// Ensures that its consumer comes for new entries: marks it unless it is marked, and adds the
    /// consumer to `wakes` unless it was woken after the mark.
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
