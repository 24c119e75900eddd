//! Defines properties: named values of the file, a group or a channel.

use indexmap::IndexMap;
use trunkline_types::Timestamp;

use crate::data_type::TdmsType;
use crate::element::{Element, Extended};
use crate::text::Text;
use crate::time::TdmsTime;
use crate::values::match_fixed;

/// The properties of an object, in the order in which they were first written. A property that was
/// written several times has the last value.
pub type Properties = IndexMap<Text, PropertyValue>;

#[derive(Clone, PartialEq, Debug)]
pub enum PropertyValue {
    Void,
    I8(i8),
    I16(i16),
    I32(i32),
    I64(i64),
    U8(u8),
    U16(u16),
    U32(u32),
    U64(u64),
    F32(f32),
    F64(f64),
    /// An extended-precision number, which is read but never written.
    Extended(Extended),
    String(Text),
    Bool(bool),
    Time(TdmsTime),
    /// A real and an imaginary part, with 32 bits each.
    ComplexF32([f32; 2]),
    /// A real and an imaginary part, with 64 bits each.
    ComplexF64([f64; 2]),
}

impl PropertyValue {
    /// Returns the type with which the value is written. A float that had a unit in the file is
    /// written without the unit.
    pub fn data_type(&self) -> TdmsType {
        fn of<T: Element>(_: &T) -> TdmsType {
            T::TYPE
        }
        match_fixed! {
            self, Self, v => of(v),
            Self::Void => TdmsType::Void,
            Self::Extended(_) => TdmsType::Extended,
            Self::String(_) => TdmsType::String,
        }
    }

    /// Returns the value as a float, if it is a number.
    pub fn as_f64(&self) -> Option<f64> {
        match *self {
            Self::I8(v) => v.to_f64(),
            Self::I16(v) => v.to_f64(),
            Self::I32(v) => v.to_f64(),
            Self::I64(v) => v.to_f64(),
            Self::U8(v) => v.to_f64(),
            Self::U16(v) => v.to_f64(),
            Self::U32(v) => v.to_f64(),
            Self::U64(v) => v.to_f64(),
            Self::F32(v) => v.to_f64(),
            Self::F64(v) => Some(v),
            Self::Extended(v) => Some(v.to_f64()),
            _ => None,
        }
    }

    /// Returns the value as an unsigned integer, if it is a non-negative integer.
    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            Self::I8(v) => v.try_into().ok(),
            Self::I16(v) => v.try_into().ok(),
            Self::I32(v) => v.try_into().ok(),
            Self::I64(v) => v.try_into().ok(),
            Self::U8(v) => Some(v.into()),
            Self::U16(v) => Some(v.into()),
            Self::U32(v) => Some(v.into()),
            Self::U64(v) => Some(v),
            _ => None,
        }
    }

    pub fn as_text(&self) -> Option<&Text> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    pub fn as_time(&self) -> Option<TdmsTime> {
        match self {
            Self::Time(time) => Some(*time),
            _ => None,
        }
    }

    /// Appends the value in the file format, in little-endian order.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match_fixed! {
            self, Self, v => v.encode(out),
            Self::Void => {}
            Self::Extended(v) => v.encode(out),
            Self::String(text) => {
                out.extend((text.as_bytes().len() as u32).to_le_bytes());
                out.extend(text.as_bytes());
            }
        }
    }
}

macro_rules! from {
    ($($ty:ty => $variant:ident),* $(,)?) => {$(
        impl From<$ty> for PropertyValue {
            fn from(value: $ty) -> Self {
                Self::$variant(value.into())
            }
        }
    )*};
}

from! {
    i8 => I8, i16 => I16, i32 => I32, i64 => I64, u8 => U8, u16 => U16, u32 => U32, u64 => U64,
    f32 => F32, f64 => F64, bool => Bool, &str => String, String => String, Text => String,
    Extended => Extended, TdmsTime => Time, Timestamp => Time, [f32; 2] => ComplexF32, [f64; 2] => ComplexF64,
}
