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
use crate::sync::{Arc, Mutex};
use crate::variable::Variable;
use crate::write::{Origin, Write, WriteValue};

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
    sources: Vec<Source>,
    cursor: Cursor,
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
}

#[derive(Debug)]
enum From {
    /// Looks at the newest element and leaves it where it is.
    Watch(Arc<RtCell>, u64),
    /// Takes every element out.
    Drain(Arc<Ring>),
}

impl Source {
    /// The one FIFO of a single-process variable belongs to its readers: the pump only looks.
    pub(super) fn watch(variable: &Arc<Variable>, target: &Target) -> Self {
        let (Target::Single(cell) | Target::Multi(_, cell)) = target;
        Self::new(variable, From::Watch(Arc::clone(cell), cell.count()), cell.words())
    }

    /// A hosted variable's writer: everything it writes is published.
    pub(super) fn drain(variable: &Arc<Variable>, target: &Target) -> Self {
        match target {
            Target::Single(_) => Self::watch(variable, target),
            Target::Multi(ring, _) => {
                Self::new(variable, From::Drain(Arc::clone(ring)), ring.words())
            }
        }
    }

    fn new(variable: &Arc<Variable>, from: From, words: usize) -> Self {
        let element = vec![0; words].into();
        Self { variable: Arc::clone(variable), from, overflows: 0, held: false, element }
    }

    /// The next element, in `self.element`. False when there is none.
    fn next(&mut self) -> bool {
        if std::mem::take(&mut self.held) {
            return true;
        }
        match &mut self.from {
            From::Watch(cell, seen) => {
                if cell.count() == *seen {
                    return false;
                }
                let snapshot = cell.read(&mut self.element);
                if snapshot.complete {
                    *seen = snapshot.count;
                }
                snapshot.complete
            }
            From::Drain(ring) => ring.try_pop(&mut self.element).is_ok(),
        }
    }

    /// Enters what the writer's FIFO discarded in the variable's ledger.
    fn count_overflows(&mut self) {
        let From::Drain(ring) = &self.from else { return };
        let overflows = ring.overflows();
        let new = overflows - self.overflows;
        if new > 0 {
            self.overflows = overflows;
            let mut state = self.variable.lock();
            state.offered += new;
            state.extra().fifo_overflow += new;
        }
    }
}

impl Pump {
    pub(crate) fn new() -> Self {
        Self { marks: Arc::new(MarkSet::new()), state: Mutex::new(PumpState::default()) }
    }

    /// Adds a writer; `None` when there are as many as the bitmap has places.
    pub(super) fn register(&self, source: Source) -> Option<(Arc<MarkSet>, u32)> {
        let mut state = self.state.lock();
        let index = state.sources.len() as u32;
        self.marks.ensure(index).ok()?;
        state.sources.push(source);
        Some((Arc::clone(&self.marks), index))
    }
}

impl Engine {
    /// Publishes what real-time threads have written since the last call. Returns whether anything
    /// moved: then come again in 1 ms, otherwise in 10 ms.
    pub fn pump(&self, now: Tick, wall: Timestamp, wakes: &mut Wakes) -> bool {
        let pump = self.pump_state();
        let mut state = pump.state.lock();
        let state = &mut *state;
        let mut marked = Vec::new();
        let _taken = pump.marks.take(&mut state.cursor, usize::MAX, &mut |index| marked.push(index));
        let moved = !marked.is_empty();
        for index in marked {
            let Some(source) = state.sources.get_mut(index as usize) else { continue };
            if !self.move_elements(source, now, wall, wakes) {
                pump.marks.mark(index);
            }
        }
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
        for _ in 0..TURN {
            if !source.next() {
                return true;
            }
            let Some(realtime) = &source.variable.realtime else { return true };
            let (value, stamp) = realtime.layout.from_words(&source.element);
            let write = Write {
                value: WriteValue::Wire(value.as_slice()),
                source_timestamp: stamp,
                quality: None,
                origin: Origin::Source,
                completion: None,
            };
            let variable = &source.variable;
            let attempt =
                self.try_write(&Caller::engine(), now, wall, variable, &write, wakes);
            if let Attempt::WouldBlock { .. } = attempt {
                source.held = true;
                return false;
            }
        }
        false
    }
}
