//! Reads `fifo = { kind = "multi", capacity = 100, length = 8 }`.
//!
//! A FIFO is allocated once, when the engine starts. If the values of a type can differ in size, the
//! FIFO therefore needs `length`, or the type cannot have a FIFO (SP-08, SP-09, SP-22).

use trunkline_types::fifo::{self, ELEMENT_WORDS_MAX, FifoElement};
use trunkline_types::{DataType, Fifo, Properties};

use crate::error::ConfigErrorKind as Kind;
use crate::fields::Values;
use crate::keys::Section;
use crate::node::{Node, NodeKind};
use crate::sections::check_keys;

const CAPACITY_MAX: i64 = 1_000_000;

/// A FIFO as written in a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FifoForm {
    /// Number of values in the FIFO; `None` for a FIFO of a single element.
    pub capacity: Option<u32>,
    /// Number of array elements or waveform samples in each value; `None` if the key is absent.
    pub length: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FifoKind {
    Off,
    Single,
    Multi,
}

const KINDS: &[(&str, FifoKind)] = &[
    ("single", FifoKind::Single),
    ("multi", FifoKind::Multi),
    ("off", FifoKind::Off),
];

/// Reads `"off"` or the table of `fifo`.
pub(crate) fn read(values: &mut Values<'_, '_>, node: &Node) -> Option<Option<FifoForm>> {
    let table = match &node.kind {
        NodeKind::Text(text) if text == "off" => return Some(None),
        NodeKind::Table(table) => table,
        _ => return values.wrong_form("fifo", node, "a table or \"off\""),
    };
    check_keys(table, Section::Fifo, values.report);
    let missing = |key, values: &mut Values<'_, '_>| {
        let section = Section::Fifo.header();
        values
            .report
            .error(table.place, Kind::KeyMissing { section, key });
    };
    let Some(kind) = table.node("kind") else {
        missing("kind", values);
        return None;
    };
    let kind = values.choice("kind", kind, KINDS)?;
    let mut number = |key: &str, max| match table.node(key) {
        Some(node) => values
            .integer(key, node, 1..=max)
            .map(|number| Some(number as u32)),
        None => Some(None),
    };
    let (capacity, length) = (
        number("capacity", CAPACITY_MAX)?,
        number("length", ELEMENT_WORDS_MAX as i64)?,
    );
    match (kind, capacity) {
        (FifoKind::Off, _) => Some(None),
        (FifoKind::Single, None) => Some(Some(FifoForm {
            capacity: None,
            length,
        })),
        (FifoKind::Multi, Some(_)) => Some(Some(FifoForm { capacity, length })),
        (FifoKind::Multi, None) => {
            missing("capacity", values);
            None
        }
        (FifoKind::Single, Some(_)) => {
            let (key, owner) = ("capacity".to_owned(), "kind = \"multi\"");
            values
                .report
                .error(table.place, Kind::BelongsTo { key, owner });
            None
        }
    }
}

impl FifoForm {
    /// Returns the FIFO for a variable with these properties, or the reason why the variable cannot
    /// have one.
    pub fn fifo(self, properties: &Properties) -> Result<Fifo, Kind> {
        let with_length = |length| match self.capacity {
            None => Fifo::Single { length },
            Some(capacity) => Fifo::Multi { capacity, length },
        };
        let mut properties = properties.clone();
        let data_type = properties.data_type.to_string();
        // Any length will do for this check: whether a type can have a FIFO does not depend on it.
        properties.fifo = with_length(self.length.unwrap_or(1));
        if let Err(error) = FifoElement::of(&properties) {
            let reason = error.to_string();
            return Err(Kind::FifoRefused { reason });
        }
        let fixed = match &properties.data_type {
            DataType::Array(ty) => ty.shape.iter().copied().collect::<Option<Vec<u32>>>(),
            DataType::Waveform(_) => None,
            _ => Some(Vec::new()),
        };
        let fixed = fixed.map(|lengths| lengths.iter().product());
        let length = match (fixed, self.length) {
            (Some(fixed), Some(length)) if fixed != length => {
                return Err(Kind::FifoLengthFixed {
                    data_type,
                    fixed,
                    length,
                });
            }
            (Some(length), _) | (None, Some(length)) => length,
            (None, None) => {
                let is_array = matches!(properties.data_type, DataType::Array(_));
                return Err(Kind::FifoLengthMissing {
                    data_type,
                    elements: if is_array { "elements" } else { "samples" },
                });
            }
        };
        properties.fifo = with_length(length);
        match fifo::check(&properties) {
            Ok(()) => Ok(properties.fifo),
            Err(error) => Err(Kind::FifoTooLarge {
                reason: error.to_string(),
            }),
        }
    }
}
