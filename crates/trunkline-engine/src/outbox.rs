//! What waits for one consumer, as indices instead of copies, and how it is told.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::num::NonZeroUsize;

use trunkline_ring::{MarkSet, TableWriter};

use crate::budget::{Budget, EngineBudget};
use crate::consumer::ProviderOrder;
use crate::order::OrderResult;
use crate::outcome::WriteOutcome;
use crate::sync::{Arc, AtomicU32, AtomicUsize, Mutex, Ordering, unique_number};

/// Told once when something begins to wait, on the writer's thread and outside every lock.
///
/// An implementation schedules and returns: it sets a flag, writes an eventfd, wakes a task. It
/// never blocks and never runs user code.
pub trait Wake: Send + Sync {
    /// Something waits in the outbox that did not before.
    fn wake(&self);

    /// As [`wake`](Self::wake), by a thread that may carry what waits to its receiver itself, as
    /// far as it can be done at once: [`Wakes::send`].
    fn send(&self) {
        self.wake();
    }

    /// Whose the consumer is, for people.
    fn whose(&self) -> Whose {
        Whose::default()
    }
}

/// Consumers that a writer may serve itself after a write or a batch: with more of them it is the
/// turn of their own threads.
const SENDS_BELOW: usize = 4;

/// Nobody waits.
pub(crate) struct NoWake;

impl Wake for NoWake {
    fn wake(&self) {}
}

/// Whose a consumer is, for people.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Whose {
    /// The session's number; 0: it is no session's.
    pub session: u32,
    /// From where it came; empty: unknown.
    pub from: String,
    /// What its connection is made of, in a word or two; empty: unknown.
    pub transport: &'static str,
}

/// Somebody who hears of a variable's updates.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Reader {
    /// Who.
    pub whose: Whose,
    /// Items that were sent to them once more because they had something else, of all their
    /// subscriptions; not 0: something is broken.
    pub repaired: u64,
}

/// The writers' side of a consumer: each item is marked at most once, however often it changes.
pub(crate) struct Outbox {
    pub(crate) marks: MarkSet,
    /// Drains so far, plus one.
    drains: AtomicUsize,
    /// The number of the drain after which somebody has woken the consumer.
    woken_after: AtomicUsize,
    /// Outcomes of writes that a provider answered; bounded by the write credit of the session.
    completions: Mutex<VecDeque<(u64, WriteOutcome)>>,
    /// Ends of orders; bounded by what the session may have unanswered.
    reports: Mutex<VecDeque<(u32, OrderResult)>>,
    /// What a provider behind this consumer is to do; lock order: after everything else.
    pub(crate) orders: Mutex<VecDeque<ProviderOrder>>,
    /// 1: names came or went, and whoever follows patterns has not looked.
    names_changed: AtomicU32,
    pub(crate) budget: Arc<Budget>,
    /// Of a service of the engine: nobody is told that it subscribes.
    pub(crate) is_service: bool,
    /// Items that were sent once more because the peer had something else.
    pub(crate) repaired: AtomicU32,
    /// Marks that were made, to lose some of them.
    #[cfg(feature = "planted")]
    made: AtomicU32,
    wake: Box<dyn Wake>,
    /// Of nobody who waits: what is stored when a variable changes.
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
            #[cfg(feature = "planted")]
            made: AtomicU32::new(0),
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

    /// Of a table, which nobody has to be told of.
    pub(crate) fn of_table(table: TableWriter) -> Self {
        Self {
            table: Some(table),
            ..Self::new(Box::new(NoWake), true, None)
        }
    }

    /// The consumer begins to drain: what is marked from here on needs another wake-up.
    pub(crate) fn begin_drain(&self) {
        // SYNC POINT, pairs with `is_woken`: a marker that sees the number before this one has made
        // its mark before the drain looks at the marks.
        self.drains.fetch_add(1, Ordering::SeqCst);
    }

    /// Whether the consumer was woken, and has not begun to drain since. Whoever marks asks that
    /// behind the mark, and wakes if not, however many others have marked before: the thread whose
    /// turn it was may have lost its processor, or have much else to do.
    #[inline]
    pub(crate) fn is_woken(&self) -> bool {
        self.woken_after.load(Ordering::SeqCst) == self.drains.load(Ordering::SeqCst)
    }

    /// The consumer has ended: nobody need wake it.
    pub(crate) fn end(&self) {
        self.drains.store(usize::MAX, Ordering::SeqCst);
        self.woken_after.store(usize::MAX, Ordering::SeqCst);
    }

    /// Wakes the consumer, and only then says that it was.
    fn wake_by(&self, wake: impl FnOnce(&dyn Wake)) {
        let drains = self.drains.load(Ordering::SeqCst);
        wake(&*self.wake);
        self.woken_after.store(drains, Ordering::SeqCst);
    }

    /// Who hears of it.
    pub(crate) fn reader(&self) -> Reader {
        Reader {
            whose: self.wake.whose(),
            // Relaxed: a count that stands alone.
            repaired: u64::from(self.repaired.load(Ordering::Relaxed)),
        }
    }

    /// Whether the planted bug loses the mark that is to be made.
    #[cfg(feature = "planted")]
    pub(crate) fn loses_mark(&self) -> bool {
        trunkline_types::planted::is(trunkline_types::planted::Bug::LostMark)
            && !self.is_service
            && self.made.fetch_add(1, Ordering::Relaxed) % 32 == 31
    }

    /// Notes the outcome of write `id`; the caller wakes the outbox once no lock is held. Lock
    /// order: variable, then this.
    pub(crate) fn complete(&self, id: u64, outcome: WriteOutcome) {
        self.completions.lock().push_back((id, outcome));
    }

    /// Publishes what write `id` made and notes that it was applied, in one step: `latest` reads
    /// the cell without a lock, and whoever has seen the update there finds the answer here.
    pub(crate) fn complete_applied(&self, id: u64, publish: impl FnOnce() -> u64) -> u64 {
        let mut completions = self.completions.lock();
        let sequence = publish();
        completions.push_back((id, WriteOutcome::Applied { sequence }));
        sequence
    }

    /// [`complete_applied`](Self::complete_applied) for what says itself how it ended. Lock order:
    /// variable, then this, then the variable's aliases, whose commits complete nothing.
    pub(crate) fn complete_with(&self, id: u64, publish: impl FnOnce() -> WriteOutcome) {
        let mut completions = self.completions.lock();
        let outcome = publish();
        completions.push_back((id, outcome));
    }

    pub(crate) fn take_completion(&self) -> Option<(u64, WriteOutcome)> {
        self.completions.lock().pop_front()
    }

    /// Notes the end of order `id`; the caller wakes the outbox.
    pub(crate) fn report(&self, id: u32, result: OrderResult) {
        self.reports.lock().push_back((id, result));
    }

    pub(crate) fn take_report(&self) -> Option<(u32, OrderResult)> {
        self.reports.lock().pop_front()
    }

    /// Names came or went; the caller wakes the outbox.
    pub(crate) fn set_names_changed(&self) {
        // Release: who takes it sees the names.
        self.names_changed.store(1, Ordering::Release);
    }

    pub(crate) fn take_names_changed(&self) -> bool {
        self.names_changed.load(Ordering::Relaxed) != 0
            && self.names_changed.swap(0, Ordering::Acquire) != 0
    }

    /// Whether an outcome, the end of an order, an order for a provider or news of names wait.
    pub(crate) fn has_answers(&self) -> bool {
        !self.completions.lock().is_empty()
            || !self.reports.lock().is_empty()
            || !self.orders.lock().is_empty()
            || self.names_changed.load(Ordering::Relaxed) != 0
    }
}

/// The outboxes that became non-empty while locks were held: step 5 of the write path.
///
/// Woken when dropped or by [`Wakes::flush`], each once. Pass the same list to all writes of a
/// batch.
#[derive(Debug, Default)]
pub struct Wakes {
    outboxes: Vec<Arc<Outbox>>,
    /// Those beyond the first few, by address, to find them among many.
    known: HashSet<usize>,
    /// Tells these outboxes from those of other lists, and from those that this list has woken.
    number: Option<NonZeroUsize>,
}

/// Outboxes of a list up to which it is looked through.
const LISTED_MAX: usize = 8;

impl Wakes {
    /// An empty list.
    pub fn new() -> Self {
        Self::default()
    }

    pub(crate) fn add(&mut self, outbox: &Arc<Outbox>) {
        #[cfg(feature = "planted")]
        if trunkline_types::planted::is(trunkline_types::planted::Bug::LostWake)
            && !self.outboxes.is_empty()
        {
            return;
        }
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

    /// A number for what is on the list now: no other list has it, and this one has it no more
    /// once it has woken them.
    pub(crate) fn number(&mut self) -> NonZeroUsize {
        *self.number.get_or_insert_with(unique_number)
    }

    /// Whether the list has this number.
    #[inline]
    pub(crate) fn has_number(&self, number: Option<NonZeroUsize>) -> bool {
        number.is_some() && self.number == number
    }

    /// Wakes every outbox on the list and empties it. Call it holding no lock.
    pub fn flush(&mut self) {
        self.number = None;
        for outbox in self.outboxes.drain(..) {
            outbox.wake_by(|wake| wake.wake());
        }
        self.known.clear();
    }

    /// The write, or the last of a batch, is done: as [`flush`](Self::flush), but where few wait
    /// this thread sends by itself what it can send at once. Not for threads that have more to do
    /// than to write: those that scan, call functions of the program or serve real-time threads.
    #[inline]
    pub fn send(&mut self) {
        if !self.outboxes.is_empty() {
            self.send_all();
        }
    }

    #[cold]
    fn send_all(&mut self) {
        if self.outboxes.len() >= SENDS_BELOW {
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
        self.flush();
    }
}
