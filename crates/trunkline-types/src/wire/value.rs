//! Encodes and decodes values whose type is known to both the sender and the receiver.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::data_type::LABEL_BYTES_MAX;
use crate::{Array, ArrayType, DataType, ElementType, Timestamp, Value, Waveform};

use super::data_type::{decode_scalar_tag, scalar_tag};
use super::elements::{decode_elements, elements_len, encode_elements};
use super::{
    DecodeError, Reader, VALUE_BYTES_MAX, put_bytes, put_f64, put_i64, put_str, put_u8, put_u32,
    put_varint, varint_len,
};

/// Smallest size of an attribute in bytes: the length of an empty name, a tag and a `bool`.
const ATTRIBUTE_BYTES_MIN: usize = 3;

/// Appends the wire form of `value`.
///
/// Attributes of a waveform that have no [plain type](Value::plain_type) are omitted;
/// [`Value::has_type`] rejects a value with such attributes.
pub fn encode_value(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Bool(v) => put_u8(out, u8::from(*v)),
        Value::I8(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::I16(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::I32(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::I64(v) => put_i64(out, *v),
        Value::U8(v) => put_u8(out, *v),
        Value::U16(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::U32(v) | Value::Enum(v) => put_u32(out, *v),
        Value::U64(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::F32(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::F64(v) => put_f64(out, *v),
        Value::String(text) => put_str(out, text),
        Value::Bytes(bytes) => put_bytes(out, bytes),
        Value::Timestamp(v) => put_i64(out, v.as_nanos()),
        Value::Array(array) => {
            out.reserve(encoded_len(value));
            array
                .shape()
                .iter()
                .for_each(|length| put_varint(out, u64::from(*length)));
            encode_elements(array.elements(), out);
        }
        Value::Struct(fields) => fields.iter().for_each(|field| encode_value(field, out)),
        Value::Waveform(waveform) => {
            out.reserve(encoded_len(value));
            encode_waveform(waveform, out);
        }
    }
}

fn encode_waveform(waveform: &Waveform, out: &mut Vec<u8>) {
    put_i64(out, waveform.t0.as_nanos());
    put_f64(out, waveform.dt);
    put_varint(out, waveform.samples.len() as u64);
    encode_elements(&waveform.samples, out);
    put_varint(out, scalar_attributes(waveform).count() as u64);
    for (name, tag, value) in scalar_attributes(waveform) {
        put_str(out, name);
        put_u8(out, tag);
        encode_value(value, out);
    }
}

fn scalar_attributes(waveform: &Waveform) -> impl Iterator<Item = (&str, u8, &Value)> {
    let attributes = waveform.attributes.iter();
    attributes.filter_map(|(name, value)| Some((&**name, scalar_tag(value)?, value)))
}

/// Returns the number of bytes that [`encode_value`] appends.
#[inline]
pub fn encoded_len(value: &Value) -> usize {
    match value {
        Value::F64(_) => 8,
        Value::I32(_) => 4,
        value => encoded_len_of_any(value),
    }
}

fn encoded_len_of_any(value: &Value) -> usize {
    let prefixed = |len: usize| len.saturating_add(varint_len(len as u64));
    match value {
        Value::Bool(_) | Value::I8(_) | Value::U8(_) => 1,
        Value::I16(_) | Value::U16(_) => 2,
        Value::I32(_) | Value::U32(_) | Value::F32(_) | Value::Enum(_) => 4,
        Value::I64(_) | Value::U64(_) | Value::F64(_) | Value::Timestamp(_) => 8,
        Value::String(text) => prefixed(text.len()),
        Value::Bytes(bytes) => prefixed(bytes.len()),
        Value::Array(array) => {
            let lengths = array
                .shape()
                .iter()
                .map(|length| varint_len(u64::from(*length)));
            lengths.fold(elements_len(array.elements()), usize::saturating_add)
        }
        Value::Struct(fields) => fields
            .iter()
            .map(encoded_len)
            .fold(0, usize::saturating_add),
        Value::Waveform(waveform) => {
            let count = scalar_attributes(waveform).count();
            let fixed = varint_len(waveform.samples.len() as u64)
                .saturating_add(varint_len(count as u64))
                .saturating_add(16);
            scalar_attributes(waveform).fold(
                fixed.saturating_add(elements_len(&waveform.samples)),
                |sum, (name, _, value)| {
                    let attribute = prefixed(name.len()).saturating_add(1);
                    sum.saturating_add(attribute)
                        .saturating_add(encoded_len(value))
                },
            )
        }
    }
}

/// Reads a value of this type.
///
/// # Errors
/// [`DecodeError`] if the bytes are not such a value: too few bytes, more than [`VALUE_BYTES_MAX`],
/// text that is not UTF-8, a boolean other than 0 and 1, an enum number without a label, or a
/// different shape.
pub fn decode_value(ty: &DataType, reader: &mut Reader<'_>) -> Result<Value, DecodeError> {
    if ty.fixed_size().is_some() {
        return decode(ty, reader);
    }
    let (offset, remaining_before) = (reader.offset(), reader.remaining());
    let value = decode(ty, reader)?;
    check_size(offset, remaining_before, reader)?;
    Ok(value)
}

/// Reads `bytes` as exactly one value of type `ty`.
///
/// # Errors
/// Same as [`decode_value`]; [`DecodeError::Trailing`] if bytes follow the value.
#[inline]
pub fn decode_exact(ty: &DataType, bytes: &[u8]) -> Result<Value, DecodeError> {
    // Fast path without a reader for the most common types of measured values.
    match ty {
        DataType::F64 => {
            if let Ok(bytes) = bytes.try_into() {
                return Ok(Value::F64(f64::from_le_bytes(bytes)));
            }
        }
        DataType::I32 => {
            if let Ok(bytes) = bytes.try_into() {
                return Ok(Value::I32(i32::from_le_bytes(bytes)));
            }
        }
        _ => {}
    }
    decode_rest(ty, bytes)
}

fn decode_rest(ty: &DataType, bytes: &[u8]) -> Result<Value, DecodeError> {
    let mut reader = Reader::new(bytes);
    let value = decode_value(ty, &mut reader)?;
    reader.finish()?;
    Ok(value)
}

/// Checks the size of a value that began at `offset`, where `remaining_before` bytes were unread.
pub(super) fn check_size(
    offset: usize,
    remaining_before: usize,
    reader: &Reader<'_>,
) -> Result<(), DecodeError> {
    let length = remaining_before.saturating_sub(reader.remaining()) as u64;
    if length <= VALUE_BYTES_MAX as u64 {
        return Ok(());
    }
    let (what, max) = ("a value size in bytes", VALUE_BYTES_MAX as u64);
    Err(DecodeError::TooLong {
        offset,
        what,
        length,
        max,
    })
}

fn decode(ty: &DataType, reader: &mut Reader<'_>) -> Result<Value, DecodeError> {
    Ok(match ty {
        DataType::Bool => Value::Bool(reader.bool()?),
        DataType::I8 => Value::I8(reader.array().map(i8::from_le_bytes)?),
        DataType::I16 => Value::I16(reader.array().map(i16::from_le_bytes)?),
        DataType::I32 => Value::I32(reader.array().map(i32::from_le_bytes)?),
        DataType::I64 => Value::I64(reader.i64()?),
        DataType::U8 => Value::U8(reader.u8()?),
        DataType::U16 => Value::U16(reader.u16()?),
        DataType::U32 => Value::U32(reader.u32()?),
        DataType::U64 => Value::U64(reader.u64()?),
        DataType::F32 => Value::F32(reader.array().map(f32::from_le_bytes)?),
        DataType::F64 => Value::F64(reader.f64()?),
        DataType::String => Value::String(reader.str(VALUE_BYTES_MAX)?.into()),
        DataType::Bytes => Value::Bytes(
            reader
                .prefixed("a length in bytes", VALUE_BYTES_MAX)?
                .into(),
        ),
        DataType::Timestamp => Value::Timestamp(Timestamp::from_nanos(reader.i64()?)),
        DataType::Enum(ty) => Value::Enum(enum_index(ty.labels.len(), reader)?),
        DataType::Array(ty) => Value::Array(Arc::new(decode_array(ty, reader)?)),
        DataType::Struct(ty) => {
            let fields = ty.fields.iter().map(|(_, ty)| decode(ty, reader));
            Value::Struct(fields.collect::<Result<Arc<[Value]>, DecodeError>>()?)
        }
        DataType::Waveform(element) => {
            Value::Waveform(Arc::new(decode_waveform(*element, reader)?))
        }
    })
}

pub(super) fn enum_index(labels: usize, reader: &mut Reader<'_>) -> Result<u32, DecodeError> {
    let offset = reader.offset();
    let index = reader.u32()?;
    if index as usize >= labels {
        return Err(DecodeError::EnumRange {
            offset,
            index,
            labels,
        });
    }
    Ok(index)
}

/// Reads the lengths of an array and returns the number of elements that follow.
pub(super) fn array_count(
    ty: &ArrayType,
    reader: &mut Reader<'_>,
    mut each: impl FnMut(u32),
) -> Result<u64, DecodeError> {
    let mut count = 1_u64;
    for fixed in &ty.shape {
        let offset = reader.offset();
        let found = reader.varint()?;
        let Ok(length) = u32::try_from(found) else {
            let (what, max) = ("an array length", u64::from(u32::MAX));
            return Err(DecodeError::TooLong {
                offset,
                what,
                length: found,
                max,
            });
        };
        if let Some(fixed) = *fixed
            && fixed != length
        {
            return Err(DecodeError::FixedLength {
                offset,
                fixed,
                found,
            });
        }
        count = count.saturating_mul(u64::from(length));
        each(length);
    }
    Ok(count)
}

fn decode_array(ty: &ArrayType, reader: &mut Reader<'_>) -> Result<Array, DecodeError> {
    let offset = reader.offset();
    let mut shape = Vec::with_capacity(ty.shape.len());
    let count = array_count(ty, reader, |length| shape.push(length))?;
    let elements = decode_elements(ty.element, count, reader)?;
    // The count is the product of the shape, so this fails only for a type without dimensions.
    Array::new(shape, elements).map_err(|_| DecodeError::Unexpected {
        offset,
        expected: "an array of at least one dimension",
        found: 0,
    })
}

fn decode_waveform(element: ElementType, reader: &mut Reader<'_>) -> Result<Waveform, DecodeError> {
    let t0 = Timestamp::from_nanos(reader.i64()?);
    let dt = reader.f64()?;
    let count = reader.varint()?;
    let samples = decode_elements(element, count, reader)?;
    let mut attributes = BTreeMap::new();
    for_each_attribute(reader, |name, ty, reader| {
        attributes.insert(Arc::from(name), decode(&ty, reader)?);
        Ok(())
    })?;
    Ok(Waveform {
        t0,
        dt,
        samples,
        attributes,
    })
}

/// Reads the name and type of each attribute; `each` must read the value.
pub(super) fn for_each_attribute<'a>(
    reader: &mut Reader<'a>,
    mut each: impl FnMut(&'a str, DataType, &mut Reader<'a>) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    let what = "a number of attributes";
    let count = reader.count(what, VALUE_BYTES_MAX, ATTRIBUTE_BYTES_MIN)?;
    let mut previous: Option<&str> = None;
    for index in 0..count {
        let offset = reader.offset();
        let name = reader.str(LABEL_BYTES_MAX)?;
        if previous.is_some_and(|previous| previous >= name) {
            let expected = "attributes in ascending order of their names";
            return Err(DecodeError::Unexpected {
                offset,
                expected,
                found: index as u64,
            });
        }
        previous = Some(name);
        let ty = decode_scalar_tag(reader)?;
        each(name, ty, reader)?;
    }
    Ok(())
}
