//! Checks values in wire form by the rules of the decoder, without allocating memory.

use crate::{DataType, ElementType};

use super::elements::skip_elements;
use super::value::{array_count, check_size, enum_index, for_each_attribute};
use super::{DecodeError, Reader, VALUE_BYTES_MAX};

/// Overhead of a string in an array, in bytes: a pointer, a length, two reference counts, and up to 15
/// bytes of rounding by the allocator for each of two allocations.
const STRING_OVERHEAD: usize = 64;
/// Overhead of a waveform's attribute, in bytes: its name and its value in a tree with half-full nodes.
const ATTRIBUTE_OVERHEAD: usize = 256;

/// Checks that `bytes` are exactly one value of this type, without allocating. Accepts the same
/// bytes as [`decode_value`](super::decode_value) followed by [`Reader::finish`].
pub fn check_value(ty: &DataType, bytes: &[u8]) -> Result<(), DecodeError> {
    let mut reader = Reader::new(bytes);
    skip_value(ty, &mut reader)?;
    reader.finish()
}

/// Checks one value of this type and advances past it.
pub fn skip_value(ty: &DataType, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    let (offset, remaining_before) = (reader.offset(), reader.remaining());
    skip(ty, reader)?;
    check_size(offset, remaining_before, reader)
}

/// Returns an upper bound, in bytes, for the memory that the decoded value takes. Returns the length of
/// `bytes` if they are not a value of this type. Allocates no memory.
pub fn decoded_bytes_max(ty: &DataType, bytes: &[u8]) -> usize {
    let overhead = overhead_bytes(ty, &mut Reader::new(bytes)).unwrap_or(0);
    bytes.len().saturating_add(overhead)
}

/// Returns the memory that the parts of a value take in addition to their bytes in wire form: pointers,
/// counts and the allocator's rounding. Advances past the value.
fn overhead_bytes(ty: &DataType, reader: &mut Reader<'_>) -> Result<usize, DecodeError> {
    let elements = |element: ElementType, count: u64| match element {
        ElementType::String => usize::try_from(count)
            .unwrap_or(usize::MAX)
            .saturating_mul(STRING_OVERHEAD),
        _ => 0,
    };
    match ty {
        DataType::Array(ty) => {
            let count = array_count(ty, reader, |_| ())?;
            skip_elements(ty.element, count, reader)?;
            Ok(elements(ty.element, count))
        }
        DataType::Struct(ty) => ty.fields.iter().try_fold(0_usize, |sum, (_, ty)| {
            let overhead = overhead_bytes(ty, reader)?.saturating_add(STRING_OVERHEAD);
            Ok(sum.saturating_add(overhead))
        }),
        DataType::Waveform(element) => {
            reader.i64()?;
            reader.f64()?;
            let count = reader.varint()?;
            skip_elements(*element, count, reader)?;
            let mut overhead = elements(*element, count);
            for_each_attribute(reader, |_, ty, reader| {
                overhead = overhead.saturating_add(ATTRIBUTE_OVERHEAD);
                skip(&ty, reader)
            })?;
            Ok(overhead)
        }
        _ => skip(ty, reader).map(|()| 0),
    }
}

fn skip(ty: &DataType, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    match ty {
        DataType::Bool => reader.bool().map(|_| ()),
        DataType::String => reader.str(VALUE_BYTES_MAX).map(|_| ()),
        DataType::Bytes => reader
            .prefixed("a length in bytes", VALUE_BYTES_MAX)
            .map(|_| ()),
        DataType::Enum(ty) => enum_index(ty.labels.len(), reader).map(|_| ()),
        DataType::Array(ty) => {
            let offset = reader.offset();
            let count = array_count(ty, reader, |_| ())?;
            skip_elements(ty.element, count, reader)?;
            if ty.shape.is_empty() {
                let expected = "an array of at least one dimension";
                return Err(DecodeError::Unexpected {
                    offset,
                    expected,
                    found: 0,
                });
            }
            Ok(())
        }
        DataType::Struct(ty) => ty.fields.iter().try_for_each(|(_, ty)| skip(ty, reader)),
        DataType::Waveform(element) => {
            reader.i64()?;
            reader.f64()?;
            let count = reader.varint()?;
            skip_elements(*element, count, reader)?;
            for_each_attribute(reader, |_, ty, reader| skip(&ty, reader))
        }
        DataType::I8
        | DataType::I16
        | DataType::I32
        | DataType::I64
        | DataType::U8
        | DataType::U16
        | DataType::U32
        | DataType::U64
        | DataType::F32
        | DataType::F64
        | DataType::Timestamp => reader.bytes(ty.fixed_size().unwrap_or(0)).map(|_| ()),
    }
}
