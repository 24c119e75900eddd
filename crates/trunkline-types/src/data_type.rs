//! The types a variable can have.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use crate::wire::VALUE_BYTES_MAX;

/// Deepest nesting of structs.
pub const STRUCT_DEPTH_MAX: usize = 8;
/// Most fields in one struct.
pub const STRUCT_FIELDS_MAX: usize = 1024;
/// Most labels of one enum.
pub const ENUM_LABELS_MAX: usize = 65_536;
/// Most dimensions of an array.
pub const ARRAY_RANK_MAX: usize = 8;
/// Longest label of an enum and longest field name of a struct, in bytes.
pub const LABEL_BYTES_MAX: usize = 1024;

/// The type of a variable's value. Fixed when the variable is deployed.
///
/// Cloning is cheap: the variable parts are shared.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum DataType {
    /// True or false.
    Bool,
    /// 8-bit signed integer.
    I8,
    /// 16-bit signed integer.
    I16,
    /// 32-bit signed integer.
    I32,
    /// 64-bit signed integer.
    I64,
    /// 8-bit unsigned integer.
    U8,
    /// 16-bit unsigned integer.
    U16,
    /// 32-bit unsigned integer; also the type of bit fields.
    U32,
    /// 64-bit unsigned integer.
    U64,
    /// 32-bit IEEE 754 number.
    F32,
    /// 64-bit IEEE 754 number.
    F64,
    /// UTF-8 text.
    String,
    /// Bytes without meaning to the engine.
    Bytes,
    /// A point in time, UTC nanoseconds.
    Timestamp,
    /// One of a list of labels.
    Enum(Arc<EnumType>),
    /// An n-dimensional array of scalars, row-major.
    Array(Arc<ArrayType>),
    /// Named fields of any type (a cluster).
    Struct(Arc<StructType>),
    /// Equally spaced samples with start time, interval and attributes.
    Waveform(ElementType),
}

/// The scalar types that arrays and waveforms are made of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ElementType {
    /// True or false, one byte each.
    Bool,
    /// 8-bit signed integer.
    I8,
    /// 16-bit signed integer.
    I16,
    /// 32-bit signed integer.
    I32,
    /// 64-bit signed integer.
    I64,
    /// 8-bit unsigned integer.
    U8,
    /// 16-bit unsigned integer.
    U16,
    /// 32-bit unsigned integer.
    U32,
    /// 64-bit unsigned integer.
    U64,
    /// 32-bit IEEE 754 number.
    F32,
    /// 64-bit IEEE 754 number.
    F64,
    /// UTF-8 text.
    String,
    /// A point in time, UTC nanoseconds.
    Timestamp,
}

/// An enum's labels; a value is the index of one of them.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct EnumType {
    /// The labels in order of their number, at least one, all different.
    pub labels: Vec<Arc<str>>,
}

/// An array's element type and shape.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ArrayType {
    /// What it holds.
    pub element: ElementType,
    /// Length of each dimension, outermost first; `None` where any length is allowed.
    /// One to [`ARRAY_RANK_MAX`] dimensions.
    pub shape: Vec<Option<u32>>,
}

/// A struct's fields in order.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct StructType {
    /// Name and type of each field; names are all different and not empty.
    pub fields: Vec<(Arc<str>, DataType)>,
}

/// No variable can have this type.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TypeError {
    /// An enum without labels.
    #[error("an enum needs at least one label")]
    NoLabels,
    /// More than [`ENUM_LABELS_MAX`].
    #[error("the enum has {count} labels; {ENUM_LABELS_MAX} is the limit")]
    TooManyLabels {
        /// How many there are.
        count: usize,
    },
    /// Two labels are equal.
    #[error("the label {label:?} appears twice in one enum")]
    DuplicateLabel {
        /// The label.
        label: Arc<str>,
    },
    /// A label or field name is longer than [`LABEL_BYTES_MAX`].
    #[error("a label or field name has {bytes} bytes; {LABEL_BYTES_MAX} is the limit")]
    LabelTooLong {
        /// Its length.
        bytes: usize,
    },
    /// No dimension, or more than [`ARRAY_RANK_MAX`].
    #[error("an array has 1 to {ARRAY_RANK_MAX} dimensions, not {rank}")]
    Rank {
        /// Number of dimensions.
        rank: usize,
    },
    /// A struct without fields.
    #[error("a struct needs at least one field")]
    NoFields,
    /// More than [`STRUCT_FIELDS_MAX`].
    #[error("the struct has {count} fields; {STRUCT_FIELDS_MAX} is the limit")]
    TooManyFields {
        /// How many there are.
        count: usize,
    },
    /// A field without a name.
    #[error("field {position} of a struct has no name")]
    UnnamedField {
        /// Its position, from 1.
        position: usize,
    },
    /// Two fields have one name.
    #[error("the field {name:?} appears twice in one struct")]
    DuplicateField {
        /// The name.
        name: Arc<str>,
    },
    /// More than [`STRUCT_DEPTH_MAX`] structs within each other.
    #[error("structs are nested more than {STRUCT_DEPTH_MAX} deep")]
    TooDeep,
    /// Fixed lengths that already exceed the largest value.
    #[error("its fixed lengths make values of {bytes} bytes; {VALUE_BYTES_MAX} is the limit")]
    TooLarge {
        /// Bytes of its smallest value in memory, saturated.
        bytes: u64,
    },
}

impl DataType {
    /// Checks that a variable can have this type: counts, names, nesting and fixed lengths are within
    /// their limits. The decoders and parsers of this crate return only types that pass.
    ///
    /// # Errors
    /// [`TypeError`] names the first rule that is broken.
    pub fn check(&self) -> Result<(), TypeError> {
        let bytes = self.check_within(0)?;
        if bytes > VALUE_BYTES_MAX as u64 {
            Err(TypeError::TooLarge { bytes })
        } else {
            Ok(())
        }
    }

    /// Checks everything but the total size, which it returns.
    fn check_within(&self, structs_around: usize) -> Result<u64, TypeError> {
        match self {
            DataType::Enum(ty) => ty.check().map(|()| 4),
            DataType::Array(ty) => {
                if ty.shape.is_empty() || ty.shape.len() > ARRAY_RANK_MAX {
                    return Err(TypeError::Rank {
                        rank: ty.shape.len(),
                    });
                }
                let element = ty.element.fixed_size().unwrap_or(size_of::<Arc<str>>());
                let lengths = ty.shape.iter().map(|length| u64::from(length.unwrap_or(0)));
                // A free dimension makes the smallest value empty, whatever the others say.
                Ok(if ty.shape.contains(&None) {
                    0
                } else {
                    lengths.fold(element as u64, u64::saturating_mul)
                })
            }
            DataType::Struct(ty) => {
                if structs_around >= STRUCT_DEPTH_MAX {
                    return Err(TypeError::TooDeep);
                }
                ty.check_names()?;
                ty.fields.iter().try_fold(0_u64, |sum, (_, field)| {
                    Ok(sum.saturating_add(field.check_within(structs_around + 1)?))
                })
            }
            scalar_or_waveform => Ok(scalar_or_waveform.fixed_size().unwrap_or(0) as u64),
        }
    }

    /// Whether it is an integer or floating-point type.
    pub fn is_numeric(&self) -> bool {
        use DataType::{F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
        matches!(
            self,
            I8 | I16 | I32 | I64 | U8 | U16 | U32 | U64 | F32 | F64
        )
    }

    /// Whether it is `f32` or `f64`, the types that deadbands apply to.
    pub fn is_float(&self) -> bool {
        matches!(self, DataType::F32 | DataType::F64)
    }

    /// The number of bytes of every value of this type in wire form, if it is the same for all.
    pub fn fixed_size(&self) -> Option<usize> {
        match self {
            DataType::Bool | DataType::I8 | DataType::U8 => Some(1),
            DataType::I16 | DataType::U16 => Some(2),
            DataType::I32 | DataType::U32 | DataType::F32 | DataType::Enum(_) => Some(4),
            DataType::I64 | DataType::U64 | DataType::F64 | DataType::Timestamp => Some(8),
            DataType::String | DataType::Bytes => None,
            DataType::Array(_) | DataType::Struct(_) | DataType::Waveform(_) => None,
        }
    }
}

impl EnumType {
    fn check(&self) -> Result<(), TypeError> {
        if self.labels.is_empty() {
            return Err(TypeError::NoLabels);
        }
        if self.labels.len() > ENUM_LABELS_MAX {
            return Err(TypeError::TooManyLabels {
                count: self.labels.len(),
            });
        }
        let mut seen = HashSet::with_capacity(self.labels.len());
        for label in &self.labels {
            check_length(label)?;
            if !seen.insert(label) {
                return Err(TypeError::DuplicateLabel {
                    label: Arc::clone(label),
                });
            }
        }
        Ok(())
    }
}

impl StructType {
    fn check_names(&self) -> Result<(), TypeError> {
        if self.fields.is_empty() {
            return Err(TypeError::NoFields);
        }
        if self.fields.len() > STRUCT_FIELDS_MAX {
            return Err(TypeError::TooManyFields {
                count: self.fields.len(),
            });
        }
        let mut seen = HashSet::with_capacity(self.fields.len());
        for (index, (name, _)) in self.fields.iter().enumerate() {
            check_length(name)?;
            if name.is_empty() {
                return Err(TypeError::UnnamedField {
                    position: index + 1,
                });
            }
            if !seen.insert(name) {
                return Err(TypeError::DuplicateField {
                    name: Arc::clone(name),
                });
            }
        }
        Ok(())
    }
}

fn check_length(name: &str) -> Result<(), TypeError> {
    if name.len() > LABEL_BYTES_MAX {
        return Err(TypeError::LabelTooLong { bytes: name.len() });
    }
    Ok(())
}

impl ElementType {
    /// Bytes of one element in wire form; `None` for strings.
    pub fn fixed_size(self) -> Option<usize> {
        match self {
            ElementType::Bool | ElementType::I8 | ElementType::U8 => Some(1),
            ElementType::I16 | ElementType::U16 => Some(2),
            ElementType::I32 | ElementType::U32 | ElementType::F32 => Some(4),
            ElementType::I64 | ElementType::U64 | ElementType::F64 | ElementType::Timestamp => {
                Some(8)
            }
            ElementType::String => None,
        }
    }

    /// The element type with the values of this scalar; `None` for bytes and everything composed.
    pub fn of(data_type: &DataType) -> Option<Self> {
        Some(match data_type {
            DataType::Bool => ElementType::Bool,
            DataType::I8 => ElementType::I8,
            DataType::I16 => ElementType::I16,
            DataType::I32 => ElementType::I32,
            DataType::I64 => ElementType::I64,
            DataType::U8 => ElementType::U8,
            DataType::U16 => ElementType::U16,
            DataType::U32 => ElementType::U32,
            DataType::U64 => ElementType::U64,
            DataType::F32 => ElementType::F32,
            DataType::F64 => ElementType::F64,
            DataType::String => ElementType::String,
            DataType::Timestamp => ElementType::Timestamp,
            DataType::Bytes
            | DataType::Enum(_)
            | DataType::Array(_)
            | DataType::Struct(_)
            | DataType::Waveform(_) => return None,
        })
    }

    /// The scalar data type with the same values.
    pub fn data_type(self) -> DataType {
        match self {
            ElementType::Bool => DataType::Bool,
            ElementType::I8 => DataType::I8,
            ElementType::I16 => DataType::I16,
            ElementType::I32 => DataType::I32,
            ElementType::I64 => DataType::I64,
            ElementType::U8 => DataType::U8,
            ElementType::U16 => DataType::U16,
            ElementType::U32 => DataType::U32,
            ElementType::U64 => DataType::U64,
            ElementType::F32 => DataType::F32,
            ElementType::F64 => DataType::F64,
            ElementType::String => DataType::String,
            ElementType::Timestamp => DataType::Timestamp,
        }
    }
}

/// The form used in configuration files and by the command line: `f64`, `enum(OFF, AUTO)`,
/// `array(f64, 3, *)`, `struct(x: f64, ok: bool)`, `waveform(i16)`; labels and field names that
/// contain punctuation stand in JSON quotes. Parsed back by
/// [`text::parse_type`](crate::text::parse_type).
impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DataType::Bool => f.write_str("bool"),
            DataType::I8 => f.write_str("i8"),
            DataType::I16 => f.write_str("i16"),
            DataType::I32 => f.write_str("i32"),
            DataType::I64 => f.write_str("i64"),
            DataType::U8 => f.write_str("u8"),
            DataType::U16 => f.write_str("u16"),
            DataType::U32 => f.write_str("u32"),
            DataType::U64 => f.write_str("u64"),
            DataType::F32 => f.write_str("f32"),
            DataType::F64 => f.write_str("f64"),
            DataType::String => f.write_str("string"),
            DataType::Bytes => f.write_str("bytes"),
            DataType::Timestamp => f.write_str("timestamp"),
            DataType::Enum(ty) => {
                f.write_str("enum(")?;
                for (index, label) in ty.labels.iter().enumerate() {
                    if index > 0 {
                        f.write_str(", ")?;
                    }
                    write_label(f, label)?;
                }
                f.write_str(")")
            }
            DataType::Array(ty) => {
                write!(f, "array({}", ty.element)?;
                for length in &ty.shape {
                    match length {
                        Some(length) => write!(f, ", {length}")?,
                        None => f.write_str(", *")?,
                    }
                }
                f.write_str(")")
            }
            DataType::Struct(ty) => {
                f.write_str("struct(")?;
                for (index, (name, field)) in ty.fields.iter().enumerate() {
                    if index > 0 {
                        f.write_str(", ")?;
                    }
                    write_label(f, name)?;
                    write!(f, ": {field}")?;
                }
                f.write_str(")")
            }
            DataType::Waveform(element) => write!(f, "waveform({element})"),
        }
    }
}

/// Writes a label or field name, in quotes where it would not be read back as it is.
fn write_label(f: &mut fmt::Formatter<'_>, label: &str) -> fmt::Result {
    let special = |c: char| c.is_control() || matches!(c, '"' | '\\' | ',' | ':' | '(' | ')');
    if label.is_empty() || label.trim() != label || label.contains(special) {
        write!(f, "{}", serde_json::Value::from(label))
    } else {
        f.write_str(label)
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.data_type(), f)
    }
}
