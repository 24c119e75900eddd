//! Moves the values of real-time writers into the write path, on an ordinary thread. It empties the
//! FIFOs of hosted variables, and only observes the FIFOs of single-process variables.
//!
//! Real-time threads never take a variable's lock. They set a bit in a bitmap with one atomic
//! operation. The pump thread checks the bitmap every millisecond while elements arrive or are
//! blocked, otherwise every ten milliseconds, and at once if a writer has more elements than one
//! call moves.

use trunkline_ring::{Cursor, Fifo as Ring, MarkSet, RtCell};
use trunkline_types::{Tick, Timestamp};

use super::Realtime;
use crate::caller::Caller;
use crate::delivery::outbox::Wakes;
use crate::fifo::FifoMemory;
use crate::fifo::buffers::Buffers;
use crate::fifo::newest::{Newest, Seen};
use crate::outcome::Attempt;
use crate::sync::{Arc, Mutex, OnceLock, Ordering, Weak, fence};
use crate::update::Encoded;
use crate::variable::Variable;
use crate::write::{Origin, Write, WriteValue};

/// Maximum number of elements moved from one FIFO before the other FIFOs are served.
const ELEMENTS_PER_CALL_MAX: usize = 1024;

#[derive(Debug)]
pub struct Pump {
    marks: Arc<MarkSet>,
    state: Mutex<PumpState>,
    caller: Caller,
}

#[derive(Debug, Default)]
struct PumpState {
    sources: Vec<Option<Source>>,
    free: Vec<u32>,
    cursor: Cursor,
    /// Reused between calls to avoid allocations.
    marked: Vec<u32>,
}

/// The elements of one writer, as read by the pump.
#[derive(Debug)]
pub(super) struct Source {
    variable: Arc<Variable>,
    input: Input,
    overflows_counted: u64,
    /// An element whose write was blocked. The next call tries it first.
    blocked_element: Option<Element>,
    /// Buffer for the words of an element that remains in its FIFO.
    words: Box<[u64]>,
    buffers: Buffers,
    /// Expires when the writer is dropped; `None` for a FIFO that belongs to its variable.
    writer_alive: Option<Weak<()>>,
}

/// An element for the write path: its value, and its timestamp if the variable has timestamps.
type Element = (Encoded, Option<Timestamp>);

#[derive(Debug)]
enum Input {
    /// Reads the element of a single-element FIFO without removing it.
    Watch {
        cell: Arc<RtCell>,
        seen: u64,
    },
    /// Reads the newest element of a FIFO that is emptied by its readers.
    Newest(Arc<Newest>, Seen),
    Drain(Arc<Ring>),
}

impl Input {
    fn watch(cell: &Arc<RtCell>) -> Self {
        Input::Watch {
            cell: Arc::clone(cell),
            seen: cell.count(),
        }
    }
}

impl Source {
    /// Creates the source of a single-process variable. Readers empty its FIFO, so the pump only
    /// observes it.
    pub(super) fn watch(
        variable: &Arc<Variable>,
        memory: &FifoMemory,
        newest: &Arc<Newest>,
    ) -> Self {
        let (input, words) = match memory {
            FifoMemory::Single(cell) => (Input::watch(cell), cell.words()),
            FifoMemory::Multi(ring) => {
                let input = Input::Newest(Arc::clone(newest), Seen::default());
                (input, ring.words())
            }
        };
        Self::new(variable, input, words, None)
    }

    /// Creates the source of a hosted variable's writer. All its elements are published.
    pub(super) fn drain(variable: &Arc<Variable>, memory: &FifoMemory, writer: &Arc<()>) -> Self {
        let (input, words) = match memory {
            FifoMemory::Single(cell) => (Input::watch(cell), cell.words()),
            // Elements are converted in the FIFO itself, so no buffer is needed.
            FifoMemory::Multi(ring) => (Input::Drain(Arc::clone(ring)), 0),
        };
        Self::new(variable, input, words, Some(Arc::downgrade(writer)))
    }

    fn new(
        variable: &Arc<Variable>,
        input: Input,
        words: usize,
        writer_alive: Option<Weak<()>>,
    ) -> Self {
        Self {
            variable: Arc::clone(variable),
            input,
            overflows_counted: 0,
            blocked_element: None,
            words: vec![0; words].into(),
            buffers: Buffers::default(),
            writer_alive,
        }
    }

    /// Returns true if the source will publish nothing more: its writer was dropped, or the
    /// variable to which the FIFO belongs was removed.
    fn is_closed(&self) -> bool {
        let Some(writer) = &self.writer_alive else {
            return self.variable.is_gone();
        };
        let is_closed = writer.strong_count() == 0;
        if is_closed {
            // The reference count is read relaxed; the fence makes everything that the writer did
            // before visible.
            fence(Ordering::Acquire);
        }
        is_closed
    }

    fn next(&mut self) -> Option<Element> {
        if let Some(blocked_element) = self.blocked_element.take() {
            return Some(blocked_element);
        }
        let layout = &self.variable.realtime.as_deref()?.layout;
        let buffers = &mut self.buffers;
        // Values that were replaced by newer ones between two polls have no sequence.
        let (is_new, replaced) = match &mut self.input {
            Input::Watch { cell, seen } => {
                if cell.count() == *seen {
                    return None;
                }
                let snapshot = cell.read(&mut self.words);
                if !snapshot.complete {
                    return None;
                }
                let replaced = snapshot.count.saturating_sub(*seen).saturating_sub(1);
                *seen = snapshot.count;
                (true, replaced)
            }
            Input::Newest(newest, seen) => {
                let polled = newest.poll(seen, &mut self.words);
                (polled.is_new, polled.replaced)
            }
            Input::Drain(ring) => {
                let take = |words: &[u64]| layout.wire_form(words, buffers);
                return ring.try_pop_with(take).ok();
            }
        };
        if replaced > 0 {
            self.variable
                .lock()
                .count(replaced, |unapplied| &mut unapplied.superseded);
        }
        is_new.then(|| layout.wire_form(&self.words, buffers))
    }

    /// Adds the number of elements discarded by the writer's FIFO to the variable's ledger.
    fn count_overflows(&mut self) {
        let Input::Drain(ring) = &self.input else {
            return;
        };
        let overflows = ring.overflows();
        let new = overflows.saturating_sub(self.overflows_counted);
        if new > 0 {
            self.overflows_counted = overflows;
            self.variable
                .lock()
                .count(new, |unapplied| &mut unapplied.fifo_overflow);
        }
    }
}

impl Pump {
    pub(crate) fn new() -> Self {
        Self {
            marks: Arc::new(MarkSet::new()),
            state: Mutex::new(PumpState::default()),
            caller: Caller::engine(),
        }
    }

    pub(super) fn marks(&self) -> Arc<MarkSet> {
        Arc::clone(&self.marks)
    }

    /// Adds a source and returns its index. Returns `None` if the bitmap is full.
    pub(super) fn register(&self, source: Source) -> Option<u32> {
        self.state.lock().add(source, &self.marks)
    }

    /// Returns the index of a FIFO shared by several writers. The first writer registers it.
    pub(super) fn register_shared(
        &self,
        index: &OnceLock<u32>,
        source: impl FnOnce() -> Source,
    ) -> Option<u32> {
        // Done under the lock, so that only one of two concurrent writers registers it.
        let mut state = self.state.lock();
        if let Some(known) = index.get() {
            return Some(*known);
        }
        let new = state.add(source(), &self.marks)?;
        Some(*index.get_or_init(|| new))
    }

    /// Makes the pump remove the FIFO of a removed variable, after its last elements.
    pub(crate) fn forget(&self, variable: &Variable) {
        let realtime = variable.realtime.as_deref();
        let shared = realtime.and_then(|realtime| realtime.shared.as_ref());
        if let Some(index) = shared.and_then(|shared| shared.pump_index.get()) {
            self.marks.mark(*index);
        }
    }
}

impl PumpState {
    fn add(&mut self, source: Source, marks: &MarkSet) -> Option<u32> {
        if let Some(index) = self.free.pop() {
            if let Some(slot) = self.sources.get_mut(index as usize) {
                *slot = Some(source);
            }
            return Some(index);
        }
        let index = u32::try_from(self.sources.len()).ok()?;
        marks.ensure(index).ok()?;
        self.sources.push(Some(source));
        Some(index)
    }

    fn remove(&mut self, index: u32) {
        if let Some(slot) = self.sources.get_mut(index as usize)
            && slot.take().is_some()
        {
            self.free.push(index);
        }
    }
}

/// The result of a call to [`Realtime::pump`], which determines the time of the next call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pumped {
    /// There were no elements. Call again in 10 ms.
    Nothing,
    /// All elements were moved, except those whose writes are blocked. Call again in 1 ms.
    Moved,
    /// A writer has more elements than one call moves. Call again at once.
    More,
}

impl Realtime<'_> {
    /// Publishes the elements written by real-time threads, up to a maximum number per writer.
    pub fn pump(&self, now: Tick, wall: Timestamp, wakes: &mut Wakes) -> Pumped {
        let pump = self.table;
        let mut guard = pump.state.lock();
        let state = &mut *guard;
        let mut marked = std::mem::take(&mut state.marked);
        marked.clear();
        let _taken = pump
            .marks
            .take(&mut state.cursor, usize::MAX, &mut |index| {
                marked.push(index)
            });
        let mut pumped = match marked.is_empty() {
            true => Pumped::Nothing,
            false => Pumped::Moved,
        };
        for index in &marked {
            let Some(Some(source)) = state.sources.get_mut(*index as usize) else {
                continue;
            };
            // Checked before the elements are moved, because no elements follow once it is closed.
            let closed = source.is_closed();
            match self.move_elements(source, now, wall, wakes) {
                MoveResult::Empty if closed => state.remove(*index),
                MoveResult::Empty => {}
                MoveResult::Blocked => {
                    pump.marks.mark(*index);
                }
                MoveResult::LimitReached => {
                    pump.marks.mark(*index);
                    pumped = Pumped::More;
                }
            }
        }
        state.marked = marked;
        pumped
    }

    fn move_elements(
        &self,
        source: &mut Source,
        now: Tick,
        wall: Timestamp,
        wakes: &mut Wakes,
    ) -> MoveResult {
        source.count_overflows();
        let caller = &self.table.caller;
        for _ in 0..ELEMENTS_PER_CALL_MAX {
            let Some((value, stamp)) = source.next() else {
                return MoveResult::Empty;
            };
            let mut write = Write::of(WriteValue::Encoded(&value));
            write.source_timestamp = stamp;
            write.origin = Origin::Source;
            let attempt = self
                .core
                .try_write(caller, now, wall, &source.variable, &write, wakes);
            if let Attempt::WouldBlock { .. } = attempt {
                source.blocked_element = Some((value, stamp));
                return MoveResult::Blocked;
            }
        }
        MoveResult::LimitReached
    }
}

/// The reason why `move_elements` returned.
enum MoveResult {
    Empty,
    Blocked,
    LimitReached,
}
