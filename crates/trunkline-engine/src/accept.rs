//! Step 3 of a write: what the value becomes before it may be committed.

use trunkline_types::{DataType, Properties, Quality, Reason, Timestamp, Value, wire};

use crate::outcome::Refusal;
use crate::update::{Encoded, Update};
use crate::write::{Origin, Write, WriteValue};

/// A value that passed every rule that does not depend on the variable's present state.
pub(crate) struct Accepted {
    pub(crate) value: Encoded,
    /// Its number, for types that have a deadband.
    pub(crate) number: Option<f64>,
    pub(crate) quality: Quality,
}

/// Type, scaling (H-01..H-03), range and coercion (H-04).
pub(crate) fn accept(
    properties: &Properties,
    write: &Write<'_>,
    quality: Quality,
) -> Result<Accepted, Refusal> {
    let data_type = &properties.data_type;
    if let WriteValue::Wire(bytes) = write.value
        && bytes.len() > wire::VALUE_BYTES_MAX
    {
        return Err(Refusal::TooLarge { bytes: bytes.len(), max: wire::VALUE_BYTES_MAX });
    }
    let scaling = properties.scaling.as_ref().filter(|_| write.origin == Origin::SourceRaw);
    let by_number = scaling.is_some() || properties.range.is_some() || data_type.is_float();
    if !by_number {
        return Ok(Accepted { value: encode(data_type, &write.value)?, number: None, quality });
    }
    let mut value = decode(data_type, &write.value, scaling.is_some())?;
    if let Some(scaling) = scaling {
        value = scaling.to_engineering(&value, data_type).map_err(Refusal::Scaling)?;
    }
    let mut quality = quality;
    let mut number = value.as_f64();
    if let (Some((low, high)), Some(n)) = (properties.range, number)
        && !(low..=high).contains(&n)
    {
        let from_source = write.origin != Origin::Client;
        if properties.coerce && !n.is_nan() {
            let coerced = n.clamp(low, high);
            value = from_number(coerced, data_type);
            number = Some(coerced);
            quality = quality.with_coerced(true);
        } else if !from_source {
            return Err(Refusal::OutOfRange { low, high });
        }
        if from_source {
            quality = quality.worst(Quality::uncertain(Reason::LimitsExceeded));
        }
    }
    let number = number.filter(|_| data_type.is_float());
    Ok(Accepted { value: Encoded::from_value(&value), number, quality })
}

/// Whether the change lies within the deadband of the current value (H-05). A change of quality never
/// does, nor does the first value, nor does a step to or from NaN.
pub(crate) fn within_deadband(
    properties: &Properties,
    write: &Write<'_>,
    accepted: &Accepted,
    current: &Update,
) -> bool {
    let percent = match write.origin {
        Origin::Client => properties.deadband.user_percent,
        Origin::Source | Origin::SourceRaw => properties.deadband.source_percent,
    };
    let Some(number) = accepted.number.filter(|_| percent > 0.0) else { return false };
    if current.sequence == 0 || current.quality != accepted.quality {
        return false;
    }
    let Some(before) = current.value.decode(&properties.data_type).as_f64() else { return false };
    if number.is_nan() || before.is_nan() {
        return number.is_nan() && before.is_nan();
    }
    (number - before).abs() < percent / 100.0 * properties.span()
}

/// The timestamp a write is stored with and the quality that says which clock made it (B-40, B-41).
pub(crate) fn stamp(write: &Write<'_>, wall: Timestamp) -> (Timestamp, Quality) {
    let quality = write.quality.unwrap_or(Quality::GOOD);
    match write.source_timestamp {
        None => (wall, quality),
        Some(stamp) if stamp.is_plausible() => (stamp, quality),
        // A clock that was never set says 1970: the sample is marked, and stamped on arrival.
        Some(_) => (
            wall,
            quality
                .worst(Quality::uncertain(Reason::ClockUnset))
                .with_clock(trunkline_types::Clock::Source, trunkline_types::ClockSync::Unset),
        ),
    }
}

fn wrong_type(data_type: &DataType) -> Refusal {
    Refusal::WrongType { expected: data_type.to_string() }
}

fn encode(data_type: &DataType, value: &WriteValue<'_>) -> Result<Encoded, Refusal> {
    match value {
        WriteValue::Value(value) if value.has_type(data_type) => {
            let encoded = Encoded::from_value(value);
            let bytes = encoded.as_slice().len();
            if bytes > wire::VALUE_BYTES_MAX {
                return Err(Refusal::TooLarge { bytes, max: wire::VALUE_BYTES_MAX });
            }
            Ok(encoded)
        }
        WriteValue::Value(_) => Err(wrong_type(data_type)),
        WriteValue::Wire(bytes) => {
            wire::check_value(data_type, bytes).map_err(Refusal::InvalidValue)?;
            Ok(Encoded::from_bytes(bytes))
        }
    }
}

/// The value to compute with. A raw value that is going to be scaled may have another numeric type.
fn decode(data_type: &DataType, value: &WriteValue<'_>, raw: bool) -> Result<Value, Refusal> {
    match value {
        WriteValue::Value(value) if raw || value.has_type(data_type) => Ok((*value).clone()),
        WriteValue::Value(_) => Err(wrong_type(data_type)),
        WriteValue::Wire(bytes) => {
            let mut reader = wire::Reader::new(bytes);
            let value =
                wire::decode_value(data_type, &mut reader).map_err(Refusal::InvalidValue)?;
            if reader.is_empty() { Ok(value) } else { Err(wrong_type(data_type)) }
        }
    }
}

/// `number` as a value of a numeric type; the caller has brought it into the type's range.
fn from_number(number: f64, data_type: &DataType) -> Value {
    match data_type {
        DataType::I8 => Value::I8(number as i8),
        DataType::I16 => Value::I16(number as i16),
        DataType::I32 => Value::I32(number as i32),
        DataType::I64 => Value::I64(number as i64),
        DataType::U8 => Value::U8(number as u8),
        DataType::U16 => Value::U16(number as u16),
        DataType::U32 => Value::U32(number as u32),
        DataType::U64 => Value::U64(number as u64),
        DataType::F32 => Value::F32(number as f32),
        _ => Value::F64(number),
    }
}
