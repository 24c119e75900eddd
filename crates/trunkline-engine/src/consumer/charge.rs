//! Bytes of the engine that are lent for what is kept beside what waits.

use crate::budget::EngineBudget;
use crate::engine::Engine;
use crate::outbox::Wakes;
use crate::sync::Arc;

/// Borrowed at a time.
const CHUNK: usize = 16 << 10;
/// The same where there are many that hardly use any.
const FINE_CHUNK: usize = 1 << 10;

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
        self.take_from(bytes, CHUNK, EngineBudget::borrow_spare)
    }

    /// Takes bytes for what waited until now, and was charged as that; false when none are left.
    pub(super) fn take_over(&mut self, bytes: usize) -> bool {
        self.take_from(bytes, FINE_CHUNK, |engine, bytes| {
            engine.borrow(bytes, false)
        })
    }

    #[inline]
    fn take_from(
        &mut self,
        bytes: usize,
        chunk: usize,
        borrow: impl FnOnce(&EngineBudget, usize) -> bool,
    ) -> bool {
        let used = self.used.saturating_add(bytes);
        if used > self.max {
            return false;
        }
        if used > self.borrowed
            && let Some(engine) = &self.engine
        {
            let more = (used - self.borrowed).next_multiple_of(chunk);
            if !borrow(engine, more) {
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
            self.shrink(CHUNK, wakes);
        }
    }

    /// Bytes that are needed no more here, nor what is borrowed beyond them: they stay taken from
    /// the engine, for whoever [adopts](Self::adopt) them, so that nobody gets them between.
    pub(super) fn hand_over(&mut self, bytes: usize) -> usize {
        debug_assert!(bytes <= self.used, "more is handed over than was taken");
        self.used = self.used.saturating_sub(bytes);
        let lent = self.borrowed.saturating_sub(self.used);
        self.borrowed -= lent;
        lent
    }

    /// Has these bytes of the engine from now on; what it does not use is to be given back with
    /// [`settle`](Self::settle).
    pub(super) fn adopt(&mut self, lent: usize) {
        self.borrowed += lent;
    }

    /// Nothing more is taken for long: keeps no more than is used.
    pub(super) fn settle(&mut self, wakes: &mut Wakes) {
        self.shrink(FINE_CHUNK, wakes);
    }

    /// Writers may wait for what is given back.
    fn shrink(&mut self, chunk: usize, wakes: &mut Wakes) {
        let kept = self.used.next_multiple_of(chunk).min(self.borrowed);
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
        self.shrink(CHUNK, &mut Wakes::new());
    }
}
