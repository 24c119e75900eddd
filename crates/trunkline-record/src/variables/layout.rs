//! Defines the channels that contain the values of each type.
//!
//! ```text
//!   scalar     value
//!   bytes      value (U8)     value.count
//!   array      value          value.count   value.dim_1 value.dim_2 ... with several dimensions
//!   waveform   value          value.count   value.t0   value.dt   value.attributes
//!   struct     value.field for each field, with the channels of the field's type
//! ```
//!
//! The channel `value.count` contains the number of elements of each update. All channels except
//! the channel of elements have exactly one value per update.

use trunkline_tdms::TdmsType;
use trunkline_types::{DataType, ElementType};

use super::VALUE;

/// Maximum number of channels for the values of a variable.
pub(super) const COLUMNS_MAX: usize = 16_384;

/// The channels of a variable and their meaning.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Layout {
    pub(super) columns: Vec<Column>,
    pub(super) value: Part,
}

/// A channel of a variable other than its times and qualities.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) data_type: TdmsType,
    /// Index of the column with the number of values per update; `None` if there is always one
    /// value.
    pub(super) count_column: Option<usize>,
}

/// The columns that contain a value or a part of a value.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Part {
    Scalar(usize),
    Bytes(ElementColumns),
    /// An array, with one column per dimension if it has several dimensions.
    Array(ElementColumns, Vec<usize>),
    Waveform {
        element_columns: ElementColumns,
        t0: usize,
        dt: usize,
        attributes: usize,
    },
    Struct(Vec<Part>),
}

/// Indexes of the column of elements and of the column with their number per update.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct ElementColumns {
    pub(super) elements: usize,
    pub(super) count: usize,
}

/// The reason why a type has no layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NoLayout {
    /// The type needs more than [`COLUMNS_MAX`] columns.
    TooManyColumns,
    UnknownType,
}

impl Layout {
    pub(super) fn of(data_type: &DataType) -> Result<Self, NoLayout> {
        let mut columns = Vec::new();
        let value = add_part(data_type, VALUE.to_owned(), &mut columns)?;
        Ok(Self { columns, value })
    }

    /// Returns the column whose values are in the variable's unit; `None` for a struct.
    pub(super) fn value_column(&self) -> Option<&Column> {
        let column = match &self.value {
            Part::Scalar(column) => *column,
            Part::Bytes(element_columns)
            | Part::Array(element_columns, _)
            | Part::Waveform {
                element_columns, ..
            } => element_columns.elements,
            Part::Struct(_) => return None,
        };
        self.columns.get(column)
    }
}

fn add_column(
    columns: &mut Vec<Column>,
    name: String,
    data_type: TdmsType,
    count_column: Option<usize>,
) -> Result<usize, NoLayout> {
    if columns.len() >= COLUMNS_MAX {
        return Err(NoLayout::TooManyColumns);
    }
    columns.push(Column {
        name,
        data_type,
        count_column,
    });
    Ok(columns.len() - 1)
}

fn add_element_columns(
    columns: &mut Vec<Column>,
    name: &str,
    data_type: TdmsType,
) -> Result<ElementColumns, NoLayout> {
    let count = columns.len() + 1;
    let elements = add_column(columns, name.to_owned(), data_type, Some(count))?;
    add_column(columns, format!("{name}.count"), TdmsType::U32, None)?;
    Ok(ElementColumns { elements, count })
}

fn add_part(
    data_type: &DataType,
    name: String,
    columns: &mut Vec<Column>,
) -> Result<Part, NoLayout> {
    Ok(match data_type {
        DataType::Bytes => Part::Bytes(add_element_columns(columns, &name, TdmsType::U8)?),
        DataType::Array(array) => {
            let element_columns =
                add_element_columns(columns, &name, element_type(array.element)?)?;
            let mut lengths = Vec::new();
            if array.shape.len() > 1 {
                for number in 1..=array.shape.len() {
                    let length = format!("{name}.dim_{number}");
                    lengths.push(add_column(columns, length, TdmsType::U32, None)?);
                }
            }
            Part::Array(element_columns, lengths)
        }
        DataType::Waveform(element) => Part::Waveform {
            element_columns: add_element_columns(columns, &name, element_type(*element)?)?,
            t0: add_column(columns, format!("{name}.t0"), TdmsType::Time, None)?,
            dt: add_column(columns, format!("{name}.dt"), TdmsType::F64, None)?,
            attributes: add_column(
                columns,
                format!("{name}.attributes"),
                TdmsType::String,
                None,
            )?,
        },
        DataType::Struct(fields) => {
            let fields = fields.fields.iter();
            let parts = fields.map(|(field, data_type)| {
                add_part(data_type, format!("{name}.{}", escaped(field)), columns)
            });
            Part::Struct(parts.collect::<Result<_, _>>()?)
        }
        DataType::Enum(_) => Part::Scalar(add_column(columns, name, TdmsType::U32, None)?),
        scalar => {
            let element = ElementType::of(scalar).ok_or(NoLayout::UnknownType)?;
            Part::Scalar(add_column(columns, name, element_type(element)?, None)?)
        }
    })
}

/// Escapes the name of a field for use in the name of a channel, so that dots in the name differ
/// from the dots between fields.
fn escaped(field: &str) -> String {
    field.replace('\\', "\\\\").replace('.', "\\.")
}

fn element_type(element: ElementType) -> Result<TdmsType, NoLayout> {
    Ok(match element {
        ElementType::Bool => TdmsType::Bool,
        ElementType::I8 => TdmsType::I8,
        ElementType::I16 => TdmsType::I16,
        ElementType::I32 => TdmsType::I32,
        ElementType::I64 => TdmsType::I64,
        ElementType::U8 => TdmsType::U8,
        ElementType::U16 => TdmsType::U16,
        ElementType::U32 => TdmsType::U32,
        ElementType::U64 => TdmsType::U64,
        ElementType::F32 => TdmsType::F32,
        ElementType::F64 => TdmsType::F64,
        ElementType::String => TdmsType::String,
        ElementType::Timestamp => TdmsType::Time,
    })
}

#[cfg(test)]
mod tests {
    use trunkline_types::text::parse_type;

    use super::*;

    fn names(text: &str) -> Vec<String> {
        let layout = Layout::of(&parse_type(text).unwrap()).unwrap();
        layout
            .columns
            .into_iter()
            .map(|column| column.name)
            .collect()
    }

    #[test]
    fn parts_have_channels_with_their_names() {
        assert_eq!(names("f64"), ["value"]);
        assert_eq!(names("array(f64, *)"), ["value", "value.count"]);
        assert_eq!(
            names("array(i8, 2, *)"),
            ["value", "value.count", "value.dim_1", "value.dim_2"]
        );
        assert_eq!(
            names("struct(at: struct(x: f64, y: bytes), ok: bool)"),
            ["value.at.x", "value.at.y", "value.at.y.count", "value.ok"]
        );
        let waveform = [
            "value",
            "value.count",
            "value.t0",
            "value.dt",
            "value.attributes",
        ];
        assert_eq!(names("waveform(i16)"), waveform);
    }

    #[test]
    fn field_names_with_dots_stay_distinct() {
        let names = names("struct(a: struct(b.c: f64, b: bool), a.b: bytes, a\\: struct(b: i8))");
        let mut different = names.clone();
        different.sort();
        different.dedup();
        assert_eq!(different.len(), names.len(), "{names:?}");
    }

    #[test]
    fn too_many_parts_are_refused() {
        let fields = (0..1024).map(|number| format!("f{number}: bytes"));
        let wide = format!("struct({})", fields.collect::<Vec<_>>().join(", "));
        let wider = (0..9).map(|number| format!("g{number}: {wide}"));
        let wider = format!("struct({})", wider.collect::<Vec<_>>().join(", "));
        assert_eq!(
            Layout::of(&parse_type(&wide).unwrap())
                .unwrap()
                .columns
                .len(),
            2048
        );
        let refused = Layout::of(&parse_type(&wider).unwrap());
        assert_eq!(refused, Err(NoLayout::TooManyColumns));
    }
}
