//! Values of variables as values of channels, and back.

use trunkline_tdms::{TdmsType, Text, Values};
use trunkline_types::{DataType, Timestamp, Value};

/// A column for a variable's values; none where they are not recorded.
pub(super) fn column(data_type: &DataType) -> Option<Values> {
    Some(match data_type {
        DataType::Bool => Values::Bool(Vec::new()),
        DataType::I8 => Values::I8(Vec::new()),
        DataType::I16 => Values::I16(Vec::new()),
        DataType::I32 => Values::I32(Vec::new()),
        DataType::I64 => Values::I64(Vec::new()),
        DataType::U8 => Values::U8(Vec::new()),
        DataType::U16 => Values::U16(Vec::new()),
        DataType::U32 | DataType::Enum(_) => Values::U32(Vec::new()),
        DataType::U64 => Values::U64(Vec::new()),
        DataType::F32 => Values::F32(Vec::new()),
        DataType::F64 => Values::F64(Vec::new()),
        DataType::String => Values::String(Vec::new()),
        DataType::Timestamp => Values::Time(Vec::new()),
        _ => return None,
    })
}

/// The type of a variable that only the channel tells of; none where there is none.
pub(super) fn type_of_channel(data_type: TdmsType) -> Option<DataType> {
    Some(match data_type.without_unit() {
        TdmsType::Bool => DataType::Bool,
        TdmsType::I8 => DataType::I8,
        TdmsType::I16 => DataType::I16,
        TdmsType::I32 => DataType::I32,
        TdmsType::I64 => DataType::I64,
        TdmsType::U8 => DataType::U8,
        TdmsType::U16 => DataType::U16,
        TdmsType::U32 => DataType::U32,
        TdmsType::U64 => DataType::U64,
        TdmsType::F32 => DataType::F32,
        TdmsType::F64 => DataType::F64,
        TdmsType::String => DataType::String,
        TdmsType::Time => DataType::Timestamp,
        _ => return None,
    })
}

/// Bytes of a value in a column.
pub(super) fn byte_len(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + size_of::<Text>(),
        _ => size_of::<u128>(),
    }
}

/// Appends a value; false where it is of another type.
pub(super) fn push(column: &mut Values, value: &Value) -> bool {
    match (column, value) {
        (Values::Bool(all), Value::Bool(value)) => all.push(*value),
        (Values::I8(all), Value::I8(value)) => all.push(*value),
        (Values::I16(all), Value::I16(value)) => all.push(*value),
        (Values::I32(all), Value::I32(value)) => all.push(*value),
        (Values::I64(all), Value::I64(value)) => all.push(*value),
        (Values::U8(all), Value::U8(value)) => all.push(*value),
        (Values::U16(all), Value::U16(value)) => all.push(*value),
        (Values::U32(all), Value::U32(value) | Value::Enum(value)) => all.push(*value),
        (Values::U64(all), Value::U64(value)) => all.push(*value),
        (Values::F32(all), Value::F32(value)) => all.push(*value),
        (Values::F64(all), Value::F64(value)) => all.push(*value),
        (Values::String(all), Value::String(value)) => all.push(Text::from(&**value)),
        (Values::Time(all), Value::Timestamp(value)) => all.push((*value).into()),
        _ => return false,
    }
    true
}

/// Takes every value out.
pub(super) fn clear(column: &mut Values) {
    match column {
        Values::Bool(all) => all.clear(),
        Values::I8(all) => all.clear(),
        Values::I16(all) => all.clear(),
        Values::I32(all) => all.clear(),
        Values::I64(all) => all.clear(),
        Values::U8(all) => all.clear(),
        Values::U16(all) => all.clear(),
        Values::U32(all) => all.clear(),
        Values::U64(all) => all.clear(),
        Values::F32(all) => all.clear(),
        Values::F64(all) => all.clear(),
        Values::String(all) => all.clear(),
        Values::Time(all) => all.clear(),
        _ => {}
    }
}

/// Value `at` of a column, as one of the variable's type; none where there is none, or it has no
/// such.
pub(super) fn value(column: &Values, at: usize, data_type: &DataType) -> Option<Value> {
    Some(match column {
        Values::Bool(all) => Value::Bool(*all.get(at)?),
        Values::I8(all) => Value::I8(*all.get(at)?),
        Values::I16(all) => Value::I16(*all.get(at)?),
        Values::I32(all) => Value::I32(*all.get(at)?),
        Values::I64(all) => Value::I64(*all.get(at)?),
        Values::U8(all) => Value::U8(*all.get(at)?),
        Values::U16(all) => Value::U16(*all.get(at)?),
        Values::U32(all) => match data_type {
            DataType::Enum(_) => Value::Enum(*all.get(at)?),
            _ => Value::U32(*all.get(at)?),
        },
        Values::U64(all) => Value::U64(*all.get(at)?),
        Values::F32(all) => Value::F32(*all.get(at)?),
        Values::F64(all) => Value::F64(*all.get(at)?),
        Values::String(all) => Value::String(all.get(at)?.to_str().into()),
        Values::Time(all) => Value::Timestamp(all.get(at)?.to_timestamp().unwrap_or_else(unset)),
        _ => return None,
    })
}

fn unset() -> Timestamp {
    Timestamp::UNIX_EPOCH
}
