//! Converts values to an Arrow array.

use std::sync::Arc;

use arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, ListArray, PrimitiveArray, StringArray,
    StructArray, TimestampNanosecondArray,
};
use arrow_buffer::OffsetBuffer;
use arrow_schema::Field;
use trunkline_types::{DataType, ElementType, Elements, StructType, Value};

use crate::Problem;

/// Returns an iterator over the values of one variant.
macro_rules! only {
    ($values:expr, $enum:ident, $variant:ident) => {
        $values.filter_map(|value| match value {
            $enum::$variant(value) => Some(value),
            _ => None,
        })
    };
}

/// Returns an array of plain values; `$all` iterates over the values of a variant.
macro_rules! plain {
    ($element:expr, $all:ident) => {
        match $element {
            ElementType::Bool => Arc::new(BooleanArray::from(
                $all!(Bool).copied().collect::<Vec<bool>>(),
            )),
            ElementType::I8 => numbers::<Int8Type>($all!(I8)),
            ElementType::I16 => numbers::<Int16Type>($all!(I16)),
            ElementType::I32 => numbers::<Int32Type>($all!(I32)),
            ElementType::I64 => numbers::<Int64Type>($all!(I64)),
            ElementType::U8 => numbers::<UInt8Type>($all!(U8)),
            ElementType::U16 => numbers::<UInt16Type>($all!(U16)),
            ElementType::U32 => numbers::<UInt32Type>($all!(U32)),
            ElementType::U64 => numbers::<UInt64Type>($all!(U64)),
            ElementType::F32 => numbers::<Float32Type>($all!(F32)),
            ElementType::F64 => numbers::<Float64Type>($all!(F64)),
            ElementType::Timestamp => {
                let nanos = $all!(Timestamp).map(|time| time.as_nanos());
                Arc::new(TimestampNanosecondArray::from_iter_values(nanos).with_timezone("UTC"))
            }
            _ => Arc::new(StringArray::from_iter_values($all!(String))),
        }
    };
}

/// Returns an array of values of this type.
///
/// # Errors
/// Arrow has no type that holds the same values.
pub(super) fn array(values: &[&Value], data_type: &DataType) -> Result<ArrayRef, Problem> {
    macro_rules! all {
        ($variant:ident) => {
            only!(values.iter(), Value, $variant)
        };
    }
    if let Some(element) = ElementType::of(data_type) {
        return Ok(plain!(element, all));
    }
    Ok(match data_type {
        DataType::Enum(enum_type) => {
            Arc::new(StringArray::from_iter_values(all!(Enum).map(|index| {
                let label = enum_type.labels.get(*index as usize);
                label.map(|label| &**label).unwrap_or_default()
            })))
        }
        DataType::Bytes => Arc::new(BinaryArray::from_iter_values(all!(Bytes))),
        DataType::Array(array_type) if array_type.shape.len() == 1 => {
            let arrays: Vec<&Elements> = all!(Array).map(|array| array.elements()).collect();
            let lengths = OffsetBuffer::from_lengths(arrays.iter().map(|array| array.len()));
            let elements = elements(&arrays, array_type.element);
            let item = Field::new_list_field(elements.data_type().clone(), false);
            Arc::new(ListArray::new(item.into(), lengths, elements, None))
        }
        DataType::Struct(struct_type) => structs(values, struct_type)?,
        other => {
            let sentence = format!("{other} cannot be converted to Arrow; use --as jsonl");
            return Err(Problem::usage(sentence));
        }
    })
}

fn structs(values: &[&Value], struct_type: &StructType) -> Result<ArrayRef, Problem> {
    let (mut fields, mut columns) = (Vec::new(), Vec::new());
    for (index, (name, data_type)) in struct_type.fields.iter().enumerate() {
        let structs = only!(values.iter(), Value, Struct);
        let values: Vec<&Value> = structs.filter_map(|values| values.get(index)).collect();
        let column = array(&values, data_type)?;
        fields.push(Field::new(&**name, column.data_type().clone(), false));
        columns.push(column);
    }
    let array = StructArray::try_new_with_length(fields.into(), columns, None, values.len());
    let array = array.map_err(|error| Problem::usage(error.to_string()))?;
    Ok(Arc::new(array))
}

fn numbers<'a, T: ArrowPrimitiveType>(all: impl Iterator<Item = &'a T::Native>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::from_iter_values(all.copied()))
}

/// Concatenates the elements of arrays.
fn elements(arrays: &[&Elements], element: ElementType) -> ArrayRef {
    macro_rules! together {
        ($variant:ident) => {
            only!(arrays.iter(), Elements, $variant).flatten()
        };
    }
    plain!(element, together)
}
