//! Variables of a client as the program's own types.

use std::time::Duration;

use trunkline_client::{
    FromValue, IntoValue, OpenOptions, Opened, TypeMismatch, Typed, VariableRef, WriteOutcome,
};
use trunkline_proto::Fault;
use trunkline_types::{Quality, Reading};

use super::{CallError, Client};
use crate::aio;

/// A variable that was opened as the type `T`. The type was checked once, when it was opened.
#[derive(Clone, Debug)]
pub struct Variable<C, T> {
    client: C,
    typed: Typed<T>,
}

/// Why a variable has no value for the program.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VariableError {
    /// No answer.
    #[error("{0}")]
    Call(#[from] CallError),
    /// The engine's answer for this variable.
    #[error("{0}")]
    Fault(#[from] Fault),
    /// The program expects another type.
    #[error("{0}")]
    Type(#[from] TypeMismatch),
    /// Nobody wrote it, or its source delivered nothing yet.
    #[error("there is no value yet: {quality}; see `trunkline why`")]
    NoValue {
        /// Why not.
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
    /// Its value now, whatever its quality; [`read`](Self::read) tells that too.
    ///
    /// # Errors
    /// [`VariableError`]: no answer, or it may not be read.
    pub fn get(&self, timeout: Duration) -> Result<T, VariableError> {
        value_of(self.typed, &self.read(timeout)?)
    }

    /// Its reading now.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn read(&self, timeout: Duration) -> Result<Reading, VariableError> {
        one(self.client.read(&[self.typed.variable()], timeout)?)
    }
}

impl<T: IntoValue> Variable<Client, T> {
    /// Writes a value and waits for what became of it.
    ///
    /// # Errors
    /// [`VariableError::Call`] when that is not known in time.
    pub fn put(&self, value: T, timeout: Duration) -> Result<WriteOutcome, VariableError> {
        one_outcome(self.client.write([self.typed.write(value)], timeout)?)
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
    /// Its value now, whatever its quality; [`read`](Self::read) tells that too.
    ///
    /// # Errors
    /// [`VariableError`]: no answer, or it may not be read.
    pub async fn get(&self, timeout: Duration) -> Result<T, VariableError> {
        value_of(self.typed, &self.read(timeout).await?)
    }

    /// Its reading now.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub async fn read(&self, timeout: Duration) -> Result<Reading, VariableError> {
        one(self.client.read(&[self.typed.variable()], timeout).await?)
    }
}

impl<T: IntoValue> Variable<aio::Client, T> {
    /// Writes a value and waits for what became of it.
    ///
    /// # Errors
    /// [`VariableError::Call`] when that is not known in time.
    pub async fn put(&self, value: T, timeout: Duration) -> Result<WriteOutcome, VariableError> {
        one_outcome(
            self.client
                .write([self.typed.write(value)], timeout)
                .await?,
        )
    }
}

impl<C, T> Variable<C, T> {
    /// Its handle, for the client's verbs that take lists.
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

/// The one result of a list of one.
fn one<R>(results: Vec<Result<R, Fault>>) -> Result<R, VariableError> {
    let result = results.into_iter().next();
    result
        .ok_or(VariableError::Call(CallError::Answer))?
        .map_err(VariableError::Fault)
}

fn one_outcome(outcomes: Vec<WriteOutcome>) -> Result<WriteOutcome, VariableError> {
    outcomes
        .into_iter()
        .next()
        .ok_or(VariableError::Call(CallError::Answer))
}
