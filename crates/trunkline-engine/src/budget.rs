//! The bytes that may wait for one consumer, over all its subscriptions.
//!
//! Every buffer has a bound of its own; a client may have many buffers. What waits in its feeds and
//! `first:n` buffers is counted here as well. (`latest` waits as a mark, and the rings of `last:n`
//! belong to their variables.) Lock order: variable, feed, budget.

use crate::outbox::{Outbox, Wakes};
use crate::sync::{Arc, AtomicUsize, Mutex, Ordering};

/// What an update that waits costs beside the bytes of its value.
const ENTRY_BYTES: usize = 64;

/// The bytes that wait for one consumer, and how many may.
#[derive(Debug)]
pub(crate) struct Budget {
    /// `usize::MAX`: as many as there are, and nobody counts them.
    max: AtomicUsize,
    used: AtomicUsize,
    /// Consumers whose writes wait for bytes to become free.
    parked: Mutex<Vec<Arc<Outbox>>>,
}

/// What an update with a value of `bytes` costs.
pub(crate) fn cost(bytes: usize) -> usize {
    bytes.saturating_add(ENTRY_BYTES)
}

impl Budget {
    pub(crate) fn unlimited() -> Self {
        Self {
            max: AtomicUsize::new(usize::MAX),
            used: AtomicUsize::new(0),
            parked: Mutex::new(Vec::new()),
        }
    }

    /// Sets the limit, before anything waits.
    pub(crate) fn limit(&self, max: usize) {
        // Relaxed: the consumer is not shared yet.
        self.max.store(max, Ordering::Relaxed);
    }

    fn max(&self) -> usize {
        self.max.load(Ordering::Relaxed)
    }

    /// Takes `cost` bytes, or says that they are not free. Where nothing waits one update of any
    /// length may: otherwise it would never go over.
    pub(crate) fn claim(&self, cost: usize) -> bool {
        let max = self.max();
        if max == usize::MAX {
            return true;
        }
        let sum = |used: usize| {
            let sum = used.checked_add(cost)?;
            (used == 0 || sum <= max).then_some(sum)
        };
        self.used
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, sum)
            .is_ok()
    }

    /// Whether [`Budget::claim`] would succeed now.
    pub(crate) fn has(&self, cost: usize) -> bool {
        let (max, used) = (self.max(), self.used.load(Ordering::Acquire));
        max == usize::MAX || used == 0 || used.saturating_add(cost) <= max
    }

    /// Gives bytes back and wakes writers that waited for some.
    pub(crate) fn release(&self, cost: usize, wakes: &mut Wakes) {
        if self.max() == usize::MAX || cost == 0 {
            return;
        }
        self.used.fetch_sub(cost, Ordering::AcqRel);
        self.wake_parked(wakes);
    }

    /// Lets writers that wait for bytes try again.
    pub(crate) fn wake_parked(&self, wakes: &mut Wakes) {
        if self.max() == usize::MAX {
            return;
        }
        for outbox in self.parked.lock().drain(..) {
            wakes.add(&outbox);
        }
    }

    /// Asks for `outbox` to be woken when bytes become free. False when `cost` of them are.
    pub(crate) fn park(&self, outbox: &Arc<Outbox>, cost: usize) -> bool {
        let mut parked = self.parked.lock();
        // Under the lock, which whoever frees some takes afterwards.
        let short = !self.has(cost);
        if short && !parked.iter().any(|known| Arc::ptr_eq(known, outbox)) {
            parked.push(Arc::clone(outbox));
        }
        short
    }
}
