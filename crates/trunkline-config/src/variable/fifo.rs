//! `fifo = { kind = "multi", capacity = 100, length = 8 }`: everything is sized at the start, so a
//! type whose values have no fixed size needs a length or cannot have a FIFO (SP-08, SP-09, SP-22).

use trunkline_types::{DataType, Fifo, StructType};

use crate::error::ConfigErrorKind as Kind;
use crate::fields::Values;
use crate::keys::Section;
use crate::node::{Node, Tree};
use crate::sections::check_keys;
use crate::shown::grouped;

/// Bytes that the values of one FIFO may take.
pub(crate) const FIFO_BYTES_MAX: u64 = 1 << 30;
const CAPACITY_MAX: i64 = 1_000_000;
const LENGTH_MAX: i64 = 16 << 20;

/// A FIFO as it is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FifoForm {
    /// `None` for a single element.
    pub capacity: Option<u32>,
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

/// What one value of a type takes in a FIFO.
enum Size {
    /// Always so many elements, together so many bytes.
    Fixed { length: u64, bytes: u64 },
    /// As many elements as `length` says, each of so many bytes.
    Declared {
        element_bytes: u64,
        elements: &'static str,
    },
}

/// Reads `"off"` or the table of `fifo`.
pub(crate) fn read(values: &mut Values<'_, '_>, node: &Node) -> Option<Option<FifoForm>> {
    let table = match &node.tree {
        Tree::Text(text) if text == "off" => return Some(None),
        Tree::Table(table) => table,
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
        number("length", LENGTH_MAX)?,
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
    /// The FIFO for values of this type, or why there cannot be one.
    pub fn for_type(self, data_type: &DataType) -> Result<Fifo, Kind> {
        let size = size_of_value(data_type).map_err(|reason| Kind::FifoRefused {
            data_type: data_type.to_string(),
            reason,
        })?;
        let (length, bytes) = match (size, self.length.map(u64::from)) {
            (Size::Fixed { length: fixed, .. }, Some(length)) if fixed != length => {
                let data_type = data_type.to_string();
                return Err(Kind::FifoLengthFixed {
                    data_type,
                    fixed,
                    length,
                });
            }
            (Size::Fixed { length, bytes }, _) => (length, bytes),
            (Size::Declared { element_bytes, .. }, Some(length)) => {
                (length, element_bytes * length)
            }
            (Size::Declared { elements, .. }, None) => {
                let data_type = data_type.to_string();
                return Err(Kind::FifoLengthMissing {
                    data_type,
                    elements,
                });
            }
        };
        let bytes = bytes.saturating_mul(u64::from(self.capacity.unwrap_or(1)));
        if bytes > FIFO_BYTES_MAX {
            let (bytes, max) = (grouped(bytes), grouped(FIFO_BYTES_MAX));
            return Err(Kind::FifoTooLarge { bytes, max });
        }
        // A length is that of a type within VALUE_BYTES_MAX, or was read as u32.
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        Ok(match self.capacity {
            None => Fifo::Single { length },
            Some(capacity) => Fifo::Multi { capacity, length },
        })
    }
}

fn size_of_value(data_type: &DataType) -> Result<Size, &'static str> {
    if let Some(bytes) = data_type.fixed_size() {
        return Ok(Size::Fixed {
            length: 1,
            bytes: bytes as u64,
        });
    }
    let no_texts = "the texts in it have no fixed length";
    match data_type {
        DataType::String | DataType::Bytes => Ok(Size::Declared {
            element_bytes: 1,
            elements: "bytes",
        }),
        DataType::Waveform(element) => {
            let element_bytes = element.fixed_size().ok_or(no_texts)? as u64;
            Ok(Size::Declared {
                element_bytes,
                elements: "samples",
            })
        }
        DataType::Array(ty) => {
            let element_bytes = ty.element.fixed_size().ok_or(no_texts)? as u64;
            let lengths: Option<Vec<u32>> = ty.shape.iter().copied().collect();
            Ok(match lengths {
                None => Size::Declared {
                    element_bytes,
                    elements: "elements",
                },
                Some(lengths) => {
                    let lengths = lengths.into_iter().map(u64::from);
                    let length = lengths.fold(1, u64::saturating_mul).max(1);
                    Size::Fixed {
                        length,
                        bytes: length.saturating_mul(element_bytes),
                    }
                }
            })
        }
        DataType::Struct(ty) => {
            let bytes = size_of_struct(ty)?;
            Ok(Size::Fixed { length: 1, bytes })
        }
        _ => Err("its values have no fixed size"),
    }
}

/// A struct fits when every field does by itself: no arrays (SP-09), nothing without a fixed size.
fn size_of_struct(ty: &StructType) -> Result<u64, &'static str> {
    ty.fields.iter().try_fold(0, |sum: u64, (_, field)| {
        let bytes = match field {
            DataType::Array(_) | DataType::Waveform(_) => {
                return Err("one of its fields is an array or waveform");
            }
            DataType::Struct(inner) => size_of_struct(inner)?,
            other => other
                .fixed_size()
                .ok_or("one of its fields has no fixed length")? as u64,
        };
        Ok(sum.saturating_add(bytes))
    })
}
