//! Reads `scale = { raw = [4, 20], eng = [0, 100] }` and its variants (H-01 to H-03).

use trunkline_types::Scaling;

use crate::error::ConfigErrorKind as Kind;
use crate::fields::{Filled, Values};
use crate::keys::Section;
use crate::node::{Node, NodeKind, Table};
use crate::sections::check_keys;

/// A scale as written in a file.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct ScaleForm {
    pub scaling: Scaling,
    /// Lowest and highest engineering value if `clamp = true`.
    pub clamp: Option<[f64; 2]>,
}

#[derive(Clone, Copy)]
enum Curve {
    Linear,
    SquareRoot,
}

const CURVES: &[(&str, Curve)] = &[
    ("linear", Curve::Linear),
    ("square-root", Curve::SquareRoot),
];

pub(crate) fn read(values: &mut Values<'_, '_>, node: &Node) -> Option<ScaleForm> {
    let NodeKind::Table(table) = &node.kind else {
        return values.wrong_form("scale", node, "a table or \"none\"");
    };
    check_keys(table, Section::Scale, values.report);
    let has = |keys: &[&str]| keys.iter().any(|key| table.node(key).is_some());
    let has_number_keys = has(&["kind", "raw", "eng", "clamp"]);
    let has_bit_keys = has(&["invert", "select"]);
    match (has_number_keys, has_bit_keys) {
        (true, false) => numbers(table, values),
        (false, true) => bits(table, values),
        (true, true) => refuse(
            table,
            "kind, raw, eng and clamp are for numbers, invert and select for bits",
            values,
        ),
        (false, false) => refuse(table, "it needs raw and eng, or invert or select", values),
    }
}

fn refuse(table: &Table, reason: &str, values: &mut Values<'_, '_>) -> Option<ScaleForm> {
    let reason = reason.to_owned();
    values
        .report
        .error(table.place, Kind::InvalidScale { reason });
    None
}

fn numbers(table: &Table, values: &mut Values<'_, '_>) -> Option<ScaleForm> {
    let mut pair = |key: &'static str| match table.node(key) {
        Some(node) => values.pair(key, node),
        None => {
            let section = Section::Scale.header();
            values
                .report
                .error(table.place, Kind::KeyMissing { section, key });
            None
        }
    };
    let (raw, eng) = (pair("raw"), pair("eng"));
    let curve = match table.node("kind") {
        Some(node) => values.choice("kind", node, CURVES)?,
        None => Curve::Linear,
    };
    let clamp = match table.node("clamp") {
        Some(node) => values.boolean("clamp", node)?,
        None => false,
    };
    let (raw, eng) = (raw?, eng?);
    let scaling = match curve {
        Curve::Linear => Scaling::Linear { raw, eng },
        Curve::SquareRoot => Scaling::SquareRoot { raw, eng },
    };
    let [zero, full] = eng;
    let ends = if zero <= full {
        [zero, full]
    } else {
        [full, zero]
    };
    Some(ScaleForm {
        scaling,
        clamp: clamp.then_some(ends),
    })
}

fn bits(table: &Table, values: &mut Values<'_, '_>) -> Option<ScaleForm> {
    let mask = |values: &mut Values<'_, '_>, key: &'static str, node| {
        values
            .integer(key, node, 0..=i64::from(u32::MAX))
            .map(|mask| mask as u32)
    };
    let select = match table.node("select") {
        Some(node) => Some(mask(values, "select", node)?),
        None => None,
    };
    let invert = match table.node("invert") {
        None => 0,
        Some(node) => match values.filled(node)? {
            Filled::Bool(true) if select.is_some() => {
                return refuse(
                    table,
                    "with select, invert must be a mask such as 0xFF",
                    values,
                );
            }
            Filled::Bool(true) => {
                return Some(ScaleForm {
                    scaling: Scaling::Invert,
                    clamp: None,
                });
            }
            Filled::Bool(false) => 0,
            Filled::Integer(_) => mask(values, "invert", node)?,
            _ => return values.wrong_form("invert", node, "true, or a mask such as 0xFF"),
        },
    };
    let scaling = Scaling::BitField {
        invert,
        select: select.unwrap_or(u32::MAX),
    };
    Some(ScaleForm {
        scaling,
        clamp: None,
    })
}
