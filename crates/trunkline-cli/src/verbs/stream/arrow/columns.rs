//! Converts values to an Arrow array.

use std::sync::Arc;

use arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, ListArray, PrimitiveArray, StringArray, StructArray,
    TimestampNanosecondArray,
};
use arrow_buffer::OffsetBuffer;
use trunkline_types::{DataType, ElementType, Elements, StructType, Value};

use super::{fields, item};
use crate::problem::Problem;

/// Returns an array of values of this type.
pub(super) fn array(values: &[&Value], data_type: &DataType) -> Result<ArrayRef, Problem> {
    macro_rules! all {
        ($variant:ident) => {
            values.iter().filter_map(|value| match value {
                Value::$variant(value) => Some(value),
                _ => None,
            })
        };
    }
    macro_rules! numbers {
        ($variant:ident, $arrow:ty) => {
            Arc::new(PrimitiveArray::<$arrow>::from_iter_values(
                all!($variant).copied(),
            ))
        };
    }
    Ok(match data_type {
        DataType::Bool => Arc::new(BooleanArray::from(
            all!(Bool).copied().collect::<Vec<bool>>(),
        )),
        DataType::I8 => numbers!(I8, Int8Type),
        DataType::I16 => numbers!(I16, Int16Type),
        DataType::I32 => numbers!(I32, Int32Type),
        DataType::I64 => numbers!(I64, Int64Type),
        DataType::U8 => numbers!(U8, UInt8Type),
        DataType::U16 => numbers!(U16, UInt16Type),
        DataType::U32 => numbers!(U32, UInt32Type),
        DataType::U64 => numbers!(U64, UInt64Type),
        DataType::F32 => numbers!(F32, Float32Type),
        DataType::F64 => numbers!(F64, Float64Type),
        DataType::String => Arc::new(StringArray::from_iter_values(all!(String))),
        DataType::Enum(of) => Arc::new(StringArray::from_iter_values(all!(Enum).map(|index| {
            let label = of.labels.get(*index as usize);
            label.map(|label| &**label).unwrap_or_default()
        }))),
        DataType::Bytes => Arc::new(BinaryArray::from_iter_values(all!(Bytes))),
        DataType::Timestamp => times(all!(Timestamp).map(|time| time.as_nanos())),
        DataType::Array(of) => {
            let arrays: Vec<&Elements> = all!(Array).map(|array| array.elements()).collect();
            let lengths = OffsetBuffer::from_lengths(arrays.iter().map(|array| array.len()));
            let elements = elements(&arrays, of.element);
            Arc::new(ListArray::new(item(of.element)?, lengths, elements, None))
        }
        DataType::Struct(of) => structs(values, data_type, of)?,
        // Other types have no Arrow form and were refused before.
        other => super::arrow_type(other).map(|of| arrow_array::new_empty_array(&of))?,
    })
}

fn structs(values: &[&Value], data_type: &DataType, of: &StructType) -> Result<ArrayRef, Problem> {
    let mut columns = Vec::new();
    for (at, (_, field)) in of.fields.iter().enumerate() {
        let values = values.iter().filter_map(|value| match value {
            Value::Struct(values) => values.get(at),
            _ => None,
        });
        let values: Vec<&Value> = values.collect();
        columns.push(array(&values, field)?);
    }
    let array = StructArray::try_new_with_length(fields(data_type)?, columns, None, values.len());
    let array = array.map_err(|error| Problem::usage(&error.to_string()))?;
    Ok(Arc::new(array))
}

fn times(nanos: impl Iterator<Item = i64>) -> ArrayRef {
    Arc::new(TimestampNanosecondArray::from_iter_values(nanos).with_timezone("UTC"))
}

/// Concatenates the elements of arrays.
fn elements(arrays: &[&Elements], element: ElementType) -> ArrayRef {
    macro_rules! together {
        ($variant:ident) => {
            arrays
                .iter()
                .filter_map(|array| match array {
                    Elements::$variant(elements) => Some(elements),
                    _ => None,
                })
                .flatten()
        };
    }
    fn numbers<'a, T: ArrowPrimitiveType>(all: impl Iterator<Item = &'a T::Native>) -> ArrayRef {
        let all: Vec<T::Native> = all.copied().collect();
        Arc::new(PrimitiveArray::<T>::from_iter_values(all))
    }
    match element {
        ElementType::Bool => Arc::new(BooleanArray::from(
            together!(Bool).copied().collect::<Vec<bool>>(),
        )),
        ElementType::I8 => numbers::<Int8Type>(together!(I8)),
        ElementType::I16 => numbers::<Int16Type>(together!(I16)),
        ElementType::I32 => numbers::<Int32Type>(together!(I32)),
        ElementType::I64 => numbers::<Int64Type>(together!(I64)),
        ElementType::U8 => numbers::<UInt8Type>(together!(U8)),
        ElementType::U16 => numbers::<UInt16Type>(together!(U16)),
        ElementType::U32 => numbers::<UInt32Type>(together!(U32)),
        ElementType::U64 => numbers::<UInt64Type>(together!(U64)),
        ElementType::F32 => numbers::<Float32Type>(together!(F32)),
        ElementType::F64 => numbers::<Float64Type>(together!(F64)),
        ElementType::Timestamp => times(together!(Timestamp).map(|time| time.as_nanos())),
        _ => Arc::new(StringArray::from_iter_values(together!(String))),
    }
}
