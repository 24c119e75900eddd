//! Compares the readings that programs have received with the writes.

use std::time::Duration;

use trunkline_types::{Contract, Position, Reading, Tick};

use super::{Checker, Fate, Writer, write_number};
use crate::plan::Repairs;

/// The state of the readings that a program has received from one item.
#[derive(Clone, Copy, Debug, Default)]
pub struct ItemState {
    /// Position of the last reading.
    pub position: Option<Position>,
    /// True if the subscription or the connection has ended since the last reading.
    pub interrupted: bool,
    /// True if the subscription has ended since the last reading.
    pub ended: bool,
    /// Session of the last reading.
    pub session: u64,
}

/// Maximum duration of a disconnection after which the client must still receive all updates. It is the
/// time for which the engine keeps updates, minus the time that both ends need to detect the broken
/// connection and to reconnect.
const KEPT_TIME: Duration = Duration::from_secs(20);
/// Maximum time for which updates wait in the engine until a broken connection is detected.
const DETECTION_TIME: Duration = Duration::from_secs(5);
/// Maximum length of a value in bytes.
const VALUE_BYTES_MAX: u64 = 430;

/// A reading that a program has received, with its context.
#[derive(Debug)]
pub struct TakenReading<'a> {
    /// The program that has received the reading.
    pub writer: Writer,
    /// The session in which the reading arrived.
    pub session: u64,
    /// Number of the variable.
    pub variable: u32,
    /// Contract of the subscription.
    pub contract: Contract,
    pub reading: &'a Reading,
    /// All variables of the subscription.
    pub variables: &'a [u32],
    /// Time at which the program took the reading.
    pub now: Tick,
}

impl Checker {
    /// Returns true if the engine should have kept the updates that an `all` subscription reports as lost to
    /// a disconnection. This is so if the client was disconnected for a short time, and if the updates
    /// written in that time are within the bound. It is not so if the engine did not know that the previous
    /// session had ended, and so had sent it the updates.
    fn should_have_kept(
        &self,
        taken: &TakenReading<'_>,
        state: &ItemState,
        before: Position,
    ) -> bool {
        let Contract::All { elements, bytes } = taken.contract else {
            return false;
        };
        let missed = Position {
            sequence: before.sequence + 1,
            ..before
        };
        let Some(missed) = self.update_at(taken.variable, missed) else {
            return false;
        };
        // If marks or records may be lost, updates for the next session may be lost too.
        let is_lossless = self.repairs == Repairs::Never;
        if state.ended || state.session >= taken.session || !is_lossless {
            return false;
        }
        let sessions = self.sessions.range(state.session + 1..=taken.session);
        let mut own = sessions.filter(|(_, (writer, _))| *writer == taken.writer);
        if own.any(|(_, (_, overlaps))| *overlaps) {
            return false;
        }
        let waited = DETECTION_TIME.as_nanos() as u64;
        let from = Tick::from_nanos(missed.at.as_nanos().saturating_sub(waited));
        let written = |variable: &u32| {
            let log = self.logs.get(&(*variable, before.epoch));
            log.map_or(0, |log| {
                log.updates.len() - log.updates.partition_point(|update| update.at < from)
            })
        };
        let written: usize = taken.variables.iter().map(written).sum();
        let written = written as u64;
        taken.now.since(missed.at) < KEPT_TIME
            && written < u64::from(elements) * 7 / 8
            && written * VALUE_BYTES_MAX < u64::from(bytes) * 7 / 8
    }

    /// Checks a reading that a program has received.
    pub fn check_reading(&mut self, taken: &TakenReading<'_>, state: &mut ItemState) {
        self.totals.readings += 1;
        let reading = taken.reading;
        let (position, lost) = (reading.position, reading.lost);
        self.check_content(taken);
        let state_before = *state;
        let before = state.position.replace(position);
        let interrupted = state.interrupted;
        // The first reading of a subscription may be a copy that is older than the interruption.
        state.interrupted &= before.is_none();
        (state.ended, state.session) = (false, taken.session);
        let reported = lost.coalesced + lost.queue + lost.overrun + lost.disconnect;
        self.totals.lost += reported;
        let context = || {
            format!(
                "program {} variable {} under {}: {before:?} then {position:?} with {lost:?}",
                taken.writer, taken.variable, taken.contract
            )
        };
        match before {
            // The first reading counts the updates that were merged or dropped since the subscription
            // began.
            None if reported >= position.sequence.max(1)
                && !lost.unknown
                && self.repairs != Repairs::Records =>
            {
                self.fail(|| {
                    format!(
                        "B-03: too many lost before the first reading; {}",
                        context()
                    )
                });
            }
            None => {}
            Some(before) if before.epoch != position.epoch => {
                if !lost.unknown {
                    self.fail(|| format!("B-03: across epochs the loss is unknown; {}", context()));
                }
                if self.start_of(before.epoch) > self.start_of(position.epoch) {
                    self.fail(|| format!("B-01: went back to an earlier epoch; {}", context()));
                }
            }
            Some(before) if position.sequence <= before.sequence => {
                self.fail(|| format!("B-01: repeated or went back; {}", context()));
            }
            Some(before) => {
                let gap = position.sequence - before.sequence - 1;
                if (gap != reported || lost.unknown) && self.repairs != Repairs::Records {
                    self.fail(|| {
                        format!("B-03: {gap} missing, {reported} reported; {}", context())
                    });
                }
                if lost.disconnect > 0 {
                    self.totals.lost_while_away += lost.disconnect;
                    if self.should_have_kept(taken, &state_before, before) {
                        self.fail(|| {
                            format!("B-05: lost during a short disconnect; {}", context())
                        });
                    }
                }
                // A repair also reports a loss to a disconnection. Only runs that plant the loss of
                // records accept repairs.
                let accepts_repairs = self.repairs == Repairs::Records;
                if lost.disconnect > 0 && !interrupted && !accepts_repairs {
                    self.fail(|| {
                        format!(
                            "B-03: lost to a disconnect that did not happen; {}",
                            context()
                        )
                    });
                }
            }
        }
        let is_possible = match taken.contract {
            Contract::Latest | Contract::Sampled(_) => lost.queue == 0 && lost.overrun == 0,
            Contract::Last(_) | Contract::First(_) => lost.coalesced == 0 && lost.overrun == 0,
            Contract::All { .. } => lost.coalesced == 0 && lost.queue == 0,
        };
        if !is_possible {
            self.fail(|| {
                format!(
                    "B-05: a kind of loss that the contract does not have; {}",
                    context()
                )
            });
        }
    }

    /// Checks that value, timestamp and quality of the reading are those of the update at its position.
    fn check_content(&mut self, taken: &TakenReading<'_>) {
        let (variable, reading) = (taken.variable, taken.reading);
        let position = reading.position;
        if position.sequence == 0 {
            return;
        }
        self.fill_in_from_reading(variable, reading);
        let Some(update) = self.update_at(variable, position).copied() else {
            return self.fail(|| {
                format!("a reading that was never written: variable {variable} was never at {position:?}")
            });
        };
        let write = write_number(&reading.sample.value);
        if write != Some(update.write) {
            return self.fail(|| {
                format!(
                    "a wrong reading: variable {variable} at {position:?} is write {}, not {write:?}",
                    update.write
                )
            });
        }
        if reading.sample.engine_timestamp != update.engine_timestamp
            || reading.sample.quality != update.quality
        {
            return self.fail(|| {
                format!(
                    "variable {variable} at {position:?} has another time or quality: {reading:?}"
                )
            });
        }
        let Some(written) = self.write(update.write) else {
            return;
        };
        let is_own = written.writer == taken.writer
            && taken.writer != 0
            && written.witnessed_at == Some(position);
        let (fate, session, alone) = (written.fate, written.session, written.alone);
        let number = update.write;
        if reading.own && !is_own {
            self.fail(|| {
                format!(
                    "B-21: write {number} is not a write of program {}",
                    taken.writer
                )
            });
        }
        if alone
            && is_own
            && !reading.own
            && session == taken.session
            && matches!(fate, Fate::Applied(_))
        {
            self.fail(|| format!("B-21: write {number} is not marked as its writer's own"));
        }
        if alone && reading.own && fate == Fate::Open {
            self.fail(|| format!("B-21: the update of write {number} came before its answer"));
        }
    }

    /// Checks the answer to a read or a snapshot of these variables. The values must have been written. If
    /// `is_one_instant` is true, there must be a time at which all of them were current (B-23).
    pub fn check_answer<E: std::fmt::Debug>(
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
            self.fill_in_from_reading(variable, reading);
            let next_position = Position {
                sequence: position.sequence + 1,
                ..position
            };
            next = next.min(
                self.update_at(variable, next_position)
                    .map_or(u64::MAX, |update| update.serial),
            );
            if position.sequence == 0 {
                continue;
            }
            let Some(update) = self.update_at(variable, position).copied() else {
                return self.fail(|| {
                    format!("an answer that was never written: variable {variable} was never at {position:?}")
                });
            };
            newest = newest.max(update.serial);
            if write_number(&reading.sample.value) != Some(update.write) {
                self.fail(|| format!("a wrong answer: variable {variable} as {reading:?}"));
            }
        }
        self.totals.snapshots += u64::from(is_one_instant);
        // Updates that the witness has not seen have no order relative to other variables.
        if is_one_instant && newest >= next && !self.is_latest_only {
            self.fail(|| {
                format!("B-23: the values of a snapshot are not of one instant: {readings:?}")
            });
        }
    }
}
