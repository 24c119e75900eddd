//! Encodes and decodes types, and values that carry their type.
//!
//! ```text
//! scalar     tag
//! enum       tag, varint count, (varint length, label)*
//! array      tag, element tag, varint rank, (varint 0 for any length, else length + 1)*
//! struct     tag, varint count, (varint length, name, type)*
//! waveform   tag, element tag
//! ```

use std::sync::Arc;

use crate::data_type::{
    ARRAY_RANK_MAX, ENUM_LABELS_MAX, LABEL_BYTES_MAX, STRUCT_DEPTH_MAX, STRUCT_FIELDS_MAX,
    TypeError,
};
use crate::{ArrayType, DataType, ElementType, EnumType, StructType, Value};

use super::{DecodeError, Reader, decode_value, encode_value, put_str, put_u8, put_varint};

/// Appends the wire form of a type.
pub fn encode_type(ty: &DataType, out: &mut Vec<u8>) {
    put_u8(out, type_tag(ty));
    match ty {
        DataType::Enum(ty) => {
            put_varint(out, ty.labels.len() as u64);
            ty.labels.iter().for_each(|label| put_str(out, label));
        }
        DataType::Array(ty) => {
            put_u8(out, element_tag(ty.element));
            put_varint(out, ty.shape.len() as u64);
            for length in &ty.shape {
                put_varint(
                    out,
                    length.map_or(0, |length| u64::from(length).saturating_add(1)),
                );
            }
        }
        DataType::Struct(ty) => {
            put_varint(out, ty.fields.len() as u64);
            for (name, ty) in &ty.fields {
                put_str(out, name);
                encode_type(ty, out);
            }
        }
        DataType::Waveform(element) => put_u8(out, element_tag(*element)),
        _ => {}
    }
}

/// Reads a type and checks that a variable can have it: see [`DataType::check`].
pub fn decode_type(reader: &mut Reader<'_>) -> Result<DataType, DecodeError> {
    let offset = reader.offset();
    let ty = decode(reader, 0)?;
    ty.check().map_err(|source| DecodeError::Type {
        offset,
        source: Box::new(source),
    })?;
    Ok(ty)
}

/// Appends a type and a value of this type.
pub fn encode_tagged(ty: &DataType, value: &Value, out: &mut Vec<u8>) {
    encode_type(ty, out);
    encode_value(value, out);
}

/// Reads a type and a value of this type.
pub fn decode_tagged(reader: &mut Reader<'_>) -> Result<(DataType, Value), DecodeError> {
    let ty = decode_type(reader)?;
    let value = decode_value(&ty, reader)?;
    Ok((ty, value))
}

fn decode(reader: &mut Reader<'_>, struct_depth: usize) -> Result<DataType, DecodeError> {
    let offset = reader.offset();
    match reader.u8()? {
        ENUM => {
            let count = reader.count("a number of labels", ENUM_LABELS_MAX, 1)?;
            let labels = (0..count).map(|_| Ok(Arc::from(reader.str(LABEL_BYTES_MAX)?)));
            let labels = labels.collect::<Result<Vec<Arc<str>>, DecodeError>>()?;
            Ok(DataType::Enum(Arc::new(EnumType { labels })))
        }
        ARRAY => {
            let element = decode_element(reader)?;
            let rank = reader.count("a number of dimensions", ARRAY_RANK_MAX, 1)?;
            let shape = (0..rank).map(|_| decode_length(reader));
            let shape = shape.collect::<Result<Vec<Option<u32>>, DecodeError>>()?;
            Ok(DataType::Array(Arc::new(ArrayType { element, shape })))
        }
        STRUCT => {
            if struct_depth >= STRUCT_DEPTH_MAX {
                let source = Box::new(TypeError::TooDeep);
                return Err(DecodeError::Type { offset, source });
            }
            let count = reader.count("a number of fields", STRUCT_FIELDS_MAX, 2)?;
            let mut fields = Vec::with_capacity(count);
            for _ in 0..count {
                let name = Arc::from(reader.str(LABEL_BYTES_MAX)?);
                fields.push((name, decode(reader, struct_depth.saturating_add(1))?));
            }
            Ok(DataType::Struct(Arc::new(StructType { fields })))
        }
        WAVEFORM => Ok(DataType::Waveform(decode_element(reader)?)),
        tag => scalar_of(tag).ok_or(DecodeError::Unexpected {
            offset,
            expected: "a type tag, 1 to 18",
            found: u64::from(tag),
        }),
    }
}

fn decode_length(reader: &mut Reader<'_>) -> Result<Option<u32>, DecodeError> {
    let offset = reader.offset();
    match reader.varint()?.checked_sub(1) {
        None => Ok(None),
        Some(length) => u32::try_from(length).map(Some).map_err(|_| {
            let (what, max) = ("an array length", u64::from(u32::MAX));
            DecodeError::TooLong {
                offset,
                what,
                length,
                max,
            }
        }),
    }
}

fn decode_element(reader: &mut Reader<'_>) -> Result<ElementType, DecodeError> {
    let offset = reader.offset();
    let tag = reader.u8()?;
    let element = scalar_of(tag).and_then(|ty| ElementType::of(&ty));
    element.ok_or(DecodeError::Unexpected {
        offset,
        expected: "the tag of an element type",
        found: u64::from(tag),
    })
}

/// Reads the tag of a scalar type without parameters.
pub(super) fn decode_scalar_tag(reader: &mut Reader<'_>) -> Result<DataType, DecodeError> {
    let offset = reader.offset();
    let tag = reader.u8()?;
    scalar_of(tag).ok_or(DecodeError::Unexpected {
        offset,
        expected: "the tag of a scalar, 1 to 14",
        found: u64::from(tag),
    })
}

/// Returns the tag of a value whose variant determines its type; `None` for enums, arrays, structs
/// and waveforms.
pub(super) fn scalar_tag(value: &Value) -> Option<u8> {
    value.plain_type().map(|ty| type_tag(&ty))
}

fn scalar_of(tag: u8) -> Option<DataType> {
    Some(match tag {
        1 => DataType::Bool,
        2 => DataType::I8,
        3 => DataType::I16,
        4 => DataType::I32,
        5 => DataType::I64,
        6 => DataType::U8,
        7 => DataType::U16,
        8 => DataType::U32,
        9 => DataType::U64,
        10 => DataType::F32,
        11 => DataType::F64,
        12 => DataType::String,
        13 => DataType::Bytes,
        14 => DataType::Timestamp,
        _ => return None,
    })
}

fn type_tag(ty: &DataType) -> u8 {
    match ty {
        DataType::Bool => 1,
        DataType::I8 => 2,
        DataType::I16 => 3,
        DataType::I32 => 4,
        DataType::I64 => 5,
        DataType::U8 => 6,
        DataType::U16 => 7,
        DataType::U32 => 8,
        DataType::U64 => 9,
        DataType::F32 => 10,
        DataType::F64 => 11,
        DataType::String => 12,
        DataType::Bytes => 13,
        DataType::Timestamp => 14,
        DataType::Enum(_) => ENUM,
        DataType::Array(_) => ARRAY,
        DataType::Struct(_) => STRUCT,
        DataType::Waveform(_) => WAVEFORM,
    }
}

fn element_tag(element: ElementType) -> u8 {
    type_tag(&element.data_type())
}

const ENUM: u8 = 15;
const ARRAY: u8 = 16;
const STRUCT: u8 = 17;
const WAVEFORM: u8 = 18;
