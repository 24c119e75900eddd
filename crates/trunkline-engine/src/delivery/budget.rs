//! Memory accounting for queued updates: each consumer has a budget for all its subscriptions, and
//! the engine has one for all its consumers.
//!
//! Every buffer has its own bound, but a client may have many buffers. Updates queued in its feeds
//! and `first:n` buffers therefore also count against its budget. (`latest` queues only marks, and
//! the rings of `last:n` belong to their variables, which borrow directly from the engine's
//! budget.)
//!
//! A consumer borrows from the engine's budget in chunks, so that updates rarely access the counter
//! shared by all threads. Lock order: variable, feed, budget, engine's budget.

use crate::delivery::outbox::{Outbox, Wakes};
use crate::sync::{Arc, AtomicUsize, Mutex, Ordering};

/// Bytes charged for a queued update in addition to the bytes of its value.
const ENTRY_BYTES: usize = 64;
/// Bytes that a consumer borrows from the engine at a time.
const CHUNK_BYTES: usize = 4 << 10;
/// Bytes that a consumer may always queue, even if the engine's budget is used up, so that a
/// consumer that keeps up does not lose its subscriptions because of slow ones.
pub(crate) const FLOOR_BYTES: usize = 64 << 10;

/// Counts and limits the bytes queued for all consumers of an engine.
#[derive(Debug)]
pub(crate) struct EngineBudget {
    max: usize,
    /// Bytes borrowed by consumers and rings.
    used: AtomicUsize,
    /// Number of times that usage has fallen to half of the limit.
    recoveries: AtomicUsize,
    refusals: AtomicUsize,
    parked: Mutex<Vec<Parked>>,
}

/// Counts and limits the bytes queued for one consumer.
#[derive(Debug)]
pub(crate) struct Budget {
    /// Maximum number of queued bytes; `usize::MAX` if the consumer has no limit of its own.
    max: AtomicUsize,
    used: AtomicUsize,
    /// Number of times that the consumer released bytes and at least half of its limit was free
    /// afterwards.
    recoveries: AtomicUsize,
    parked: Mutex<Vec<Parked>>,
    /// The engine's budget to borrow from; `None` if the engine does not limit its memory.
    engine: Option<Arc<EngineBudget>>,
    /// Bytes borrowed from the engine; changed only under `borrow_lock`.
    borrowed: AtomicUsize,
    borrow_lock: Mutex<()>,
}

/// A consumer to wake when `need` bytes are free.
#[derive(Debug)]
struct Parked {
    outbox: Arc<Outbox>,
    need: usize,
}

/// Adds an outbox to a list. If it is already listed, keeps the smaller need.
fn add_parked(list: &mut Vec<Parked>, outbox: &Arc<Outbox>, need: usize) {
    match list
        .iter_mut()
        .find(|parked| Arc::ptr_eq(&parked.outbox, outbox))
    {
        Some(parked) => parked.need = parked.need.min(need),
        None => list.push(Parked {
            outbox: Arc::clone(outbox),
            need,
        }),
    }
}

impl EngineBudget {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            max,
            used: AtomicUsize::new(0),
            recoveries: AtomicUsize::new(0),
            refusals: AtomicUsize::new(0),
            parked: Mutex::new(Vec::new()),
        }
    }

    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    pub(crate) fn max(&self) -> usize {
        self.max
    }

    pub(crate) fn refusals(&self) -> usize {
        self.refusals.load(Ordering::Relaxed)
    }

    /// Returns true if the free bytes are too few for the floor of one more consumer.
    pub(crate) fn is_full(&self) -> bool {
        !self.has(FLOOR_BYTES)
    }

    pub(crate) fn count_refusal(&self) {
        self.refusals.fetch_add(1, Ordering::Relaxed);
    }

    fn has(&self, bytes: usize) -> bool {
        self.used.load(Ordering::SeqCst).saturating_add(bytes) <= self.max
    }

    /// Borrows `bytes` and returns true, or returns false if they are not free. With `by_right`,
    /// succeeds even beyond the limit.
    pub(crate) fn borrow(&self, bytes: usize, by_right: bool) -> bool {
        let sum = |used: usize| {
            let sum = used.checked_add(bytes)?;
            (by_right || sum <= self.max).then_some(sum)
        };
        let is_lent = self
            .used
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, sum)
            .is_ok();
        if !is_lent {
            self.count_refusal();
        }
        is_lent
    }

    /// Borrows `bytes` if they fit in the first half of the limit. Used for optional data, which
    /// must leave room for queued updates.
    pub(crate) fn borrow_spare(&self, bytes: usize) -> bool {
        let sum = |used: usize| {
            let sum = used.checked_add(bytes)?;
            (sum <= self.max / 2).then_some(sum)
        };
        self.used
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, sum)
            .is_ok()
    }

    /// Returns borrowed bytes without waking waiting writers.
    pub(crate) fn return_without_waking(&self, bytes: usize) {
        let before = self.used.fetch_sub(bytes, Ordering::SeqCst);
        let half = self.max / 2;
        if before > half && before - bytes <= half {
            self.recoveries.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Returns borrowed bytes and wakes the writers that now have enough.
    pub(crate) fn give_back(&self, bytes: usize, wakes: &mut Wakes) {
        self.return_without_waking(bytes);
        self.parked.lock().retain(|parked| {
            let wakes_up = self.has(parked.need);
            if wakes_up {
                wakes.add(&parked.outbox);
            }
            !wakes_up
        });
    }

    /// Registers `outbox` to be woken when `bytes` are free. Returns false if they are already
    /// free.
    fn park(&self, outbox: &Arc<Outbox>, bytes: usize) -> bool {
        let mut parked = self.parked.lock();
        // Checked under the lock, because every return of bytes takes the lock as its last step.
        if self.has(bytes) {
            return false;
        }
        add_parked(&mut parked, outbox, bytes);
        true
    }
}

pub(crate) fn cost(bytes: usize) -> usize {
    cost_of(1, bytes)
}

/// The cost of several updates whose values have `bytes` together.
pub(crate) fn cost_of(updates: usize, bytes: usize) -> usize {
    bytes.saturating_add(updates.saturating_mul(ENTRY_BYTES))
}

impl Budget {
    /// Creates the budget of a consumer without its own limit. It borrows from the engine's budget
    /// if there is one.
    pub(crate) fn within(engine: Option<&Arc<EngineBudget>>) -> Self {
        Self {
            max: AtomicUsize::new(usize::MAX),
            used: AtomicUsize::new(0),
            recoveries: AtomicUsize::new(0),
            parked: Mutex::new(Vec::new()),
            engine: engine.map(Arc::clone),
            borrowed: AtomicUsize::new(0),
            borrow_lock: Mutex::new(()),
        }
    }

    pub(crate) fn limit(&self, max: usize) {
        // Relaxed: the consumer is not shared yet.
        self.max.store(max, Ordering::Relaxed);
    }

    /// Bytes queued; 0 if they are not counted.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Maximum number of bytes queued; `usize::MAX` if the consumer has no limit of its own.
    pub(crate) fn max(&self) -> usize {
        self.max.load(Ordering::Relaxed)
    }

    /// Returns true if the limit is finite and at least `bytes`, and less than a quarter is used
    /// both here and in the engine's budget.
    pub(crate) fn is_ample(&self, bytes: usize) -> bool {
        let (max, engine) = (self.max(), self.engine.as_ref());
        (bytes..usize::MAX).contains(&max)
            && self.used() < max / 4
            && engine.is_none_or(|engine| engine.used() < engine.max() / 4)
    }

    pub(crate) fn engine(&self) -> Option<&Arc<EngineBudget>> {
        self.engine.as_ref()
    }

    /// Returns true if bytes are counted, for the consumer or for the engine.
    pub(crate) fn counts(&self) -> bool {
        self.engine.is_some() || self.max() != usize::MAX
    }

    /// Claims `cost` bytes and returns true, or returns false if they are not free. If nothing is
    /// queued, one update of any size is allowed, because otherwise it could never be sent.
    pub(crate) fn claim(&self, cost: usize) -> bool {
        if !self.counts() {
            return true;
        }
        let max = self.max();
        let sum = |used: usize| {
            let sum = used.checked_add(cost)?;
            (used == 0 || sum <= max).then_some(sum)
        };
        let claimed = self
            .used
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, sum);
        let Ok(before) = claimed else { return false };
        let Some(engine) = &self.engine else {
            return true;
        };
        // SeqCst: a thread that returns surplus reads `used` after lowering `borrowed`, so one of
        // the two threads sees the other's change.
        if before + cost <= self.borrowed.load(Ordering::SeqCst) || self.borrow(engine, before == 0)
        {
            return true;
        }
        // A writer that found these bytes taken in the meantime retries when the consumer takes an
        // update, or when the writer's time limit ends.
        self.used.fetch_sub(cost, Ordering::SeqCst);
        false
    }

    /// Borrows the bytes that are used but not yet borrowed. `is_only` is true if nothing else is
    /// queued.
    fn borrow(&self, engine: &EngineBudget, is_only: bool) -> bool {
        let _borrow_lock = self.borrow_lock.lock();
        let used = self.used.load(Ordering::SeqCst);
        let borrowed = self.borrowed.load(Ordering::SeqCst);
        if used <= borrowed {
            return true;
        }
        let more = (used - borrowed).next_multiple_of(CHUNK_BYTES);
        let is_lent = engine.borrow(more, is_only || used <= FLOOR_BYTES);
        if is_lent {
            self.borrowed.store(borrowed + more, Ordering::SeqCst);
        }
        is_lent
    }

    /// Returns the number of free bytes that a write needs if it costs `cost` and already claims
    /// `held` bytes for other subscriptions of the consumer.
    pub(crate) fn need(&self, cost: usize, held: usize) -> usize {
        if held == 0 {
            // If nothing is queued, one update of any size is allowed.
            return cost.min(self.max());
        }
        cost.saturating_add(held)
    }

    /// Returns true if `need` bytes, as computed by [`Budget::need`], are free now.
    pub(crate) fn has(&self, need: usize) -> bool {
        let sum = self.used.load(Ordering::SeqCst).saturating_add(need);
        (self.max() == usize::MAX || sum <= self.max()) && self.missing_bytes(sum) == 0
    }

    /// Returns the number of bytes to borrow from the engine for queuing `sum` bytes in total, or 0
    /// if the engine can lend that many now.
    fn missing_bytes(&self, sum: usize) -> usize {
        let Some(engine) = &self.engine else { return 0 };
        let more = sum.saturating_sub(self.borrowed.load(Ordering::SeqCst));
        let is_only = self.used.load(Ordering::SeqCst) == 0;
        if more == 0 || is_only || sum <= FLOOR_BYTES {
            return 0;
        }
        let more = more.checked_next_multiple_of(CHUNK_BYTES).unwrap_or(more);
        match engine.has(more) {
            true => 0,
            false => more,
        }
    }

    /// Returns a number that changes when the consumer has caught up or half of the engine's bytes
    /// are free again. A caller that found no free bytes can retry once it has changed.
    pub(crate) fn recoveries(&self) -> usize {
        let engine = self
            .engine
            .as_ref()
            .map_or(0, |engine| engine.recoveries.load(Ordering::SeqCst));
        self.recoveries.load(Ordering::Acquire).wrapping_add(engine)
    }

    /// Releases the bytes of updates that the consumer has taken, and wakes the writers that now
    /// have enough.
    pub(crate) fn release(&self, cost: usize, wakes: &mut Wakes) {
        if !self.counts() || cost == 0 {
            return;
        }
        if self.subtract(cost, wakes) <= self.max() / 2 {
            self.recoveries.fetch_add(1, Ordering::AcqRel);
        }
        self.wake_satisfied(wakes);
    }

    /// Returns claimed bytes that were not used. Does not count as progress of the consumer.
    pub(crate) fn give_back(&self, cost: usize, wakes: &mut Wakes) {
        if !self.counts() {
            return;
        }
        let _used = self.subtract(cost, wakes);
        self.wake_satisfied(wakes);
    }

    /// Like [`release`](Self::release), for updates that are stored elsewhere from now on. Returns
    /// the number of engine bytes that this budget no longer needs. They stay borrowed until their
    /// new owner takes them over, so that no other consumer takes them in between.
    pub(crate) fn hand_over(&self, cost: usize, wakes: &mut Wakes) -> usize {
        if self.engine.is_none() || cost == 0 {
            self.release(cost, wakes);
            return 0;
        }
        let used = self.used.fetch_sub(cost, Ordering::SeqCst) - cost;
        if used <= self.max() / 2 {
            self.recoveries.fetch_add(1, Ordering::AcqRel);
        }
        let handed_over = self.take_surplus(|used| used);
        self.wake_satisfied(wakes);
        handed_over
    }

    fn subtract(&self, cost: usize, wakes: &mut Wakes) -> usize {
        let used = self.used.fetch_sub(cost, Ordering::SeqCst) - cost;
        if let Some(engine) = &self.engine
            && self.borrowed.load(Ordering::SeqCst) > used.saturating_add(2 * CHUNK_BYTES)
        {
            self.return_surplus(engine, wakes);
        }
        used
    }

    /// Returns borrowed but unused bytes to the engine, except for one chunk for the next updates.
    fn return_surplus(&self, engine: &EngineBudget, wakes: &mut Wakes) {
        let enough = |used: usize| used.next_multiple_of(CHUNK_BYTES).max(CHUNK_BYTES);
        let surplus = self.take_surplus(enough);
        engine.give_back(surplus, wakes);
    }

    /// Reduces the borrowed bytes to the number that `enough` returns, and returns the difference.
    fn take_surplus(&self, enough: impl Fn(usize) -> usize) -> usize {
        let _borrow_lock = self.borrow_lock.lock();
        let borrowed = self.borrowed.load(Ordering::SeqCst);
        let mut kept = enough(self.used.load(Ordering::SeqCst)).min(borrowed);
        self.borrowed.store(kept, Ordering::SeqCst);
        // A concurrent claim may rely on the number of borrowed bytes that it read before.
        let needed = enough(self.used.load(Ordering::SeqCst)).min(borrowed);
        if needed > kept {
            kept = needed;
            self.borrowed.store(kept, Ordering::SeqCst);
        }
        borrowed - kept
    }

    /// Wakes only writers that now have enough. Otherwise two writers that alternately claim and
    /// return would wake each other forever.
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
        if !self.counts() {
            return;
        }
        for parked in self.parked.lock().drain(..) {
            wakes.add(&parked.outbox);
        }
    }

    /// Registers `outbox` to be woken when `need` bytes are free. Returns false if they are already
    /// free.
    pub(crate) fn park(&self, outbox: &Arc<Outbox>, need: usize) -> bool {
        loop {
            let sum = self.used.load(Ordering::SeqCst).saturating_add(need);
            let missing_bytes = self.missing_bytes(sum);
            let waits_for_engine = match &self.engine {
                Some(engine) if missing_bytes > 0 => engine.park(outbox, missing_bytes),
                _ => false,
            };
            let mut parked = self.parked.lock();
            // Checked under the lock, because every release of bytes takes the lock as its last
            // step.
            if self.has(need) {
                return false;
            }
            let sum = self.used.load(Ordering::SeqCst).saturating_add(need);
            if !waits_for_engine && self.missing_bytes(sum) > 0 {
                // Another thread took the engine's bytes in the meantime.
                continue;
            }
            add_parked(&mut parked, outbox, need);
            return true;
        }
    }
}

impl Drop for Budget {
    fn drop(&mut self) {
        if let Some(engine) = &self.engine {
            engine.return_without_waking(self.borrowed.load(Ordering::SeqCst));
        }
    }
}
