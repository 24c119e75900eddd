//! Converts between the raw value of a source and the engineering value of its variable (H-01 to
//! H-03).
//!
//! The arithmetic uses `f64`, so integers of more than 53 bits lose their last digits.

use crate::{DataType, Value};

/// The relation between raw and engineering values.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Scaling {
    /// `eng = eng[0] + (raw - raw[0]) * (eng[1] - eng[0]) / (raw[1] - raw[0])`.
    Linear {
        /// Raw values at zero and at full scale; the second must be greater.
        raw: [f64; 2],
        /// Engineering values at zero and at full scale; they must differ.
        eng: [f64; 2],
    },
    /// `eng = eng[0] + m * sqrt(raw - raw[0])` with `m = (eng[1] - eng[0]) / sqrt(raw[1] -
    /// raw[0])`, for example flow from the pressure across an orifice.
    SquareRoot {
        /// Raw values at zero and at full scale; the second must be greater.
        raw: [f64; 2],
        /// Engineering values at zero and at full scale; they must differ.
        eng: [f64; 2],
    },
    /// Inverts a boolean.
    Invert,
    /// `eng = (raw ^ invert) & select` for bit fields (`u32`). The inverse is the same formula.
    /// Bits outside `select` become 0 in both directions, because their state is unknown.
    BitField {
        /// Bits to invert.
        invert: u32,
        /// Bits to keep.
        select: u32,
    },
}

/// The scaling is not valid for the type, or a value cannot be scaled.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum ScalingError {
    /// The data type is not suitable for this kind of scaling.
    #[error("{scaling} scaling needs {needed}, not {data_type}")]
    WrongType {
        /// The kind of scaling.
        scaling: &'static str,
        /// The types that it accepts.
        needed: &'static str,
        data_type: String,
    },
    /// The raw value at full scale is not greater than the one at zero, or the difference is not
    /// finite.
    #[error(
        "the second value of raw ({full}) must be greater than the first ({zero}), and both must be \
         finite"
    )]
    RawRange { zero: f64, full: f64 },
    /// The engineering range has no width, or its width is not finite.
    #[error(
        "the second value of eng ({full}) must differ from the first ({zero}), and both must be \
         finite"
    )]
    EngineeringRange { zero: f64, full: f64 },
    /// Square root scaling was applied to a value on the wrong side of its zero.
    #[error("{value} is outside the range of square root scaling, which begins at {zero}")]
    BelowZero {
        value: f64,
        /// Raw zero, or engineering zero in the inverse direction.
        zero: f64,
    },
    #[error("{value} scales to {result}, which {data_type} cannot hold")]
    OutOfRange {
        /// The value before scaling.
        value: f64,
        /// The value after scaling.
        result: f64,
        data_type: String,
    },
    /// The type of the value is not suitable for this scaling.
    #[error("{scaling} scaling cannot be applied to this value: it needs {needed}")]
    WrongValue {
        /// The kind of scaling.
        scaling: &'static str,
        /// The types that it accepts.
        needed: &'static str,
    },
}

impl Scaling {
    /// Checks that this scaling is valid for variables of this type.
    pub fn check(&self, data_type: &DataType) -> Result<(), ScalingError> {
        let fits = match self {
            Scaling::Linear { .. } | Scaling::SquareRoot { .. } => data_type.is_numeric(),
            Scaling::Invert => *data_type == DataType::Bool,
            Scaling::BitField { .. } => *data_type == DataType::U32,
        };
        if !fits {
            return Err(ScalingError::WrongType {
                scaling: self.kind(),
                needed: self.needed(),
                data_type: data_type.to_string(),
            });
        }
        if let Scaling::Linear { raw, eng } | Scaling::SquareRoot { raw, eng } = *self {
            if !(raw[1] > raw[0] && (raw[1] - raw[0]).is_finite()) {
                return Err(ScalingError::RawRange {
                    zero: raw[0],
                    full: raw[1],
                });
            }
            if eng[1] == eng[0] || !(eng[1] - eng[0]).is_finite() {
                return Err(ScalingError::EngineeringRange {
                    zero: eng[0],
                    full: eng[1],
                });
            }
        }
        Ok(())
    }

    /// Converts a raw value to the engineering value, as a value of type `target`. If `target` is
    /// an integer type, the result is rounded to the nearest integer; if it is a floating-point
    /// type, NaN and infinities are passed on.
    ///
    /// Assumes that [`Scaling::check`] has passed.
    ///
    /// # Errors
    /// [`ScalingError`] if the value has an unsuitable type, if it is outside the range of a square
    /// root scaling, or if the result does not fit into `target`.
    pub fn to_engineering(&self, raw: &Value, target: &DataType) -> Result<Value, ScalingError> {
        match (*self, raw) {
            (
                Scaling::Linear {
                    raw: [r0, r1],
                    eng: [e0, e1],
                },
                raw,
            ) => self.scale_number(raw, target, |raw| Ok(linear(raw, [r0, r1], [e0, e1]))),
            (
                Scaling::SquareRoot {
                    raw: [r0, r1],
                    eng: [e0, e1],
                },
                raw,
            ) => {
                self.scale_number(raw, target, |raw| {
                    // Taking the root of the quotient makes the result exact at zero and at full
                    // scale.
                    let root = root_of((raw - r0) / (r1 - r0), raw, r0)?;
                    Ok(e0 + (e1 - e0) * root)
                })
            }
            _ => self.scale_bits(raw, target),
        }
    }

    /// Converts an engineering value to the raw value, as a value of type `target`, for writing to
    /// the source. Apart from rounding and the bits outside a `select` mask, this is the inverse of
    /// [`to_engineering`](Self::to_engineering).
    pub fn to_raw(&self, eng: &Value, target: &DataType) -> Result<Value, ScalingError> {
        match (*self, eng) {
            (Scaling::Linear { raw, eng: range }, eng) => {
                self.scale_number(eng, target, |eng| Ok(linear(eng, range, raw)))
            }
            (
                Scaling::SquareRoot {
                    raw: [r0, r1],
                    eng: [e0, e1],
                },
                eng,
            ) => self.scale_number(eng, target, |eng| {
                let root = (eng - e0) / (e1 - e0);
                if root < 0.0 {
                    return Err(ScalingError::BelowZero {
                        value: eng,
                        zero: e0,
                    });
                }
                Ok(r0 + (r1 - r0) * root * root)
            }),
            _ => self.scale_bits(eng, target),
        }
    }

    /// Inverts a boolean or converts a bit field, which is the same operation in both directions.
    fn scale_bits(&self, value: &Value, target: &DataType) -> Result<Value, ScalingError> {
        match (*self, value) {
            (Scaling::Invert, Value::Bool(on)) if *target == DataType::Bool => Ok(Value::Bool(!on)),
            (Scaling::BitField { invert, select }, Value::U32(bits))
                if *target == DataType::U32 =>
            {
                Ok(Value::U32((bits ^ invert) & select))
            }
            _ => Err(self.wrong_value()),
        }
    }

    fn scale_number(
        &self,
        value: &Value,
        target: &DataType,
        scale: impl FnOnce(f64) -> Result<f64, ScalingError>,
    ) -> Result<Value, ScalingError> {
        let value = value.as_f64().ok_or_else(|| self.wrong_value())?;
        let result = scale(value)?;
        let fits = result.is_finite() || !value.is_finite();
        let scaled = if fits {
            number_to_value(result, target)
        } else {
            None
        };
        scaled.ok_or_else(|| ScalingError::OutOfRange {
            value,
            result,
            data_type: target.to_string(),
        })
    }

    fn wrong_value(&self) -> ScalingError {
        ScalingError::WrongValue {
            scaling: self.kind(),
            needed: self.needed(),
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Scaling::Linear { .. } => "linear",
            Scaling::SquareRoot { .. } => "square root",
            Scaling::Invert => "inverting",
            Scaling::BitField { .. } => "bit field",
        }
    }

    fn needed(&self) -> &'static str {
        match self {
            Scaling::Linear { .. } | Scaling::SquareRoot { .. } => "a number type",
            Scaling::Invert => "bool",
            Scaling::BitField { .. } => "u32",
        }
    }
}

/// Maps the value linearly from one range to the other. Multiplies before dividing: if the value
/// and the limits of both ranges are integers, an integer result is exact, unless the product is
/// too large.
fn linear(value: f64, from: [f64; 2], to: [f64; 2]) -> f64 {
    let (from_span, to_span) = (from[1] - from[0], to[1] - to[0]);
    let product = (value - from[0]) * to_span;
    if product.is_finite() {
        to[0] + product / from_span
    } else {
        to[0] + (value - from[0]) / from_span * to_span
    }
}

fn root_of(square: f64, value: f64, zero: f64) -> Result<f64, ScalingError> {
    if square < 0.0 {
        return Err(ScalingError::BelowZero { value, zero });
    }
    Ok(square.sqrt())
}

/// Converts the number to this type, rounded to the nearest value; returns `None` if it does not
/// fit.
pub(crate) fn number_to_value(number: f64, target: &DataType) -> Option<Value> {
    let whole = number.round();
    // For types of at most 32 bits, whose limits an `f64` represents exactly.
    macro_rules! integer {
        ($variant:ident, $ty:ty) => {
            (whole >= <$ty>::MIN as f64 && whole < <$ty>::MAX as f64 + 1.0)
                .then(|| Value::$variant(whole as $ty))
        };
    }
    match target {
        DataType::I8 => integer!(I8, i8),
        DataType::I16 => integer!(I16, i16),
        DataType::I32 => integer!(I32, i32),
        // An `f64` cannot represent the upper limits of the 64-bit types. `MAX as f64` is the limit
        // plus one.
        DataType::I64 => (whole >= i64::MIN as f64 && whole < i64::MAX as f64)
            .then_some(Value::I64(whole as i64)),
        DataType::U8 => integer!(U8, u8),
        DataType::U16 => integer!(U16, u16),
        DataType::U32 => integer!(U32, u32),
        DataType::U64 => {
            (whole >= 0.0 && whole < u64::MAX as f64).then_some(Value::U64(whole as u64))
        }
        DataType::F32 => {
            let narrow = number as f32;
            (narrow.is_finite() || !number.is_finite()).then_some(Value::F32(narrow))
        }
        DataType::F64 => Some(Value::F64(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
