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
    /// How often the consumer has taken so much that half of them were free again.
    ebbs: AtomicUsize,
    parked: Mutex<Vec<Parked>>,
}

/// A consumer whose write waits for bytes to become free.
#[derive(Debug)]
struct Parked {
    outbox: Arc<Outbox>,
    need: usize,
}

/// What an update with a value of `bytes` costs.
pub(crate) fn cost(bytes: usize) -> usize {
    cost_of(1, bytes)
}

/// What updates with values of `bytes` together cost.
pub(crate) fn cost_of(updates: usize, bytes: usize) -> usize {
    bytes.saturating_add(updates.saturating_mul(ENTRY_BYTES))
}

impl Budget {
    pub(crate) fn unlimited() -> Self {
        Self {
            max: AtomicUsize::new(usize::MAX),
            used: AtomicUsize::new(0),
            ebbs: AtomicUsize::new(0),
            parked: Mutex::new(Vec::new()),
        }
    }

    /// Sets the limit, before anything waits.
    pub(crate) fn limit(&self, max: usize) {
        // Relaxed: the consumer is not shared yet.
        self.max.store(max, Ordering::Relaxed);
    }

    /// Bytes that wait; 0 where nobody counts them.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    fn max(&self) -> usize {
        self.max.load(Ordering::Relaxed)
    }

    /// Whether bytes are counted, and so many may wait.
    pub(crate) fn is_limited_to_at_least(&self, bytes: usize) -> bool {
        (bytes..usize::MAX).contains(&self.max())
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

    /// What has to be free for a write that costs `cost`, of which `held` comes on top for other
    /// subscriptions of the consumer.
    pub(crate) fn need(&self, cost: usize, held: usize) -> usize {
        if held == 0 {
            // Where nothing waits one update of any length may.
            return cost.min(self.max());
        }
        cost.saturating_add(held)
    }

    /// Whether what [`Budget::need`] said is free now.
    pub(crate) fn has(&self, need: usize) -> bool {
        let (max, used) = (self.max(), self.used.load(Ordering::Acquire));
        max == usize::MAX || used.saturating_add(need) <= max
    }

    /// A number that changes when the consumer has caught up: whoever found no bytes free before
    /// could have had some since.
    pub(crate) fn ebbs(&self) -> usize {
        self.ebbs.load(Ordering::Acquire)
    }

    /// Gives back bytes of what the consumer has taken, and wakes writers that find enough now.
    pub(crate) fn release(&self, cost: usize, wakes: &mut Wakes) {
        if self.max() == usize::MAX || cost == 0 {
            return;
        }
        if self.subtract(cost) <= self.max() / 2 {
            self.ebbs.fetch_add(1, Ordering::AcqRel);
        }
        self.wake_satisfied(wakes);
    }

    /// Gives bytes back that were claimed for nothing: the consumer has taken nothing.
    pub(crate) fn give_back(&self, cost: usize, wakes: &mut Wakes) {
        if self.max() == usize::MAX {
            return;
        }
        let _used = self.subtract(cost);
        self.wake_satisfied(wakes);
    }

    fn subtract(&self, cost: usize) -> usize {
        self.used.fetch_sub(cost, Ordering::AcqRel) - cost
    }

    /// Only writers that find what they need: two that take and give back in turn would wake each
    /// other for ever.
    fn wake_satisfied(&self, wakes: &mut Wakes) {
        self.parked.lock().retain(|parked| {
            let wakes_up = self.has(parked.need);
            if wakes_up {
                wakes.add(&parked.outbox);
            }
            !wakes_up
        });
    }

    /// Lets all writers that wait for bytes try again.
    pub(crate) fn wake_parked(&self, wakes: &mut Wakes) {
        if self.max() == usize::MAX {
            return;
        }
        for parked in self.parked.lock().drain(..) {
            wakes.add(&parked.outbox);
        }
    }

    /// Asks for `outbox` to be woken when `need` is free. False when it is.
    pub(crate) fn park(&self, outbox: &Arc<Outbox>, need: usize) -> bool {
        let mut parked = self.parked.lock();
        // Under the lock, which whoever frees some takes afterwards.
        if self.has(need) {
            return false;
        }
        match parked
            .iter_mut()
            .find(|known| Arc::ptr_eq(&known.outbox, outbox))
        {
            Some(known) => known.need = known.need.min(need),
            None => parked.push(Parked {
                outbox: Arc::clone(outbox),
                need,
            }),
        }
        true
    }
}
