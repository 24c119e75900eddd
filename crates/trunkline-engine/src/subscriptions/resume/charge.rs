//! Engine bytes borrowed for data that is stored in addition to queued updates.

use crate::delivery::budget::EngineBudget;
use crate::delivery::outbox::Wakes;
use crate::sync::Arc;
use crate::write::EngineCore;

/// Bytes borrowed at a time.
const CHUNK: usize = 16 << 10;
/// Bytes borrowed at a time by charges of which there are many, each using only a little.
const FINE_CHUNK: usize = 1 << 10;

/// A share of the engine's budget for stored data. Queued updates take precedence: such data gets
/// nothing from the second half of the budget.
#[derive(Debug, Default)]
pub(crate) struct Charge {
    engine: Option<Arc<EngineBudget>>,
    max: usize,
    used: usize,
    borrowed: usize,
}

impl Charge {
    pub(crate) fn of(core: &EngineCore, max: usize) -> Self {
        Self {
            engine: core.memory.clone(),
            max,
            ..Self::default()
        }
    }

    pub(crate) fn limit(&mut self, max: usize) {
        self.max = max;
    }

    /// Takes bytes, and returns true. Returns false if the engine cannot spare them.
    #[inline]
    pub(crate) fn take(&mut self, bytes: usize) -> bool {
        self.take_from(bytes, CHUNK, EngineBudget::borrow_spare)
    }

    /// Takes bytes for data that was queued, and charged as such, until now. Returns false if no
    /// bytes are left.
    pub(crate) fn take_over(&mut self, bytes: usize) -> bool {
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
    pub(crate) fn give_back(&mut self, bytes: usize, wakes: &mut Wakes) {
        debug_assert!(
            bytes <= self.used,
            "more bytes are given back than were taken"
        );
        self.used = self.used.saturating_sub(bytes);
        if self.borrowed > self.used + 4 * CHUNK || self.used == 0 {
            self.shrink(CHUNK, wakes);
        }
    }

    /// Releases bytes here and returns the number of engine bytes no longer needed. They stay
    /// borrowed for the charge that [adopts](Self::adopt) them, so that no other consumer takes
    /// them in between.
    pub(crate) fn hand_over(&mut self, bytes: usize) -> usize {
        debug_assert!(
            bytes <= self.used,
            "more bytes are handed over than were taken"
        );
        self.used = self.used.saturating_sub(bytes);
        let handed_over = self.borrowed.saturating_sub(self.used);
        self.borrowed -= handed_over;
        handed_over
    }

    /// Takes over borrowed engine bytes. Return unused ones with [`settle`](Self::settle).
    pub(crate) fn adopt(&mut self, handed_over: usize) {
        self.borrowed += handed_over;
    }

    /// Returns unused bytes, because nothing more will be taken for some time.
    pub(crate) fn settle(&mut self, wakes: &mut Wakes) {
        self.shrink(FINE_CHUNK, wakes);
    }

    /// Returns surplus bytes, and wakes the writers waiting for them.
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
