//! Checks the guarantees of the product: records all updates and readings, and compares them.
//!
//! Each write has a number, which is also the written value, so a reading identifies the write that
//! caused it. A witness in the engine's process reports every update immediately. The checker
//! compares readings and outcomes with these updates, and checks the updates for consistency.

mod readings;

use std::collections::BTreeMap;

use trunkline_client::WriteOutcome;
use trunkline_proto::FaultCode;
use trunkline_types::{Position, Quality, Reading, Reason, Tick, Timestamp, Value};

pub use self::readings::{ItemState, TakenReading};
use crate::plan::Repairs;

/// Write number of an update that the witness has not seen.
const UNWITNESSED: u64 = u64::MAX - 1;

/// Number of a running program, new after each restart; 0 is the engine's own process.
pub type Writer = u32;

/// The record of a write.
#[derive(Clone, Debug)]
pub struct WriteRecord {
    /// Number of the variable.
    pub variable: u32,
    pub writer: Writer,
    /// Position that the writer expects the variable to have, for a compare-and-set write.
    pub expected: Option<Position>,
    /// The group of the write, if any.
    pub group: Option<u32>,
    /// True if the write is not part of a batch. The outcomes of a batch are reported together.
    pub alone: bool,
    pub fate: Fate,
    /// Session in which the write was answered.
    pub session: u64,
    /// Position of the update that the write caused, as seen by the witness.
    pub witnessed_at: Option<Position>,
}

/// The outcome of a write, as reported to the writer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// The outcome has not been reported.
    Open,
    /// The write became the update at this position.
    Applied(Position),
    /// The write changed nothing.
    NotApplied,
    /// The outcome is unknown.
    Unknown,
}

/// An update as seen by the witness.
#[derive(Clone, Copy, Debug)]
pub struct WitnessedUpdate {
    /// Number of the write that caused the update; 0 if no write did.
    pub write: u64,
    /// Engine timestamp.
    pub engine_timestamp: Timestamp,
    pub quality: Quality,
    /// Time at which the witness saw the update.
    pub at: Tick,
    /// Sequence number of the update among the updates of all variables.
    pub serial: u64,
}

/// All updates of a variable in one run of the engine.
#[derive(Debug, Default)]
struct UpdateLog {
    /// Sequence number of the first update.
    first: u64,
    updates: Vec<WitnessedUpdate>,
}

/// Counts of what was checked, for the report.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Connections made.
    pub connections: u64,
    /// Updates in the engine.
    pub updates: u64,
    /// Updates that the witness did not see, which are known only from the answers to writes.
    pub unwitnessed: u64,
    /// Readings that were checked.
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
    /// Consistent snapshots that were checked.
    pub snapshots: u64,
    /// Values of clients that were compared with the engine's after the faults had ended.
    pub compared: u64,
    /// Ledgers that were checked.
    pub ledgers: u64,
    /// Keep-alives whose digest differed from the digest of the received data.
    pub diverged: u64,
    /// Items that clients repaired.
    pub repaired: u64,
    /// Marks of pending updates that the engine set again.
    pub marked: u64,
    /// Libraries deployed while clients were connected.
    pub deployed: u64,
    /// Connections of the hostile peer.
    pub hostile: u64,
}

/// Records writes, updates and readings, and keeps the first violation.
#[derive(Debug, Default)]
pub struct Checker {
    /// The first violation.
    pub violation: Option<String>,
    /// Counts of what was checked.
    pub totals: Totals,
    /// The epochs of all starts of the engine, in order.
    epochs: Vec<u64>,
    /// Repairs that are not violations.
    pub repairs: Repairs,
    /// True if the witness sees only the last update of each turn. Earlier updates are then known only
    /// from the answers to writes.
    pub is_latest_only: bool,
    writes: Vec<WriteRecord>,
    /// All writes before this index have ended.
    ended_before: usize,
    /// The updates, by variable and epoch.
    logs: BTreeMap<(u32, u64), UpdateLog>,
    /// The program of each session, and a flag: true if the engine had not noticed the end of the
    /// program's previous session.
    sessions: BTreeMap<u64, (Writer, bool)>,
    /// The numbers of the writes of each group.
    groups: Vec<Vec<u64>>,
    /// Groups with new updates, which have not been checked.
    changed_groups: Vec<u32>,
}

impl Checker {
    /// Records a violation, unless there is one already.
    pub fn fail(&mut self, violation: impl FnOnce() -> String) {
        if self.violation.is_none() {
            self.violation = Some(violation());
        }
    }

    /// Records a start of the engine, or of another engine at the same address. Each start must have
    /// its own epoch (B-01).
    pub fn started(&mut self, epoch: u64) {
        if self.epochs.contains(&epoch) {
            self.fail(|| format!("B-01: two starts of the engine have the epoch {epoch}"));
        }
        self.epochs.push(epoch);
    }

    /// Returns the index of the start that had this epoch.
    fn start_of(&self, epoch: u64) -> Option<usize> {
        self.epochs.iter().position(|known| *known == epoch)
    }

    /// Records a write before it is sent. Returns the number of the write, which is also its value.
    pub fn begin_write(
        &mut self,
        variable: u32,
        writer: Writer,
        expected: Option<Position>,
    ) -> u64 {
        self.totals.writes += 1;
        self.writes.push(WriteRecord {
            variable,
            writer,
            expected,
            group: None,
            alone: true,
            fate: Fate::Open,
            session: 0,
            witnessed_at: None,
        });
        self.writes.len() as u64
    }

    /// Records that these writes form a group.
    pub fn mark_group(&mut self, writes: &[u64]) {
        let group = self.groups.len() as u32;
        self.groups.push(writes.to_vec());
        for write in writes {
            if let Some(written) = self.write_mut(*write) {
                written.group = Some(group);
            }
        }
    }

    /// Records that these writes form a batch, whose outcomes are reported together.
    pub fn mark_batch(&mut self, writes: &[u64]) {
        for write in writes {
            if let Some(written) = self.write_mut(*write) {
                written.alone = writes.len() == 1;
            }
        }
    }

    fn write_mut(&mut self, number: u64) -> Option<&mut WriteRecord> {
        self.writes.get_mut((number as usize).checked_sub(1)?)
    }

    /// Returns the record of a write.
    pub fn write(&self, number: u64) -> Option<&WriteRecord> {
        self.writes.get((number as usize).checked_sub(1)?)
    }

    /// Returns the update at a position.
    pub fn update_at(&self, variable: u32, position: Position) -> Option<&WitnessedUpdate> {
        let log = self.logs.get(&(variable, position.epoch))?;
        let index = position.sequence.checked_sub(log.first)?;
        log.updates.get(index as usize)
    }

    /// Records an update seen by the witness. Checks that sequences are contiguous, that contents
    /// are writes of the variable, and that no write is applied twice (B-01, B-20).
    pub fn record_update(
        &mut self,
        variable: u32,
        position: Position,
        mut update: WitnessedUpdate,
        retained: bool,
    ) {
        let log = self.logs.entry((variable, position.epoch)).or_default();
        if log.updates.is_empty() {
            log.first = if self.is_latest_only {
                1
            } else {
                position.sequence
            };
        }
        while self.is_latest_only && log.first + (log.updates.len() as u64) < position.sequence {
            self.totals.updates += 1;
            self.totals.unwitnessed += 1;
            let (write, serial) = (UNWITNESSED, self.totals.updates);
            log.updates.push(WitnessedUpdate {
                write,
                serial,
                ..update
            });
        }
        self.totals.updates += 1;
        update.serial = self.totals.updates;
        if position.sequence != log.first + log.updates.len() as u64 {
            let expected = log.first + log.updates.len() as u64;
            return self.fail(|| {
                format!(
                    "B-01: variable {variable} is at {position:?}, expected sequence {expected}"
                )
            });
        }
        log.updates.push(update);
        self.check_write(variable, position, update, retained);
    }

    /// Checks the write that caused an update. It must be a write of this variable, must not have
    /// ended (B-20), and must not have expected another position of the variable (B-22).
    fn check_write(
        &mut self,
        variable: u32,
        position: Position,
        update: WitnessedUpdate,
        retained: bool,
    ) {
        if update.write == 0 {
            return;
        }
        let Some(written) = self.write_mut(update.write) else {
            return self.fail(|| {
                format!("an update without a write: variable {variable} at {position:?}")
            });
        };
        if written.variable != variable {
            let other = written.variable;
            return self.fail(|| {
                format!(
                    "variable {variable} at {position:?} has a value that was written to {other}"
                )
            });
        }
        if retained {
            return;
        }
        let (before, fate, expected) = (written.witnessed_at, written.fate, written.expected);
        if before.is_none() {
            written.witnessed_at = Some(position);
        }
        let group = written.group;
        self.changed_groups.extend(group);
        if let Some(before) = before {
            self.fail(|| {
                format!(
                    "B-20: write {} was applied at {before:?} and {position:?}",
                    update.write
                )
            });
        }
        if fate == Fate::NotApplied {
            self.fail(|| {
                format!(
                    "B-20: write {} had ended, but was applied at {position:?}",
                    update.write
                )
            });
        }
        if let Some(expected) = expected
            && (expected.epoch, expected.sequence + 1) != (position.epoch, position.sequence)
        {
            self.fail(|| format!("B-22: a write expecting {expected:?} became {position:?}"));
        }
    }

    /// Called when the witness has seen all updates. Checks that groups are complete (B-23).
    pub fn check_groups(&mut self) {
        for group in std::mem::take(&mut self.changed_groups) {
            let members = self.groups.get(group as usize).cloned().unwrap_or_default();
            let positions: Vec<_> = members
                .iter()
                .map(|write| {
                    self.write(*write)
                        .and_then(|w| Some((w.variable, w.witnessed_at?)))
                })
                .collect();
            let stamps: Option<Vec<_>> = positions
                .iter()
                .map(|at| {
                    at.and_then(|(v, p)| self.update_at(v, p))
                        .map(|s| s.engine_timestamp)
                })
                .collect();
            match stamps {
                Some(stamps) if stamps.windows(2).all(|pair| pair.first() == pair.last()) => {}
                None if self.is_latest_only => {}
                _ => {
                    self.fail(|| format!("B-23: group {group} was applied in part: {positions:?}"))
                }
            }
        }
    }

    /// Records the outcome of a write that was reported in `session`.
    pub fn write_ended(&mut self, number: u64, outcome: &WriteOutcome, session: u64) {
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
        self.finish_write(number, fate, session, is_conflict);
    }

    /// Like [`write_ended`](Self::write_ended), but takes the outcome as a [`Fate`].
    pub fn finish_write(&mut self, number: u64, fate: Fate, session: u64, is_conflict: bool) {
        if let (Fate::Applied(position), Some(written)) = (fate, self.write(number)) {
            let variable = written.variable;
            self.fill_in(variable, position, number, None);
        }
        let Some(written) = self.write_mut(number) else {
            return;
        };
        let (before, variable) = (written.fate, written.variable);
        let witnessed_at = written.witnessed_at;
        let expected = written.expected;
        (written.fate, written.session) = (fate, session);
        if before != Fate::Open {
            return self.fail(|| format!("B-20: write {number} ended as {before:?} and {fate:?}"));
        }
        self.totals.unknown += u64::from(fate == Fate::Unknown);
        match fate {
            Fate::Applied(position) if witnessed_at != Some(position) => self.fail(|| {
                format!(
                    "B-20: write {number} was reported at {position:?}, but is at \
                     {witnessed_at:?}"
                )
            }),
            Fate::Applied(_) => self.totals.conditional += u64::from(expected.is_some()),
            Fate::NotApplied if witnessed_at.is_some() => self.fail(|| {
                format!(
                    "B-20: write {number} was reported as not applied, but is at {witnessed_at:?}"
                )
            }),
            _ => {}
        }
        if is_conflict && let Some(expected) = expected {
            let next = Position {
                sequence: expected.sequence + 1,
                ..expected
            };
            let has_moved = self.update_at(variable, next).is_some()
                || self.epochs.last() != Some(&expected.epoch);
            if !has_moved {
                self.fail(|| {
                    format!("B-22: a conflict at {expected:?}, but the variable is still there")
                });
            }
        }
    }

    /// Records the end of a group.
    pub fn group_ended(&mut self, applied: bool) {
        self.totals.groups += u64::from(applied);
    }

    /// Records that the engine has accepted a connection of this program. `overlaps` is true if the
    /// engine has not noticed the end of the program's previous session.
    pub fn session_accepted(&mut self, session: u64, writer: Writer, overlaps: bool) {
        self.sessions.insert(session, (writer, overlaps));
    }

    /// Adds the write and, if known, timestamp and quality to an update that the witness has not seen.
    fn fill_in(
        &mut self,
        variable: u32,
        position: Position,
        write: u64,
        reading: Option<(Timestamp, Quality)>,
    ) {
        let Some(log) = self.logs.get_mut(&(variable, position.epoch)) else {
            return;
        };
        let index = position.sequence.checked_sub(log.first);
        let update = index.and_then(|index| log.updates.get_mut(index as usize));
        let Some(update) = update.filter(|update| update.write == UNWITNESSED) else {
            return;
        };
        update.write = write;
        if let Some((engine_timestamp, quality)) = reading {
            (update.engine_timestamp, update.quality) = (engine_timestamp, quality);
        }
        let update = *update;
        let is_made_by_engine = reading.is_some_and(|(_, quality)| is_made_by_engine(quality));
        self.check_write(variable, position, update, is_made_by_engine);
    }

    fn fill_in_from_reading(&mut self, variable: u32, reading: &Reading) {
        let sample = &reading.sample;
        if let Some(write) = write_number(&sample.value) {
            let stamp = (sample.engine_timestamp, sample.quality);
            self.fill_in(variable, reading.position, write, Some(stamp));
        }
    }

    /// Records repairs, as counted by the product. Without a bug, there must be no repairs, unless the
    /// plan accepts them (B-10).
    pub fn record_repairs(&mut self, diverged: u64, repaired: u64, marked: u64) {
        self.totals.diverged += diverged;
        self.totals.repaired += repaired;
        self.totals.marked += marked;
        let is_accepted = match self.repairs {
            Repairs::Never => diverged + repaired + marked == 0,
            Repairs::Marks => diverged + repaired == 0,
            Repairs::Records => marked == 0,
        };
        if !is_accepted {
            self.fail(|| {
                format!(
                    "B-10: {diverged} digests differed, {repaired} items were repaired and \
                     {marked} marks set again"
                )
            });
        }
    }

    /// Returns true if a write has not ended.
    pub fn has_open_writes(&mut self) -> bool {
        while self.ended_before < self.writes.len() {
            let next = self.writes.get(self.ended_before);
            if next.is_some_and(|write| write.fate == Fate::Open) {
                return true;
            }
            self.ended_before += 1;
        }
        false
    }

    /// Called at the end of the run. Checks that every write has ended.
    pub fn check_all_ended(&mut self) {
        let open = self
            .writes
            .iter()
            .position(|write| write.fate == Fate::Open);
        if let Some(open) = open {
            let writer = self.writes.get(open).map(|write| write.writer);
            self.fail(|| format!("B-20: write {} of {writer:?} never ended", open + 1));
        }
    }

    /// Called when the program of this writer has ended. Nobody learns the outcomes of its open writes.
    pub fn forget_writer(&mut self, writer: Writer) {
        for written in &mut self.writes {
            if written.writer == writer && written.fate == Fate::Open {
                written.fate = Fate::Unknown;
            }
        }
    }
}

/// Returns the number of the write that caused a value; 0 for the initial value.
pub fn write_number(value: &Value) -> Option<u64> {
    match value {
        Value::F64(number) => Some(*number as u64),
        Value::U64(number) => Some(*number),
        Value::String(text) if text.is_empty() => Some(0),
        Value::String(text) => text.split(':').next()?.parse().ok(),
        _ => None,
    }
}

/// Returns true if the engine itself created the update, from a value that was written earlier.
pub fn is_made_by_engine(quality: Quality) -> bool {
    matches!(quality.reason(), Reason::Stale | Reason::Retained)
}
