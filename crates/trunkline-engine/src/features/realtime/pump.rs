//! Moves the elements of real-time writers into the write path: one ordinary thread empties their
//! FIFOs.
//!
//! Real-time threads never take a variable's lock. They set a bit in a bitmap with one atomic
//! operation. The pump thread checks it every millisecond while elements arrive, every ten
//! milliseconds otherwise, and at once if it has left elements behind.

use trunkline_ring::{Cursor, Fifo as Ring, MarkSet, RtCell};
use trunkline_types::{Tick, Timestamp};

use super::Realtime;
use crate::caller::Caller;
use crate::delivery::outbox::Wakes;
use crate::fifo::Target;
use crate::fifo::buffers::Buffers;
use crate::fifo::newest::{Newest, Seen};
use crate::outcome::Attempt;
use crate::sync::{Arc, Mutex, OnceLock, Ordering, Weak, fence};
use crate::update::Encoded;
use crate::variable::Variable;
use crate::write::{Origin, Write, WriteValue};

/// Maximum number of elements moved from one FIFO before the others get their turn.
const TURN: usize = 1024;

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
    from: From,
    overflows: u64,
    /// An element that found an `all` feed full, to be tried again.
    held: Option<Element>,
    /// Buffer for the words of an element that is read without taking it out.
    words: Box<[u64]>,
    buffers: Buffers,
    /// The writer's liveness; `None` for a FIFO that belongs to its variable.
    writer: Option<Weak<()>>,
}

/// An element for the write path: its value, and its timestamp if it has one.
type Element = (Encoded, Option<Timestamp>);

#[derive(Debug)]
enum From {
    /// Reads the element of a single-element FIFO without taking it out.
    Watch {
        cell: Arc<RtCell>,
        seen: u64,
    },
    /// Reads the newest element of a FIFO that its readers empty.
    Newest(Arc<Newest>, Seen),
    Drain(Arc<Ring>),
}

impl From {
    fn watch(cell: &Arc<RtCell>) -> Self {
        From::Watch {
            cell: Arc::clone(cell),
            seen: cell.count(),
        }
    }
}

impl Source {
    /// Creates the source of a single-process variable. Its FIFO belongs to its readers, so the
    /// pump only observes it.
    pub(super) fn watch(variable: &Arc<Variable>, target: &Target, newest: &Arc<Newest>) -> Self {
        let (from, words) = match target {
            Target::Single(cell) => (From::watch(cell), cell.words()),
            Target::Multi(ring) => {
                let from = From::Newest(Arc::clone(newest), Seen::default());
                (from, ring.words())
            }
        };
        Self::new(variable, from, words, None)
    }

    /// Creates the source of a hosted variable's writer. Everything written is published.
    pub(super) fn drain(variable: &Arc<Variable>, target: &Target, writer: &Arc<()>) -> Self {
        let (from, words) = match target {
            Target::Single(cell) => (From::watch(cell), cell.words()),
            // Elements are converted in the FIFO itself, so no buffer is needed.
            Target::Multi(ring) => (From::Drain(Arc::clone(ring)), 0),
        };
        Self::new(variable, from, words, Some(Arc::downgrade(writer)))
    }

    fn new(variable: &Arc<Variable>, from: From, words: usize, writer: Option<Weak<()>>) -> Self {
        Self {
            variable: Arc::clone(variable),
            from,
            overflows: 0,
            held: None,
            words: vec![0; words].into(),
            buffers: Buffers::default(),
            writer,
        }
    }

    /// Returns true if nothing more is published from it: its writer was dropped, or the variable
    /// that the FIFO belongs to is gone.
    fn is_closed(&self) -> bool {
        let Some(writer) = &self.writer else {
            return self.variable.is_gone();
        };
        let is_closed = writer.strong_count() == 0;
        if is_closed {
            // The reference count is read relaxed; the fence makes everything the writer did before
            // visible.
            fence(Ordering::Acquire);
        }
        is_closed
    }

    fn next(&mut self) -> Option<Element> {
        if let Some(held) = self.held.take() {
            return Some(held);
        }
        let layout = &self.variable.realtime.as_deref()?.layout;
        let buffers = &mut self.buffers;
        // Writes between two looks were replaced by newer ones before they got a sequence.
        let (is_new, replaced) = match &mut self.from {
            From::Watch { cell, seen } => {
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
            From::Newest(newest, seen) => {
                let polled = newest.poll(seen, &mut self.words);
                (polled.is_new, polled.replaced)
            }
            From::Drain(ring) => {
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

    /// Counts the elements that the writer's FIFO discarded in the variable's ledger.
    fn count_overflows(&mut self) {
        let From::Drain(ring) = &self.from else {
            return;
        };
        let overflows = ring.overflows();
        let new = overflows.saturating_sub(self.overflows);
        if new > 0 {
            self.overflows = overflows;
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

    /// Adds a writer. Returns `None` if the bitmap has no more places.
    pub(super) fn register(&self, source: Source) -> Option<u32> {
        self.state.lock().add(source, &self.marks)
    }

    /// Returns the place of a FIFO that several writers share. The first writer registers it.
    pub(super) fn register_shared(
        &self,
        place: &OnceLock<u32>,
        source: impl FnOnce() -> Source,
    ) -> Option<u32> {
        // Under the lock, so that only one of two simultaneous writers registers it.
        let mut state = self.state.lock();
        if let Some(known) = place.get() {
            return Some(*known);
        }
        let index = state.add(source(), &self.marks)?;
        Some(*place.get_or_init(|| index))
    }

    /// Makes the pump remove the FIFO of a variable that is gone, after its elements.
    pub(crate) fn forget(&self, variable: &Variable) {
        let realtime = variable.realtime.as_deref();
        let own = realtime.and_then(|realtime| realtime.own.as_ref());
        if let Some(index) = own.and_then(|own| own.mark.get()) {
            self.marks.mark(*index);
        }
    }
}

impl PumpState {
    fn add(&mut self, source: Source, marks: &MarkSet) -> Option<u32> {
        if let Some(index) = self.free.pop() {
            if let Some(place) = self.sources.get_mut(index as usize) {
                *place = Some(source);
            }
            return Some(index);
        }
        let index = u32::try_from(self.sources.len()).ok()?;
        marks.ensure(index).ok()?;
        self.sources.push(Some(source));
        Some(index)
    }

    fn remove(&mut self, index: u32) {
        if let Some(place) = self.sources.get_mut(index as usize)
            && place.take().is_some()
        {
            self.free.push(index);
        }
    }
}

/// The result of a pump call: the time of the next one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pumped {
    /// Nothing was written. Call again in 10 ms.
    Nothing,
    /// Everything possible was moved. Call again in 1 ms.
    Moved,
    /// A writer's turn ended before its elements did. Call again at once.
    More,
}

impl Realtime<'_> {
    /// Publishes everything that real-time threads have written since the last call.
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
            // Checked before the elements are moved, because nothing follows once it is closed.
            let closed = source.is_closed();
            match self.move_elements(source, now, wall, wakes) {
                Turn::Empty if closed => state.remove(*index),
                Turn::Empty => {}
                Turn::Blocked => {
                    pump.marks.mark(*index);
                }
                Turn::Over => {
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
    ) -> Turn {
        source.count_overflows();
        let caller = &self.table.caller;
        for _ in 0..TURN {
            let Some((value, stamp)) = source.next() else {
                return Turn::Empty;
            };
            let mut write = Write::of(WriteValue::Encoded(&value));
            write.source_timestamp = stamp;
            write.origin = Origin::Source;
            let attempt = self
                .core
                .try_write(caller, now, wall, &source.variable, &write, wakes);
            if let Attempt::WouldBlock { .. } = attempt {
                source.held = Some((value, stamp));
                return Turn::Blocked;
            }
        }
        Turn::Over
    }
}

enum Turn {
    Empty,
    Blocked,
    Over,
}
