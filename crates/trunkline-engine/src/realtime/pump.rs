//! From real-time writers into the write path: one ordinary thread empties their FIFOs.
//!
//! Real-time threads never take a variable's lock. They mark themselves in a bitmap with one atomic
//! operation; the pump thread looks every millisecond while anything moves, every ten otherwise.

use trunkline_ring::{Cursor, Fifo as Ring, MarkSet, RtCell};
use trunkline_types::{Tick, Timestamp};

use super::Target;
use crate::caller::Caller;
use crate::engine::Engine;
use crate::outbox::Wakes;
use crate::outcome::Attempt;
use crate::sync::{Arc, Mutex, OnceLock, Weak};
use crate::variable::Variable;
use crate::write::{Origin, Write};

/// Elements moved from one FIFO before the others get their turn.
const TURN: usize = 1024;

/// All real-time writers of an engine.
#[derive(Debug)]
pub(crate) struct Pump {
    marks: Arc<MarkSet>,
    state: Mutex<PumpState>,
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
    held: bool,
    element: Box<[u64]>,
    /// The writer; `None` for a FIFO that its variable keeps.
    writer: Option<Weak<()>>,
}

#[derive(Debug)]
enum From {
    /// Looks at the newest element and leaves it where it is.
    Watch {
        cell: Arc<RtCell>,
        /// Number of the write that was looked at last.
        seen: u64,
    },
    /// Takes every element out.
    Drain(Arc<Ring>),
}

impl Source {
    /// The one FIFO of a single-process variable belongs to its readers: the pump only looks.
    pub(super) fn watch(
        variable: &Arc<Variable>,
        target: &Target,
        writer: Option<Weak<()>>,
    ) -> Self {
        let (Target::Single(cell) | Target::Multi(_, cell)) = target;
        let from = From::Watch {
            cell: Arc::clone(cell),
            seen: cell.count(),
        };
        Self::new(variable, from, cell.words(), writer)
    }

    /// A hosted variable's writer: everything it writes is published.
    pub(super) fn drain(variable: &Arc<Variable>, target: &Target, writer: &Arc<()>) -> Self {
        let writer = Some(Arc::downgrade(writer));
        match target {
            Target::Single(_) => Self::watch(variable, target, writer),
            Target::Multi(ring, _) => Self::new(
                variable,
                From::Drain(Arc::clone(ring)),
                ring.words(),
                writer,
            ),
        }
    }

    fn new(variable: &Arc<Variable>, from: From, words: usize, writer: Option<Weak<()>>) -> Self {
        let element = vec![0; words].into();
        Self {
            variable: Arc::clone(variable),
            from,
            overflows: 0,
            held: false,
            element,
            writer,
        }
    }

    fn is_closed(&self) -> bool {
        self.writer
            .as_ref()
            .is_some_and(|writer| writer.strong_count() == 0)
    }

    /// The next element, in `self.element`. False when there is none.
    fn next(&mut self) -> bool {
        if std::mem::take(&mut self.held) {
            return true;
        }
        match &mut self.from {
            From::Watch { cell, seen } => {
                if cell.count() == *seen {
                    return false;
                }
                let snapshot = cell.read(&mut self.element);
                if !snapshot.complete {
                    return false;
                }
                // Writes between two looks were replaced by newer ones before they had a number.
                let replaced = snapshot.count.saturating_sub(*seen).saturating_sub(1);
                *seen = snapshot.count;
                if replaced > 0 {
                    self.variable
                        .lock()
                        .count(replaced, |unapplied| &mut unapplied.superseded);
                }
                true
            }
            From::Drain(ring) => ring.try_pop(&mut self.element).is_ok(),
        }
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

impl Engine {
    /// Publishes what real-time threads have written since the last call. Returns whether anything
    /// moved: then come again in 1 ms, otherwise in 10 ms.
    pub fn pump(&self, now: Tick, wall: Timestamp, wakes: &mut Wakes) -> bool {
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
        for index in &marked {
            let Some(Some(source)) = state.sources.get_mut(*index as usize) else {
                continue;
            };
            // Asked before the elements are moved: nothing comes after it.
            let closed = source.is_closed();
            if !self.move_elements(source, now, wall, wakes) {
                pump.marks.mark(*index);
            } else if closed {
                state.remove(*index);
            }
        }
        let moved = !marked.is_empty();
        state.marked = marked;
        moved
    }

    /// Moves one writer's elements into the write path. False when some are left.
    fn move_elements(
        &self,
        source: &mut Source,
        now: Tick,
        wall: Timestamp,
        wakes: &mut Wakes,
    ) -> bool {
        source.count_overflows();
        let caller = Caller::engine();
        for _ in 0..TURN {
            if !source.next() {
                return true;
            }
            let Some(realtime) = &source.variable.realtime else {
                return true;
            };
            let (value, stamp) = realtime.layout.wire_form(&source.element);
            let mut write = Write::wire(value.as_slice());
            write.source_timestamp = stamp;
            write.origin = Origin::Source;
            let attempt = self.try_write(&caller, now, wall, &source.variable, &write, wakes);
            if let Attempt::WouldBlock { .. } = attempt {
                source.held = true;
                return false;
            }
        }
        false
    }
}
