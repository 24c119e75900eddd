//! Computes the content of elements from their index in the stream, so that a lost, duplicated or
//! reordered element is detected.

use trunkline::stream::Plain;
use trunkline_types::{Array, DataType, ElementType, Elements, Timestamp, Value, Waveform};

pub(super) trait Content: Plain + PartialEq {
    /// Returns the element at an index of the stream.
    fn at(index: u64) -> Self;
}

/// Folds the index so that its higher bits affect narrow types as well.
fn folded(index: u64) -> u64 {
    index ^ (index >> 8) ^ (index >> 16) ^ (index >> 24) ^ (index >> 32)
}

macro_rules! content {
    ($($number:ty: $index:ident => $content:expr;)*) => {$(
        impl Content for $number {
            #[inline]
            fn at($index: u64) -> Self {
                $content as $number
            }
        }
    )*};
}

content! {
    i8: index => folded(index);
    u8: index => folded(index);
    i16: index => folded(index);
    u16: index => folded(index);
    i32: index => index;
    u32: index => index;
    i64: index => index;
    u64: index => index;
    // The mask keeps the numbers that the type represents exactly.
    f32: index => index & 0x00ff_ffff;
    f64: index => index & 0x001f_ffff_ffff_ffff;
}

/// Number of samples in a waveform.
const WAVEFORM_SAMPLES: usize = 16;

pub(super) fn value_at(data_type: &DataType, index: u64) -> Value {
    match data_type {
        DataType::Bool => Value::Bool(folded(index) % 2 == 1),
        DataType::I8 => Value::I8(i8::at(index)),
        DataType::I16 => Value::I16(i16::at(index)),
        DataType::I32 => Value::I32(i32::at(index)),
        DataType::I64 => Value::I64(i64::at(index)),
        DataType::U8 => Value::U8(u8::at(index)),
        DataType::U16 => Value::U16(u16::at(index)),
        DataType::U32 => Value::U32(u32::at(index)),
        DataType::U64 => Value::U64(u64::at(index)),
        DataType::F32 => Value::F32(f32::at(index)),
        DataType::F64 => Value::F64(f64::at(index)),
        DataType::String => Value::String(text_at(index).into()),
        DataType::Bytes => Value::Bytes(index.to_le_bytes().into()),
        DataType::Timestamp => Value::Timestamp(Timestamp::from_nanos(i64::at(index))),
        DataType::Enum(labels) => {
            let label = folded(index) % labels.labels.len().max(1) as u64;
            Value::Enum(u32::at(label))
        }
        DataType::Array(array) => {
            let shape: Vec<u32> = array.shape.iter().map(|len| len.unwrap_or(4)).collect();
            let count = shape.iter().map(|len| *len as usize).product();
            let elements = elements_at(array.element, count, index);
            // The number of elements matches the shape.
            Array::new(shape, elements).map_or_else(
                |_| Value::default_of(data_type),
                |array| Value::Array(array.into()),
            )
        }
        DataType::Struct(fields) => {
            let fields = fields.fields.iter();
            Value::Struct(fields.map(|(_, field)| value_at(field, index)).collect())
        }
        DataType::Waveform(element) => Value::Waveform(
            Waveform {
                t0: Timestamp::from_nanos(i64::at(index)),
                dt: 1e-3,
                samples: elements_at(*element, WAVEFORM_SAMPLES, index),
                attributes: Default::default(),
            }
            .into(),
        ),
    }
}

fn text_at(index: u64) -> String {
    format!("element {index:016}")
}

fn elements_at(element: ElementType, count: usize, index: u64) -> Elements {
    fn numbers<T: Content>(count: usize, index: u64) -> Vec<T> {
        (0..count as u64).map(|i| T::at(index + i)).collect()
    }
    match element {
        ElementType::I8 => Elements::I8(numbers(count, index)),
        ElementType::I16 => Elements::I16(numbers(count, index)),
        ElementType::I32 => Elements::I32(numbers(count, index)),
        ElementType::I64 => Elements::I64(numbers(count, index)),
        ElementType::U8 => Elements::U8(numbers(count, index)),
        ElementType::U16 => Elements::U16(numbers(count, index)),
        ElementType::U32 => Elements::U32(numbers(count, index)),
        ElementType::U64 => Elements::U64(numbers(count, index)),
        ElementType::F32 => Elements::F32(numbers(count, index)),
        ElementType::F64 => Elements::F64(numbers(count, index)),
        other => Elements::zeros(other, count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trunkline_types::text::parse_type;

    #[test]
    fn every_type_has_content_that_changes_with_the_index() {
        for ty in [
            "u8",
            "f32",
            "string",
            "bytes",
            "timestamp",
            "enum(A, B, C)",
            "array(f64, *)",
            "array(i32, 2, 3)",
            "waveform(i16)",
            "struct(a: bool, b: struct(c: u64))",
        ] {
            let data_type = parse_type(ty).unwrap();
            let found = value_at(&data_type, 1);
            assert!(found.has_type(&data_type), "{ty}: {found:?}");
            assert_eq!(found, value_at(&data_type, 1), "{ty}");
            assert_ne!(found, value_at(&data_type, 2), "{ty}");
        }
        // The loss of 256 or 65,536 consecutive elements is detected in narrow types too.
        assert_ne!(u8::at(0), u8::at(256));
        assert_ne!(u16::at(7), u16::at(7 + 65_536));
    }
}
