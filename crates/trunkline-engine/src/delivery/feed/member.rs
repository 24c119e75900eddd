//! One subscription's position in a log, its bound, and the bytes charged to its consumer.

use std::collections::VecDeque;

use trunkline_types::Tick;

use super::detached::Older;
use super::log::Headroom;
use super::{FeedEntry, QueueSize, Stall};
use crate::delivery::budget::Budget;
use crate::delivery::outbox::{Outbox, Wakes};
use crate::sync::Arc;

/// Bytes of the consumer's budget that a member of a shared feed claims at a time if the budget is
/// large. Most updates then need no atomic operation per member.
const CLAIM: usize = 64 << 10;
/// Bytes that the only member of a feed claims at a time. Equals the number that a consumer borrows
/// at a time.
const CLAIM_ALONE: usize = 4 << 10;
/// Minimum budget for claims in advance. Such claims also require that most of the budget is free.
/// Subscriptions with short queues therefore do not use up the budget of others.
const CLAIM_BUDGET_MIN: usize = 16 * CLAIM;

/// The subscriber, and the bounds of its queue.
#[derive(Debug)]
pub(crate) struct MemberOptions {
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
    /// The number and bytes of its queued updates.
    pub(super) waiting: QueueSize,
}

impl Moved {
    /// Returns the entries that the member brings from its previous log.
    pub(crate) fn entries_mut(&mut self) -> impl Iterator<Item = &mut FeedEntry> {
        self.member.backlog.iter_mut()
    }
}

/// The wake-up state of a member that has not ended.
///
/// The thread that marks a member may be preempted before it wakes the consumer. A mark alone
/// therefore does not exempt later writers: each of them also wakes the consumer, until one finds
/// that a wake-up was delivered after the mark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WakeState {
    /// The consumer has found the queue empty. The next entry must mark the member and wake the
    /// consumer.
    Idle,
    /// The member is marked, but its consumer may not have been woken yet: the wake-up may still be
    /// on a writer's list.
    Marked,
    /// The consumer was woken after the mark, or is taking entries. It continues until the queue is
    /// empty.
    Draining,
}

#[derive(Debug)]
pub(super) struct Member {
    pub(super) options: MemberOptions,
    /// Entries that precede its position in the log: those from before it joined a shared feed, or,
    /// after its end, all remaining ones.
    pub(super) backlog: VecDeque<FeedEntry>,
    /// Its position in the log: the number of the next entry to take.
    pub(super) cursor: u64,
    /// The log's total up to the last update that the member has delivered. The current total minus
    /// this value is the room used by its queue. Wraps on overflow.
    pub(super) passed: QueueSize,
    /// The log's total up to which its consumer's budget is charged. Wraps on overflow.
    pub(super) charged: QueueSize,
    /// Bytes claimed in advance for future updates, in addition to `charged`.
    pub(super) claimed_ahead: usize,
    /// Time at which a writer first found the member full. `None` again once it has room or its
    /// consumer takes an update.
    pub(super) full_since: Option<Tick>,
    /// Smallest number of free bytes that a waiting writer needs from the budget; `None` if the
    /// budget was not the reason to wait.
    least_need: Option<usize>,
    /// The [`recoveries`](Budget::recoveries) of the budget when a writer last found it full.
    recoveries: usize,
    pub(super) ended: bool,
    /// The log's `end_count` right after the member ended. A reservation made before that has a
    /// smaller number and includes the member.
    end_number: u32,
    pub(super) wake_state: WakeState,
    /// Data that precedes the queue of a member whose session is lost, stored until the session
    /// returns. While it is set, the member is absent, and no writer waits for it.
    pub(super) older: Option<Box<dyn Older>>,
}

impl Member {
    pub(super) fn new(options: MemberOptions) -> Self {
        Self {
            options,
            backlog: VecDeque::new(),
            cursor: 0,
            passed: QueueSize::default(),
            charged: QueueSize::default(),
            claimed_ahead: 0,
            full_since: None,
            least_need: None,
            recoveries: 0,
            ended: false,
            end_number: 0,
            wake_state: WakeState::Idle,
            older: None,
        }
    }

    fn budget(&self) -> &Budget {
        &self.options.outbox.budget
    }

    /// Returns true if its own bound has room. `total` is the log's total including reservations.
    /// An empty queue accepts an update of any size and a group of any size, because otherwise they
    /// could never be sent.
    pub(super) fn fits(&self, total: QueueSize, room: QueueSize) -> bool {
        let waiting = total.minus(self.passed);
        waiting.is_none()
            || (waiting.updates + room.updates <= self.options.updates_max
                && waiting.bytes.saturating_add(room.bytes) <= self.options.bytes_max)
    }

    /// Returns true if both its bound and the consumer's budget have room.
    pub(super) fn has_room(&self, total: QueueSize, room: QueueSize) -> bool {
        let cost = room.cost();
        self.fits(total, room)
            && (self.claimed_ahead >= cost || self.budget().has(self.budget().need(cost, 0)))
    }

    /// Drops all older data stored for it, unless it is needed elsewhere. Returns false if nothing
    /// was dropped.
    pub(super) fn drop_older(&mut self, wakes: &mut Wakes) -> bool {
        self.older.as_mut().is_some_and(|older| {
            older.miss_all();
            older.forget_missed(wakes)
        })
    }

    pub(super) fn is_absent(&self) -> bool {
        self.older.is_some()
    }

    /// Returns true if the member must release as many bytes as it takes. This applies to an absent
    /// member once half of the engine's bytes are in use; the other half is reserved for connected
    /// sessions.
    pub(super) fn gives_way(&self) -> bool {
        self.is_absent()
            && self
                .budget()
                .engine()
                .is_some_and(|engine| engine.used() > engine.max() / 2)
    }

    /// Charges the consumer for `room`. Returns false if the bytes are not free.
    pub(super) fn claim(&mut self, room: QueueSize, is_shared: bool) -> bool {
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

    /// Returns the room that the member has without a new claim on its budget.
    pub(super) fn headroom(&self, total: QueueSize) -> Headroom {
        let waiting = total.minus(self.passed);
        Headroom {
            room: QueueSize {
                updates: self.options.updates_max.saturating_sub(waiting.updates),
                bytes: self.options.bytes_max.saturating_sub(waiting.bytes),
            },
            claimed: match self.budget().counts() {
                true => self.claimed_ahead,
                false => usize::MAX,
            },
        }
    }

    /// Like [`claim`](Self::claim), for room within the [headroom](Self::headroom).
    pub(super) fn spend(&mut self, room: QueueSize) {
        if self.budget().counts() {
            self.claimed_ahead = self.claimed_ahead.saturating_sub(room.cost());
        }
        self.charged.add(room);
    }

    /// Returns the bytes taken by [`claim`](Self::claim) for a write that was not committed,
    /// together with those claimed in advance.
    pub(super) fn unclaim(&mut self, room: QueueSize, wakes: &mut Wakes) {
        self.charged = self.charged.minus(room);
        let cost = room.cost() + std::mem::take(&mut self.claimed_ahead);
        self.budget().give_back(cost, wakes);
    }

    /// Records that a writer found it full. Returns the time until which writers may wait for it,
    /// or `None` if that time has passed.
    pub(super) fn note_full(&mut self, stall: Stall) -> Option<Tick> {
        let recoveries = self.budget().recoveries();
        if self.least_need.is_some() && self.recoveries != recoveries {
            // The consumer has caught up in the meantime, so the wait that began earlier is over.
            self.forget_full();
        }
        self.recoveries = recoveries;
        let since = *self.full_since.get_or_insert(stall.now);
        let until = since.saturating_add(stall.limit);
        (stall.now < until).then_some(until)
    }

    /// Records how many bytes of the budget a waiting write needs.
    pub(super) fn note_need(&mut self, total: QueueSize, room: QueueSize, held: usize) {
        // Ignores a recorded need that the budget can satisfy now.
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

    /// Registers `outbox` to be woken when this member has room. Returns false if the member is not
    /// full or has ended, or if the missing bytes are now free.
    pub(super) fn park(&self, outbox: &Arc<Outbox>) -> bool {
        let full = self.full_since.is_some() && !self.ended;
        full && self
            .least_need
            .is_none_or(|need| self.budget().park(outbox, need))
    }

    /// Frees the room of delivered updates. `is_last` is true if the queue is then empty.
    pub(super) fn pass(&mut self, room: QueueSize, is_last: bool, wakes: &mut Wakes) {
        let freed = self.note_passed(room, is_last);
        self.budget().release(freed, wakes);
    }

    /// Like [`pass`](Self::pass), for entries that are stored elsewhere. Returns the bytes that
    /// stay borrowed for them.
    pub(super) fn hand_over(&mut self, room: QueueSize, is_last: bool, wakes: &mut Wakes) -> usize {
        let freed = self.note_passed(room, is_last);
        self.budget().hand_over(freed, wakes)
    }

    #[inline]
    fn note_passed(&mut self, room: QueueSize, is_last: bool) -> usize {
        debug_assert!(
            room.updates <= self.charged.minus(self.passed).updates,
            "more updates are delivered than were added"
        );
        self.passed.add(room);
        self.forget_full();
        let mut freed = room.cost();
        if is_last {
            freed += std::mem::take(&mut self.claimed_ahead);
        }
        freed
    }

    /// Ends the member, with this value of the log's `end_count`. No more room is reserved for it,
    /// but it still receives the updates whose room is already reserved.
    pub(super) fn end(&mut self, end_number: u32, wakes: &mut Wakes) {
        self.ended = true;
        self.end_number = end_number;
        let unused = std::mem::take(&mut self.claimed_ahead);
        if unused > 0 {
            self.budget().give_back(unused, wakes);
        }
        self.budget().wake_parked(wakes);
        self.options.outbox.mark(self.options.mark, wakes);
    }

    /// Returns true if the reservation includes the member.
    pub(super) fn has_reserved(&self, reservation: u32) -> bool {
        !self.ended || reservation < self.end_number
    }

    pub(super) fn close(mut self, wakes: &mut Wakes) {
        let rest = self.charged.minus(self.passed).cost() + std::mem::take(&mut self.claimed_ahead);
        self.budget().release(rest, wakes);
        self.budget().wake_parked(wakes);
    }

    /// Lets its waiting writers retry, whatever they wait for.
    pub(super) fn wake_parked(&self, wakes: &mut Wakes) {
        self.budget().wake_parked(wakes);
    }

    /// Ensures that its consumer takes new entries: marks the member unless it is marked, and adds
    /// the consumer to `wakes` unless it was woken after the mark.
    pub(super) fn wake(&mut self, wakes: &mut Wakes) {
        let outbox = &self.options.outbox;
        let is_woken = match self.wake_state {
            WakeState::Idle => outbox.mark(self.options.mark, wakes),
            WakeState::Marked => outbox.ensure_woken(wakes),
            WakeState::Draining => return,
        };
        self.wake_state = match is_woken {
            true => WakeState::Draining,
            false => WakeState::Marked,
        };
    }

    pub(super) fn is_unwoken(&self) -> bool {
        self.wake_state != WakeState::Draining
    }
}
