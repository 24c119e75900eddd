//! Writing variables of an engine in this process, one by one or many with one clock read.

use std::sync::Arc;

use trunkline_client::IntoValue;
use trunkline_engine::{Attempt, Consumer, Refusal, UnknownCause, Wakes, Write, WriteOutcome};
use trunkline_net::Clock;
use trunkline_types::{Position, Tick, Timestamp, Value};

use super::Variable;
use super::signal::{Signal, SignalWake};
use crate::Engine;

/// The end of a write that changed nothing wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Written {
    /// The update that the variable holds because of it.
    pub position: Position,
    /// False when it lay within the deadband of the value that was there.
    pub changed: bool,
}

/// Why a write did not take effect, or may not have.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// It changed nothing.
    #[error("{0}")]
    Refused(Refusal),
    /// A newer value took its place.
    #[error("a newer value took its place before it was carried out")]
    Superseded,
    /// Nobody can say.
    #[error("{0}")]
    Unknown(UnknownCause),
}

/// Writes of a batch whose updates wait for the end of it at most: about 32 KiB on the wire.
const GATHERED_MAX: usize = 1024;

impl Engine {
    /// Writes many variables of this engine: like [`Variable::write`] one after the other, with one
    /// clock read for all of them, and subscribers are sent what there is after the last, and after
    /// every 1,024. Returns one result each, in order.
    ///
    /// They are not one transaction: a reader may see some of them before the others. Where one has
    /// to wait (its provider is asked, an `all` subscription holds writers up) those after it wait
    /// as well.
    pub fn write_many<'a, T: IntoValue + 'a>(
        &self,
        writes: impl IntoIterator<Item = (&'a Variable<T>, T)>,
    ) -> Vec<Result<Written, WriteError>> {
        let mut moment = Moment::now(self.inner.clock);
        let (mut wakes, mut gathered) = (Wakes::new(), 0);
        let write = |(variable, value): (&Variable<T>, T)| {
            let value = value.into_value();
            if gathered == GATHERED_MAX {
                gathered = 0;
                wakes.send();
            }
            gathered += 1;
            if let Some(sequence) = variable.write_short(moment.wall, &value, &mut wakes) {
                return variable.written(WriteOutcome::Applied { sequence });
            }
            if !variable.variable.is_provided() {
                let write = Write::value(&value);
                if let Attempt::Done(outcome) = variable.attempt(&write, moment, &mut wakes) {
                    return variable.written(outcome);
                }
            }
            // Room comes when those before it are taken.
            wakes.flush();
            let result = variable.write_waiting(&value);
            moment = Moment::now(self.inner.clock);
            result
        };
        let results = writes.into_iter().map(write).collect();
        wakes.send();
        results
    }
}

/// One reading of both clocks.
#[derive(Clone, Copy, Debug)]
struct Moment {
    now: Tick,
    wall: Timestamp,
}

impl Moment {
    fn now(clock: Clock) -> Self {
        let (now, wall) = clock.moment();
        Self { now, wall }
    }
}

impl<T: IntoValue> Variable<T> {
    /// Writes a value and waits until it has taken effect: at once, unless a provider has to be
    /// asked or an `all` subscription may hold up writers.
    ///
    /// # Errors
    /// [`WriteError`] says which rule refused it, or why the outcome is unknown.
    #[inline]
    pub fn write(&self, value: T) -> Result<Written, WriteError> {
        let value = value.into_value();
        if self.variable.is_plain() {
            let (wall, mut wakes) = (self.wall(), Wakes::new());
            if let Some(sequence) = self.write_short(wall, &value, &mut wakes) {
                wakes.send();
                return self.written(WriteOutcome::Applied { sequence });
            }
        }
        self.write_common(&value)
    }

    /// Writes it the short way, where that is enough.
    #[inline]
    fn write_short(&self, wall: Timestamp, value: &Value, wakes: &mut Wakes) -> Option<u64> {
        if !self.variable.is_plain() || !self.core.is_clock_settled() {
            return None;
        }
        self.variable.write_plain(&self.caller, wall, value, wakes)
    }

    /// [`write`](Self::write) of whatever there is.
    fn write_common(&self, value: &Value) -> Result<Written, WriteError> {
        if !self.variable.is_provided()
            && let Attempt::Done(outcome) = self.attempt_now(&Write::value(value))
        {
            return self.written(outcome);
        }
        self.write_waiting(value)
    }

    /// The time to stamp with: without timestamps nobody needs it (SP-03).
    #[inline]
    fn wall(&self) -> Timestamp {
        match self.variable.has_timestamps() {
            true => self.clock.wall(),
            false => Timestamp::UNIX_EPOCH,
        }
    }

    /// Tries to write without ever waiting. `Attempt::Pending`: a provider was asked, and its
    /// answer will show in the variable.
    pub fn try_write(&self, value: T) -> Attempt {
        let value = value.into_value();
        self.attempt_now(&Write::value(&value))
    }

    fn attempt_now(&self, write: &Write<'_>) -> Attempt {
        let mut wakes = Wakes::new();
        // The audit notes when it was, whether the variable is stamped or not.
        let attempt = self.attempt(write, Moment::now(self.clock), &mut wakes);
        wakes.send();
        attempt
    }

    fn attempt(&self, write: &Write<'_>, moment: Moment, wakes: &mut Wakes) -> Attempt {
        let Moment { now, wall } = moment;
        self.core
            .try_write(&self.caller, now, wall, &self.variable, write, wakes)
    }

    fn write_waiting(&self, value: &Value) -> Result<Written, WriteError> {
        let signal = Arc::new(Signal::default());
        let wake = Box::new(SignalWake(Arc::clone(&signal)));
        let mut consumer = Consumer::new(self.core.clone(), wake);
        let mut write = Write::value(value);
        write.completion = Some(consumer.completion(0));
        loop {
            match self.attempt_now(&write) {
                Attempt::Done(outcome) => return self.written(outcome),
                // The engine ends every pending write, if need be as unknown when its time is over.
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
            WriteOutcome::Applied { sequence } => Ok(Written {
                position: position(sequence),
                changed: true,
            }),
            WriteOutcome::Unchanged { sequence } => Ok(Written {
                position: position(sequence),
                changed: false,
            }),
            WriteOutcome::Refused(refusal) => Err(WriteError::Refused(refusal)),
            WriteOutcome::Unknown(cause) => Err(WriteError::Unknown(cause)),
            _ => Err(WriteError::Superseded),
        }
    }
}
