//! The checker: records accepted updates and the readings of each program, independently of the
//! product.
//!
//! Every written value is the number of its write, so that a reading identifies the write that made
//! it. A witness in the engine's process reports every update immediately; everything else is
//! compared with these updates, and checked for consistency.

mod readings;

use std::collections::BTreeMap;

use trunkline_client::WriteOutcome;
use trunkline_proto::FaultCode;
use trunkline_types::{Position, Quality, Reading, Reason, Tick, Timestamp, Value};

pub use self::readings::{Had, Took};
use crate::plan::Repairs;

/// Write number of an update that the witness has not seen.
const HIDDEN: u64 = u64::MAX - 1;

/// One incarnation of a program; 0 is the engine's own process.
pub type Writer = u32;

/// The record of a write.
#[derive(Clone, Debug)]
pub struct Written {
    /// Number of the variable.
    pub variable: u32,
    pub by: Writer,
    /// Position at which the writer expected the variable.
    pub expected: Option<Position>,
    /// The group of the write, if any.
    pub group: Option<u32>,
    /// The write is not part of a batch, so its writer learns its outcome as soon as it is known.
    pub alone: bool,
    pub fate: Fate,
    /// Session in which it was answered.
    pub session: u64,
    /// Position at which the witness has seen it.
    pub seen: Option<Position>,
}

/// The outcome of a write, as reported to its writer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// No outcome yet.
    Open,
    /// The write became this update.
    Applied(Position),
    /// The write changed nothing.
    NotApplied,
    /// The outcome is unknown.
    Unknown,
}

/// An update as seen by the witness.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Number of the write that made it; 0: no write.
    pub write: u64,
    /// Engine timestamp.
    pub engine_timestamp: Timestamp,
    pub quality: Quality,
    /// Time of the commit.
    pub at: Tick,
    /// Sequence number over the updates of all variables.
    pub serial: u64,
}

#[derive(Debug, Default)]
struct Life {
    first: u64,
    updates: Vec<Seen>,
}

/// The totals for the report.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Connections made.
    pub connections: u64,
    /// Updates of the engine.
    pub updates: u64,
    /// Updates known only from the answers to their writers, because the witness did not see them.
    pub hidden: u64,
    /// Readings that programs took and that were checked.
    pub readings: u64,
    /// Updates that readings reported as missed.
    pub lost: u64,
    /// Updates lost while there was no connection.
    pub lost_while_away: u64,
    /// Writes by all writers.
    pub writes: u64,
    /// Writes that ended as unknown.
    pub unknown: u64,
    /// Compare-and-set writes that were applied.
    pub conditional: u64,
    /// Groups that were applied.
    pub groups: u64,
    /// Snapshots of one instant.
    pub snapshots: u64,
    /// Views compared with the engine's after the faults have ended.
    pub compared: u64,
    /// Ledgers that were balanced and compared.
    pub ledgers: u64,
    /// Keep-alives whose digest differs from that of the received data.
    pub diverged: u64,
    /// Items that clients repaired.
    pub repaired: u64,
    /// Marks that the engine set again.
    pub marked: u64,
    /// Libraries deployed while clients were connected.
    pub deployed: u64,
    /// Connections of the hostile peer.
    pub hostile: u64,
}

/// The record of accepted updates and of the readings that programs took.
#[derive(Debug, Default)]
pub struct Checker {
    /// The first violation.
    pub violation: Option<String>,
    /// Counts of what was checked.
    pub totals: Totals,
    /// The epochs of all starts of the engine, in order.
    epochs: Vec<u64>,
    /// Repairs that are accepted.
    pub repairs: Repairs,
    /// The witness sees only the last update of each turn. Earlier ones are known only from the answers to
    /// their writers.
    pub is_plain: bool,
    writes: Vec<Written>,
    /// All writes before this index have ended.
    ended_to: usize,
    lives: BTreeMap<(u32, u64), Life>,
    /// The program of each session, and true if the engine had not noticed the end of the previous
    /// session.
    sessions: BTreeMap<u64, (Writer, bool)>,
    groups: Vec<Vec<u64>>,
    touched: Vec<u32>,
}

impl Checker {
    /// Records a violation, unless there is one already.
    pub fn fail(&mut self, what: impl FnOnce() -> String) {
        if self.violation.is_none() {
            self.violation = Some(what());
        }
    }

    /// Records a start of this engine, or of another one in its place. A position belongs to one
    /// start only (B-01).
    pub fn started(&mut self, epoch: u64) {
        if self.epochs.contains(&epoch) {
            self.fail(|| format!("B-01: two starts of the engine have the epoch {epoch}"));
        }
        self.epochs.push(epoch);
    }

    /// The index of the start that had this epoch.
    fn start_of(&self, epoch: u64) -> Option<usize> {
        self.epochs.iter().position(|one| *one == epoch)
    }

    /// Records a write before it is made. Returns its number, which is also its content.
    pub fn begin(&mut self, variable: u32, by: Writer, expected: Option<Position>) -> u64 {
        self.totals.writes += 1;
        self.writes.push(Written {
            variable,
            by,
            expected,
            group: None,
            alone: true,
            fate: Fate::Open,
            session: 0,
            seen: None,
        });
        self.writes.len() as u64
    }

    /// Records that these writes form a group.
    pub fn join(&mut self, writes: &[u64]) {
        let group = self.groups.len() as u32;
        self.groups.push(writes.to_vec());
        for write in writes {
            if let Some(written) = self.write_mut(*write) {
                written.group = Some(group);
            }
        }
    }

    /// Records that the writer learns the outcomes of these writes together.
    pub fn bundle(&mut self, writes: &[u64]) {
        for write in writes {
            if let Some(written) = self.write_mut(*write) {
                written.alone = writes.len() == 1;
            }
        }
    }

    fn write_mut(&mut self, number: u64) -> Option<&mut Written> {
        self.writes.get_mut((number as usize).checked_sub(1)?)
    }

    /// Returns the record of a write.
    pub fn write(&self, number: u64) -> Option<&Written> {
        self.writes.get((number as usize).checked_sub(1)?)
    }

    /// Returns the update at a position.
    pub fn seen(&self, variable: u32, position: Position) -> Option<&Seen> {
        let life = self.lives.get(&(variable, position.epoch))?;
        let index = position.sequence.checked_sub(life.first)?;
        life.updates.get(index as usize)
    }

    /// Records an update seen by the witness. Checks that sequences are contiguous, that contents
    /// are writes of the variable, and that no write is applied twice (B-01, B-20).
    pub fn witnessed(&mut self, variable: u32, position: Position, mut seen: Seen, retained: bool) {
        let life = self.lives.entry((variable, position.epoch)).or_default();
        if life.updates.is_empty() {
            life.first = if self.is_plain { 1 } else { position.sequence };
        }
        while self.is_plain && life.first + (life.updates.len() as u64) < position.sequence {
            self.totals.updates += 1;
            self.totals.hidden += 1;
            let (write, serial) = (HIDDEN, self.totals.updates);
            life.updates.push(Seen {
                write,
                serial,
                ..seen
            });
        }
        self.totals.updates += 1;
        seen.serial = self.totals.updates;
        if position.sequence != life.first + life.updates.len() as u64 {
            let expected = life.first + life.updates.len() as u64;
            return self.fail(|| {
                format!("B-01: variable {variable} went to {position:?}, not to {expected}")
            });
        }
        life.updates.push(seen);
        self.made(variable, position, seen, retained);
    }

    /// Checks the write that made an update: it must be a write of this variable, must not have
    /// ended (B-20), and must not have expected the variable at another position (B-22).
    fn made(&mut self, variable: u32, position: Position, seen: Seen, retained: bool) {
        if seen.write == 0 {
            return;
        }
        let Some(written) = self.write_mut(seen.write) else {
            return self.fail(|| {
                format!("an update that nobody wrote: variable {variable} at {position:?}")
            });
        };
        if written.variable != variable {
            let of = written.variable;
            return self.fail(|| {
                format!("variable {variable} at {position:?} has a value written to {of}")
            });
        }
        if retained {
            return;
        }
        let (before, fate, expected) = (written.seen, written.fate, written.expected);
        if before.is_none() {
            written.seen = Some(position);
        }
        let group = written.group;
        self.touched.extend(group);
        if let Some(before) = before {
            self.fail(|| {
                format!(
                    "B-20: write {} was applied at {before:?} and {position:?}",
                    seen.write
                )
            });
        }
        if fate == Fate::NotApplied {
            self.fail(|| {
                format!(
                    "B-20: write {} had ended and is applied at {position:?}",
                    seen.write
                )
            });
        }
        if let Some(expected) = expected
            && (expected.epoch, expected.sequence + 1) != (position.epoch, position.sequence)
        {
            self.fail(|| format!("B-22: a write expecting {expected:?} became {position:?}"));
        }
    }

    /// Called when the witness has seen all updates: checks that groups are complete (B-23).
    pub fn witnessed_all(&mut self) {
        for group in std::mem::take(&mut self.touched) {
            let members = self.groups.get(group as usize).cloned().unwrap_or_default();
            let seen: Vec<_> = members
                .iter()
                .map(|write| self.write(*write).and_then(|w| Some((w.variable, w.seen?))))
                .collect();
            let stamps: Option<Vec<_>> = seen
                .iter()
                .map(|at| {
                    at.and_then(|(v, p)| self.seen(v, p))
                        .map(|s| s.engine_timestamp)
                })
                .collect();
            match stamps {
                Some(stamps) if stamps.windows(2).all(|pair| pair.first() == pair.last()) => {}
                None if self.is_plain => {}
                _ => self.fail(|| format!("B-23: group {group} was applied in part: {seen:?}")),
            }
        }
    }

    /// Records the outcome of a write, as reported to its writer in `session`.
    pub fn ended(&mut self, number: u64, outcome: &WriteOutcome, session: u64) {
        let fate = match outcome {
            WriteOutcome::Applied(position) => Fate::Applied(*position),
            WriteOutcome::Unknown(_) => Fate::Unknown,
            WriteOutcome::Unchanged(_)
            | WriteOutcome::Superseded
            | WriteOutcome::Refused(_)
            | WriteOutcome::NotTried(_) => Fate::NotApplied,
        };
        let is_refused_for = |code| {
            matches!(outcome, WriteOutcome::Refused(fault)
                if fault.code == code)
        };
        if is_refused_for(FaultCode::MemoryFull) {
            self.fail(|| format!("write {number} is refused: {outcome:?}"));
        }
        let is_conflict = is_refused_for(FaultCode::Conflict);
        self.finish(number, fate, session, is_conflict);
    }

    /// Like [`ended`](Self::ended), with the outcome as a fate.
    pub fn finish(&mut self, number: u64, fate: Fate, session: u64, is_conflict: bool) {
        if let (Fate::Applied(position), Some(written)) = (fate, self.write(number)) {
            let variable = written.variable;
            self.reveal(variable, position, number, None);
        }
        let Some(written) = self.write_mut(number) else {
            return;
        };
        let (before, seen, variable) = (written.fate, written.seen, written.variable);
        let expected = written.expected;
        (written.fate, written.session) = (fate, session);
        if before != Fate::Open {
            return self.fail(|| format!("B-20: write {number} ended as {before:?} and {fate:?}"));
        }
        self.totals.unknown += u64::from(fate == Fate::Unknown);
        match fate {
            Fate::Applied(position) if seen != Some(position) => self.fail(|| {
                format!("B-20: write {number} is told to be {position:?}, and is at {seen:?}")
            }),
            Fate::Applied(_) => self.totals.conditional += u64::from(expected.is_some()),
            Fate::NotApplied if seen.is_some() => self.fail(|| {
                format!("B-20: write {number} is told to have changed nothing, and is at {seen:?}")
            }),
            _ => {}
        }
        if is_conflict && let Some(expected) = expected {
            let next = Position {
                sequence: expected.sequence + 1,
                ..expected
            };
            let has_moved =
                self.seen(variable, next).is_some() || self.epochs.last() != Some(&expected.epoch);
            if !has_moved {
                self.fail(|| {
                    format!("B-22: a conflict at {expected:?}, where the variable still is")
                });
            }
        }
    }

    /// Records the end of a group.
    pub fn group_ended(&mut self, applied: bool) {
        self.totals.groups += u64::from(applied);
    }

    /// Records that a connection of this program was accepted.
    pub fn accepted(&mut self, session: u64, by: Writer, overlaps: bool) {
        self.sessions.insert(session, (by, overlaps));
    }

    /// Fills in an update that the witness has not seen.
    fn reveal(
        &mut self,
        variable: u32,
        position: Position,
        write: u64,
        reading: Option<(Timestamp, Quality)>,
    ) {
        let Some(life) = self.lives.get_mut(&(variable, position.epoch)) else {
            return;
        };
        let index = position.sequence.checked_sub(life.first);
        let seen = index.and_then(|index| life.updates.get_mut(index as usize));
        let Some(seen) = seen.filter(|seen| seen.write == HIDDEN) else {
            return;
        };
        seen.write = write;
        if let Some((engine_timestamp, quality)) = reading {
            (seen.engine_timestamp, seen.quality) = (engine_timestamp, quality);
        }
        let seen = *seen;
        let is_engines = reading.is_some_and(|(_, quality)| is_engines(quality));
        self.made(variable, position, seen, is_engines);
    }

    fn reveal_reading(&mut self, variable: u32, reading: &Reading) {
        let sample = &reading.sample;
        if let Some(write) = number_of(&sample.value) {
            let stamp = (sample.engine_timestamp, sample.quality);
            self.reveal(variable, reading.position, write, Some(stamp));
        }
    }

    /// Records repairs, as counted by the product. Without a bug there must be none: a repair would
    /// be a false alarm (B-10).
    pub fn repaired(&mut self, diverged: u64, repaired: u64, marked: u64) {
        self.totals.diverged += diverged;
        self.totals.repaired += repaired;
        self.totals.marked += marked;
        let is_fine = match self.repairs {
            Repairs::Never => diverged + repaired + marked == 0,
            Repairs::Marks => diverged + repaired == 0,
            Repairs::Records => marked == 0,
        };
        if !is_fine {
            self.fail(|| {
                format!(
                    "B-10: {diverged} digests differed, {repaired} items were repaired and \
                     {marked} marks set again"
                )
            });
        }
    }

    /// Returns true if a write has not ended.
    pub fn has_open(&mut self) -> bool {
        while self.ended_to < self.writes.len() {
            let next = self.writes.get(self.ended_to);
            if next.is_some_and(|write| write.fate == Fate::Open) {
                return true;
            }
            self.ended_to += 1;
        }
        false
    }

    /// Checks that every write has ended, once there is no more activity.
    pub fn all_ended(&mut self) {
        let open = self
            .writes
            .iter()
            .position(|write| write.fate == Fate::Open);
        if let Some(open) = open {
            let by = self.writes.get(open).map(|write| write.by);
            self.fail(|| format!("B-20: write {} of {by:?} never ended", open + 1));
        }
    }

    /// Called when the program of this writer is gone: the outcomes of its open writes are never
    /// reported.
    pub fn forget(&mut self, by: Writer) {
        for written in &mut self.writes {
            if written.by == by && written.fate == Fate::Open {
                written.fate = Fate::Unknown;
            }
        }
    }
}

/// Returns the number of the write that made a value; 0 for a default.
pub fn number_of(value: &Value) -> Option<u64> {
    match value {
        Value::F64(number) => Some(*number as u64),
        Value::U64(number) => Some(*number),
        Value::String(text) if text.is_empty() => Some(0),
        Value::String(text) => text.split(':').next()?.parse().ok(),
        _ => None,
    }
}

/// Returns true if the engine itself made the update, from one that was written earlier.
pub fn is_engines(quality: Quality) -> bool {
    matches!(quality.reason(), Reason::Stale | Reason::Retained)
}
