//! Signals between the two ends of a ring that one of them sleeps.

use crate::sync::{AtomicU64, Ordering, fence};

/// Number of waits of this end, and number of the other end's waits that it has seen.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    own: u64,
    other_seen: u64,
}

impl Waits {
    /// Announces that this end waits. The caller then checks the ring once more.
    pub(crate) fn say(&mut self, own: &AtomicU64) {
        self.own = self.own.wrapping_add(1);
        own.store(self.own, Ordering::Relaxed);
        // Pairs with the fence in `is_other_waiting`: either the check that follows this one finds
        // what the other end did before its own, or the other end finds this announcement.
        fence(Ordering::SeqCst);
    }

    /// Returns true if the other end waits; call it after serving the other end. Returns true once
    /// per wait.
    pub(crate) fn is_other_waiting(&mut self, other: &AtomicU64) -> bool {
        fence(Ordering::SeqCst);
        self.glance(other)
    }

    /// As [`is_other_waiting`](Self::is_other_waiting) without the fence: an end that begins to
    /// wait at this very moment may be missed.
    #[inline]
    pub(crate) fn glance(&mut self, other: &AtomicU64) -> bool {
        std::mem::replace(&mut self.other_seen, other.load(Ordering::Relaxed)) != self.other_seen
    }
}
