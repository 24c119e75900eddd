//! Writes values as JSON.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value as Json, json};

use super::SHAPE;
use crate::{DataType, Elements, Value, Waveform};

/// A value as JSON, with the information that JSON itself cannot express.
#[derive(Clone, PartialEq, Debug)]
pub struct JsonValue {
    /// The value; `null` if it is a special number.
    pub value: Json,
    /// `nan`, `inf` or `-inf` if the value is one of these special numbers.
    pub special: Option<&'static str>,
    /// `base64` if the value is bytes in that encoding.
    pub enc: Option<&'static str>,
}

impl JsonValue {
    /// Returns only the value, for formats that cannot contain the other fields. Special numbers
    /// become strings, which [`from_json`](super::from_json) can read.
    pub fn into_plain(self) -> Json {
        match self.special {
            Some(special) => Json::from(special),
            None => self.value,
        }
    }
}

/// Converts a value to JSON.
///
/// `data_type` provides the names of labels and fields. If it does not match the value, labels and
/// fields are written as numbers.
pub fn to_json(value: &Value, data_type: &DataType) -> JsonValue {
    let special = match value {
        Value::F32(v) => special_word(f64::from(*v)),
        Value::F64(v) => special_word(*v),
        _ => None,
    };
    let enc = matches!(value, Value::Bytes(_)).then_some("base64");
    let value = if special.is_some() {
        Json::Null
    } else {
        convert(value, Some(data_type))
    };
    JsonValue {
        value,
        special,
        enc,
    }
}

/// Returns the text of a special number inside a larger value; `None` for other numbers.
pub(crate) fn special_text(number: f64) -> Option<&'static str> {
    match number {
        v if v.is_nan() => Some("NaN"),
        f64::INFINITY => Some("Infinity"),
        f64::NEG_INFINITY => Some("-Infinity"),
        _ => None,
    }
}

fn special_word(number: f64) -> Option<&'static str> {
    match number {
        v if v.is_nan() => Some("nan"),
        f64::INFINITY => Some("inf"),
        f64::NEG_INFINITY => Some("-inf"),
        _ => None,
    }
}

fn convert(value: &Value, ty: Option<&DataType>) -> Json {
    match value {
        Value::Bool(v) => Json::from(*v),
        Value::I8(v) => Json::from(*v),
        Value::I16(v) => Json::from(*v),
        Value::I32(v) => Json::from(*v),
        Value::I64(v) => Json::from(*v),
        Value::U8(v) => Json::from(*v),
        Value::U16(v) => Json::from(*v),
        Value::U32(v) => Json::from(*v),
        Value::U64(v) => Json::from(*v),
        Value::F32(v) => float(shortest(*v)),
        Value::F64(v) => float(*v),
        Value::String(text) => Json::from(&**text),
        Value::Bytes(bytes) => Json::from(BASE64.encode(bytes)),
        Value::Timestamp(time) => Json::from(time.to_string()),
        Value::Enum(index) => match ty {
            Some(DataType::Enum(ty)) => match ty.labels.get(*index as usize) {
                Some(label) => Json::from(&**label),
                None => Json::from(*index),
            },
            _ => Json::from(*index),
        },
        Value::Array(array) => match needs_shape(array.shape(), ty) {
            false => elements(array.elements(), array.shape()),
            true => json!({ SHAPE: array.shape() }),
        },
        Value::Struct(values) => {
            let fields = match ty {
                Some(DataType::Struct(ty)) => ty.fields.as_slice(),
                _ => &[],
            };
            let mut object = Map::with_capacity(values.len());
            for (index, value) in values.iter().enumerate() {
                let field = fields.get(index);
                let name = field.map_or_else(|| index.to_string(), |(name, _)| name.to_string());
                object.insert(name, convert(value, field.map(|(_, ty)| ty)));
            }
            Json::Object(object)
        }
        Value::Waveform(wave) => waveform(wave),
    }
}

fn waveform(waveform: &Waveform) -> Json {
    let mut object = Map::new();
    object.insert("t0".to_owned(), Json::from(waveform.t0.to_string()));
    object.insert("dt".to_owned(), float(waveform.dt));
    let length = waveform.samples.len() as u32;
    object.insert("samples".to_owned(), elements(&waveform.samples, &[length]));
    let attributes = waveform.attributes.iter();
    let attributes = attributes.map(|(name, value)| (name.to_string(), attribute(value)));
    object.insert("attributes".to_owned(), Json::Object(attributes.collect()));
    Json::Object(object)
}

/// Writes an attribute, with its type if JSON alone does not determine it.
pub(crate) fn attribute(value: &Value) -> Json {
    let is_self_describing = match value {
        Value::Bool(_) | Value::String(_) | Value::I64(_) => true,
        Value::F64(v) => v.is_finite(),
        _ => false,
    };
    let json = convert(value, None);
    match value.plain_type() {
        Some(ty) if !is_self_describing => {
            let entries = [("type", Json::from(ty.to_string())), ("value", json)];
            Json::Object(
                entries
                    .into_iter()
                    .map(|(key, json)| (key.to_owned(), json))
                    .collect(),
            )
        }
        _ => json,
    }
}

/// Returns true if the shape of an array must be written explicitly, because its list would be `[]`
/// and the type allows other empty shapes.
pub(crate) fn needs_shape(shape: &[u32], ty: Option<&DataType>) -> bool {
    let lengths: Option<&[Option<u32>]> = match ty {
        Some(DataType::Array(ty)) => Some(&ty.shape),
        _ => None,
    };
    // `[]` is read as this shape: the lengths of the type, with 0 for free dimensions.
    let read = |at: usize| {
        lengths
            .and_then(|lengths| lengths.get(at).copied())
            .flatten()
    };
    shape.contains(&0) && (0..shape.len()).any(|at| shape[at] != read(at).unwrap_or(0))
}

fn elements(elements: &Elements, shape: &[u32]) -> Json {
    // An array without elements could otherwise become a very large number of nested empty lists.
    if elements.is_empty() {
        Json::Array(Vec::new())
    } else {
        nested(elements, shape, &mut 0)
    }
}

/// Writes one list per dimension; `next` is the index of the next element.
fn nested(elements: &Elements, shape: &[u32], next: &mut usize) -> Json {
    let Some((length, inner_shape)) = shape.split_first() else {
        let element = elements
            .value_at(*next)
            .map_or(Json::Null, |value| convert(&value, None));
        *next += 1;
        return element;
    };
    Json::Array(
        (0..*length)
            .map(|_| nested(elements, inner_shape, next))
            .collect(),
    )
}

fn float(number: f64) -> Json {
    match special_text(number) {
        Some(special) => Json::from(special),
        None => Json::from(number),
    }
}

/// Returns the `f64` with the fewest digits that rounds to this `f32`, such as 0.1 instead of
/// 0.10000000149011612.
fn shortest(number: f32) -> f64 {
    match format!("{number:?}").parse::<f64>() {
        Ok(short) if short as f32 == number => short,
        _ => f64::from(number),
    }
}
