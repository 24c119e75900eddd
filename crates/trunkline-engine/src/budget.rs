//! The bytes that may wait for one consumer, over all its subscriptions, and for all consumers of
//! an engine.
//!
//! Every buffer has a bound of its own; a client may have many buffers. What waits in its feeds and
//! `first:n` buffers is counted here as well. (`latest` waits as a mark, and the rings of `last:n`
//! belong to their variables, which lend from the engine's bytes themselves.)
//!
//! A consumer borrows the engine's bytes in chunks, so that updates seldom touch what all threads
//! share. Lock order: variable, feed, budget, engine's budget.

use crate::outbox::{Outbox, Wakes};
use crate::sync::{Arc, AtomicUsize, Mutex, Ordering};

/// What an update that waits costs beside the bytes of its value.
const ENTRY_BYTES: usize = 64;
/// Borrowed and given back at a time.
const CHUNK_BYTES: usize = 4 << 10;
/// What a consumer may always have waiting, however full the engine is: whoever takes what comes is
/// not ended because of others who do not.
pub(crate) const FLOOR_BYTES: usize = 64 << 10;

/// The bytes that wait for all consumers of an engine together, and how many may.
#[derive(Debug)]
pub(crate) struct EngineBudget {
    max: usize,
    /// Borrowed by consumers and rings.
    used: AtomicUsize,
    /// How often it went down to half.
    ebbs: AtomicUsize,
    /// How often somebody needed more than there was.
    refusals: AtomicUsize,
    parked: Mutex<Vec<Parked>>,
}

/// The bytes that wait for one consumer, and how many may.
#[derive(Debug)]
pub(crate) struct Budget {
    /// `usize::MAX`: as many as there are.
    max: AtomicUsize,
    used: AtomicUsize,
    /// How often the consumer has taken so much that half of them were free again.
    ebbs: AtomicUsize,
    parked: Mutex<Vec<Parked>>,
    /// Where it borrows what it uses; `None`: nobody counts for the engine.
    engine: Option<Arc<EngineBudget>>,
    /// Borrowed there; changed under `moving` only.
    borrowed: AtomicUsize,
    moving: Mutex<()>,
}

/// A consumer whose write waits for bytes to become free.
#[derive(Debug)]
struct Parked {
    outbox: Arc<Outbox>,
    need: usize,
}

/// Puts an outbox on a list, with the least it needs.
fn add_parked(list: &mut Vec<Parked>, outbox: &Arc<Outbox>, need: usize) {
    match list
        .iter_mut()
        .find(|known| Arc::ptr_eq(&known.outbox, outbox))
    {
        Some(known) => known.need = known.need.min(need),
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
            ebbs: AtomicUsize::new(0),
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

    /// Whether less is left than a further consumer would have by right.
    pub(crate) fn is_full(&self) -> bool {
        !self.has(FLOOR_BYTES)
    }

    /// Somebody was turned away for want of bytes.
    pub(crate) fn count_refusal(&self) {
        self.refusals.fetch_add(1, Ordering::Relaxed);
    }

    fn has(&self, bytes: usize) -> bool {
        self.used.load(Ordering::SeqCst).saturating_add(bytes) <= self.max
    }

    /// Lends `bytes`, or says that they are not free; `by_right`: whether they are or not.
    pub(crate) fn borrow(&self, bytes: usize, by_right: bool) -> bool {
        let sum = |used: usize| {
            let sum = used.checked_add(bytes)?;
            (by_right || sum <= self.max).then_some(sum)
        };
        let lent = self
            .used
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, sum)
            .is_ok();
        if !lent {
            self.count_refusal();
        }
        lent
    }

    /// Lends `bytes` from the first half of what there is: for what is kept and not needed, which
    /// gives way to what waits.
    pub(crate) fn borrow_spare(&self, bytes: usize) -> bool {
        let sum = |used: usize| {
            let sum = used.checked_add(bytes)?;
            (sum <= self.max / 2).then_some(sum)
        };
        self.used
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, sum)
            .is_ok()
    }

    /// Takes back what was borrowed, without telling writers that wait for it.
    pub(crate) fn take_back(&self, bytes: usize) {
        let before = self.used.fetch_sub(bytes, Ordering::SeqCst);
        let half = self.max / 2;
        if before > half && before - bytes <= half {
            self.ebbs.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// The same, and wakes writers that find enough now.
    pub(crate) fn give_back(&self, bytes: usize, wakes: &mut Wakes) {
        self.take_back(bytes);
        self.parked.lock().retain(|parked| {
            let wakes_up = self.has(parked.need);
            if wakes_up {
                wakes.add(&parked.outbox);
            }
            !wakes_up
        });
    }

    /// Asks for `outbox` to be woken when `bytes` are free. False when they are.
    fn park(&self, outbox: &Arc<Outbox>, bytes: usize) -> bool {
        let mut parked = self.parked.lock();
        // Under the lock, which whoever gives some back takes afterwards.
        if self.has(bytes) {
            return false;
        }
        add_parked(&mut parked, outbox, bytes);
        true
    }
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
    /// Of a consumer without a bound of its own, which borrows from the engine's bytes where those
    /// are bounded.
    pub(crate) fn within(engine: Option<&Arc<EngineBudget>>) -> Self {
        Self {
            max: AtomicUsize::new(usize::MAX),
            used: AtomicUsize::new(0),
            ebbs: AtomicUsize::new(0),
            parked: Mutex::new(Vec::new()),
            engine: engine.map(Arc::clone),
            borrowed: AtomicUsize::new(0),
            moving: Mutex::new(()),
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

    /// Bytes that may wait; `usize::MAX`: no bound of the consumer's own.
    pub(crate) fn max(&self) -> usize {
        self.max.load(Ordering::Relaxed)
    }

    /// Whether bytes are counted, at least so many may wait, and most of them are free, here and
    /// where it borrows.
    pub(crate) fn is_ample(&self, bytes: usize) -> bool {
        let (max, engine) = (self.max(), self.engine.as_ref());
        (bytes..usize::MAX).contains(&max)
            && self.used() < max / 4
            && engine.is_none_or(|engine| engine.used() < engine.max() / 4)
    }

    /// Where it borrows.
    pub(crate) fn engine(&self) -> Option<&Arc<EngineBudget>> {
        self.engine.as_ref()
    }

    /// Whether anybody counts its bytes.
    pub(crate) fn counts(&self) -> bool {
        self.engine.is_some() || self.max() != usize::MAX
    }

    /// Takes `cost` bytes, or says that they are not free. Where nothing waits one update of any
    /// length may: otherwise it would never go over.
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
        // SeqCst: whoever gives surplus back looks at `used` after it has lowered `borrowed`, so
        // one of the two sees the other.
        if before + cost <= self.borrowed.load(Ordering::SeqCst) || self.borrow(engine, before == 0)
        {
            return true;
        }
        // A writer that found these bytes taken meanwhile tries again when the consumer takes
        // something, or when its patience ends.
        self.used.fetch_sub(cost, Ordering::SeqCst);
        false
    }

    /// Borrows what is used beyond what is borrowed.
    fn borrow(&self, engine: &EngineBudget, is_only: bool) -> bool {
        let _moving = self.moving.lock();
        let used = self.used.load(Ordering::SeqCst);
        let borrowed = self.borrowed.load(Ordering::SeqCst);
        if used <= borrowed {
            return true;
        }
        let more = (used - borrowed).next_multiple_of(CHUNK_BYTES);
        let lent = engine.borrow(more, is_only || used <= FLOOR_BYTES);
        if lent {
            self.borrowed.store(borrowed + more, Ordering::SeqCst);
        }
        lent
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
        let sum = self.used.load(Ordering::SeqCst).saturating_add(need);
        (self.max() == usize::MAX || sum <= self.max()) && self.lacks(sum) == 0
    }

    /// Bytes that would have to be borrowed for `sum` bytes to wait, and cannot be.
    fn lacks(&self, sum: usize) -> usize {
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

    /// A number that changes when the consumer has caught up, or the engine's bytes are free again:
    /// whoever found no bytes free before could have had some since.
    pub(crate) fn ebbs(&self) -> usize {
        let engine = self
            .engine
            .as_ref()
            .map_or(0, |engine| engine.ebbs.load(Ordering::SeqCst));
        self.ebbs.load(Ordering::Acquire).wrapping_add(engine)
    }

    /// Gives back bytes of what the consumer has taken, and wakes writers that find enough now.
    pub(crate) fn release(&self, cost: usize, wakes: &mut Wakes) {
        if !self.counts() || cost == 0 {
            return;
        }
        if self.subtract(cost, wakes) <= self.max() / 2 {
            self.ebbs.fetch_add(1, Ordering::AcqRel);
        }
        self.wake_satisfied(wakes);
    }

    /// Gives bytes back that were claimed for nothing: the consumer has taken nothing.
    pub(crate) fn give_back(&self, cost: usize, wakes: &mut Wakes) {
        if !self.counts() {
            return;
        }
        let _used = self.subtract(cost, wakes);
        self.wake_satisfied(wakes);
    }

    /// [`release`](Self::release) of bytes that go on being used elsewhere: returns those of the
    /// engine's that are not needed here any more, and stay lent, so that nobody gets them between.
    pub(crate) fn hand_over(&self, cost: usize, wakes: &mut Wakes) -> usize {
        if self.engine.is_none() || cost == 0 {
            self.release(cost, wakes);
            return 0;
        }
        let used = self.used.fetch_sub(cost, Ordering::SeqCst) - cost;
        if used <= self.max() / 2 {
            self.ebbs.fetch_add(1, Ordering::AcqRel);
        }
        let lent = self.take_surplus(|used| used);
        self.wake_satisfied(wakes);
        lent
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

    /// Gives the engine back what is borrowed and not used, but for a chunk that the next updates
    /// will want.
    fn return_surplus(&self, engine: &EngineBudget, wakes: &mut Wakes) {
        let enough = |used: usize| used.next_multiple_of(CHUNK_BYTES).max(CHUNK_BYTES);
        let surplus = self.take_surplus(enough);
        engine.give_back(surplus, wakes);
    }

    /// Takes out what is borrowed beyond what is `enough`.
    fn take_surplus(&self, enough: impl Fn(usize) -> usize) -> usize {
        let _moving = self.moving.lock();
        let borrowed = self.borrowed.load(Ordering::SeqCst);
        let mut kept = enough(self.used.load(Ordering::SeqCst)).min(borrowed);
        self.borrowed.store(kept, Ordering::SeqCst);
        // A claim that came between may have counted on what it saw borrowed.
        let needed = enough(self.used.load(Ordering::SeqCst)).min(borrowed);
        if needed > kept {
            kept = needed;
            self.borrowed.store(kept, Ordering::SeqCst);
        }
        borrowed - kept
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
        if !self.counts() {
            return;
        }
        for parked in self.parked.lock().drain(..) {
            wakes.add(&parked.outbox);
        }
    }

    /// Asks for `outbox` to be woken when `need` is free. False when it is.
    pub(crate) fn park(&self, outbox: &Arc<Outbox>, need: usize) -> bool {
        loop {
            let sum = self.used.load(Ordering::SeqCst).saturating_add(need);
            let lacks = self.lacks(sum);
            let waits_for_engine = match &self.engine {
                Some(engine) if lacks > 0 => engine.park(outbox, lacks),
                _ => false,
            };
            let mut parked = self.parked.lock();
            // Under the lock, which whoever frees some takes afterwards.
            if self.has(need) {
                return false;
            }
            let sum = self.used.load(Ordering::SeqCst).saturating_add(need);
            if !waits_for_engine && self.lacks(sum) > 0 {
                // The engine's bytes went meanwhile.
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
            engine.take_back(self.borrowed.load(Ordering::SeqCst));
        }
    }
}
