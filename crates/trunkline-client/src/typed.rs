//! References to variables whose type is checked once, when the variable is opened.

use std::marker::PhantomData;

use trunkline_types::{DataType, Reading, Value};

use crate::answer::Opened;
use crate::variables::VariableRef;
use crate::variables::convert::{FromValue, IntoValue};
use crate::writes::Write;

/// The error for a variable whose type differs from the type that the program expects.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "the variable is {actual}, but this program expects {expected}; use {actual} in the program"
)]
pub struct TypeMismatch {
    /// The type that the program expects.
    pub expected: &'static str,
    /// The type of the variable.
    pub actual: String,
}

/// A reference to a variable whose type matches `T`.
#[derive(Debug)]
pub struct Typed<T> {
    variable: VariableRef,
    value: PhantomData<fn() -> T>,
}

impl<T> Clone for Typed<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Typed<T> {}

impl<T: FromValue> Typed<T> {
    /// Returns a typed reference to an opened variable.
    ///
    /// # Errors
    /// [`TypeMismatch`] if the variable cannot be read as `T`. The type is checked only here, not
    /// at every use.
    pub fn new(opened: &Opened) -> Result<Self, TypeMismatch> {
        Self::of(opened.variable, &opened.data_type)
    }

    /// Returns a typed reference to a variable of a known type, such as an item of a subscription.
    ///
    /// # Errors
    /// As [`Typed::new`].
    pub fn of(variable: VariableRef, data_type: &DataType) -> Result<Self, TypeMismatch> {
        if T::reads(data_type) {
            Ok(Self {
                variable,
                value: PhantomData,
            })
        } else {
            Err(TypeMismatch {
                expected: T::NAME,
                actual: data_type.to_string(),
            })
        }
    }

    /// Returns the untyped reference.
    pub fn variable(self) -> VariableRef {
        self.variable
    }

    /// Returns the value of a reading as `T`.
    ///
    /// # Errors
    /// [`TypeMismatch`] if a variable of another type has replaced the opened variable.
    pub fn value(self, reading: &Reading) -> Result<T, TypeMismatch> {
        let value = &reading.sample.value;
        T::from_value(value).ok_or_else(|| TypeMismatch {
            expected: T::NAME,
            actual: match value.plain_type() {
                Some(data_type) => data_type.to_string(),
                None => kind_of(value).to_owned(),
            },
        })
    }
}

/// Names the kind of a value whose type the value alone does not determine.
fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Enum(_) => "an enum",
        Value::Struct(_) => "a struct",
        Value::Waveform(_) => "a waveform",
        _ => "an array",
    }
}

impl<T: IntoValue> Typed<T> {
    /// Returns a write of `value` to the variable.
    pub fn write(self, value: T) -> Write {
        Write::new(self.variable, value.into_value())
    }
}
