//! Checks readings and answers that programs took against the writes.

use std::time::Duration;

use trunkline_types::{Contract, Position, Reading, Tick};

use super::{Checker, Fate, Writer, number_of};
use crate::plan::Repairs;

/// The readings that one program has taken from one item.
#[derive(Clone, Copy, Debug, Default)]
pub struct Had {
    /// Position of the last reading.
    pub position: Option<Position>,
    /// The subscription or the connection has ended since then.
    pub interrupted: bool,
    /// The subscription has ended, regardless of the connection.
    pub ended: bool,
    /// The session of that reading.
    pub session: u64,
}

/// A client that reconnects within this time must get everything written while it was away: the
/// time for which the engine keeps updates, minus the time that both ends need to notice the break
/// and to reconnect.
const KEPT: Duration = Duration::from_secs(20);
/// Longest time that updates wait at the engine before a broken connection is noticed.
const UNNOTICED: Duration = Duration::from_secs(5);
/// Length of the longest value with its number, in bytes.
const LONGEST: u64 = 430;

/// A reading that a program took, with its context.
#[derive(Debug)]
pub struct Took<'a> {
    /// The program that took it.
    pub by: Writer,
    /// The session in which it arrived.
    pub session: u64,
    /// Number of the variable.
    pub variable: u32,
    /// Contract of the subscription.
    pub contract: Contract,
    pub reading: &'a Reading,
    /// All variables of the subscription.
    pub variables: &'a [u32],
    /// Time at which it was taken.
    pub now: Tick,
}

impl Checker {
    /// Returns true if the updates that an `all` subscription reports as lost to a disconnect should have
    /// been kept: the client was away for a short time, and the updates written meanwhile are within the
    /// bound. The engine cannot give updates to the next session if it sent them to one that it did not know
    /// to be over.
    fn should_have(&self, took: &Took<'_>, had: &Had, before: Position) -> bool {
        let Contract::All { elements, bytes } = took.contract else {
            return false;
        };
        let missed = Position {
            sequence: before.sequence + 1,
            ..before
        };
        let Some(missed) = self.seen(took.variable, missed) else {
            return false;
        };
        // An update that has lost its mark is not kept for the next session either.
        let is_whole = self.repairs == Repairs::Never;
        if had.ended || had.session >= took.session || !is_whole {
            return false;
        }
        let sessions = self.sessions.range(had.session + 1..=took.session);
        let mut own = sessions.filter(|(_, (by, _))| *by == took.by);
        if own.any(|(_, (_, overlaps))| *overlaps) {
            return false;
        }
        let waited = UNNOTICED.as_nanos() as u64;
        let from = Tick::from_nanos(missed.at.as_nanos().saturating_sub(waited));
        let written = |variable: &u32| {
            let life = self.lives.get(&(*variable, before.epoch));
            life.map_or(0, |life| {
                life.updates.len() - life.updates.partition_point(|one| one.at < from)
            })
        };
        let written: usize = took.variables.iter().map(written).sum();
        let written = written as u64;
        took.now.since(missed.at) < KEPT
            && written < u64::from(elements) * 7 / 8
            && written * LONGEST < u64::from(bytes) * 7 / 8
    }

    /// Checks a reading that a program took.
    pub fn took(&mut self, took: &Took<'_>, had: &mut Had) {
        self.totals.readings += 1;
        let reading = took.reading;
        let (position, lost) = (reading.position, reading.lost);
        self.check_content(took);
        let had_before = *had;
        let before = had.position.replace(position);
        let interrupted = had.interrupted;
        // The first reading of a subscription may be a copy from before the interruption.
        had.interrupted &= before.is_none();
        (had.ended, had.session) = (false, took.session);
        let told = lost.coalesced + lost.queue + lost.overrun + lost.disconnect;
        self.totals.lost += told;
        let who = || {
            format!(
                "program {} variable {} under {}: {before:?} then {position:?} with {lost:?}",
                took.by, took.variable, took.contract
            )
        };
        match before {
            // Before the first reading, coalesced and dropped updates count from the start of the
            // subscription.
            None if told >= position.sequence.max(1)
                && !lost.unknown
                && self.repairs != Repairs::Records =>
            {
                self.fail(|| format!("B-03: lost before the first; {}", who()));
            }
            None => {}
            Some(before) if before.epoch != position.epoch => {
                if !lost.unknown {
                    self.fail(|| format!("B-03: across epochs the loss is unknown; {}", who()));
                }
                if self.start_of(before.epoch) > self.start_of(position.epoch) {
                    self.fail(|| format!("B-01: back to an earlier epoch; {}", who()));
                }
            }
            Some(before) if position.sequence <= before.sequence => {
                self.fail(|| format!("B-01: repeated or back; {}", who()));
            }
            Some(before) => {
                let gap = position.sequence - before.sequence - 1;
                if (gap != told || lost.unknown) && self.repairs != Repairs::Records {
                    self.fail(|| format!("B-03: {gap} missing, {told} told; {}", who()));
                }
                if lost.disconnect > 0 {
                    self.totals.lost_while_away += lost.disconnect;
                    if self.should_have(took, &had_before, before) {
                        self.fail(|| format!("B-05: lost over a short cut; {}", who()));
                    }
                }
                // A repair begins after the last reading of the program, as after a cut. Only runs
                // that plant the loss of records accept that a repair is needed.
                let is_mended = self.repairs == Repairs::Records;
                if lost.disconnect > 0 && !interrupted && !is_mended {
                    self.fail(|| format!("B-03: lost to a disconnect that was none; {}", who()));
                }
            }
        }
        let fits = match took.contract {
            Contract::Latest | Contract::Sampled(_) => lost.queue == 0 && lost.overrun == 0,
            Contract::Last(_) | Contract::First(_) => lost.coalesced == 0 && lost.overrun == 0,
            Contract::All { .. } => lost.coalesced == 0 && lost.queue == 0,
        };
        if !fits {
            self.fail(|| format!("B-05: a loss that the contract does not know; {}", who()));
        }
    }

    /// Checks that the content of the reading was written to this variable as this update, so that
    /// no reading is invented.
    fn check_content(&mut self, took: &Took<'_>) {
        let (variable, reading) = (took.variable, took.reading);
        let position = reading.position;
        if position.sequence == 0 {
            return;
        }
        self.reveal_reading(variable, reading);
        let Some(seen) = self.seen(variable, position).copied() else {
            return self.fail(|| {
                format!("an invented reading: variable {variable} was never at {position:?}")
            });
        };
        let write = number_of(&reading.sample.value);
        if write != Some(seen.write) {
            return self.fail(|| {
                format!(
                    "a false reading: variable {variable} at {position:?} is write {}, not {write:?}",
                    seen.write
                )
            });
        }
        if reading.sample.engine_timestamp != seen.engine_timestamp
            || reading.sample.quality != seen.quality
        {
            return self.fail(|| {
                format!(
                    "variable {variable} at {position:?} has another time or quality: {reading:?}"
                )
            });
        }
        let Some(written) = self.write(seen.write) else {
            return;
        };
        let is_own = written.by == took.by && took.by != 0 && written.seen == Some(position);
        let (fate, session, alone) = (written.fate, written.session, written.alone);
        let number = seen.write;
        if reading.own && !is_own {
            self.fail(|| format!("B-21: write {number} is no write of program {}", took.by));
        }
        if alone
            && is_own
            && !reading.own
            && session == took.session
            && matches!(fate, Fate::Applied(_))
        {
            self.fail(|| format!("B-21: write {number} is not marked as its writer's own"));
        }
        if alone && reading.own && fate == Fate::Open {
            self.fail(|| format!("B-21: the update of write {number} came before its answer"));
        }
    }

    /// Checks the answer to a read or a snapshot of these variables: its contents must have been
    /// written, and all values of one instant must have been current at the same time (B-23).
    pub fn answered<E: std::fmt::Debug>(
        &mut self,
        variables: &[u32],
        readings: &[Result<Reading, E>],
        is_one_instant: bool,
    ) {
        let (mut newest, mut next) = (0, u64::MAX);
        for (reading, variable) in readings.iter().zip(variables.iter().copied()) {
            let Ok(reading) = reading else {
                continue;
            };
            self.totals.readings += 1;
            let position = reading.position;
            self.reveal_reading(variable, reading);
            let behind = Position {
                sequence: position.sequence + 1,
                ..position
            };
            next = next.min(
                self.seen(variable, behind)
                    .map_or(u64::MAX, |seen| seen.serial),
            );
            if position.sequence == 0 {
                continue;
            }
            let Some(seen) = self.seen(variable, position).copied() else {
                return self.fail(|| {
                    format!("an invented answer: variable {variable} was never at {position:?}")
                });
            };
            newest = newest.max(seen.serial);
            if number_of(&reading.sample.value) != Some(seen.write) {
                self.fail(|| format!("a false answer: variable {variable} as {reading:?}"));
            }
        }
        self.totals.snapshots += u64::from(is_one_instant);
        // Updates that the witness has not seen cannot be ordered among those of other variables.
        if is_one_instant && newest >= next && !self.is_plain {
            self.fail(|| format!("B-23: a snapshot of no one instant: {readings:?}"));
        }
    }
}
