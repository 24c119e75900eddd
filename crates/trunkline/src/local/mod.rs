//! Variables of an engine in this process, used without a connection.
//!
//! A read takes a few nanoseconds and no lock. A write runs on the caller's thread. Single-process
//! variables are used like all others.

mod group;
mod subscription;
mod write;

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use trunkline_client::{FromValue, TypeMismatch};
use trunkline_engine::{
    AccessError, Caller, Engine as Core, Granted, LeaseRequest, Variable as CoreVariable, Wakes,
};
use trunkline_net::Clock;
use trunkline_types::{DataType, Position, Quality, Timestamp};

pub use self::group::{Group, GroupRefused, SampleSet, WrittenGroup};
pub use self::subscription::{NextError, Subscription};
pub(crate) use self::write::write_many;
pub use self::write::{WriteError, Written};
pub use trunkline_engine::{Attempt, Refusal, WriteOutcome};

use self::group::LocalCaller;

/// A variable of an engine in this process, with values of the type `T`.
#[derive(Debug)]
pub struct Variable<T> {
    core: Core,
    variable: Arc<CoreVariable>,
    caller: Arc<LocalCaller>,
    clock: Clock,
    value: PhantomData<fn() -> T>,
}

/// The current value of a variable, converted to a type of the program.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TypedReading<T> {
    /// The value.
    pub value: T,
    /// Time of measurement; the Unix epoch if the variable has no timestamps.
    pub source_timestamp: Timestamp,
    /// Time at which the engine accepted the value.
    pub engine_timestamp: Timestamp,
    /// Quality of the value, with the reason.
    pub quality: Quality,
    /// Epoch and sequence number of the update.
    pub position: Position,
}

/// The reason why a variable could not be opened.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// There is no such variable, or the program may not use it.
    #[error("{0}")]
    Access(#[from] AccessError),
    /// The variable's type differs from the type that the program expects.
    #[error("{name}: {mismatch}")]
    Type {
        /// Name of the variable.
        name: String,
        /// The expected and the actual type.
        mismatch: TypeMismatch,
    },
}

/// The reason why a variable could not be read.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The program may not read the variable.
    #[error("{0}")]
    Access(#[from] AccessError),
    /// The variable's type has changed since it was opened.
    #[error("the variable's type has changed since it was opened; open it again")]
    Type,
}

impl<T: FromValue> Variable<T> {
    pub(crate) fn open(
        core: &Core,
        caller: Caller,
        clock: Clock,
        name: &str,
    ) -> Result<Self, OpenError> {
        let (now, wall) = clock.moment();
        let variable = core.fields().open(&caller, name, now, wall)?;
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
        Ok(Self {
            core: core.clone(),
            variable,
            caller: Arc::new(LocalCaller::new(caller, core.clone(), clock)),
            clock,
            value: PhantomData,
        })
    }

    /// Returns the current value with one copy and without a lock.
    ///
    /// # Errors
    /// [`ReadError::Access`] if the variable is write-only or no longer exists.
    #[inline]
    pub fn read(&self) -> Result<TypedReading<T>, ReadError> {
        if let Some(update) = self.variable.read_plain(&self.caller)
            && let Some(value) = T::from_word(update.word)
        {
            return Ok(TypedReading {
                value,
                source_timestamp: update.source_timestamp,
                engine_timestamp: update.engine_timestamp,
                quality: update.quality,
                position: Position {
                    epoch: self.core.epoch(),
                    sequence: update.sequence,
                },
            });
        }
        // Built field by field again. Otherwise the compiler stores the value of the fast path in
        // memory as well.
        let TypedReading {
            value,
            source_timestamp,
            engine_timestamp,
            quality,
            position,
        } = self.read_general()?;
        Ok(TypedReading {
            value,
            source_timestamp,
            engine_timestamp,
            quality,
            position,
        })
    }

    /// The general path of [`read`](Self::read), for values of any type.
    #[inline(never)]
    fn read_general(&self) -> Result<TypedReading<T>, ReadError> {
        self.variable.check_readable(&self.caller)?;
        if self.variable.is_gone() {
            return Err(ReadError::Access(AccessError::Gone));
        }
        let update = self.variable.update();
        let sequence = update.sequence;
        let sample = self.variable.sample_of(&update);
        Ok(TypedReading {
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
}

impl<T> Variable<T> {
    /// Returns the type of the variable's values.
    pub fn data_type(&self) -> &DataType {
        self.variable.data_type()
    }

    /// Takes or renews the lease of this variable. For `duration`, the engine accepts only writes
    /// through this handle and updates from the source. The lease ends when `duration` has passed
    /// or the handle is dropped.
    ///
    /// # Errors
    /// [`Refusal`]: another caller holds the lease, or this program may not write the variable.
    pub fn lease(&self, duration: Duration) -> Result<Granted, Refusal> {
        self.request_lease(LeaseRequest::acquire(duration))
    }

    /// Releases the lease of this variable.
    ///
    /// # Errors
    /// [`Refusal::NotLeased`]: this handle does not hold the lease.
    pub fn release(&self) -> Result<Granted, Refusal> {
        self.request_lease(LeaseRequest::release())
    }

    fn request_lease(&self, request: LeaseRequest) -> Result<Granted, Refusal> {
        let (moment, handle) = (write::moment(self.clock), self.variable.handle());
        let (leases, wakes) = (self.core.leases(), &mut Wakes::new());
        leases.request(&self.caller, moment, handle, request, wakes)
    }
}
