//! Defines the data types of variables.

use std::fmt;
use std::sync::Arc;

use crate::text::{escape, is_unprintable};

mod check;
#[cfg(test)]
mod tests;

pub use check::TypeError;

/// Maximum nesting depth of structs.
pub const STRUCT_DEPTH_MAX: usize = 8;
/// Maximum number of fields in one struct.
pub const STRUCT_FIELDS_MAX: usize = 1024;
/// Maximum number of labels of one enum.
pub const ENUM_LABELS_MAX: usize = 65_536;
/// Maximum number of dimensions of an array.
pub const ARRAY_RANK_MAX: usize = 8;
/// Maximum length of the label of an enum or the name of a struct's field, in bytes.
pub const LABEL_BYTES_MAX: usize = 1024;

/// The type of a variable's value. It is fixed when the variable is deployed.
///
/// Cloning is cheap, because clones share the parts of variable size.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum DataType {
    Bool,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    /// 32-bit unsigned integer; also the type of bit fields.
    U32,
    U64,
    /// 32-bit IEEE 754 number.
    F32,
    /// 64-bit IEEE 754 number.
    F64,
    String,
    /// Bytes that the engine does not interpret.
    Bytes,
    /// A point in time, UTC nanoseconds.
    Timestamp,
    /// A label from a list.
    Enum(Arc<EnumType>),
    /// An n-dimensional array of scalars, row-major.
    Array(Arc<ArrayType>),
    /// Named fields of any type; LabVIEW calls this a cluster.
    Struct(Arc<StructType>),
    /// Equally spaced samples with start time, interval and attributes.
    Waveform(ElementType),
}

/// The types of the elements of arrays and waveforms.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ElementType {
    /// True or false, one byte each.
    Bool,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    /// 32-bit IEEE 754 number.
    F32,
    /// 64-bit IEEE 754 number.
    F64,
    String,
    /// A point in time, UTC nanoseconds.
    Timestamp,
}

/// The labels of an enum. A value is the index of one of them.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct EnumType {
    /// The labels in the order of their numbers: at least one, all different.
    pub labels: Vec<Arc<str>>,
}

/// The element type and shape of an array.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ArrayType {
    pub element: ElementType,
    /// Length of each dimension, outermost first; `None` for a dimension of any length. One to
    /// [`ARRAY_RANK_MAX`] dimensions.
    pub shape: Vec<Option<u32>>,
}

/// The fields of a struct, in order.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct StructType {
    /// Name and type of each field; the names are all different and not empty.
    pub fields: Vec<(Arc<str>, DataType)>,
}

impl DataType {
    /// Returns true for integer and floating-point types.
    pub fn is_numeric(&self) -> bool {
        use DataType::{F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
        matches!(
            self,
            I8 | I16 | I32 | I64 | U8 | U16 | U32 | U64 | F32 | F64
        )
    }

    /// Returns true for `f32` and `f64`, the types to which deadbands apply.
    pub fn is_float(&self) -> bool {
        matches!(self, DataType::F32 | DataType::F64)
    }

    /// Returns the size in bytes that every value of this type has in wire form; `None` if sizes
    /// differ.
    pub fn fixed_size(&self) -> Option<usize> {
        match self {
            DataType::Enum(_) => Some(4),
            other => ElementType::of(other)?.fixed_size(),
        }
    }
}

impl ElementType {
    /// Returns the size in bytes of one element in wire form; `None` for strings.
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
}

/// Calls a macro with every scalar type, and the Rust type and default of its values.
macro_rules! scalars {
    ($then:ident) => {
        $then! {
            Bool: bool = false;
            I8: i8 = 0;
            I16: i16 = 0;
            I32: i32 = 0;
            I64: i64 = 0;
            U8: u8 = 0;
            U16: u16 = 0;
            U32: u32 = 0;
            U64: u64 = 0;
            F32: f32 = 0.0;
            F64: f64 = 0.0;
            String: Arc<str> = "".into();
            Timestamp: Timestamp = Timestamp::UNIX_EPOCH;
        }
    };
}
pub(crate) use scalars;

macro_rules! conversions {
    ($($scalar:ident: $ty:ty = $default:expr;)+) => {
        impl ElementType {
            /// Returns the element type of this scalar type; `None` for bytes, enums and composite
            /// types.
            pub fn of(data_type: &DataType) -> Option<Self> {
                match data_type {
                    $(DataType::$scalar => Some(ElementType::$scalar),)+
                    DataType::Bytes
                    | DataType::Enum(_)
                    | DataType::Array(_)
                    | DataType::Struct(_)
                    | DataType::Waveform(_) => None,
                }
            }

            /// Returns the scalar data type with the same values.
            pub fn data_type(self) -> DataType {
                match self {
                    $(ElementType::$scalar => DataType::$scalar,)+
                }
            }
        }
    };
}
scalars!(conversions);

/// Writes the form used in configuration files and by the command line: `f64`, `enum(OFF, AUTO)`,
/// `array(f64, 3, *)`, `struct(x: f64, ok: bool)`, `waveform(i16)`. Labels and field names that
/// contain punctuation are written in JSON quotes. [`text::parse_type`](crate::text::parse_type) is
/// the inverse.
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

/// Writes a label or field name, in quotes if the bare form could not be parsed back.
fn write_label(f: &mut fmt::Formatter<'_>, label: &str) -> fmt::Result {
    let special = |c: char| is_unprintable(c) || matches!(c, '"' | '\\' | ',' | ':' | '(' | ')');
    if label.is_empty() || label.trim() != label || label.contains(special) {
        f.write_str(&escape(&serde_json::Value::from(label).to_string()))
    } else {
        f.write_str(label)
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.data_type(), f)
    }
}
