//! Converts between values of variables and types of the program.

use std::sync::Arc;

use trunkline_types::{Array, DataType, ElementType, Elements, Timestamp, Value, Waveform};

/// A type of the program that values can be converted to.
pub trait FromValue: Sized {
    /// The name of the type in error messages, such as `f64`.
    const NAME: &'static str;

    /// Returns true if values of this type can be read as `Self`.
    fn reads(data_type: &DataType) -> bool;

    /// Converts the value; `None` if the value has another type.
    fn from_value(value: &Value) -> Option<Self>;

    /// Converts a value of a matching type that is given in its encoded form, as a little-endian
    /// word. Returns `None` for types that are longer than a word, and for types whose values must
    /// be checked.
    #[inline]
    fn from_word(_word: u64) -> Option<Self> {
        None
    }
}

/// A type of the program that can be written. [`Typed`](crate::Typed) checks, when the variable is
/// opened, that the variable has this type for reads and writes.
pub trait IntoValue {
    /// Converts `self` into a value.
    fn into_value(self) -> Value;
}

/// The index of a label, as the value of an enum variable.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct EnumIndex(pub u32);

/// Implements both traits for types that correspond to a single variant of [`Value`].
macro_rules! scalars {
    ($($ty:ty => $variant:ident, $data_type:pat, $name:literal, $from:expr, $into:expr
        $(, $word:expr)?;)+) => {$(
        impl FromValue for $ty {
            const NAME: &'static str = $name;

            fn reads(data_type: &DataType) -> bool {
                matches!(data_type, $data_type)
            }

            fn from_value(value: &Value) -> Option<Self> {
                match value {
                    Value::$variant(value) => Some($from(value)),
                    _ => None,
                }
            }

            $(
                #[inline]
                fn from_word(word: u64) -> Option<Self> {
                    Some($word(word))
                }
            )?
        }

        impl IntoValue for $ty {
            #[inline]
            fn into_value(self) -> Value {
                Value::$variant($into(self))
            }
        }
    )+};
}

scalars! {
    bool => Bool, DataType::Bool, "bool", Clone::clone, |v| v, |word| word != 0;
    i8 => I8, DataType::I8, "i8", Clone::clone, |v| v;
    i16 => I16, DataType::I16, "i16", Clone::clone, |v| v;
    i32 => I32, DataType::I32, "i32", Clone::clone, |v| v, |word| word as i32;
    i64 => I64, DataType::I64, "i64", Clone::clone, |v| v, |word| word as i64;
    u8 => U8, DataType::U8, "u8", Clone::clone, |v| v;
    u16 => U16, DataType::U16, "u16", Clone::clone, |v| v;
    u32 => U32, DataType::U32, "u32", Clone::clone, |v| v;
    u64 => U64, DataType::U64, "u64", Clone::clone, |v| v;
    f32 => F32, DataType::F32, "f32", Clone::clone, |v| v, |word| f32::from_bits(word as u32);
    f64 => F64, DataType::F64, "f64", Clone::clone, |v| v, f64::from_bits;
    Timestamp => Timestamp, DataType::Timestamp, "timestamp", Clone::clone, |v| v;
    EnumIndex => Enum, DataType::Enum(_), "an enum", |v: &u32| EnumIndex(*v), |v: EnumIndex| v.0;
    String => String, DataType::String, "string", |v: &Arc<str>| v.as_ref().to_owned(), Arc::from;
    Arc<str> => String, DataType::String, "string", Clone::clone, |v| v;
    Arc<[u8]> => Bytes, DataType::Bytes, "bytes", Clone::clone, |v| v;
    Arc<Array> => Array, DataType::Array(_), "an array", Clone::clone, |v| v;
    Arc<Waveform> => Waveform, DataType::Waveform(_), "a waveform", Clone::clone, |v| v;
}

/// Implements both traits for one-dimensional arrays.
macro_rules! vectors {
    ($($element:ty => $variant:ident, $name:literal;)+) => {$(
        impl FromValue for Vec<$element> {
            const NAME: &'static str = $name;

            fn reads(data_type: &DataType) -> bool {
                is_vector(data_type, ElementType::$variant)
            }

            fn from_value(value: &Value) -> Option<Self> {
                match value {
                    Value::Array(array) => match array.elements() {
                        Elements::$variant(elements) => Some(elements.clone()),
                        _ => None,
                    },
                    _ => None,
                }
            }
        }

        impl IntoValue for Vec<$element> {
            fn into_value(self) -> Value {
                Value::Array(Arc::new(Array::vector(Elements::$variant(self))))
            }
        }
    )+};
}

vectors! {
    bool => Bool, "bool[]";
    i8 => I8, "i8[]";
    i16 => I16, "i16[]";
    i32 => I32, "i32[]";
    i64 => I64, "i64[]";
    u8 => U8, "u8[]";
    u16 => U16, "u16[]";
    u32 => U32, "u32[]";
    u64 => U64, "u64[]";
    f32 => F32, "f32[]";
    f64 => F64, "f64[]";
    Arc<str> => String, "string[]";
    Timestamp => Timestamp, "timestamp[]";
}

fn is_vector(data_type: &DataType, element: ElementType) -> bool {
    match data_type {
        DataType::Array(ty) => ty.element == element && ty.shape.len() == 1,
        _ => false,
    }
}

impl FromValue for Value {
    const NAME: &'static str = "any type";

    fn reads(_: &DataType) -> bool {
        true
    }

    fn from_value(value: &Value) -> Option<Self> {
        Some(value.clone())
    }
}

impl IntoValue for Value {
    fn into_value(self) -> Value {
        self
    }
}
