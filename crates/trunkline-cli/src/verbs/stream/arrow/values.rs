//! Extracts values from an Arrow array.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType as ArrowType, TimeUnit};
use trunkline_types::{
    Array as ValueArray, ArrayType, DataType, ElementType, Elements, EnumType, StructType,
    Timestamp, Value,
};

pub(super) fn values(array: &ArrayRef, data_type: &DataType) -> Result<Vec<Value>, String> {
    if array.null_count() > 0 {
        return Err(format!(
            "{} of the values are null, but {data_type} allows no nulls",
            array.null_count()
        ));
    }
    let found: Option<Vec<Value>> = match data_type {
        DataType::Bool => array.as_boolean_opt().map(|array| {
            let values = (0..array.len()).map(|index| Value::Bool(array.value(index)));
            values.collect()
        }),
        DataType::String => texts(array).map(|texts| {
            let texts = texts.into_iter();
            texts.map(|text| Value::String(text.into())).collect()
        }),
        DataType::Enum(enum_type) => match texts(array) {
            Some(texts) => Some(labels(&texts, enum_type)?),
            None => None,
        },
        DataType::Bytes => blobs(array),
        DataType::Timestamp => match times(array) {
            Some(times) => Some(times?.into_iter().map(Value::Timestamp).collect()),
            None => None,
        },
        DataType::Array(array_type) => lists(array, array_type)?,
        DataType::Struct(struct_type) => structs(array, struct_type)?,
        other => ElementType::of(other)
            .and_then(|element| numbers(array, element))
            .map(|all| {
                (0..all.len())
                    .filter_map(|index| all.value_at(index))
                    .collect()
            }),
    };
    found.ok_or_else(|| {
        format!(
            "the values have the Arrow type {}, which does not match {data_type}",
            array.data_type()
        )
    })
}

/// Collects the items of an array, which is given once for each type that it may have.
macro_rules! each {
    ($($array:expr),+) => {
        'all: {
            $(if let Some(array) = $array {
                break 'all Some((0..array.len()).map(|index| array.value(index)).collect());
            })+
            None
        }
    };
}

fn texts(array: &ArrayRef) -> Option<Vec<&str>> {
    each!(
        array.as_string_opt::<i32>(),
        array.as_string_opt::<i64>(),
        array.as_string_view_opt()
    )
}

fn labels(texts: &[&str], enum_type: &EnumType) -> Result<Vec<Value>, String> {
    let label = |text: &&str| {
        let index = enum_type.labels.iter().position(|label| **label == **text);
        let index = index.and_then(|index| u32::try_from(index).ok());
        let value = index.map(Value::Enum);
        value.ok_or_else(|| format!("{text:?} is not one of the labels"))
    };
    texts.iter().map(label).collect()
}

fn blobs(array: &ArrayRef) -> Option<Vec<Value>> {
    let blobs: Option<Vec<&[u8]>> =
        each!(array.as_binary_opt::<i32>(), array.as_binary_opt::<i64>());
    let blobs = blobs?.into_iter();
    Some(blobs.map(|bytes| Value::Bytes(bytes.into())).collect())
}

/// Reads times of any unit. A time zone only affects how they are shown.
fn times(array: &ArrayRef) -> Option<Result<Vec<Timestamp>, String>> {
    let ArrowType::Timestamp(unit, _) = array.data_type() else {
        return None;
    };
    let (numbers, nanos): (&[i64], i64) = match unit {
        TimeUnit::Second => (
            array.as_primitive::<TimestampSecondType>().values(),
            1_000_000_000,
        ),
        TimeUnit::Millisecond => (
            array.as_primitive::<TimestampMillisecondType>().values(),
            1_000_000,
        ),
        TimeUnit::Microsecond => (
            array.as_primitive::<TimestampMicrosecondType>().values(),
            1000,
        ),
        TimeUnit::Nanosecond => (array.as_primitive::<TimestampNanosecondType>().values(), 1),
    };
    let time = |number: &i64| {
        let nanos = number.checked_mul(nanos).map(Timestamp::from_nanos);
        nanos.ok_or_else(|| "a time is outside the years 1678 to 2262".to_owned())
    };
    Some(numbers.iter().map(time).collect())
}

fn lists(array: &ArrayRef, array_type: &ArrayType) -> Result<Option<Vec<Value>>, String> {
    let arrays: Option<Vec<ArrayRef>> = each!(
        array.as_list_opt::<i32>(),
        array.as_list_opt::<i64>(),
        array.as_fixed_size_list_opt()
    );
    let Some(arrays) = arrays else {
        return Ok(None);
    };
    let to_value = |array: &ArrayRef| -> Result<Value, String> {
        let array = ValueArray::vector(elements(array, array_type.element)?);
        match array.has_type(array_type) {
            true => Ok(Value::Array(Arc::new(array))),
            false => Err(format!(
                "a list of {} elements does not match {}",
                array.elements().len(),
                DataType::Array(Arc::new(array_type.clone()))
            )),
        }
    };
    arrays
        .iter()
        .map(to_value)
        .collect::<Result<_, _>>()
        .map(Some)
}

fn numbers(array: &ArrayRef, element: ElementType) -> Option<Elements> {
    macro_rules! numbers {
        ($variant:ident, $arrow:ty) => {
            Elements::$variant(array.as_primitive_opt::<$arrow>()?.values().to_vec())
        };
    }
    Some(match element {
        ElementType::I8 => numbers!(I8, Int8Type),
        ElementType::I16 => numbers!(I16, Int16Type),
        ElementType::I32 => numbers!(I32, Int32Type),
        ElementType::I64 => numbers!(I64, Int64Type),
        ElementType::U8 => numbers!(U8, UInt8Type),
        ElementType::U16 => numbers!(U16, UInt16Type),
        ElementType::U32 => numbers!(U32, UInt32Type),
        ElementType::U64 => numbers!(U64, UInt64Type),
        ElementType::F32 => numbers!(F32, Float32Type),
        ElementType::F64 => numbers!(F64, Float64Type),
        _ => return None,
    })
}

fn elements(array: &ArrayRef, element: ElementType) -> Result<Elements, String> {
    if let Some(numbers) = numbers(array, element).filter(|_| array.null_count() == 0) {
        return Ok(numbers);
    }
    // Other types, and arrays with nulls, are converted value by value, which reports errors.
    let found = values(array, &element.data_type())?.into_iter();
    // Collects the values of one variant.
    macro_rules! only {
        ($variant:ident) => {
            Elements::$variant(
                found
                    .filter_map(|value| match value {
                        Value::$variant(value) => Some(value),
                        _ => None,
                    })
                    .collect(),
            )
        };
    }
    Ok(match element {
        ElementType::Bool => only!(Bool),
        ElementType::Timestamp => only!(Timestamp),
        _ => only!(String),
    })
}

fn structs(array: &ArrayRef, struct_type: &StructType) -> Result<Option<Vec<Value>>, String> {
    let Some(array) = array.as_struct_opt() else {
        return Ok(None);
    };
    let mut columns = Vec::new();
    for (name, data_type) in &struct_type.fields {
        let column = array.column_by_name(name);
        let column = column.ok_or_else(|| format!("there is no column {name:?}"))?;
        let found = values(column, data_type);
        columns.push(
            found
                .map_err(|reason| format!("column {name:?}: {reason}"))?
                .into_iter(),
        );
    }
    if array.num_columns() != columns.len() {
        let names = array.column_names().join(", ");
        return Err(format!(
            "there are more columns ({names}) than fields in the type"
        ));
    }
    let rows = (0..array.len()).map(|_| {
        let row: Vec<Value> = columns.iter_mut().filter_map(Iterator::next).collect();
        Value::Struct(row.into())
    });
    Ok(Some(rows.collect()))
}
