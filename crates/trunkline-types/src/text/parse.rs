//! Parses values that users type.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::json::from_json;
use crate::{DataType, Value};

use super::convert::{clip, with_article};
use super::{ConvertError, parse_rfc3339};

/// Parses a value of type `ty`:
///
/// - booleans: `true` `false` `on` `off` `yes` `no` `1` `0`, in any case;
/// - numbers: `72.5`, `1e3`, `0x1F`, `0o17`, `0b101`; `NaN`, `inf`, `-inf`; never rounded to an
///   integer;
/// - strings: unchanged, or in JSON quotes;
/// - bytes: `0x00ff` or `base64:AP8=`;
/// - times: RFC 3339, in UTC if there is no offset;
/// - enums: a label, or the number of a label;
/// - arrays, structs and waveforms: JSON, as for [`from_json`].
pub fn parse_value(text: &str, ty: &DataType) -> Result<Value, ConvertError> {
    let trimmed = text.trim();
    match ty {
        DataType::Bool => parse_bool(trimmed).map(Value::Bool),
        DataType::I8 => integer(trimmed, ty, i8::MIN, i8::MAX).map(Value::I8),
        DataType::I16 => integer(trimmed, ty, i16::MIN, i16::MAX).map(Value::I16),
        DataType::I32 => integer(trimmed, ty, i32::MIN, i32::MAX).map(Value::I32),
        DataType::I64 => integer(trimmed, ty, i64::MIN, i64::MAX).map(Value::I64),
        DataType::U8 => integer(trimmed, ty, u8::MIN, u8::MAX).map(Value::U8),
        DataType::U16 => integer(trimmed, ty, u16::MIN, u16::MAX).map(Value::U16),
        DataType::U32 => integer(trimmed, ty, u32::MIN, u32::MAX).map(Value::U32),
        DataType::U64 => integer(trimmed, ty, u64::MIN, u64::MAX).map(Value::U64),
        DataType::F32 => parse_f32(trimmed).map(Value::F32),
        DataType::F64 => parse_f64(trimmed).map(Value::F64),
        DataType::String => Ok(Value::String(match unquote(text) {
            Some(unquoted) => unquoted.into(),
            None => Arc::from(text),
        })),
        DataType::Bytes => parse_bytes(trimmed)
            .map(|bytes| Value::Bytes(bytes.into()))
            .ok_or_else(|| ConvertError::NotBytes { text: clip(text) }),
        DataType::Timestamp if trimmed.eq_ignore_ascii_case("now") => Err(ConvertError::Now),
        DataType::Timestamp => parse_rfc3339(trimmed).map(Value::Timestamp),
        DataType::Enum(labels) => {
            let unquoted = unquote(text);
            let candidates = [unquoted.as_deref(), Some(text), Some(trimmed)];
            for candidate in candidates.into_iter().flatten() {
                if let Some(index) = labels.labels.iter().position(|label| **label == *candidate) {
                    return Ok(Value::Enum(index as u32));
                }
            }
            match trimmed.parse::<u32>() {
                Ok(index) if (index as usize) < labels.labels.len() => Ok(Value::Enum(index)),
                _ => Err(ConvertError::not_a_label(text, labels)),
            }
        }
        DataType::Array(_) | DataType::Struct(_) | DataType::Waveform(_) => {
            let json = serde_json::from_str(trimmed).map_err(|error| ConvertError::NotJson {
                ty: with_article(ty),
                message: error.to_string(),
            })?;
            from_json(&json, ty)
        }
    }
}

/// Returns the content of a text that is exactly one JSON string.
pub(super) fn unquote(text: &str) -> Option<String> {
    let quoted = text.len() >= 2 && text.starts_with('"') && text.ends_with('"');
    if quoted {
        serde_json::from_str(text).ok()
    } else {
        None
    }
}

fn parse_bool(text: &str) -> Result<bool, ConvertError> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "on" | "yes" | "1" => Ok(true),
        "false" | "off" | "no" | "0" => Ok(false),
        _ => Err(ConvertError::wrong_type(text, &DataType::Bool)),
    }
}

fn integer<T>(text: &str, ty: &DataType, low: T, high: T) -> Result<T, ConvertError>
where
    T: TryFrom<i128> + std::fmt::Debug,
{
    let number = match whole_number(text) {
        Some(number) => number,
        // `5.0` and `1e3` are also integers; above 2^53, their digits are no longer exact.
        None => match text.parse::<f64>() {
            Ok(number) if is_decimal(text) && number.fract() == 0.0 => {
                let whole = number as i128;
                if number.abs() > EXACT_MAX && T::try_from(whole).is_ok() {
                    return Err(ConvertError::inexact(text, ty));
                }
                whole
            }
            _ if !text.is_empty() && is_digits(text) => i128::MAX,
            _ => return Err(ConvertError::wrong_type(text, ty)),
        },
    };
    T::try_from(number).map_err(|_| ConvertError::out_of_range(text, ty, low, high))
}

/// Parses an integer in decimal, hexadecimal, octal or binary digits.
fn whole_number(text: &str) -> Option<i128> {
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let (prefix, digits) = digits.split_at_checked(2)?;
    let radix = match prefix {
        "0x" | "0X" => 16,
        "0o" | "0O" => 8,
        "0b" | "0B" => 2,
        _ => return None,
    };
    if !digits.starts_with(|c: char| c.is_digit(radix)) {
        return None;
    }
    // A magnitude of at most 127 bits can always be negated.
    i128::from_str_radix(digits, radix)
        .ok()
        .map(|magnitude| sign * magnitude)
}

fn is_digits(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns true if a number that Rust accepts is written in digits, not as `inf` or `nan`.
fn is_decimal(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_digit())
}

macro_rules! parse_float {
    ($parse:ident, $float:ident, $ty:expr) => {
        fn $parse(text: &str) -> Result<$float, ConvertError> {
            let ty = $ty;
            if let Some(number) = whole_number(text) {
                // An integer must not be rounded, so an `f64` cannot be 9007199254740993.
                let float = number as $float;
                let exact = number == 0 || float as i128 == number;
                return match exact {
                    true if number == 0 && text.starts_with('-') => Ok(-0.0),
                    true => Ok(float),
                    false => Err(ConvertError::inexact(text, &ty)),
                };
            }
            match text.parse::<$float>() {
                Ok(number) if number.is_infinite() && is_decimal(text) => {
                    let (min, max) = ($float::MIN, $float::MAX);
                    Err(ConvertError::out_of_range(text, &ty, min, max))
                }
                // Text has only one NaN: `-nan` and `nan` are the same value.
                Ok(number) if number.is_nan() => Ok($float::NAN),
                Ok(number) => Ok(number),
                Err(_) => Err(ConvertError::wrong_type(text, &ty)),
            }
        }
    };
}
parse_float!(parse_f64, f64, DataType::F64);
parse_float!(parse_f32, f32, DataType::F32);

fn parse_bytes(text: &str) -> Option<Vec<u8>> {
    if let Some(encoded) = text.strip_prefix("base64:") {
        return BASE64.decode(encoded).ok();
    }
    let digits = text
        .strip_prefix("0x")
        .or_else(|| text.strip_prefix("0X"))?
        .as_bytes();
    let (pairs, odd) = digits.as_chunks::<2>();
    if !odd.is_empty() {
        return None;
    }
    let nibble = |digit: u8| char::from(digit).to_digit(16);
    let pairs = pairs
        .iter()
        .map(|[high, low]| Some((nibble(*high)? * 16 + nibble(*low)?) as u8));
    pairs.collect()
}

/// Up to this limit, an `f64` can represent every integer exactly.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
