//! Opens variables of a client with a type of the program.

use std::time::Duration;

use trunkline_client::{
    FromValue, IntoValue, OpenOptions, Opened, TypeMismatch, Typed, VariableRef, WriteOutcome,
};
use trunkline_proto::Fault;
use trunkline_types::{Quality, Reading};

use super::{CallError, Client, aio};

/// A variable of a client, opened with the type `T`. The type is checked once, when the variable is
/// opened.
#[derive(Clone, Debug)]
pub struct Variable<C, T> {
    client: C,
    typed: Typed<T>,
}

/// The reason why a variable could not be opened, read or written.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VariableError {
    /// The engine did not answer the call.
    #[error("{0}")]
    Call(#[from] CallError),
    /// The engine reported a fault for this variable.
    #[error("{0}")]
    Fault(#[from] Fault),
    /// The variable's type differs from the type that the program expects.
    #[error("{0}")]
    Type(#[from] TypeMismatch),
    /// The variable has no value yet: it was not written, and its source has not delivered a value.
    #[error("the variable has no value yet: {quality}; `trunkline why` shows the cause")]
    NoValue {
        /// Quality of the variable, with the reason.
        quality: Quality,
    },
}

impl Client {
    /// Opens a variable as the type `T`.
    ///
    /// # Errors
    /// [`VariableError`]: no answer, no such variable, or another type.
    pub fn variable<T: FromValue>(
        &self,
        name: &str,
        timeout: Duration,
    ) -> Result<Variable<Client, T>, VariableError> {
        let opened = self.open(&[name], OpenOptions::default(), timeout)?;
        Ok(Variable {
            client: self.clone(),
            typed: typed(opened)?,
        })
    }
}

impl<T: FromValue> Variable<Client, T> {
    /// Returns the current value, even if its quality is bad. [`read`](Self::read) returns the
    /// quality as well.
    ///
    /// # Errors
    /// [`VariableError`]: no answer, or the variable may not be read.
    pub fn get(&self, timeout: Duration) -> Result<T, VariableError> {
        value_of(self.typed, &self.read(timeout)?)
    }

    /// Returns the current reading.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn read(&self, timeout: Duration) -> Result<Reading, VariableError> {
        one(self.client.read(&[self.typed.variable()], timeout)?)
    }
}

impl<T: IntoValue> Variable<Client, T> {
    /// Writes a value and waits for its outcome.
    ///
    /// # Errors
    /// [`VariableError::Call`] if the outcome is not known in time.
    pub fn put(&self, value: T, timeout: Duration) -> Result<WriteOutcome, VariableError> {
        let mut outcomes = self.client.write([self.typed.write(value)], timeout)?;
        Ok(outcomes.pop().ok_or(CallError::Answer)?)
    }
}

impl aio::Client {
    /// Opens a variable as the type `T`.
    ///
    /// # Errors
    /// [`VariableError`]: no answer, no such variable, or another type.
    pub async fn variable<T: FromValue>(
        &self,
        name: &str,
        timeout: Duration,
    ) -> Result<Variable<aio::Client, T>, VariableError> {
        let opened = self.open(&[name], OpenOptions::default(), timeout).await?;
        Ok(Variable {
            client: self.clone(),
            typed: typed(opened)?,
        })
    }
}

impl<T: FromValue> Variable<aio::Client, T> {
    /// Returns the current value, even if its quality is bad. [`read`](Self::read) returns the
    /// quality as well.
    ///
    /// # Errors
    /// [`VariableError`]: no answer, or the variable may not be read.
    pub async fn get(&self, timeout: Duration) -> Result<T, VariableError> {
        value_of(self.typed, &self.read(timeout).await?)
    }

    /// Returns the current reading.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub async fn read(&self, timeout: Duration) -> Result<Reading, VariableError> {
        one(self.client.read(&[self.typed.variable()], timeout).await?)
    }
}

impl<T: IntoValue> Variable<aio::Client, T> {
    /// Writes a value and waits for its outcome.
    ///
    /// # Errors
    /// [`VariableError::Call`] if the outcome is not known in time.
    pub async fn put(&self, value: T, timeout: Duration) -> Result<WriteOutcome, VariableError> {
        let write = self.typed.write(value);
        let mut outcomes = self.client.write([write], timeout).await?;
        Ok(outcomes.pop().ok_or(CallError::Answer)?)
    }
}

impl<C, T> Variable<C, T> {
    /// Returns the reference of the variable, for verbs that take a list of variables.
    pub fn reference(&self) -> VariableRef
    where
        T: FromValue,
    {
        self.typed.variable()
    }
}

fn value_of<T: FromValue>(typed: Typed<T>, reading: &Reading) -> Result<T, VariableError> {
    match reading.has_value() {
        true => Ok(typed.value(reading)?),
        false => Err(VariableError::NoValue {
            quality: reading.sample.quality,
        }),
    }
}

fn typed<T: FromValue>(opened: Vec<Result<Opened, Fault>>) -> Result<Typed<T>, VariableError> {
    Ok(Typed::new(&one(opened)?)?)
}

fn one<R>(results: Vec<Result<R, Fault>>) -> Result<R, VariableError> {
    let result = results.into_iter().next();
    result
        .ok_or(VariableError::Call(CallError::Answer))?
        .map_err(VariableError::Fault)
}
