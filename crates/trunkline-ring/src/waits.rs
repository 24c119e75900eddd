//! Lets each end of a ring signal to the other that it sleeps.

use crate::sync::{AtomicU64, Ordering, fence};

/// Counts the waits of this end, and the waits of the other end that this end has answered.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    /// Number of waits that this end has announced.
    own: u64,
    /// Number of waits of the other end at the last check.
    other_seen: u64,
}

impl Waits {
    /// Announces that this end is waiting. The caller then checks the ring once more.
    pub(crate) fn announce(&mut self, own: &AtomicU64) {
        self.own = self.own.wrapping_add(1);
        own.store(self.own, Ordering::Relaxed);
        // Pairs with the fence in `is_other_waiting`. Either the caller's next check of the ring
        // finds what the other end did before its fence, or the other end finds this announcement.
        fence(Ordering::SeqCst);
    }

    /// Returns true if the other end is waiting; call it after serving the other end. Returns true
    /// once per wait.
    pub(crate) fn is_other_waiting(&mut self, other: &AtomicU64) -> bool {
        fence(Ordering::SeqCst);
        self.is_other_waiting_unfenced(other)
    }

    /// Like [`is_other_waiting`](Self::is_other_waiting), but without the fence: it may miss an end
    /// that begins to wait at the same moment.
    #[inline]
    pub(crate) fn is_other_waiting_unfenced(&mut self, other: &AtomicU64) -> bool {
        std::mem::replace(&mut self.other_seen, other.load(Ordering::Relaxed)) != self.other_seen
    }
}
