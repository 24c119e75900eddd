//! From real-time writers into the write path: one ordinary thread empties their FIFOs.
//!
//! Real-time threads never take a variable's lock. They mark themselves in a bitmap with one atomic
//! operation; the pump thread looks every millisecond while anything moves, every ten otherwise,
//! and at once where it has left something.

use trunkline_ring::{Cursor, Fifo as Ring, MarkSet, RtCell};
use trunkline_types::{Tick, Timestamp};

use super::Target;
use super::buffers::Buffers;
use super::newest::{Newest, Seen};
use crate::caller::Caller;
use crate::engine::Engine;
use crate::outbox::Wakes;
use crate::outcome::Attempt;
use crate::sync::{Arc, Mutex, OnceLock, Ordering, Weak, fence};
use crate::update::Encoded;
use crate::variable::Variable;
use crate::write::{Origin, Write, WriteValue};

/// Elements moved from one FIFO before the others get their turn.
const TURN: usize = 1024;

/// All real-time writers of an engine.
#[derive(Debug)]
pub(crate) struct Pump {
    marks: Arc<MarkSet>,
    state: Mutex<PumpState>,
    /// Who writes what it moves.
    caller: Caller,
}

#[derive(Debug, Default)]
struct PumpState {
    sources: Vec<Option<Source>>,
    free: Vec<u32>,
    cursor: Cursor,
    /// Kept between calls for its memory.
    marked: Vec<u32>,
}

/// Where the pump finds the elements of one writer.
#[derive(Debug)]
pub(super) struct Source {
    variable: Arc<Variable>,
    from: From,
    /// Overflows already entered in the variable's ledger.
    overflows: u64,
    /// An element that found an `all` feed full, to be tried again.
    held: Option<Element>,
    /// The words of one element that is looked at.
    words: Box<[u64]>,
    buffers: Buffers,
    /// The writer; `None` for a FIFO that its variable keeps.
    writer: Option<Weak<()>>,
}

/// An element as it goes into the write path: its value and its timestamp, if it carries one.
type Element = (Encoded, Option<Timestamp>);

#[derive(Debug)]
enum From {
    /// Looks at the element of a single-element FIFO and leaves it where it is.
    Watch {
        cell: Arc<RtCell>,
        /// Number of the write that was looked at last.
        seen: u64,
    },
    /// Looks at the newest element of a FIFO that others empty.
    Newest(Arc<Newest>, Seen),
    /// Takes every element out.
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
    /// The one FIFO of a single-process variable belongs to its readers: the pump only looks.
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

    /// A hosted variable's writer: everything it writes is published.
    pub(super) fn drain(variable: &Arc<Variable>, target: &Target, writer: &Arc<()>) -> Self {
        let (from, words) = match target {
            Target::Single(cell) => (From::watch(cell), cell.words()),
            // It is taken out where it lies.
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

    fn is_closed(&self) -> bool {
        let is_gone = |writer: &Weak<()>| writer.strong_count() == 0;
        let is_closed = self.writer.as_ref().is_some_and(is_gone);
        if is_closed {
            // The count is read relaxed; what the writer did before it went is to be seen.
            fence(Ordering::Acquire);
        }
        is_closed
    }

    /// The next element; `None` when there is none.
    fn next(&mut self) -> Option<Element> {
        if let Some(held) = self.held.take() {
            return Some(held);
        }
        let layout = &self.variable.realtime.as_deref()?.layout;
        let buffers = &mut self.buffers;
        // Writes between two looks were replaced by newer ones before they had a number.
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
                let look = newest.look(seen, &mut self.words);
                (look.is_new, look.replaced)
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

    /// Enters what the writer's FIFO discarded in the variable's ledger.
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

    /// Adds a writer; `None` when there are as many as the bitmap has places.
    pub(super) fn register(&self, source: Source) -> Option<u32> {
        self.state.lock().add(source, &self.marks)
    }

    /// The place of a FIFO that several writers share, taken by the first.
    pub(super) fn register_shared(
        &self,
        place: &OnceLock<u32>,
        source: impl FnOnce() -> Source,
    ) -> Option<u32> {
        // Under the lock: of two writers that come at once, one is first.
        let mut state = self.state.lock();
        if let Some(known) = place.get() {
            return Some(*known);
        }
        let index = state.add(source(), &self.marks)?;
        Some(*place.get_or_init(|| index))
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

/// What became of a look at the real-time writers: when to come again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pumped {
    /// Nobody had written: in 10 ms.
    Nothing,
    /// What was written has been moved as far as it goes: in 1 ms.
    Moved,
    /// Some writer's turn ended before its elements did: at once.
    More,
}

impl Engine {
    /// Publishes what real-time threads have written since the last call.
    pub fn pump(&self, now: Tick, wall: Timestamp, wakes: &mut Wakes) -> Pumped {
        let pump = self.pump_state();
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
            // Asked before the elements are moved: nothing comes after it.
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

    /// Moves one writer's elements into the write path.
    fn move_elements(
        &self,
        source: &mut Source,
        now: Tick,
        wall: Timestamp,
        wakes: &mut Wakes,
    ) -> Turn {
        source.count_overflows();
        let caller = &self.pump_state().caller;
        for _ in 0..TURN {
            let Some((value, stamp)) = source.next() else {
                return Turn::Empty;
            };
            let mut write = Write::of(WriteValue::Encoded(&value));
            write.source_timestamp = stamp;
            write.origin = Origin::Source;
            let attempt = self.try_write(caller, now, wall, &source.variable, &write, wakes);
            if let Attempt::WouldBlock { .. } = attempt {
                source.held = Some((value, stamp));
                return Turn::Blocked;
            }
        }
        Turn::Over
    }
}

/// How a writer's turn ended.
enum Turn {
    /// It has written nothing more.
    Empty,
    /// A subscriber has no room.
    Blocked,
    /// It has had as much as the others.
    Over,
}
