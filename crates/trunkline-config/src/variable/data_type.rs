//! Reads the type of a variable, written either as one text or as several keys.
//!
//! One text: `type = "f64"`. Several keys: `type = "enum"` and `labels = [...]`.

use std::sync::Arc;

use trunkline_types::text::{ParseTypeError, parse_type};
use trunkline_types::{ArrayType, DataType, ElementType, EnumType, StructType};

use crate::error::ConfigErrorKind as Kind;
use crate::fields::Values;
use crate::keys::{Section, TYPE_DETAILS};
use crate::node::{Node, NodeKind, Table, quoted_text};
use crate::sections::check_keys;

/// The error type of functions that have already reported the error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reported;

type Read<T> = Result<T, Reported>;

/// Returns the type that a table defines, or `None` if the table has no key `type`.
pub(crate) fn read(table: &Table, values: &mut Values<'_, '_>) -> Read<Option<DataType>> {
    let Some(node) = table.node("type") else {
        return check_type_details(table, &[], values).map(|()| None);
    };
    let text = values.text("type", node).ok_or(Reported)?;
    let (used, found): (&[&str], _) = match text.trim() {
        "enum" => (&["labels"], labels(table, values)),
        "array" => (&["element", "shape"], array(table, values)),
        "struct" => (&["fields"], fields(table, values)),
        "waveform" => (&["element"], element(table, values).map(DataType::Waveform)),
        _ => (&[], parse(node, &text, values)),
    };
    // Report errors of both, so that one run shows them all.
    let details_check = check_type_details(table, used, values);
    let data_type = found?;
    details_check?;
    data_type
        .check()
        .map_err(|error| invalid(node, error.to_string(), values))?;
    Ok(Some(data_type))
}

fn invalid(node: &Node, reason: String, values: &mut Values<'_, '_>) -> Reported {
    values
        .report
        .error(node.place, Kind::InvalidType { reason });
    Reported
}

fn parse(node: &Node, text: &str, values: &mut Values<'_, '_>) -> Read<DataType> {
    parse_type(text).map_err(|error| {
        let reason = match &error {
            ParseTypeError::Expected { .. } => {
                format!("{} is not a type: {error}", quoted_text(text))
            }
            other => other.to_string(),
        };
        invalid(node, reason, values)
    })
}

/// Reports keys that describe a type but are not in `used`, the keys that belong to this type.
fn check_type_details(table: &Table, used: &[&str], values: &mut Values<'_, '_>) -> Read<()> {
    let mut result = Ok(());
    for key in TYPE_DETAILS.iter().filter(|key| !used.contains(key)) {
        if let Some(entry) = table.entry(key) {
            let owner = match *key {
                "labels" => "type = \"enum\"",
                "element" => "type = \"array\" or \"waveform\"",
                "shape" => "type = \"array\"",
                _ => "type = \"struct\"",
            };
            values.report.error(
                entry.key_place,
                Kind::BelongsTo {
                    key: (*key).to_owned(),
                    owner,
                },
            );
            result = Err(Reported);
        }
    }
    result
}

fn detail<'a>(
    table: &'a Table,
    key: &'static str,
    section: &'static str,
    values: &mut Values<'_, '_>,
) -> Read<&'a Node> {
    table.node(key).ok_or_else(|| {
        let place = table.node("type").map_or(table.place, |node| node.place);
        values
            .report
            .error(place, Kind::KeyMissing { section, key });
        Reported
    })
}

fn labels(table: &Table, values: &mut Values<'_, '_>) -> Read<DataType> {
    let node = detail(table, "labels", "type = \"enum\"", values)?;
    let nodes = values.list("labels", node).ok_or(Reported)?;
    let mut labels = Vec::with_capacity(nodes.len());
    for node in nodes {
        labels.push(Arc::from(values.text("labels", node).ok_or(Reported)?));
    }
    Ok(DataType::Enum(Arc::new(EnumType { labels })))
}

fn element(table: &Table, values: &mut Values<'_, '_>) -> Read<ElementType> {
    let node = detail(table, "element", "this type", values)?;
    let text = values.text("element", node).ok_or(Reported)?;
    // `parse_type` alone knows the type names, and returns an element type only as part of a type.
    match parse_type(&format!("waveform({text})")) {
        Ok(DataType::Waveform(element)) => Ok(element),
        _ => {
            let text = quoted_text(&text);
            let reason = format!("{text} is not an element; use a scalar type such as f64 or i16");
            Err(invalid(node, reason, values))
        }
    }
}

fn array(table: &Table, values: &mut Values<'_, '_>) -> Read<DataType> {
    let element = element(table, values)?;
    let shape = match table.node("shape") {
        None => vec![None],
        Some(node) => {
            let nodes = values.list("shape", node).ok_or(Reported)?;
            let lengths = nodes.iter().map(|node| match &node.kind {
                NodeKind::Text(text) if text == "*" => Ok(None),
                _ => {
                    let length = values.integer("shape", node, 0..=i64::from(u32::MAX));
                    length.map(|length| Some(length as u32)).ok_or(Reported)
                }
            });
            lengths.collect::<Read<Vec<_>>>()?
        }
    };
    Ok(DataType::Array(Arc::new(ArrayType { element, shape })))
}

fn fields(table: &Table, values: &mut Values<'_, '_>) -> Read<DataType> {
    let node = detail(table, "fields", "type = \"struct\"", values)?;
    let table = values.table_with_any_keys("fields", node).ok_or(Reported)?;
    let mut fields = Vec::with_capacity(table.entries.len());
    for entry in &table.entries {
        fields.push((Arc::from(entry.key.as_str()), field(&entry.node, values)?));
    }
    Ok(DataType::Struct(Arc::new(StructType { fields })))
}

fn field(node: &Node, values: &mut Values<'_, '_>) -> Read<DataType> {
    match &node.kind {
        NodeKind::Table(table) => {
            check_keys(table, Section::Field, values.report);
            read(table, values)?.ok_or_else(|| {
                let (section, key) = (Section::Field.header(), "type");
                values
                    .report
                    .error(node.place, Kind::KeyMissing { section, key });
                Reported
            })
        }
        _ => {
            let text = values.text("fields", node).ok_or(Reported)?;
            parse(node, &text, values)
        }
    }
}
