//! Values of every data type.

use std::sync::Arc;

use crate::data_type::{LABEL_BYTES_MAX, scalars};
use crate::{Array, DataType, Timestamp, Waveform};

/// A value of any data type. Cloning never copies more than 24 bytes, because clones share text, arrays,
/// structs and waveforms.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// See [`DataType::Bool`].
    Bool(bool),
    /// See [`DataType::I8`].
    I8(i8),
    /// See [`DataType::I16`].
    I16(i16),
    /// See [`DataType::I32`].
    I32(i32),
    /// See [`DataType::I64`].
    I64(i64),
    /// See [`DataType::U8`].
    U8(u8),
    /// See [`DataType::U16`].
    U16(u16),
    /// See [`DataType::U32`].
    U32(u32),
    /// See [`DataType::U64`].
    U64(u64),
    /// See [`DataType::F32`].
    F32(f32),
    /// See [`DataType::F64`].
    F64(f64),
    /// See [`DataType::String`].
    String(Arc<str>),
    /// See [`DataType::Bytes`].
    Bytes(Arc<[u8]>),
    /// See [`DataType::Timestamp`].
    Timestamp(Timestamp),
    /// The index of an enum's label.
    Enum(u32),
    /// See [`DataType::Array`].
    Array(Arc<Array>),
    /// The fields of a struct, in the order of its type.
    Struct(Arc<[Value]>),
    /// See [`DataType::Waveform`].
    Waveform(Arc<Waveform>),
}

macro_rules! plain_values {
    ($($scalar:ident: $ty:ty = $default:expr;)+) => {
        impl Value {
            /// Returns the type, if the variant alone determines it: for booleans, numbers, text,
            /// bytes and timestamps. Attributes of a waveform must have one of these types.
            pub fn plain_type(&self) -> Option<DataType> {
                match self {
                    $(Value::$scalar(_) => Some(DataType::$scalar),)+
                    Value::Bytes(_) => Some(DataType::Bytes),
                    Value::Enum(_) | Value::Array(_) | Value::Struct(_) | Value::Waveform(_) => None,
                }
            }

            /// Returns the value of a variable of this type before it is first written: zero,
            /// false, empty or the first label. Fixed lengths of arrays are filled with zeros; free
            /// dimensions are empty.
            pub fn default_of(data_type: &DataType) -> Value {
                match data_type {
                    $(DataType::$scalar => Value::$scalar($default),)+
                    DataType::Bytes => Value::Bytes(Arc::from([])),
                    DataType::Enum(_) => Value::Enum(0),
                    DataType::Array(ty) => Value::Array(Arc::new(Array::default_of(ty))),
                    DataType::Struct(ty) => {
                        let fields = ty.fields.iter();
                        Value::Struct(fields.map(|(_, ty)| Value::default_of(ty)).collect())
                    }
                    DataType::Waveform(element) => {
                        Value::Waveform(Arc::new(Waveform::empty(*element)))
                    }
                }
            }
        }
    };
}
scalars!(plain_values);

impl Value {
    /// Returns true if this is a value of the type `data_type`. Checks the variant, the shape, the
    /// enum range, every field and the types of a waveform's attributes.
    pub fn has_type(&self, data_type: &DataType) -> bool {
        match (self, data_type) {
            (Value::Bool(_), DataType::Bool)
            | (Value::I8(_), DataType::I8)
            | (Value::I16(_), DataType::I16)
            | (Value::I32(_), DataType::I32)
            | (Value::I64(_), DataType::I64)
            | (Value::U8(_), DataType::U8)
            | (Value::U16(_), DataType::U16)
            | (Value::U32(_), DataType::U32)
            | (Value::U64(_), DataType::U64)
            | (Value::F32(_), DataType::F32)
            | (Value::F64(_), DataType::F64)
            | (Value::String(_), DataType::String)
            | (Value::Bytes(_), DataType::Bytes)
            | (Value::Timestamp(_), DataType::Timestamp) => true,
            (Value::Enum(index), DataType::Enum(ty)) => (*index as usize) < ty.labels.len(),
            (Value::Array(array), DataType::Array(ty)) => array.has_type(ty),
            (Value::Struct(fields), DataType::Struct(ty)) => {
                fields.len() == ty.fields.len()
                    && fields
                        .iter()
                        .zip(&ty.fields)
                        .all(|(field, (_, ty))| field.has_type(ty))
            }
            (Value::Waveform(waveform), DataType::Waveform(element)) => {
                waveform.samples.element_type() == *element
                    && waveform.attributes.iter().all(|(name, value)| {
                        name.len() <= LABEL_BYTES_MAX && value.plain_type().is_some()
                    })
            }
            _ => false,
        }
    }

    /// Converts a number to `f64`; `None` for other values (enums and booleans are not numbers).
    pub fn as_f64(&self) -> Option<f64> {
        Some(match self {
            Value::I8(v) => f64::from(*v),
            Value::I16(v) => f64::from(*v),
            Value::I32(v) => f64::from(*v),
            Value::I64(v) => *v as f64,
            Value::U8(v) => f64::from(*v),
            Value::U16(v) => f64::from(*v),
            Value::U32(v) => f64::from(*v),
            Value::U64(v) => *v as f64,
            Value::F32(v) => f64::from(*v),
            Value::F64(v) => *v,
            _ => return None,
        })
    }

    /// Converts a number to another number type: integers exactly, other numbers rounded to the
    /// nearest value. Returns `None` if the number does not fit, or if either type is not a number.
    pub fn to_number(&self, data_type: &DataType) -> Option<Value> {
        let Some(whole) = self.as_whole() else {
            return crate::scaling::number_to_value(self.as_f64()?, data_type);
        };
        Some(match data_type {
            DataType::I8 => Value::I8(whole.try_into().ok()?),
            DataType::I16 => Value::I16(whole.try_into().ok()?),
            DataType::I32 => Value::I32(whole.try_into().ok()?),
            DataType::I64 => Value::I64(whole.try_into().ok()?),
            DataType::U8 => Value::U8(whole.try_into().ok()?),
            DataType::U16 => Value::U16(whole.try_into().ok()?),
            DataType::U32 => Value::U32(whole.try_into().ok()?),
            DataType::U64 => Value::U64(whole.try_into().ok()?),
            DataType::F32 => Value::F32(whole as f32),
            DataType::F64 => Value::F64(whole as f64),
            _ => return None,
        })
    }

    fn as_whole(&self) -> Option<i128> {
        Some(match self {
            Value::I8(v) => i128::from(*v),
            Value::I16(v) => i128::from(*v),
            Value::I32(v) => i128::from(*v),
            Value::I64(v) => i128::from(*v),
            Value::U8(v) => i128::from(*v),
            Value::U16(v) => i128::from(*v),
            Value::U32(v) => i128::from(*v),
            Value::U64(v) => i128::from(*v),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests;
