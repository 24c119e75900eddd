//! The part of step 3 of a write that needs no lock: conversion of the value before the commit.

use trunkline_types::{
    Clock, ClockSync, DataType, Properties, Quality, Reason, Timestamp, Value, wire,
};

use crate::outcome::Refusal;
use crate::update::{Encoded, Update};
use crate::write::{Origin, Write};

#[derive(Clone, Copy, Debug)]
pub enum WriteValue<'a> {
    Value(&'a Value),
    /// The variable's wire form, unchecked.
    Wire(&'a [u8]),
    /// The variable's wire form, unchecked, in memory that the update may take over.
    Encoded(&'a Encoded),
}

impl WriteValue<'_> {
    #[inline]
    pub(crate) fn as_wire(&self) -> Option<&[u8]> {
        match self {
            WriteValue::Value(_) => None,
            WriteValue::Wire(bytes) => Some(bytes),
            WriteValue::Encoded(value) => Some(value.as_slice()),
        }
    }
}

/// A value that satisfies every rule that does not depend on the variable's current state. It is
/// built in its final place, because moving it costs as much as the rest of a write.
#[derive(Debug)]
pub(crate) struct Accepted {
    /// The update to commit. Its sequence, engine timestamp and writer are not set yet.
    pub(crate) update: Update,
    /// The value as a number, if a deadband applies.
    pub(crate) number: Option<f64>,
    /// True if the writer supplied the source timestamp; false if it is the time of arrival.
    pub(crate) is_stamped: bool,
}

impl Accepted {
    #[inline]
    pub(crate) fn nothing() -> Self {
        Self {
            update: Update {
                sequence: 0,
                source_timestamp: Timestamp::UNIX_EPOCH,
                engine_timestamp: Timestamp::UNIX_EPOCH,
                quality: Quality::GOOD,
                writer: 0,
                value: Encoded::EMPTY,
            },
            number: None,
            is_stamped: false,
        }
    }
}

/// Applies timestamps (B-40, B-41), type, scaling (H-01..H-03), range and coercion (H-04). Always
/// inlined, because a call would slow down single writes.
#[inline(always)]
pub(crate) fn accept(
    properties: &Properties,
    write: &Write<'_>,
    wall: Timestamp,
    accepted: &mut Accepted,
) -> Result<(), Refusal> {
    let stamp = stamp(properties, write, wall);
    accepted.is_stamped = stamp.is_stamped;
    accepted.update.source_timestamp = stamp.source_timestamp;
    accepted.update.quality = stamp.quality;
    accept_value(properties, write, accepted)
}

#[inline(always)]
pub(crate) fn accept_value(
    properties: &Properties,
    write: &Write<'_>,
    accepted: &mut Accepted,
) -> Result<(), Refusal> {
    let data_type = &properties.data_type;
    if let Some(bytes) = write.value.as_wire() {
        check_size(bytes.len())?;
    }
    let scaling = properties
        .scaling
        .as_ref()
        .filter(|_| write.origin == Origin::SourceRaw);
    let range = properties.range.filter(|_| data_type.is_numeric());
    let has_deadband = data_type.is_float() && deadband_percent(properties, write) > 0.0;
    if scaling.is_none() && range.is_none() && !has_deadband {
        return encode(data_type, &write.value, &mut accepted.update.value);
    }
    let mut value = decode(data_type, &write.value, scaling.is_some())?;
    if let Some(scaling) = scaling {
        value = scaling
            .to_engineering(&value, data_type)
            .map_err(Refusal::Scaling)?;
    }
    let quality = &mut accepted.update.quality;
    if let Some((low, high)) = range
        && let Some(number) = value.as_f64()
        && !(low..=high).contains(&number)
    {
        let from_source = write.origin != Origin::Client;
        if properties.coerce && !number.is_nan() {
            value = coerced(number, low, high, data_type);
            *quality = quality.with_coerced(true);
        } else if !from_source {
            return Err(Refusal::OutOfRange { low, high });
        }
        if from_source {
            *quality = quality.worst(Quality::uncertain(Reason::LimitsExceeded));
        }
    }
    accepted.number = value.as_f64().filter(|_| has_deadband);
    accepted.update.value.set(&value);
    Ok(())
}

fn deadband_percent(properties: &Properties, write: &Write<'_>) -> f64 {
    match write.origin {
        Origin::Client => properties.deadband.user_percent,
        Origin::Source | Origin::SourceRaw => properties.deadband.source_percent,
    }
}

/// Returns true if the change is within the deadband of the current value (H-05). Never true for a
/// change of quality, the first value, or a change to or from NaN.
pub(crate) fn within_deadband(
    properties: &Properties,
    write: &Write<'_>,
    accepted: &Accepted,
    current: &Update,
) -> bool {
    let Some(number) = accepted.number else {
        return false;
    };
    if current.sequence == 0 || current.quality != accepted.update.quality {
        return false;
    }
    let Some(before) = current.value.decode(&properties.data_type).as_f64() else {
        return false;
    };
    if number == before || number.is_nan() || before.is_nan() {
        return number == before || (number.is_nan() && before.is_nan());
    }
    let percent = deadband_percent(properties, write);
    (number - before).abs() < percent / 100.0 * properties.span()
}

struct Stamp {
    source_timestamp: Timestamp,
    quality: Quality,
    is_stamped: bool,
}

/// Returns the timestamp stored with a write, and the quality that names the clock of the timestamp
/// (B-40, B-41).
#[inline(always)]
fn stamp(properties: &Properties, write: &Write<'_>, wall: Timestamp) -> Stamp {
    let quality = write.quality.unwrap_or(Quality::GOOD);
    if !properties.timestamps {
        let quality = quality.with_clock(Clock::Unknown, ClockSync::Unknown);
        return Stamp {
            source_timestamp: Timestamp::UNIX_EPOCH,
            quality,
            is_stamped: false,
        };
    }
    let arrived = |quality| Stamp {
        source_timestamp: wall,
        quality,
        is_stamped: false,
    };
    match write.source_timestamp {
        // The writer supplied no time, so both timestamps come from the engine, whatever clock the
        // quality names.
        None if quality.clock() == Clock::Engine => arrived(quality),
        None => arrived(quality.with_clock(Clock::Engine, ClockSync::Unknown)),
        Some(source_timestamp) if source_timestamp.is_plausible() => {
            let quality = match quality.clock() {
                Clock::Source => quality,
                Clock::Engine | Clock::Unknown => {
                    quality.with_clock(Clock::Source, ClockSync::Unknown)
                }
            };
            Stamp {
                source_timestamp,
                quality,
                is_stamped: true,
            }
        }
        // The source's clock was never set and shows 1970. The sample is marked, and gets the time
        // of arrival.
        Some(_) => arrived(
            quality
                .worst(Quality::uncertain(Reason::ClockUnset))
                .with_clock(Clock::Source, ClockSync::Unset),
        ),
    }
}

fn wrong_type(data_type: &DataType) -> Refusal {
    Refusal::WrongType {
        expected: data_type.to_string(),
    }
}

fn check_size(bytes: usize) -> Result<(), Refusal> {
    if bytes > wire::VALUE_BYTES_MAX {
        return Err(Refusal::TooLarge {
            bytes,
            max: wire::VALUE_BYTES_MAX,
        });
    }
    Ok(())
}

#[inline]
pub(crate) fn encode(
    data_type: &DataType,
    value: &WriteValue<'_>,
    encoded: &mut Encoded,
) -> Result<(), Refusal> {
    match value {
        WriteValue::Value(value) if value.has_type(data_type) => {
            if data_type.fixed_size().is_none() {
                // Checked before any memory is allocated for the value.
                check_size(wire::encoded_len(value))?;
            }
            encoded.try_set(value)?;
        }
        WriteValue::Value(_) => return Err(wrong_type(data_type)),
        WriteValue::Wire(bytes) => {
            wire::check_value(data_type, bytes).map_err(Refusal::InvalidValue)?;
            *encoded = Encoded::try_from_bytes(bytes)?;
        }
        WriteValue::Encoded(value) => {
            wire::check_value(data_type, value.as_slice()).map_err(Refusal::InvalidValue)?;
            *encoded = (*value).clone();
        }
    }
    Ok(())
}

/// Decodes the value for computation. A raw value to be scaled may have a different numeric type.
fn decode(data_type: &DataType, value: &WriteValue<'_>, raw: bool) -> Result<Value, Refusal> {
    match value {
        WriteValue::Value(value) if raw || value.has_type(data_type) => Ok((*value).clone()),
        WriteValue::Value(_) => Err(wrong_type(data_type)),
        WriteValue::Wire(bytes) => decode_wire(data_type, bytes),
        WriteValue::Encoded(value) => decode_wire(data_type, value.as_slice()),
    }
}

fn decode_wire(data_type: &DataType, bytes: &[u8]) -> Result<Value, Refusal> {
    let mut reader = wire::Reader::new(bytes);
    let value = wire::decode_value(data_type, &mut reader);
    value
        .and_then(|value| reader.finish().map(|()| value))
        .map_err(Refusal::InvalidValue)
}

/// Returns the limit that `number` exceeds, as a value of a numeric type. Whole numbers are rounded
/// into the range.
#[expect(clippy::wildcard_enum_match_arm, reason = "only these types matter")]
fn coerced(number: f64, low: f64, high: f64, data_type: &DataType) -> Value {
    let (end, whole) = if number < low {
        (low, low.ceil())
    } else {
        (high, high.floor())
    };
    match data_type {
        DataType::I8 => Value::I8(whole as i8),
        DataType::I16 => Value::I16(whole as i16),
        DataType::I32 => Value::I32(whole as i32),
        DataType::I64 => Value::I64(whole as i64),
        DataType::U8 => Value::U8(whole as u8),
        DataType::U16 => Value::U16(whole as u16),
        DataType::U32 => Value::U32(whole as u32),
        DataType::U64 => Value::U64(whole as u64),
        DataType::F32 => Value::F32(end as f32),
        _ => Value::F64(end),
    }
}
