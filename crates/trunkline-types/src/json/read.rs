//! Reads values from JSON, and refuses numbers that their type cannot represent.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value as Json};

use super::SHAPE;
use crate::data_type::LABEL_BYTES_MAX;
use crate::text::{ConvertError, clip, parse_rfc3339, parse_type};
use crate::wire::{VALUE_BYTES_MAX, encoded_len};
use crate::{
    Array, ArrayType, DataType, ElementType, Elements, EnumType, StructType, Timestamp, Value,
    Waveform,
};

/// Reads the value of type `ty` from `json`. Accepts everything that [`to_json`](super::to_json)
/// writes. Also accepts integers with a decimal point, integers as strings for `i64` and `u64`
/// (browsers lose the last digits of such numbers), the number of an enum's label, and waveforms
/// without `t0`, `dt` or `attributes`.
///
/// # Errors
/// [`ConvertError`] contains the place and the problem. An integer that its type cannot represent
/// exactly is an error. A decimal number is rounded to the nearest `f64` or `f32`.
pub fn from_json(json: &Json, ty: &DataType) -> Result<Value, ConvertError> {
    let value = read(json, ty)?;
    let bytes = encoded_len(&value);
    if bytes > VALUE_BYTES_MAX {
        return Err(ConvertError::TooLarge {
            bytes,
            max: VALUE_BYTES_MAX,
        });
    }
    Ok(value)
}

fn read(json: &Json, ty: &DataType) -> Result<Value, ConvertError> {
    Ok(match ty {
        DataType::Bool => Value::Bool(bool_of(json)?),
        DataType::I8 => Value::I8(integer(json, ty, i8::MIN, i8::MAX)?),
        DataType::I16 => Value::I16(integer(json, ty, i16::MIN, i16::MAX)?),
        DataType::I32 => Value::I32(integer(json, ty, i32::MIN, i32::MAX)?),
        DataType::I64 => Value::I64(integer(json, ty, i64::MIN, i64::MAX)?),
        DataType::U8 => Value::U8(integer(json, ty, u8::MIN, u8::MAX)?),
        DataType::U16 => Value::U16(integer(json, ty, u16::MIN, u16::MAX)?),
        DataType::U32 => Value::U32(integer(json, ty, u32::MIN, u32::MAX)?),
        DataType::U64 => Value::U64(integer(json, ty, u64::MIN, u64::MAX)?),
        DataType::F32 => Value::F32(f32_of(json)?),
        DataType::F64 => Value::F64(f64_of(json)?),
        DataType::String => Value::String(string_of(json)?),
        DataType::Bytes => {
            let text = json.as_str().ok_or_else(|| wrong(json, ty))?;
            let bytes = BASE64
                .decode(text)
                .map_err(|_| wrong_text(text, "base64"))?;
            Value::Bytes(bytes.into())
        }
        DataType::Timestamp => Value::Timestamp(timestamp_of(json)?),
        DataType::Enum(ty) => Value::Enum(enum_of(json, ty)?),
        DataType::Array(ty) => Value::Array(Arc::new(array_of(json, ty)?)),
        DataType::Struct(fields) => struct_of(json, ty, fields)?,
        DataType::Waveform(element) => Value::Waveform(Arc::new(waveform_of(json, ty, *element)?)),
    })
}

fn bool_of(json: &Json) -> Result<bool, ConvertError> {
    json.as_bool().ok_or_else(|| wrong(json, &DataType::Bool))
}

fn string_of(json: &Json) -> Result<Arc<str>, ConvertError> {
    json.as_str()
        .map(Arc::from)
        .ok_or_else(|| wrong(json, &DataType::String))
}

fn timestamp_of(json: &Json) -> Result<Timestamp, ConvertError> {
    parse_rfc3339(
        json.as_str()
            .ok_or_else(|| wrong(json, &DataType::Timestamp))?,
    )
}

fn integer<T>(json: &Json, ty: &DataType, low: T, high: T) -> Result<T, ConvertError>
where
    T: TryFrom<i128> + std::fmt::Debug,
{
    let number = match json {
        Json::Number(number) => match (number.as_i128(), number.as_f64()) {
            (Some(whole), _) => whole,
            (None, Some(float)) if float.fract() == 0.0 => {
                let whole = float as i128;
                if float.abs() > EXACT_MAX && T::try_from(whole).is_ok() {
                    return Err(ConvertError::inexact(&describe(json), ty));
                }
                whole
            }
            _ => return Err(wrong(json, ty)),
        },
        Json::String(digits) if matches!(ty, DataType::I64 | DataType::U64) => {
            digits.parse().map_err(|_| wrong(json, ty))?
        }
        _ => return Err(wrong(json, ty)),
    };
    T::try_from(number).map_err(|_| ConvertError::out_of_range(&describe(json), ty, low, high))
}

fn f64_of(json: &Json) -> Result<f64, ConvertError> {
    let ty = DataType::F64;
    if let Json::Number(number) = json {
        if let Some(whole) = number.as_i128() {
            let float = whole as f64;
            return match float as i128 == whole {
                true => Ok(float),
                false => Err(ConvertError::inexact(&describe(json), &ty)),
            };
        }
        return number.as_f64().ok_or_else(|| wrong(json, &ty));
    }
    special_number(json).ok_or_else(|| wrong(json, &ty))
}

fn f32_of(json: &Json) -> Result<f32, ConvertError> {
    let ty = DataType::F32;
    if let Json::Number(number) = json {
        if let Some(whole) = number.as_i128() {
            let float = whole as f32;
            return match float as i128 == whole {
                true => Ok(float),
                false => Err(ConvertError::inexact(&describe(json), &ty)),
            };
        }
        let wide = number.as_f64().ok_or_else(|| wrong(json, &ty))?;
        let float = wide as f32;
        if float.is_infinite() {
            return Err(ConvertError::out_of_range(
                &describe(json),
                &ty,
                f32::MIN,
                f32::MAX,
            ));
        }
        return Ok(float);
    }
    special_number(json)
        .map(|number| number as f32)
        .ok_or_else(|| wrong(json, &ty))
}

/// Reads NaN and infinities, in both common spellings.
fn special_number(json: &Json) -> Option<f64> {
    match json.as_str()? {
        "NaN" | "nan" => Some(f64::NAN),
        "Infinity" | "inf" => Some(f64::INFINITY),
        "-Infinity" | "-inf" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

fn enum_of(json: &Json, ty: &EnumType) -> Result<u32, ConvertError> {
    let index = match json {
        Json::String(label) => ty
            .labels
            .iter()
            .position(|candidate| **candidate == **label),
        Json::Number(number) => number.as_u64().map(|index| index as usize),
        _ => None,
    };
    match index {
        Some(index) if index < ty.labels.len() => Ok(index as u32),
        _ => Err(ConvertError::not_a_label(
            json.as_str().unwrap_or(&describe(json)),
            ty,
        )),
    }
}

fn struct_of(json: &Json, ty: &DataType, fields: &StructType) -> Result<Value, ConvertError> {
    let object = json.as_object().ok_or_else(|| wrong(json, ty))?;
    let names = || fields.fields.iter().map(|(name, _)| &**name);
    if object.len() > fields.fields.len() || !names().all(|name| object.contains_key(name)) {
        check_fields(object, names())?;
    }
    let values = fields.fields.iter().map(|(name, ty)| {
        let json = object.get(&**name);
        let json = json.ok_or_else(|| ConvertError::MissingField { field: clip(name) })?;
        read(json, ty).map_err(|error| error.within(&**name))
    });
    Ok(Value::Struct(
        values.collect::<Result<Arc<[Value]>, ConvertError>>()?,
    ))
}

fn waveform_of(json: &Json, ty: &DataType, element: ElementType) -> Result<Waveform, ConvertError> {
    let object = json.as_object().ok_or_else(|| wrong(json, ty))?;
    check_fields(object, ["t0", "dt", "samples", "attributes"].into_iter())?;
    let mut waveform = Waveform::empty(element);
    if let Some(t0) = object.get("t0") {
        waveform.t0 = timestamp_of(t0).map_err(|error| error.within("t0"))?;
    }
    if let Some(dt) = object.get("dt") {
        waveform.dt = f64_of(dt).map_err(|error| error.within("dt"))?;
    }
    let samples = object.get("samples");
    let samples = samples.ok_or(ConvertError::MissingField {
        field: "samples".to_owned(),
    })?;
    let list = ArrayType {
        element,
        shape: vec![None],
    };
    let samples = array_of(samples, &list).map_err(|error| error.within("samples"))?;
    waveform.samples = samples.into_elements();
    if let Some(attributes) = object.get("attributes") {
        waveform.attributes =
            attributes_of(attributes).map_err(|error| error.within("attributes"))?;
    }
    Ok(waveform)
}

fn attributes_of(json: &Json) -> Result<BTreeMap<Arc<str>, Value>, ConvertError> {
    let object = json
        .as_object()
        .ok_or_else(|| wrong_text(&describe(json), "an object"))?;
    let attributes = object.iter().map(|(name, json)| {
        if name.len() > LABEL_BYTES_MAX {
            let expected = format!("an attribute name of at most {LABEL_BYTES_MAX} bytes");
            return Err(wrong_text(name, &expected));
        }
        let value = attribute_of(json).map_err(|error| error.within(clip(name)))?;
        Ok((Arc::from(name.as_str()), value))
    });
    attributes.collect()
}

fn attribute_of(json: &Json) -> Result<Value, ConvertError> {
    match json {
        Json::Bool(v) => Ok(Value::Bool(*v)),
        Json::String(text) => Ok(Value::String(Arc::from(text.as_str()))),
        Json::Number(number) => match number.as_i64() {
            Some(whole) => Ok(Value::I64(whole)),
            None => f64_of(json).map(Value::F64),
        },
        Json::Object(object) => {
            check_fields(object, ["type", "value"].into_iter())?;
            let missing = |field: &str| ConvertError::MissingField {
                field: field.to_owned(),
            };
            let name = object
                .get("type")
                .and_then(Json::as_str)
                .ok_or_else(|| missing("type"))?;
            let value = object.get("value").ok_or_else(|| missing("value"))?;
            match parse_type(name) {
                Ok(ty) if is_plain_scalar(&ty) => read(value, &ty),
                _ => Err(wrong_text(
                    name,
                    "the type of a boolean, number, string, bytes or timestamp",
                )),
            }
        }
        Json::Null | Json::Array(_) => Err(wrong_text(
            &describe(json),
            "a boolean, a number, a string, or an object with type and value",
        )),
    }
}

fn is_plain_scalar(ty: &DataType) -> bool {
    Value::default_of(ty).plain_type().is_some()
}

fn check_fields<'a>(
    object: &Map<String, Json>,
    names: impl Iterator<Item = &'a str> + Clone,
) -> Result<(), ConvertError> {
    // A struct may have 1,024 fields, so the names are hashed instead of being searched linearly.
    let expected: std::collections::HashSet<&str> = names.clone().collect();
    match object.keys().find(|name| !expected.contains(name.as_str())) {
        Some(name) => {
            let mut fields = names
                .clone()
                .take(12)
                .map(clip)
                .collect::<Vec<_>>()
                .join(", ");
            if expected.len() > 12 {
                fields.push_str(", …");
            }
            Err(ConvertError::UnknownField {
                field: clip(name),
                fields,
            })
        }
        None => Ok(()),
    }
}

/// Reads an array without elements whose shape is specified explicitly.
fn empty_of(object: &Map<String, Json>, ty: &ArrayType) -> Result<Array, ConvertError> {
    check_fields(object, [SHAPE].into_iter())?;
    let wrong =
        |json: &Json| wrong_text(&describe(json), "a list with the length of each dimension");
    let lengths = object.get(SHAPE).unwrap_or(&Json::Null);
    let list = lengths.as_array().ok_or_else(|| wrong(lengths))?;
    let length = |json: &Json| json.as_u64().and_then(|length| u32::try_from(length).ok());
    let shape: Option<Vec<u32>> = list.iter().map(length).collect();
    let shape = shape.filter(|shape| shape.len() == ty.shape.len());
    let shape = shape.ok_or_else(|| wrong(lengths))?;
    for (index, (found, fixed)) in shape.iter().zip(&ty.shape).enumerate() {
        if let Some(fixed) = fixed.filter(|fixed| fixed != found) {
            return Err(ConvertError::FixedLength {
                dimension: index + 1,
                found: *found as usize,
                fixed,
            });
        }
    }
    let elements = elements_of(&[], ty.element)?;
    Array::new(shape, elements).map_err(|error| wrong_text(&error.to_string(), "an array"))
}

fn array_of(json: &Json, ty: &ArrayType) -> Result<Array, ConvertError> {
    if let Json::Object(object) = json
        && object.contains_key(SHAPE)
    {
        return empty_of(object, ty);
    }
    let mut leaves = Vec::new();
    let mut found = vec![None; ty.shape.len()];
    collect_leaves(json, ty, 0, &mut found, &mut leaves)?;
    let may_be_empty = ty
        .shape
        .iter()
        .any(|length| length.is_none_or(|length| length == 0));
    let empty = may_be_empty && found.first() == Some(&Some(0));
    let mut shape = Vec::with_capacity(found.len());
    for (index, (length, fixed)) in found.iter().zip(&ty.shape).enumerate() {
        match (*length, *fixed) {
            // `[]` is read as the empty array whose shape the type determines.
            (_, fixed) if empty => shape.push(fixed.unwrap_or(0)),
            (Some(found), Some(fixed)) if found != fixed as usize => {
                return Err(ConvertError::FixedLength {
                    dimension: index + 1,
                    found,
                    fixed,
                });
            }
            (length, fixed) => shape.push(length.map_or(fixed.unwrap_or(0), |n| n as u32)),
        }
    }
    let elements = elements_of(&leaves, ty.element)?;
    // Lists at the same depth have equal lengths, so the product is the number of leaves.
    Array::new(shape, elements).map_err(|error| wrong_text(&error.to_string(), "an array"))
}

/// Collects the innermost values in order, and the length of each dimension.
fn collect_leaves<'a>(
    json: &'a Json,
    ty: &ArrayType,
    depth: usize,
    found: &mut [Option<usize>],
    leaves: &mut Vec<&'a Json>,
) -> Result<(), ConvertError> {
    let Some(slot) = found.get_mut(depth) else {
        leaves.push(json);
        return Ok(());
    };
    let Json::Array(items) = json else {
        let dimensions = ty.shape.len();
        let plural = if dimensions == 1 { "" } else { "s" };
        let ty = clip(&DataType::Array(Arc::new(ty.clone())).to_string());
        let expected = format!("a list: {ty} has {dimensions} dimension{plural}");
        return Err(wrong_text(&describe(json), &expected));
    };
    match *slot {
        None => *slot = Some(items.len()),
        Some(previous) if previous != items.len() => {
            let (dimension, found) = (depth + 1, items.len());
            return Err(ConvertError::UnequalLengths {
                dimension,
                found,
                previous,
            });
        }
        Some(_) => {}
    }
    items
        .iter()
        .try_for_each(|item| collect_leaves(item, ty, depth + 1, found, leaves))
}

fn elements_of(leaves: &[&Json], element: ElementType) -> Result<Elements, ConvertError> {
    let ty = element.data_type();
    Ok(match element {
        ElementType::Bool => Elements::Bool(each(leaves, bool_of)?),
        ElementType::I8 => Elements::I8(each(leaves, |j| integer(j, &ty, i8::MIN, i8::MAX))?),
        ElementType::I16 => Elements::I16(each(leaves, |j| integer(j, &ty, i16::MIN, i16::MAX))?),
        ElementType::I32 => Elements::I32(each(leaves, |j| integer(j, &ty, i32::MIN, i32::MAX))?),
        ElementType::I64 => Elements::I64(each(leaves, |j| integer(j, &ty, i64::MIN, i64::MAX))?),
        ElementType::U8 => Elements::U8(each(leaves, |j| integer(j, &ty, u8::MIN, u8::MAX))?),
        ElementType::U16 => Elements::U16(each(leaves, |j| integer(j, &ty, u16::MIN, u16::MAX))?),
        ElementType::U32 => Elements::U32(each(leaves, |j| integer(j, &ty, u32::MIN, u32::MAX))?),
        ElementType::U64 => Elements::U64(each(leaves, |j| integer(j, &ty, u64::MIN, u64::MAX))?),
        ElementType::F32 => Elements::F32(each(leaves, f32_of)?),
        ElementType::F64 => Elements::F64(each(leaves, f64_of)?),
        ElementType::String => Elements::String(each(leaves, string_of)?),
        ElementType::Timestamp => Elements::Timestamp(each(leaves, timestamp_of)?),
    })
}

fn each<T>(
    leaves: &[&Json],
    convert: impl Fn(&Json) -> Result<T, ConvertError>,
) -> Result<Vec<T>, ConvertError> {
    let converted = leaves.iter().enumerate().map(|(index, json)| {
        convert(json).map_err(|error| error.within(format!("element {index}")))
    });
    converted.collect()
}

fn wrong(json: &Json, ty: &DataType) -> ConvertError {
    ConvertError::wrong_type_described(describe(json), ty)
}

fn wrong_text(text: &str, expected: &str) -> ConvertError {
    ConvertError::WrongType {
        text: clip(text),
        ty: expected.to_owned(),
    }
}

/// Describes a JSON value in a few words, regardless of its size.
fn describe(json: &Json) -> String {
    match json {
        Json::Null => "null".to_owned(),
        Json::Bool(v) => v.to_string(),
        Json::Number(number) => number.to_string(),
        Json::String(text) => format!("{:?}", clip(text)),
        Json::Array(items) => format!("a list of {}", items.len()),
        Json::Object(_) => "an object".to_owned(),
    }
}

/// Up to this limit, an `f64` can represent every integer exactly.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
