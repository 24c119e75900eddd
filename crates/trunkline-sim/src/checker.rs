//! The checker: what was accepted and what each program took, beside the product and not of it.
//!
//! Every value that is written is the number of its write, so that a reading names the write that
//! made it. A witness in the engine's process tells every update at once; all else is compared
//! with that and with itself.

mod readings;

use std::collections::BTreeMap;

use trunkline_client::WriteOutcome;
use trunkline_proto::FaultCode;
use trunkline_types::{Position, Quality, Reading, Reason, Tick, Timestamp, Value};

pub use self::readings::{Had, Took};
use crate::plan::Repairs;

/// The write of an update that the witness has not seen.
const HIDDEN: u64 = u64::MAX - 1;

/// A program of one incarnation; 0 is the engine's own process.
pub type Writer = u32;

/// What is known of a write.
#[derive(Clone, Debug)]
pub struct Written {
    /// The variable.
    pub variable: u32,
    /// Who wrote.
    pub by: Writer,
    /// Where the writer expected the variable.
    pub expected: Option<Position>,
    /// Its group, if it was written in one.
    pub group: Option<u32>,
    /// Its writer is told how it ended as soon as it is known: it is no part of a batch.
    pub alone: bool,
    /// How it ended.
    pub fate: Fate,
    /// The session it was answered in.
    pub session: u64,
    /// Where the witness has seen it.
    pub seen: Option<Position>,
}

/// How a write ended, as its writer was told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// Not yet.
    Open,
    /// It is this update.
    Applied(Position),
    /// It changed nothing.
    NotApplied,
    /// Nobody knows.
    Unknown,
}

/// An update as the witness has seen it.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// The write that made it; 0: none did.
    pub write: u64,
    /// The engine's time.
    pub engine_timestamp: Timestamp,
    /// Its quality.
    pub quality: Quality,
    /// When it was committed.
    pub at: Tick,
    /// Its place among all updates of all variables.
    pub serial: u64,
}

#[derive(Debug, Default)]
struct Life {
    first: u64,
    updates: Vec<Seen>,
}

/// Totals for the report.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Updates of the engine.
    pub updates: u64,
    /// Updates among them that the witness knows from the answers to their writers only.
    pub hidden: u64,
    /// Readings that programs took and that were checked.
    pub readings: u64,
    /// Updates that readings said were missed.
    pub lost: u64,
    /// Of those, the ones that were lost while there was no connection.
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
    /// Views compared with the engine's at quiet moments.
    pub compared: u64,
    /// Ledgers that were balanced and compared.
    pub ledgers: u64,
    /// Keep-alives with another digest than that of what arrived.
    pub diverged: u64,
    /// Items that clients put right.
    pub repaired: u64,
    /// Marks that the engine set again.
    pub marked: u64,
    /// Libraries that came while clients were connected.
    pub deployed: u64,
    /// Connections of a peer that does not end what it begins.
    pub hostile: u64,
}

/// What was accepted and what was taken.
#[derive(Debug, Default)]
pub struct Checker {
    /// The first thing that must not be.
    pub violation: Option<String>,
    /// Counts of what was checked.
    pub totals: Totals,
    /// The epochs of all starts of the engine, in their order.
    epochs: Vec<u64>,
    /// What may have to be repaired.
    pub repairs: Repairs,
    /// The witness has seen only the last update of each turn; what was before it is known from
    /// the answers to its writers.
    pub is_plain: bool,
    writes: Vec<Written>,
    /// All writes up to there have ended.
    ended_to: usize,
    lives: BTreeMap<(u32, u64), Life>,
    /// Whose each session is, and whether the engine had not noticed the end of the one before.
    sessions: BTreeMap<u64, (Writer, bool)>,
    groups: Vec<Vec<u64>>,
    touched: Vec<u32>,
}

impl Checker {
    /// Notes what must not be, once.
    pub fn fail(&mut self, what: impl FnOnce() -> String) {
        if self.violation.is_none() {
            self.violation = Some(what());
        }
    }

    /// The engine was started, or another one in its place. A position is of one start only (B-01).
    pub fn started(&mut self, epoch: u64) {
        if self.epochs.contains(&epoch) {
            self.fail(|| format!("B-01: two starts of the engine have the epoch {epoch}"));
        }
        self.epochs.push(epoch);
    }

    /// Which start of the engine had this epoch.
    fn start_of(&self, epoch: u64) -> Option<usize> {
        self.epochs.iter().position(|one| *one == epoch)
    }

    /// A write that is about to be made; its number is its content.
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

    /// These writes are one group.
    pub fn join(&mut self, writes: &[u64]) {
        let group = self.groups.len() as u32;
        self.groups.push(writes.to_vec());
        for write in writes {
            if let Some(written) = self.write_mut(*write) {
                written.group = Some(group);
            }
        }
    }

    /// The writer is told how these ended once all of them have.
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

    /// What is known of a write.
    pub fn write(&self, number: u64) -> Option<&Written> {
        self.writes.get((number as usize).checked_sub(1)?)
    }

    /// The update at a position.
    pub fn seen(&self, variable: u32, position: Position) -> Option<&Seen> {
        let life = self.lives.get(&(variable, position.epoch))?;
        let index = position.sequence.checked_sub(life.first)?;
        life.updates.get(index as usize)
    }

    /// The witness has seen an update. Sequences are contiguous, contents are writes of the
    /// variable, and no write is applied twice (B-01, B-20).
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

    /// An update was made by a write: by one of this variable, and by none that had ended (B-20),
    /// nor by one that expected the variable elsewhere (B-22).
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

    /// The witness has seen everything there is: groups are whole (B-23).
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

    /// A write has ended, as its writer was told in `session`.
    pub fn ended(&mut self, number: u64, outcome: &WriteOutcome, session: u64) {
        let fate = match outcome {
            WriteOutcome::Applied(position) => Fate::Applied(*position),
            WriteOutcome::Unknown(_) => Fate::Unknown,
            _ => Fate::NotApplied,
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

    /// As [`ended`](Self::ended), told as a fate.
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

    /// A group has ended.
    pub fn group_ended(&mut self, applied: bool) {
        self.totals.groups += u64::from(applied);
    }

    /// A connection of this program was accepted.
    pub fn accepted(&mut self, session: u64, by: Writer, overlaps: bool) {
        self.sessions.insert(session, (by, overlaps));
    }

    /// What update it was that the witness has not seen.
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

    /// What had to be put right, as the counters of the product say. Without a bug nothing has: a
    /// repair would be a false alarm (B-10).
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

    /// Whether a write has not ended.
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

    /// Every write has ended, once everything is quiet.
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

    /// The programs of this writer are gone: nobody is told any more how their writes end.
    pub fn forget(&mut self, by: Writer) {
        for written in &mut self.writes {
            if written.by == by && written.fate == Fate::Open {
                written.fate = Fate::Unknown;
            }
        }
    }
}

/// The number of the write that made a value; 0 for a default.
pub fn number_of(value: &Value) -> Option<u64> {
    match value {
        Value::F64(number) => Some(*number as u64),
        Value::U64(number) => Some(*number),
        Value::String(text) if text.is_empty() => Some(0),
        Value::String(text) => text.split(':').next()?.parse().ok(),
        _ => None,
    }
}

/// Whether the engine itself made the update, from one that was written.
pub fn is_engines(quality: Quality) -> bool {
    matches!(quality.reason(), Reason::Stale | Reason::Retained)
}
