//! Pending work of one consumer, stored as indices instead of copies, and the wake-up of the
//! consumer.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::num::NonZeroUsize;

use trunkline_ring::{MarkSet, TableWriter};

use crate::delivery::budget::{Budget, EngineBudget};
use crate::delivery::mail::ProviderOrder;
use crate::outcome::WriteOutcome;
use crate::outcome::orders::OrderResult;
use crate::sync::{Arc, AtomicU32, AtomicUsize, Mutex, Ordering, crossing, unique_number};

/// Called once when work becomes pending, on the writer's thread and outside all locks.
///
/// An implementation only schedules work and returns: it sets a flag, writes an eventfd or wakes a
/// task. It never blocks and never runs user code.
pub trait Wake: Send + Sync {
    /// Reports that the outbox was empty and now has work.
    fn wake(&self);

    /// Like [`wake`](Self::wake), but the calling thread may also send the pending work itself, as
    /// far as it can without blocking: see [`Wakes::send`].
    fn send(&self) {
        self.wake();
    }

    fn session_info(&self) -> SessionInfo {
        SessionInfo::default()
    }
}

/// If at least this many consumers are to be woken, their own threads send. If fewer, the writer's
/// thread sends.
const INLINE_SENDS_BELOW: usize = 4;

pub(crate) struct NoWake;

impl Wake for NoWake {
    fn wake(&self) {}
}

#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct SessionInfo {
    /// Number of the session; 0 if no session owns it.
    pub session: u32,
    /// Address of the peer; empty if unknown.
    pub from: String,
    /// Transport of its connection, in one or two words; empty if unknown.
    pub transport: &'static str,
}

#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Reader {
    pub whose: SessionInfo,
    /// Number of items resent over all its subscriptions, because the peer had a different value. A
    /// value other than 0 indicates a fault.
    pub repaired: u64,
}

/// Work pending for one consumer: writers add it, the consumer drains it. An item has at most one mark.
pub(crate) struct Outbox {
    pub(crate) marks: MarkSet,
    /// Number of drains begun so far.
    drains: AtomicUsize,
    /// Number of the drain after which the consumer was last woken.
    woken_after: AtomicUsize,
    /// Outcomes of writes answered by a provider, bounded by the session's write credit.
    completions: Mutex<VecDeque<(u64, WriteOutcome)>>,
    /// Results of orders, bounded by the number of unanswered orders that the session may have.
    reports: Mutex<VecDeque<(u32, OrderResult)>>,
    /// Orders for a provider that uses this consumer. Lock order: last.
    pub(crate) orders: Mutex<VecDeque<ProviderOrder>>,
    /// 1 if names appeared or disappeared after the watched patterns were last checked.
    names_changed: AtomicU32,
    pub(crate) budget: Arc<Budget>,
    /// True if it belongs to a service of the engine; it is then not listed as a subscriber.
    pub(crate) is_service: bool,
    /// Number of items resent because the peer had a different value.
    pub(crate) repaired: AtomicU32,
    wake: Box<dyn Wake>,
    /// Table that is written when a variable changes; its readers are never woken.
    pub(crate) table: Option<TableWriter>,
}

impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox")
            .field("empty", &self.marks.is_empty())
            .finish_non_exhaustive()
    }
}

impl Outbox {
    pub(crate) fn new(
        wake: Box<dyn Wake>,
        is_service: bool,
        engine: Option<&Arc<EngineBudget>>,
    ) -> Self {
        Self {
            is_service,
            repaired: AtomicU32::new(0),
            marks: MarkSet::new(),
            drains: AtomicUsize::new(1),
            woken_after: AtomicUsize::new(0),
            completions: Mutex::new(VecDeque::new()),
            reports: Mutex::new(VecDeque::new()),
            orders: Mutex::new(VecDeque::new()),
            names_changed: AtomicU32::new(0),
            budget: Arc::new(Budget::within(engine)),
            wake,
            table: None,
        }
    }

    /// Creates the outbox of a table, whose readers are never woken.
    pub(crate) fn of_table(table: TableWriter) -> Self {
        Self {
            table: Some(table),
            ..Self::new(Box::new(NoWake), true, None)
        }
    }

    /// The consumer begins to drain. A mark made after this needs another wake-up.
    pub(crate) fn begin_drain(&self) {
        // SYNC POINT, pairs with `ensure_woken`: a writer that still reads the old number has made
        // its mark before the drain reads the marks.
        self.drains.fetch_add(1, Ordering::SeqCst);
    }

    /// Marks an item, and adds the consumer to `wakes` unless it was already woken. Returns true if
    /// it was.
    pub(crate) fn mark(self: &Arc<Self>, index: u32, wakes: &mut Wakes) -> bool {
        crossing();
        self.marks.mark(index);
        crossing();
        self.ensure_woken(wakes)
    }

    /// Called after a mark. Adds the consumer to `wakes` unless it was woken and has not begun to
    /// drain since. Returns true if it was. Earlier marks by other threads do not matter: the
    /// thread that should have woken the consumer may have been preempted.
    pub(crate) fn ensure_woken(self: &Arc<Self>, wakes: &mut Wakes) -> bool {
        let is_woken =
            self.woken_after.load(Ordering::SeqCst) == self.drains.load(Ordering::SeqCst);
        if !is_woken {
            wakes.add(self);
        }
        is_woken
    }

    /// Marks the consumer as ended. It is never woken again.
    pub(crate) fn end(&self) {
        self.drains.store(usize::MAX, Ordering::SeqCst);
        self.woken_after.store(usize::MAX, Ordering::SeqCst);
    }

    fn wake(self: Arc<Self>) {
        self.wake_by(|wake| wake.wake());
    }

    fn wake_by(&self, wake: impl FnOnce(&dyn Wake)) {
        let drains = self.drains.load(Ordering::SeqCst);
        wake(&*self.wake);
        self.woken_after.store(drains, Ordering::SeqCst);
    }

    pub(crate) fn reader(&self) -> Reader {
        Reader {
            whose: self.wake.session_info(),
            // Relaxed: no other memory depends on this count.
            repaired: u64::from(self.repaired.load(Ordering::Relaxed)),
        }
    }

    /// Records the outcome of write `id`. The caller wakes the outbox after releasing all locks.
    /// Lock order: variable, then this.
    pub(crate) fn complete(&self, id: u64, outcome: WriteOutcome) {
        self.completions.lock().push_back((id, outcome));
    }

    /// Commits the update of write `id` and records its outcome in one step. `latest` reads the
    /// cell without a lock, and a reader that has seen the update must find the answer here. Lock
    /// order: variable, then this, then feeds and the variables that follow this one, whose commits
    /// complete no write.
    pub(crate) fn complete_with(&self, id: u64, commit: impl FnOnce() -> WriteOutcome) {
        let mut completions = self.completions.lock();
        let outcome = commit();
        completions.push_back((id, outcome));
    }

    pub(crate) fn take_completion(&self) -> Option<(u64, WriteOutcome)> {
        self.completions.lock().pop_front()
    }

    /// Records the result of order `id`. The caller wakes the outbox.
    pub(crate) fn report(&self, id: u32, result: OrderResult) {
        self.reports.lock().push_back((id, result));
    }

    pub(crate) fn take_report(&self) -> Option<(u32, OrderResult)> {
        self.reports.lock().pop_front()
    }

    /// Notes that names appeared or disappeared. The caller wakes the outbox.
    pub(crate) fn set_names_changed(&self) {
        // Release: the thread that takes the flag sees the names.
        self.names_changed.store(1, Ordering::Release);
    }

    pub(crate) fn take_names_changed(&self) -> bool {
        self.names_changed.load(Ordering::Relaxed) != 0
            && self.names_changed.swap(0, Ordering::Acquire) != 0
    }

    /// Returns true if outcomes, results, orders for a provider or changed names are pending.
    pub(crate) fn has_answers(&self) -> bool {
        !self.completions.lock().is_empty()
            || !self.reports.lock().is_empty()
            || !self.orders.lock().is_empty()
            || self.names_changed.load(Ordering::Relaxed) != 0
    }
}

/// Outboxes that became non-empty while locks were held: step 5 of the write path.
///
/// [`Wakes::flush`] or dropping the list wakes each of them once. Pass the same list to all writes
/// of a batch.
#[derive(Debug, Default)]
pub struct Wakes {
    outboxes: Vec<Arc<Outbox>>,
    /// Addresses of the outboxes beyond the first few, for a fast search.
    known: HashSet<usize>,
    /// Identifies the current content of this list, as opposed to other lists and to outboxes
    /// already woken.
    number: Option<NonZeroUsize>,
}

/// Up to this many outboxes, the list is searched linearly.
const LISTED_MAX: usize = 8;

impl Wakes {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an outbox unless it is listed. Most batches have only one.
    #[inline]
    pub(crate) fn add(&mut self, outbox: &Arc<Outbox>) {
        let is_first = |first: &Arc<Outbox>| Arc::ptr_eq(first, outbox);
        if !self.outboxes.first().is_some_and(is_first) {
            self.add_behind(outbox);
        }
    }

    fn add_behind(&mut self, outbox: &Arc<Outbox>) {
        let mut first = self.outboxes.iter().take(LISTED_MAX);
        if first.any(|known| Arc::ptr_eq(known, outbox)) {
            return;
        }
        let is_new =
            self.outboxes.len() < LISTED_MAX || self.known.insert(Arc::as_ptr(outbox) as usize);
        if is_new {
            self.outboxes.push(Arc::clone(outbox));
        }
    }

    /// Returns a number for the current content of the list. No other list has the same number, and
    /// this list drops it when it wakes the outboxes.
    pub(crate) fn number(&mut self) -> NonZeroUsize {
        *self.number.get_or_insert_with(unique_number)
    }

    #[inline]
    pub(crate) fn has_number(&self, number: Option<NonZeroUsize>) -> bool {
        number.is_some() && self.number == number
    }

    /// Wakes every outbox on the list and empties the list. The caller must hold no lock.
    pub fn flush(&mut self) {
        self.number = None;
        self.known.clear();
        self.outboxes.drain(..).for_each(Outbox::wake);
    }

    /// Must be called after a write, or after the last write of a batch. Works like
    /// [`flush`](Self::flush), but if there are few outboxes, the calling thread sends what it can
    /// without blocking. Must not be called by threads that run scans, call user code or serve
    /// real-time threads.
    #[inline]
    pub fn send(&mut self) {
        if !self.outboxes.is_empty() {
            self.send_all();
        }
    }

    #[cold]
    fn send_all(&mut self) {
        if self.outboxes.len() >= INLINE_SENDS_BELOW {
            return self.flush();
        }
        self.number = None;
        for outbox in self.outboxes.drain(..) {
            outbox.wake_by(|wake| wake.send());
        }
    }
}

impl Drop for Wakes {
    fn drop(&mut self) {
        self.outboxes.drain(..).for_each(Outbox::wake);
    }
}
