//! Encodes and decodes the alarms of a variable. Like the variable's properties, each alarm consists of
//! fields that an older version can skip.

use std::time::Duration;

use crate::alarm::{
    ALARMS_MAX, Acknowledge, AlarmDefinition, AlarmKind, BitsNeeded, LimitLevel, Operand,
};
use crate::time::duration_nanos;

use super::definition::{DEFINITION_BYTES_MAX, Fields, decode_fields, tag, text, unexpected};
use super::{
    DecodeError, Reader, VALUE_BYTES_MAX, put_f64, put_str, put_u8, put_u64, put_varint, put_zigzag,
};

const NAME: u64 = 1;
const KIND: u64 = 2;
const DISABLED: u64 = 3;
const ON_DELAY: u64 = 4;
const OFF_DELAY: u64 = 5;
const PRIORITY: u64 = 6;
const AREA: u64 = 7;
const AUTO_ACKNOWLEDGE: u64 = 8;
const LATCHED: u64 = 9;
const DESCRIPTION: u64 = 10;
const HELP: u64 = 11;
const SUPPRESSED_BY: u64 = 12;

/// Appends alarms, which extend to the end of their field.
pub(super) fn encode_alarms(alarms: &[AlarmDefinition], out: &mut Vec<u8>) {
    alarms.iter().for_each(|alarm| encode_alarm(alarm, out));
}

/// Appends the wire form of the definition of an alarm.
pub fn encode_alarm(alarm: &AlarmDefinition, out: &mut Vec<u8>) {
    let AlarmDefinition {
        name,
        kind,
        enabled,
        on_delay,
        off_delay,
        priority,
        area,
        acknowledge,
        latched,
        description,
        help,
        suppressed_by,
    } = alarm;
    let mut fields = Fields::default();
    fields.text(NAME, name);
    fields.put(KIND, true, |out| encode_kind(kind, out));
    fields.put(DISABLED, !*enabled, |_| ());
    for (id, delay) in [(ON_DELAY, *on_delay), (OFF_DELAY, *off_delay)] {
        fields.put(id, !delay.is_zero(), |out| {
            put_varint(out, duration_nanos(delay))
        });
    }
    fields.put(PRIORITY, true, |out| put_varint(out, u64::from(*priority)));
    fields.text(AREA, area);
    fields.put(AUTO_ACKNOWLEDGE, *acknowledge == Acknowledge::Auto, |_| ());
    fields.put(LATCHED, *latched, |_| ());
    fields.text(DESCRIPTION, description);
    fields.text(HELP, help);
    fields.text(SUPPRESSED_BY, suppressed_by);
    fields.finish(out);
}

/// Reads alarms up to the end of their field.
pub(super) fn decode_alarms(reader: &mut Reader<'_>) -> Result<Vec<AlarmDefinition>, DecodeError> {
    let mut alarms = Vec::new();
    while !reader.is_empty() {
        if alarms.len() == ALARMS_MAX {
            return Err(DecodeError::TooLong {
                offset: reader.offset(),
                what: "a number of alarms",
                length: (ALARMS_MAX as u64).saturating_add(1),
                max: ALARMS_MAX as u64,
            });
        }
        alarms.push(decode_alarm(reader)?);
    }
    Ok(alarms)
}

/// Reads a definition written by [`encode_alarm`]; fields with unknown ids are skipped.
///
/// # Errors
/// [`DecodeError`] if the kind is missing, a field appears twice, or the bytes are malformed.
pub fn decode_alarm(reader: &mut Reader<'_>) -> Result<AlarmDefinition, DecodeError> {
    let offset = reader.offset();
    let mut alarm = AlarmDefinition {
        // An empty text is not encoded, so a missing name is an empty name.
        name: String::new(),
        ..AlarmDefinition::new(AlarmKind::BadQuality)
    };
    let mut has_kind = false;
    decode_fields(reader, |id, field| {
        match id {
            NAME => alarm.name = text(field)?,
            KIND => {
                alarm.kind = decode_kind(field)?;
                has_kind = true;
            }
            DISABLED => alarm.enabled = false,
            ON_DELAY => alarm.on_delay = Duration::from_nanos(field.varint()?),
            OFF_DELAY => alarm.off_delay = Duration::from_nanos(field.varint()?),
            PRIORITY => alarm.priority = u16::try_from(field.varint()?).unwrap_or(u16::MAX),
            AREA => alarm.area = text(field)?,
            AUTO_ACKNOWLEDGE => alarm.acknowledge = Acknowledge::Auto,
            LATCHED => alarm.latched = true,
            DESCRIPTION => alarm.description = text(field)?,
            HELP => alarm.help = text(field)?,
            SUPPRESSED_BY => alarm.suppressed_by = text(field)?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    match has_kind {
        true => Ok(alarm),
        false => Err(DecodeError::Unexpected {
            offset,
            expected: "an alarm with its kind (field 2)",
            found: 0,
        }),
    }
}

fn encode_kind(kind: &AlarmKind, out: &mut Vec<u8>) {
    match kind {
        AlarmKind::Limit {
            level,
            limit,
            deadband,
        } => {
            put_u8(out, 1);
            put_u8(out, *level as u8);
            encode_operand(limit, out);
            put_f64(out, *deadband);
        }
        AlarmKind::Deviation {
            setpoint,
            limit,
            deadband,
        } => {
            put_u8(out, 2);
            encode_operand(setpoint, out);
            put_f64(out, *limit);
            put_f64(out, *deadband);
        }
        AlarmKind::RateOfChange { change, time } => {
            put_u8(out, 3);
            put_f64(out, *change);
            put_varint(out, duration_nanos(*time));
        }
        AlarmKind::Discrete { values } => {
            put_u8(out, 4);
            put_varint(out, values.len() as u64);
            values.iter().for_each(|value| put_zigzag(out, *value));
        }
        AlarmKind::Bits {
            needed,
            invert,
            select,
        } => {
            put_u8(out, 5);
            put_u8(out, *needed as u8);
            put_u64(out, *invert);
            put_u64(out, *select);
        }
        AlarmKind::BadQuality => put_u8(out, 6),
        AlarmKind::Stale => put_u8(out, 7),
    }
}

fn decode_kind(field: &mut Reader<'_>) -> Result<AlarmKind, DecodeError> {
    Ok(match tag(field)? {
        (_, 1) => AlarmKind::Limit {
            level: decode_level(field)?,
            limit: decode_operand(field)?,
            deadband: field.f64()?,
        },
        (_, 2) => AlarmKind::Deviation {
            setpoint: decode_operand(field)?,
            limit: field.f64()?,
            deadband: field.f64()?,
        },
        (_, 3) => AlarmKind::RateOfChange {
            change: field.f64()?,
            time: Duration::from_nanos(field.varint()?),
        },
        (_, 4) => {
            let count = field.count("a number of values", VALUE_BYTES_MAX, 1)?;
            let values = (0..count).map(|_| field.zigzag());
            AlarmKind::Discrete {
                values: values.collect::<Result<_, _>>()?,
            }
        }
        (_, 5) => AlarmKind::Bits {
            needed: match tag(field)? {
                (_, 0) => BitsNeeded::Any,
                (_, 1) => BitsNeeded::All,
                (offset, found) => return Err(unexpected(offset, "0 (any) or 1 (all)", found)),
            },
            invert: field.u64()?,
            select: field.u64()?,
        },
        (_, 6) => AlarmKind::BadQuality,
        (_, 7) => AlarmKind::Stale,
        (offset, found) => {
            return Err(unexpected(offset, "a kind of alarm, 1 to 7", found));
        }
    })
}

fn decode_level(field: &mut Reader<'_>) -> Result<LimitLevel, DecodeError> {
    match tag(field)? {
        (_, 0) => Ok(LimitLevel::LoLo),
        (_, 1) => Ok(LimitLevel::Lo),
        (_, 2) => Ok(LimitLevel::Hi),
        (_, 3) => Ok(LimitLevel::HiHi),
        (offset, found) => Err(unexpected(offset, "a level of a limit, 0 to 3", found)),
    }
}

fn encode_operand(operand: &Operand, out: &mut Vec<u8>) {
    match operand {
        Operand::Constant(value) => {
            put_u8(out, 0);
            put_f64(out, *value);
        }
        Operand::Variable(name) => {
            put_u8(out, 1);
            put_str(out, name);
        }
    }
}

fn decode_operand(field: &mut Reader<'_>) -> Result<Operand, DecodeError> {
    match tag(field)? {
        (_, 0) => Ok(Operand::Constant(field.f64()?)),
        (_, 1) => Ok(Operand::Variable(
            field.str(DEFINITION_BYTES_MAX)?.to_owned(),
        )),
        (offset, found) => Err(unexpected(offset, "0 (constant) or 1 (variable)", found)),
    }
}
