//! What was sent and is not confirmed, kept for the session that comes after a broken one.

use std::collections::VecDeque;

use crate::budget::EngineBudget;
use crate::engine::Engine;
use crate::feed::FeedEntry;
use crate::outbox::Wakes;
use crate::sync::Arc;

/// On top of the bytes that may wait for the consumer one in so many is kept once it is sent.
const SENT_PART: usize = 10;
/// Borrowed at a time.
const CHUNK: usize = 16 << 10;

/// Bytes of the engine's budget for what is kept. What waits goes before it: nothing is lent from
/// the second half of the budget.
#[derive(Debug, Default)]
pub(super) struct Charge {
    engine: Option<Arc<EngineBudget>>,
    /// Bytes that it takes at most.
    max: usize,
    used: usize,
    borrowed: usize,
}

impl Charge {
    /// Of at most `max` bytes.
    pub(super) fn of(engine: &Engine, max: usize) -> Self {
        Self {
            engine: engine.memory().map(Arc::clone),
            max,
            ..Self::default()
        }
    }

    /// From now on at most `max` bytes.
    pub(super) fn limit(&mut self, max: usize) {
        self.max = max;
    }

    /// Takes bytes; false when none are to spare.
    #[inline]
    pub(super) fn take(&mut self, bytes: usize) -> bool {
        let used = self.used.saturating_add(bytes);
        if used > self.max {
            return false;
        }
        if used > self.borrowed
            && let Some(engine) = &self.engine
        {
            let more = (used - self.borrowed).next_multiple_of(CHUNK);
            if !engine.borrow_spare(more) {
                return false;
            }
            self.borrowed += more;
        }
        self.used = used;
        true
    }

    #[inline]
    pub(super) fn give_back(&mut self, bytes: usize, wakes: &mut Wakes) {
        debug_assert!(bytes <= self.used, "more is given back than was taken");
        self.used = self.used.saturating_sub(bytes);
        if self.borrowed > self.used + 4 * CHUNK || self.used == 0 {
            self.shrink(wakes);
        }
    }

    /// Writers may wait for what is given back.
    fn shrink(&mut self, wakes: &mut Wakes) {
        let kept = self.used.next_multiple_of(CHUNK).min(self.borrowed);
        let surplus = self.borrowed - kept;
        if let Some(engine) = self.engine.as_ref().filter(|_| surplus > 0) {
            engine.give_back(surplus, wakes);
        }
        self.borrowed = kept;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.used = 0;
        self.shrink(&mut Wakes::new());
    }
}

/// What was sent under `all` and is not confirmed, in the order in which it was; in place of its
/// place in the feed each entry has the variable's handle.
#[derive(Debug)]
pub(super) struct Sent {
    entries: VecDeque<FeedEntry>,
    pub(super) charge: Charge,
}

impl Sent {
    /// `queue_max`: bytes that may wait for the consumer.
    pub(super) fn new(engine: &Engine, queue_max: usize) -> Self {
        Self {
            entries: VecDeque::new(),
            charge: Charge::of(engine, queue_max / SENT_PART),
        }
    }

    /// These entries, which take `cost` bytes, were sent; `handle_at` says whose each place is.
    pub(super) fn extend(
        &mut self,
        entries: impl Iterator<Item = FeedEntry>,
        cost: usize,
        handle_at: impl Fn(u32) -> u32,
        wakes: &mut Wakes,
    ) {
        if !self.charge.take(cost) {
            // A gap in the middle is of no use.
            drop(entries);
            return self.clear(wakes);
        }
        // Now: an item that has gone leaves its number to another one.
        self.entries.extend(entries.map(|mut entry| {
            entry.place = handle_at(entry.place);
            entry
        }));
    }

    /// At most so many are not confirmed, of all contracts.
    #[inline]
    pub(super) fn trim(&mut self, unconfirmed: usize, wakes: &mut Wakes) {
        let over = self.entries.len().saturating_sub(unconfirmed);
        if over > 0 {
            let cost = self.entries.drain(..over).map(|entry| entry.cost()).sum();
            self.charge.give_back(cost, wakes);
        }
    }

    /// Takes everything out, each entry with the handle of its variable.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = (u32, FeedEntry)> {
        self.entries.drain(..).map(|entry| (entry.place, entry))
    }

    #[cold]
    fn clear(&mut self, wakes: &mut Wakes) {
        self.entries = VecDeque::new();
        self.charge.give_back(self.charge.used, wakes);
    }
}
