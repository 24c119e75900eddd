//! Writes variables of an engine in this process, one at a time or many with a single reading of
//! the clocks.

use trunkline_client::IntoValue;
use trunkline_engine::{Attempt, Origin, Refusal, UnknownCause, Wakes, Write, WriteOutcome};
use trunkline_net::Clock;
use trunkline_types::{Moment, Position, Quality, Timestamp, Value};

use super::Variable;
use super::subscription::Signal;

/// The result of a successful write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Written {
    /// Position of the variable after the write.
    pub position: Position,
    /// False if the value differs from the previous value by no more than the deadband.
    pub changed: bool,
}

/// The reason why a write did not take effect, or why its outcome is unknown.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// A rule refused the write. Nothing changed.
    #[error("{0}")]
    Refused(Refusal),
    /// The write was discarded, because a newer write of the same variable replaced it.
    #[error("a newer write replaced this write before it was carried out")]
    Superseded,
    /// The engine may or may not have carried out the write.
    #[error("{0}")]
    Unknown(UnknownCause),
}

/// Maximum number of writes whose updates are gathered before they are sent, about 32 KiB on the
/// wire.
const GATHERED_MAX: usize = 1024;

/// Writes many variables, and reads the clocks only once; see
/// [`Engine::write_many`](crate::Engine::write_many).
pub(crate) fn write_many<'a, T: IntoValue + 'a>(
    clock: Clock,
    writes: impl IntoIterator<Item = (&'a Variable<T>, T)>,
) -> Vec<Result<Written, WriteError>> {
    let mut moment = moment(clock);
    let (mut wakes, mut gathered) = (Wakes::new(), 0);
    let write = |(variable, value): (&Variable<T>, T)| {
        let value = value.into_value();
        if gathered == GATHERED_MAX {
            gathered = 0;
            wakes.send();
        }
        gathered += 1;
        let (caller, wall) = (&variable.caller, moment.wall);
        if variable.core.is_clock_settled()
            && let Some(sequence) = variable
                .variable
                .write_plain(caller, wall, &value, &mut wakes)
        {
            return variable.written(WriteOutcome::Applied(sequence));
        }
        if !variable.variable.is_provided() {
            let write = Write::value(&value);
            if let Attempt::Done(outcome) = variable.attempt(&write, moment, &mut wakes) {
                return variable.written(outcome);
            }
        }
        // This write may have to wait for queue space, which is freed only when subscribers receive
        // the earlier writes.
        wakes.flush();
        let result = variable.write_waiting(Write::value(&value));
        moment = self::moment(clock);
        result
    };
    let results = writes.into_iter().map(write).collect();
    wakes.send();
    results
}

pub(super) fn moment(clock: Clock) -> Moment {
    let (now, wall) = clock.moment();
    Moment { now, wall }
}

impl<T: IntoValue> Variable<T> {
    /// Writes a value and waits until it has taken effect. The call waits only for the answer of a
    /// provider, or while an `all` subscription stalls writers.
    ///
    /// # Errors
    /// [`WriteError`] with the rule that refused the write, or with the reason why the outcome is
    /// unknown.
    #[inline]
    pub fn write(&self, value: T) -> Result<Written, WriteError> {
        let value = value.into_value();
        if self.variable.is_plain() {
            let (caller, wall, mut wakes) = (&self.caller, self.wall(), Wakes::new());
            if self.core.is_clock_settled()
                && let Some(sequence) = self.variable.write_plain(caller, wall, &value, &mut wakes)
            {
                wakes.send();
                return self.written(WriteOutcome::Applied(sequence));
            }
        }
        self.write_general(&value)
    }

    /// The general path of [`write`](Self::write), for all kinds of writes.
    fn write_general(&self, value: &Value) -> Result<Written, WriteError> {
        if !self.variable.is_provided()
            && let Attempt::Done(outcome) = self.attempt_now(&Write::value(value))
        {
            return self.written(outcome);
        }
        self.write_waiting(Write::value(value))
    }

    /// Publishes a value as the source of this variable, which may be read-only. The value is in
    /// engineering units. With `measured`, it was measured at that time. Leases and control do not
    /// restrict a source, and a forced variable keeps its forced value. The call waits only while an
    /// `all` subscription stalls writers.
    ///
    /// # Errors
    /// [`WriteError`] with the rule that refused the value. Everything that has another source is
    /// read-only here: a variable with a provider, an alias, a field, and a variable of the engine
    /// itself.
    pub fn publish(
        &self,
        value: T,
        quality: Quality,
        measured: Option<Timestamp>,
    ) -> Result<Written, WriteError> {
        let name = self.variable.name();
        if self.variable.is_provided() || name.starts_with('_') || name.contains('#') {
            return Err(WriteError::Refused(Refusal::ReadOnly));
        }
        let value = value.into_value();
        let mut write = Write::value(&value);
        write.origin = Origin::Source;
        write.quality = Some(quality);
        write.source_timestamp = measured;
        self.write_waiting(write)
    }

    /// Returns the wall-clock time. Skips the clock for a variable without timestamps (SP-03).
    #[inline]
    fn wall(&self) -> Timestamp {
        match self.variable.has_timestamps() {
            true => self.clock.wall(),
            false => Timestamp::UNIX_EPOCH,
        }
    }

    /// Tries to write without waiting. With `Attempt::Pending`, the engine has passed the value to
    /// the provider, whose answer arrives as an update of the variable.
    pub fn try_write(&self, value: T) -> Attempt {
        let value = value.into_value();
        self.attempt_now(&Write::value(&value))
    }

    fn attempt_now(&self, write: &Write<'_>) -> Attempt {
        let mut wakes = Wakes::new();
        // The wall-clock time is needed even for variables without timestamps, because the audit
        // trail records it.
        let attempt = self.attempt(write, moment(self.clock), &mut wakes);
        wakes.send();
        attempt
    }

    fn attempt(&self, write: &Write<'_>, moment: Moment, wakes: &mut Wakes) -> Attempt {
        let Moment { now, wall } = moment;
        self.core
            .try_write(&self.caller, now, wall, &self.variable, write, wakes)
    }

    fn write_waiting(&self, mut write: Write<'_>) -> Result<Written, WriteError> {
        let (signal, mut consumer) = Signal::of_consumer(&self.core);
        write.completion = Some(consumer.completion(0));
        loop {
            match self.attempt_now(&write) {
                Attempt::Done(outcome) => return self.written(outcome),
                // The engine ends every pending write. If no answer arrives in time, it ends the
                // write as unknown.
                Attempt::Pending => loop {
                    if let Some((_, outcome)) = consumer.take_completion() {
                        return self.written(outcome);
                    }
                    signal.wait(None);
                },
                Attempt::WouldBlock { until } => {
                    if consumer.wait_for_room(&self.variable) {
                        signal.wait(Some(until.since(self.clock.now())));
                    }
                }
            }
        }
    }

    fn written(&self, outcome: WriteOutcome) -> Result<Written, WriteError> {
        let position = |sequence| Position {
            epoch: self.core.epoch(),
            sequence,
        };
        match outcome {
            WriteOutcome::Applied(sequence) => Ok(Written {
                position: position(sequence),
                changed: true,
            }),
            WriteOutcome::Unchanged(sequence) => Ok(Written {
                position: position(sequence),
                changed: false,
            }),
            WriteOutcome::Refused(refusal) => Err(WriteError::Refused(refusal)),
            WriteOutcome::Unknown(cause) => Err(WriteError::Unknown(cause)),
            WriteOutcome::Superseded => Err(WriteError::Superseded),
        }
    }
}
