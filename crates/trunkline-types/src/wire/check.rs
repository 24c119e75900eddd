//! The decoder's rules without its allocations: for writes that stay in wire form.

use crate::DataType;

use super::elements::skip_elements;
use super::value::{array_count, check_size, enum_index, for_each_attribute};
use super::{DecodeError, Reader, VALUE_BYTES_MAX};

/// Checks that `bytes` are exactly one value of this type: accepts what
/// [`decode_value`](super::decode_value) followed by [`Reader::finish`] accepts, and allocates
/// nothing.
///
/// # Errors
/// The same as theirs.
pub fn check_value(ty: &DataType, bytes: &[u8]) -> Result<(), DecodeError> {
    let mut reader = Reader::new(bytes);
    skip_value(ty, &mut reader)?;
    reader.finish()
}

/// Checks one value of this type and moves behind it.
///
/// # Errors
/// As [`decode_value`](super::decode_value).
pub fn skip_value(ty: &DataType, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    let (offset, before) = (reader.offset(), reader.remaining());
    skip(ty, reader)?;
    check_size(offset, before, reader)
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
