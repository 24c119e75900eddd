//! Variables of an engine in this process, reached without a connection.
//!
//! Reading takes no lock and costs nanoseconds; writing runs on the caller's thread. Single-process
//! variables are reached like any others.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use trunkline_client::{FromValue, IntoValue, TypeMismatch};
use trunkline_engine::{
    AccessError, Attempt, Caller, Consumer, Delivery, EndedItem, Engine as Core, Refusal, Sink,
    SubscribeOptions, UnknownCause, Variable as CoreVariable, Wake, Wakes, Write, WriteOutcome,
};
use trunkline_net::Clock;
use trunkline_types::{Contract, Lost, Position, Quality, Reading, Sample, Timestamp, Value};

use crate::Engine;

/// A variable of an engine in this process, as the type `T`.
#[derive(Debug)]
pub struct Variable<T> {
    core: Core,
    variable: Arc<CoreVariable>,
    caller: Arc<Caller>,
    clock: Clock,
    value: PhantomData<fn() -> T>,
}

/// What a variable holds, as the program's own type.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Held<T> {
    /// The value.
    pub value: T,
    /// When it was measured; the Unix epoch when the variable carries no timestamps.
    pub source_timestamp: Timestamp,
    /// When the engine accepted it.
    pub engine_timestamp: Timestamp,
    /// How far it can be trusted.
    pub quality: Quality,
    /// Its number.
    pub position: Position,
}

/// The end of a write that changed nothing wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Written {
    /// The update that the variable holds because of it.
    pub position: Position,
    /// False when it lay within the deadband of the value that was there.
    pub changed: bool,
}

/// Why a variable could not be opened.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// No such variable, or none that may be used.
    #[error("{0}")]
    Access(#[from] AccessError),
    /// The program expects another type.
    #[error("{name}: {mismatch}")]
    Type {
        /// The variable.
        name: String,
        /// What differs.
        mismatch: TypeMismatch,
    },
}

/// Why a variable could not be read.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// It may not be read.
    #[error("{0}")]
    Access(#[from] AccessError),
    /// Its value is not one of the program's type, which was checked when it was opened.
    #[error("the value is no longer of the type that was opened; open the variable again")]
    Type,
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

impl Engine {
    /// A variable of this engine as the type `T`, whatever its scope.
    ///
    /// # Errors
    /// [`OpenError`]: no such variable, or another type.
    pub fn variable<T: FromValue>(&self, name: &str) -> Result<Variable<T>, OpenError> {
        let caller = self.caller();
        let core = &self.inner.core;
        let variable = core.resolve(&caller, name)?;
        if !T::reads(variable.data_type()) {
            let actual = variable.data_type().to_string();
            let mismatch = TypeMismatch {
                expected: T::NAME,
                actual,
            };
            return Err(OpenError::Type {
                name: name.to_owned(),
                mismatch,
            });
        }
        Ok(Variable {
            core: core.clone(),
            variable: Arc::clone(variable),
            caller: Arc::new(caller),
            clock: self.inner.clock,
            value: PhantomData,
        })
    }
}

impl<T: FromValue> Variable<T> {
    /// What it holds now: one copy, no lock.
    ///
    /// # Errors
    /// [`ReadError::Access`] when it is write-only or gone.
    pub fn read(&self) -> Result<Held<T>, ReadError> {
        self.variable.check_readable(&self.caller)?;
        if self.variable.is_gone() {
            return Err(ReadError::Access(AccessError::Gone));
        }
        let update = self.variable.update();
        let sequence = update.sequence;
        let sample = self.variable.sample_of(&update);
        Ok(Held {
            value: T::from_value(&sample.value).ok_or(ReadError::Type)?,
            source_timestamp: sample.source_timestamp,
            engine_timestamp: sample.engine_timestamp,
            quality: sample.quality,
            position: Position {
                epoch: self.core.epoch(),
                sequence,
            },
        })
    }

    /// Follows it under `contract`.
    ///
    /// # Errors
    /// [`AccessError`] when it may not be read or the contract makes no sense.
    pub fn subscribe(&self, contract: Contract) -> Result<Subscription, AccessError> {
        let signal = Arc::new(Signal::default());
        let wake = Box::new(SignalWake(Arc::clone(&signal)));
        let mut consumer = Consumer::new(self.core.clone(), wake);
        let options = SubscribeOptions::default();
        consumer.subscribe(&self.caller, 0, contract, options, &self.variable, None)?;
        let readings = VecDeque::new();
        Ok(Subscription {
            consumer,
            signal,
            clock: self.clock,
            contract,
            session: self.caller.session,
            readings,
            ended: None,
        })
    }
}

impl<T: IntoValue> Variable<T> {
    /// Writes a value and waits until it has taken effect: at once, unless a provider has to be
    /// asked
    /// or an `all` subscription may hold up writers.
    ///
    /// # Errors
    /// [`WriteError`] says which rule refused it, or why the outcome is unknown.
    pub fn write(&self, value: T) -> Result<Written, WriteError> {
        let value = value.into_value();
        if !self.variable.is_provided()
            && let Attempt::Done(outcome) = self.attempt(&Write::value(&value))
        {
            return self.written(outcome);
        }
        self.write_waiting(&value)
    }

    /// Tries to write without ever waiting. `Attempt::Pending`: a provider was asked, and its
    /// answer
    /// will show in the variable.
    pub fn try_write(&self, value: T) -> Attempt {
        let value = value.into_value();
        self.attempt(&Write::value(&value))
    }

    fn attempt(&self, write: &Write<'_>) -> Attempt {
        // Without timestamps nobody needs the wall clock (SP-03).
        let wall = match self.variable.properties().timestamps {
            true => self.clock.wall(),
            false => Timestamp::UNIX_EPOCH,
        };
        let now = self.clock.now();
        let mut wakes = Wakes::new();
        self.core
            .try_write(&self.caller, now, wall, &self.variable, write, &mut wakes)
    }

    fn write_waiting(&self, value: &Value) -> Result<Written, WriteError> {
        let signal = Arc::new(Signal::default());
        let wake = Box::new(SignalWake(Arc::clone(&signal)));
        let mut consumer = Consumer::new(self.core.clone(), wake);
        let mut write = Write::value(value);
        write.completion = Some(consumer.completion(0));
        loop {
            match self.attempt(&write) {
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

/// Something is there to be looked at.
#[derive(Debug, Default)]
struct Signal {
    raised: Mutex<bool>,
    changed: Condvar,
}

struct SignalWake(Arc<Signal>);

impl Wake for SignalWake {
    fn wake(&self) {
        *self.0.raised.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.changed.notify_all();
    }
}

impl Signal {
    /// Waits until it is raised, or for `timeout`, and lowers it.
    fn wait(&self, timeout: Option<Duration>) {
        let raised = self.raised.lock().unwrap_or_else(PoisonError::into_inner);
        let lowered = |raised: &mut bool| !*raised;
        let mut raised = match timeout {
            None => self
                .changed
                .wait_while(raised, lowered)
                .unwrap_or_else(PoisonError::into_inner),
            Some(timeout) => {
                let waited = self.changed.wait_timeout_while(raised, timeout, lowered);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        *raised = false;
    }
}

/// What follows a variable in this process. Dropping it ends the subscription.
#[derive(Debug)]
pub struct Subscription {
    consumer: Consumer,
    signal: Arc<Signal>,
    clock: Clock,
    contract: Contract,
    /// The session whose own updates are marked.
    session: u32,
    readings: VecDeque<Reading>,
    ended: Option<u64>,
}

/// Why there is no next reading.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NextError {
    /// None came in time.
    #[error("no update came in time")]
    TimedOut,
    /// The subscriber fell behind the bound of its `all` contract.
    #[error("the subscription overran its bound; {lost} updates were lost")]
    Overrun {
        /// Updates written after the last delivered one until it ended.
        lost: u64,
    },
    /// The variable was undeployed.
    #[error("the variable is no longer deployed")]
    Gone,
}

impl Subscription {
    /// The next reading; waits for it up to `timeout`, for ever when `None`.
    ///
    /// # Errors
    /// [`NextError`]: none came in time, or the subscription has ended.
    pub fn next(&mut self, timeout: Option<Duration>) -> Result<Reading, NextError> {
        let deadline = timeout.map(|timeout| self.clock.now().saturating_add(timeout));
        loop {
            if let Some(reading) = self.try_next()? {
                return Ok(reading);
            }
            let now = self.clock.now();
            if deadline.is_some_and(|deadline| deadline <= now) {
                return Err(NextError::TimedOut);
            }
            let due = match self.contract {
                Contract::Sampled(_) => self.consumer.poll(now),
                _ => None,
            };
            let wake = [deadline, due].into_iter().flatten().min();
            if self.consumer.is_idle() {
                self.signal.wait(wake.map(|tick| tick.since(now)));
            }
        }
    }

    /// The next reading if one waits.
    ///
    /// # Errors
    /// [`NextError`] when the subscription has ended.
    pub fn try_next(&mut self) -> Result<Option<Reading>, NextError> {
        if let Some(reading) = self.readings.pop_front() {
            return Ok(Some(reading));
        }
        if let Some(lost) = self.ended {
            return Err(if lost == GONE {
                NextError::Gone
            } else {
                NextError::Overrun { lost }
            });
        }
        let epoch = self.consumer.engine().epoch();
        let mut sink = Readings {
            readings: &mut self.readings,
            ended: &mut self.ended,
            session: self.session,
            epoch,
        };
        self.consumer.drain(&mut sink, &mut Wakes::new());
        match (self.readings.pop_front(), self.ended) {
            (Some(reading), _) => Ok(Some(reading)),
            (None, Some(_)) => self.try_next(),
            (None, None) => Ok(None),
        }
    }
}

/// Marks the end of a subscription whose variable was undeployed.
const GONE: u64 = u64::MAX;
/// Readings decoded ahead of the program.
const AHEAD: usize = 64;

/// Turns deliveries into readings.
struct Readings<'a> {
    readings: &'a mut VecDeque<Reading>,
    ended: &'a mut Option<u64>,
    session: u32,
    epoch: u64,
}

impl Sink for Readings<'_> {
    fn wants(&self) -> bool {
        self.readings.len() < AHEAD
    }

    fn deliver(&mut self, delivery: &Delivery<'_>) {
        let update = delivery.update;
        let sample: Sample = delivery.variable.sample_of(update);
        let lost: Lost = delivery.lost;
        self.readings.push_back(Reading {
            sample,
            position: Position {
                epoch: self.epoch,
                sequence: update.sequence,
            },
            lost,
            stale: None,
            own: update.sequence > 0 && update.writer == self.session,
        });
    }

    fn overrun(&mut self, _subscription: u32, items: &[EndedItem]) {
        *self.ended = Some(items.iter().map(|item| item.lost).sum());
    }

    fn gone(&mut self, _subscription: u32, _handle: u32) {
        *self.ended = Some(GONE);
    }
}
