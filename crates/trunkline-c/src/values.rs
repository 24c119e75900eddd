//! Conversion between values and the types of C.

use std::sync::Arc;

use trunkline::types::text::{FormatOptions, format_value, parse_value};
use trunkline::types::{Array, DataType, ElementType, Elements, FaultCode, Timestamp, Value};

use crate::errors::Failure;

/// The type of a value, as readings and open variables state it.
#[allow(non_camel_case_types, reason = "C names")]
pub type tl_type = i32;

/// Unknown: the variable is not open yet, or there is no value.
pub const TL_TYPE_UNKNOWN: tl_type = 0;
/// True or false; 1 or 0 as a number.
pub const TL_TYPE_BOOL: tl_type = 1;
/// 8-bit signed integer.
pub const TL_TYPE_I8: tl_type = 2;
/// 16-bit signed integer.
pub const TL_TYPE_I16: tl_type = 3;
/// 32-bit signed integer.
pub const TL_TYPE_I32: tl_type = 4;
/// 64-bit signed integer.
pub const TL_TYPE_I64: tl_type = 5;
/// 8-bit unsigned integer.
pub const TL_TYPE_U8: tl_type = 6;
/// 16-bit unsigned integer.
pub const TL_TYPE_U16: tl_type = 7;
/// 32-bit unsigned integer.
pub const TL_TYPE_U32: tl_type = 8;
/// 64-bit unsigned integer.
pub const TL_TYPE_U64: tl_type = 9;
/// 32-bit IEEE 754 number.
pub const TL_TYPE_F32: tl_type = 10;
/// 64-bit IEEE 754 number.
pub const TL_TYPE_F64: tl_type = 11;
/// UTF-8 text.
pub const TL_TYPE_STRING: tl_type = 12;
/// Bytes that Trunkline does not interpret.
pub const TL_TYPE_BYTES: tl_type = 13;
/// UTC nanoseconds since 1970.
pub const TL_TYPE_TIMESTAMP: tl_type = 14;
/// A label from a list; its index, from 0, as a number.
pub const TL_TYPE_ENUM: tl_type = 15;
/// An array of scalars.
pub const TL_TYPE_ARRAY: tl_type = 16;
/// Named fields (a cluster).
pub const TL_TYPE_STRUCT: tl_type = 17;
/// Equally spaced samples with a start time.
pub const TL_TYPE_WAVEFORM: tl_type = 18;

pub(crate) fn type_of(data_type: &DataType) -> tl_type {
    match data_type {
        DataType::Bool => TL_TYPE_BOOL,
        DataType::I8 => TL_TYPE_I8,
        DataType::I16 => TL_TYPE_I16,
        DataType::I32 => TL_TYPE_I32,
        DataType::I64 => TL_TYPE_I64,
        DataType::U8 => TL_TYPE_U8,
        DataType::U16 => TL_TYPE_U16,
        DataType::U32 => TL_TYPE_U32,
        DataType::U64 => TL_TYPE_U64,
        DataType::F32 => TL_TYPE_F32,
        DataType::F64 => TL_TYPE_F64,
        DataType::String => TL_TYPE_STRING,
        DataType::Bytes => TL_TYPE_BYTES,
        DataType::Timestamp => TL_TYPE_TIMESTAMP,
        DataType::Enum(_) => TL_TYPE_ENUM,
        DataType::Array(_) => TL_TYPE_ARRAY,
        DataType::Struct(_) => TL_TYPE_STRUCT,
        DataType::Waveform(_) => TL_TYPE_WAVEFORM,
    }
}

/// Returns the type of a boolean or a number.
pub(crate) fn scalar_of(data_type: tl_type) -> Option<DataType> {
    Some(match data_type {
        TL_TYPE_BOOL => DataType::Bool,
        TL_TYPE_I8 => DataType::I8,
        TL_TYPE_I16 => DataType::I16,
        TL_TYPE_I32 => DataType::I32,
        TL_TYPE_I64 => DataType::I64,
        TL_TYPE_U8 => DataType::U8,
        TL_TYPE_U16 => DataType::U16,
        TL_TYPE_U32 => DataType::U32,
        TL_TYPE_U64 => DataType::U64,
        TL_TYPE_F32 => DataType::F32,
        TL_TYPE_F64 => DataType::F64,
        _ => return None,
    })
}

pub(crate) fn type_of_value(value: &Value) -> tl_type {
    match value {
        Value::Enum(_) => TL_TYPE_ENUM,
        Value::Array(_) => TL_TYPE_ARRAY,
        Value::Struct(_) => TL_TYPE_STRUCT,
        Value::Waveform(_) => TL_TYPE_WAVEFORM,
        plain => plain
            .plain_type()
            .map_or(TL_TYPE_UNKNOWN, |plain| type_of(&plain)),
    }
}

fn wrong_type(value: &Value, wanted: &str) -> Failure {
    let is = plain_name(value);
    Failure::fault(
        FaultCode::WrongType,
        format!("the value is {is}, and cannot be read as {wanted}; use the function for its type"),
    )
}

fn plain_name(value: &Value) -> String {
    match value {
        Value::Enum(_) => "an enum".to_owned(),
        Value::Array(_) => "an array".to_owned(),
        Value::Struct(_) => "a struct".to_owned(),
        Value::Waveform(_) => "a waveform".to_owned(),
        plain => plain
            .plain_type()
            .map_or_else(String::new, |plain| format!("of type {plain}")),
    }
}

/// Returns a number, a boolean as 1 or 0, or the index of an enum.
pub(crate) fn as_f64(value: &Value) -> Result<f64, Failure> {
    match value {
        Value::Bool(value) => Ok(f64::from(u8::from(*value))),
        Value::Enum(index) => Ok(f64::from(*index)),
        value => value.as_f64().ok_or_else(|| wrong_type(value, "a double")),
    }
}

/// Returns an integer, a boolean as 1 or 0, the index of an enum, or a time in nanoseconds.
pub(crate) fn as_i64(value: &Value) -> Result<i64, Failure> {
    match value {
        Value::Bool(value) => Ok(i64::from(*value)),
        Value::Enum(index) => Ok(i64::from(*index)),
        Value::Timestamp(time) => Ok(time.as_nanos()),
        Value::F32(_) | Value::F64(_) => Err(wrong_type(value, "an integer")),
        value => match value.to_number(&DataType::I64) {
            Some(Value::I64(value)) => Ok(value),
            _ if value.as_f64().is_some() => Err(Failure::fault(
                FaultCode::OutOfRange,
                "the value does not fit into 64 bits with a sign; read it as a double or as a text",
            )),
            _ => Err(wrong_type(value, "an integer")),
        },
    }
}

/// Returns the value as the command line prints it; texts without quotes.
pub(crate) fn as_text(value: &Value, data_type: Option<&DataType>) -> String {
    match (value, data_type) {
        (Value::String(text), _) => text.to_string(),
        (value, Some(data_type)) => format_value(value, data_type, &FormatOptions::default()),
        (Value::Enum(index), None) => index.to_string(),
        (value, None) => match value.plain_type() {
            Some(plain) => format_value(value, &plain, &FormatOptions::default()),
            None => format!("{value:?}"),
        },
    }
}

/// Returns the elements of an array or a waveform of numbers, or a single number.
pub(crate) fn as_f64_array(value: &Value) -> Result<Vec<f64>, Failure> {
    let elements = match value {
        Value::Array(array) => array.elements(),
        Value::Waveform(waveform) => &waveform.samples,
        value => return Ok(vec![as_f64(value)?]),
    };
    if let Elements::F64(elements) = elements {
        return Ok(elements.clone());
    }
    let elements = (0..elements.len()).map_while(|index| elements.value_at(index));
    elements.map(|element| as_f64(&element)).collect()
}

/// Returns the bytes of a value of type bytes or string.
pub(crate) fn as_bytes(value: &Value) -> Result<&[u8], Failure> {
    match value {
        Value::Bytes(bytes) => Ok(bytes),
        Value::String(text) => Ok(text.as_bytes()),
        value => Err(wrong_type(value, "bytes")),
    }
}

/// Returns a number as a value of the variable's type.
pub(crate) fn of_f64(number: f64, data_type: &DataType) -> Result<Value, Failure> {
    let value = match data_type {
        DataType::Bool if number == 0.0 || number == 1.0 => Some(Value::Bool(number == 1.0)),
        DataType::Enum(_) => match Value::F64(number).to_number(&DataType::U32) {
            Some(Value::U32(index)) if f64::from(index) == number => Some(Value::Enum(index)),
            _ => None,
        },
        data_type => Value::F64(number).to_number(data_type),
    };
    value.ok_or_else(|| not_a_value(&number, data_type))
}

/// Returns an integer as a value of the variable's type.
pub(crate) fn of_i64(number: i64, data_type: &DataType) -> Result<Value, Failure> {
    let value = match data_type {
        DataType::Bool if number == 0 || number == 1 => Some(Value::Bool(number == 1)),
        DataType::Enum(_) => u32::try_from(number).ok().map(Value::Enum),
        DataType::Timestamp => Some(Value::Timestamp(Timestamp::from_nanos(number))),
        data_type => Value::I64(number).to_number(data_type),
    };
    value.ok_or_else(|| not_a_value(&number, data_type))
}

fn not_a_value(number: &dyn std::fmt::Display, data_type: &DataType) -> Failure {
    let is_number =
        data_type.is_numeric() || matches!(data_type, DataType::Bool | DataType::Enum(_));
    let code = match is_number {
        true => FaultCode::OutOfRange,
        false => FaultCode::WrongType,
    };
    Failure::fault(
        code,
        format!("{number} is not a value of type {data_type}; pass a value of this type"),
    )
}

/// Returns the value that a text describes, as the command line reads it; any text for a string.
pub(crate) fn of_text(text: &str, data_type: &DataType) -> Result<Value, Failure> {
    match data_type {
        DataType::String => Ok(Value::String(text.into())),
        data_type => parse_value(text, data_type)
            .map_err(|error| Failure::fault(FaultCode::InvalidValue, error.to_string())),
    }
}

/// Returns bytes as a value of type bytes.
pub(crate) fn of_bytes(bytes: &[u8], data_type: &DataType) -> Result<Value, Failure> {
    match data_type {
        DataType::Bytes => Ok(Value::Bytes(bytes.into())),
        data_type => Err(Failure::fault(
            FaultCode::WrongType,
            format!("bytes are not a value of type {data_type}; use the function for its type"),
        )),
    }
}

/// Returns numbers as an array of the variable's element type, with one dimension.
pub(crate) fn of_f64_array(numbers: &[f64], data_type: &DataType) -> Result<Value, Failure> {
    let element = match data_type {
        DataType::Array(array) if array.shape.len() == 1 => array.element,
        data_type => {
            return Err(Failure::fault(
                FaultCode::WrongType,
                format!("an array of one dimension is not a value of type {data_type}"),
            ));
        }
    };
    macro_rules! elements {
        ($($scalar:ident),+) => {
            match element {
                ElementType::F64 => Elements::F64(numbers.to_vec()),
                $(ElementType::$scalar => {
                    let element = |number: &f64| match of_f64(*number, &DataType::$scalar)? {
                        Value::$scalar(element) => Ok(element),
                        _ => Err(not_a_value(number, &DataType::$scalar)),
                    };
                    let elements = numbers.iter().map(element);
                    Elements::$scalar(elements.collect::<Result<_, Failure>>()?)
                })+
                ElementType::String | ElementType::Timestamp => {
                    return Err(Failure::fault(
                        FaultCode::WrongType,
                        format!("numbers are not a value of type {data_type}; write it as a text"),
                    ));
                }
            }
        };
    }
    let elements = elements!(Bool, I8, I16, I32, I64, U8, U16, U32, U64, F32);
    Ok(Value::Array(Arc::new(Array::vector(elements))))
}
