//! Converts initial values to values of the variable's type.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value as Json;
use trunkline_types::json::from_json;
use trunkline_types::text::{description, parse_rfc3339, parse_value};
use trunkline_types::{
    Array, ArrayType, DataType, ElementType, Elements, StructType, Timestamp, Value, Waveform,
};

use crate::error::ConfigErrorKind as Kind;
use crate::fields::{Filled, Values};
use crate::keys::Section;
use crate::node::{Node, NodeKind, Table};
use crate::sections::check_keys;
use crate::source::Place;

/// Converts a node to a value of `data_type`. Reports a part that does not fit the type at its place.
pub(crate) fn read(
    node: &Node,
    data_type: &DataType,
    values: &mut Values<'_, '_>,
) -> Option<Value> {
    match data_type {
        DataType::Array(ty) => array(node, ty, values),
        DataType::Struct(ty) => structure(node, ty, values),
        DataType::Waveform(element) => waveform(node, *element, values),
        _ => scalar(node, data_type, values),
    }
}

fn refuse<T>(place: Place, reason: impl ToString, values: &mut Values<'_, '_>) -> Option<T> {
    values.report.error(
        place,
        Kind::InvalidInitial {
            reason: reason.to_string(),
        },
    );
    None
}

fn scalar(node: &Node, data_type: &DataType, values: &mut Values<'_, '_>) -> Option<Value> {
    // For a text variable, a placeholder with a number is filled in as text.
    let filled = match (&node.kind, data_type) {
        (NodeKind::Text(text), DataType::String) => Filled::Text(values.fill(node.place, text)?),
        _ => values.filled(node)?,
    };
    let converted = match (data_type, filled) {
        (DataType::F64, Filled::Float(value)) if !value.is_finite() => {
            return Some(Value::F64(value));
        }
        (DataType::F32, Filled::Float(value)) if !value.is_finite() => {
            return Some(Value::F32(value as f32));
        }
        (_, Filled::Bool(value)) => from_json(&Json::from(value), data_type),
        (_, Filled::Integer(value)) => from_json(&Json::from(value), data_type),
        (_, Filled::Float(value)) => from_json(&Json::from(value), data_type),
        (DataType::Timestamp, Filled::Text(text)) => parse_rfc3339(&text).map(Value::Timestamp),
        // TOML has no integers above 2^63 - 1 and no bytes, so these are written as text: bytes with
        // the prefix `0x` or `base64:`.
        (DataType::U64 | DataType::Bytes, Filled::Text(text)) => parse_value(&text, data_type),
        (DataType::String | DataType::Enum(_), Filled::Text(text)) => {
            from_json(&Json::from(text), data_type)
        }
        (
            DataType::Timestamp,
            Filled::Other(Node {
                kind: NodeKind::Time(text),
                ..
            }),
        ) => parse_rfc3339(text).map(Value::Timestamp),
        (_, Filled::Text(_) | Filled::Other(_)) => {
            return refuse(
                node.place,
                format!("{} is not {}", node.quoted(), description(data_type)),
                values,
            );
        }
    };
    converted.map_or_else(|error| refuse(node.place, error, values), Some)
}

fn array(node: &Node, ty: &ArrayType, values: &mut Values<'_, '_>) -> Option<Value> {
    let mut flattened = FlattenedArray {
        ty,
        shape: vec![None; ty.shape.len()],
        elements: Vec::new(),
    };
    flattened.add(node, 0, values)?;
    // If no list was found at the depth of a dimension, use the fixed length of the type, or 0.
    let shape: Vec<u32> = flattened
        .shape
        .iter()
        .zip(&ty.shape)
        .map(|(length, fixed)| length.or(*fixed).unwrap_or(0))
        .collect();
    match Array::new(shape, elements_of(ty.element, flattened.elements)) {
        Ok(array) => Some(Value::Array(Arc::new(array))),
        Err(error) => refuse(node.place, error, values),
    }
}

/// The elements of nested lists, row by row.
struct FlattenedArray<'t> {
    ty: &'t ArrayType,
    /// Length of each dimension, from the first list at that depth; `None` before the first list.
    shape: Vec<Option<u32>>,
    elements: Vec<Value>,
}

impl FlattenedArray<'_> {
    fn add(&mut self, node: &Node, dimension: usize, values: &mut Values<'_, '_>) -> Option<()> {
        let Some(dimension_length) = self.shape.get_mut(dimension) else {
            let element = scalar(node, &self.ty.element.data_type(), values)?;
            self.elements.push(element);
            return Some(());
        };
        let NodeKind::List(nodes) = &node.kind else {
            let dimensions = self.ty.shape.len();
            let reason = format!(
                "found {} instead of a list: {dimensions} dimension{} of {}",
                node.quoted(),
                if dimensions == 1 { "" } else { "s" },
                self.ty.element
            );
            return refuse(node.place, reason, values);
        };
        let length = nodes.len() as u32;
        let expected = dimension_length.or(self.ty.shape.get(dimension).copied().flatten());
        if let Some(expected) = expected.filter(|expected| *expected != length) {
            let reason = format!("this list has length {length}, but {expected} is needed");
            return refuse(node.place, reason, values);
        }
        *dimension_length = Some(length);
        nodes
            .iter()
            .try_for_each(|node| self.add(node, dimension + 1, values))
    }
}

/// Converts scalars of one type to the elements of an array.
fn elements_of(element: ElementType, scalars: Vec<Value>) -> Elements {
    macro_rules! collect {
        ($variant:ident) => {
            Elements::$variant(
                scalars
                    .into_iter()
                    .filter_map(|value| match value {
                        Value::$variant(value) => Some(value),
                        _ => None,
                    })
                    .collect(),
            )
        };
    }
    match element {
        ElementType::Bool => collect!(Bool),
        ElementType::I8 => collect!(I8),
        ElementType::I16 => collect!(I16),
        ElementType::I32 => collect!(I32),
        ElementType::I64 => collect!(I64),
        ElementType::U8 => collect!(U8),
        ElementType::U16 => collect!(U16),
        ElementType::U32 => collect!(U32),
        ElementType::U64 => collect!(U64),
        ElementType::F32 => collect!(F32),
        ElementType::F64 => collect!(F64),
        ElementType::String => collect!(String),
        ElementType::Timestamp => collect!(Timestamp),
    }
}

fn structure(node: &Node, ty: &StructType, values: &mut Values<'_, '_>) -> Option<Value> {
    let NodeKind::Table(table) = &node.kind else {
        let reason = format!("found {} instead of a table of fields", node.quoted());
        return refuse(node.place, reason, values);
    };
    for entry in &table.entries {
        let names = ty.fields.iter().map(|(name, _)| &**name);
        if names.clone().all(|name| name != entry.key) {
            let report = &mut values.report;
            report.unknown_key(entry.key_place, &entry.key, names);
            return None;
        }
    }
    let mut fields = Vec::with_capacity(ty.fields.len());
    for (name, field) in &ty.fields {
        let Some(node) = table.node(name) else {
            return refuse(
                table.place,
                format!("the field \"{name}\" is missing"),
                values,
            );
        };
        fields.push(read(node, field, values)?);
    }
    Some(Value::Struct(fields.into()))
}

fn waveform(node: &Node, element: ElementType, values: &mut Values<'_, '_>) -> Option<Value> {
    let NodeKind::Table(table) = &node.kind else {
        let reason = format!("found {} instead of t0, dt and samples", node.quoted());
        return refuse(node.place, reason, values);
    };
    check_keys(table, Section::Waveform, values.report);
    let t0 = match table.node("t0") {
        None => Timestamp::UNIX_EPOCH,
        Some(node) => match scalar(node, &DataType::Timestamp, values)? {
            Value::Timestamp(t0) => t0,
            _ => return None,
        },
    };
    let dt = match table.node("dt") {
        None => 0.0,
        Some(node) => match values.number("dt", node)? {
            dt if dt < 0.0 => return refuse(node.place, "dt is negative", values),
            dt => dt,
        },
    };
    let samples = match table.node("samples") {
        None => Elements::zeros(element, 0),
        Some(node) => match array(
            node,
            &ArrayType {
                element,
                shape: vec![None],
            },
            values,
        )? {
            Value::Array(array) => array.elements().clone(),
            _ => return None,
        },
    };
    let attributes = match table.node("attributes") {
        None => BTreeMap::new(),
        Some(node) => attributes(values.table_with_any_keys("attributes", node)?, values)?,
    };
    Some(Value::Waveform(Arc::new(Waveform {
        t0,
        dt,
        samples,
        attributes,
    })))
}

fn attributes(table: &Table, values: &mut Values<'_, '_>) -> Option<BTreeMap<Arc<str>, Value>> {
    let mut attributes = BTreeMap::new();
    for entry in &table.entries {
        let value = match values.filled(&entry.node)? {
            Filled::Bool(value) => Value::Bool(value),
            Filled::Integer(value) => Value::I64(value),
            Filled::Float(value) => Value::F64(value),
            Filled::Text(text) => Value::String(text.into()),
            Filled::Other(node) => match &node.kind {
                NodeKind::Time(_) => scalar(node, &DataType::Timestamp, values)?,
                _ => {
                    let reason = format!("an attribute is one value, not {}", node.quoted());
                    return refuse(node.place, reason, values);
                }
            },
        };
        attributes.insert(Arc::from(entry.key.as_str()), value);
    }
    Some(attributes)
}
