//! Values in the type of their channel.

use crate::element::Extended;
use crate::text::Text;
use crate::time::TdmsTime;

/// Values of a channel, in its type.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Values {
    /// The values of a channel that never had a type.
    Void,
    /// Signed, 8 bits.
    I8(Vec<i8>),
    /// Signed, 16 bits.
    I16(Vec<i16>),
    /// Signed, 32 bits.
    I32(Vec<i32>),
    /// Signed, 64 bits.
    I64(Vec<i64>),
    /// Unsigned, 8 bits.
    U8(Vec<u8>),
    /// Unsigned, 16 bits.
    U16(Vec<u16>),
    /// Unsigned, 32 bits.
    U32(Vec<u32>),
    /// Unsigned, 64 bits.
    U64(Vec<u64>),
    /// 32-bit floats.
    F32(Vec<f32>),
    /// 64-bit floats.
    F64(Vec<f64>),
    /// Extended precision.
    Extended(Vec<Extended>),
    /// Text.
    String(Vec<Text>),
    /// Booleans.
    Bool(Vec<bool>),
    /// Points in time.
    Time(Vec<TdmsTime>),
    /// Real and imaginary parts, 32 bits each.
    ComplexF32(Vec<[f32; 2]>),
    /// Real and imaginary parts, 64 bits each.
    ComplexF64(Vec<[f64; 2]>),
}

/// Evaluates `$do` with `T` as the Rust type of a fixed-size type, or `$other`.
macro_rules! with_element {
    ($data_type:expr, $T:ident => $do:expr, $other:expr) => {
        match $data_type.without_unit() {
            $crate::TdmsType::I8 => {
                type $T = i8;
                $do
            }
            $crate::TdmsType::I16 => {
                type $T = i16;
                $do
            }
            $crate::TdmsType::I32 => {
                type $T = i32;
                $do
            }
            $crate::TdmsType::I64 => {
                type $T = i64;
                $do
            }
            $crate::TdmsType::U8 => {
                type $T = u8;
                $do
            }
            $crate::TdmsType::U16 => {
                type $T = u16;
                $do
            }
            $crate::TdmsType::U32 => {
                type $T = u32;
                $do
            }
            $crate::TdmsType::U64 => {
                type $T = u64;
                $do
            }
            $crate::TdmsType::F32 => {
                type $T = f32;
                $do
            }
            $crate::TdmsType::F64 => {
                type $T = f64;
                $do
            }
            $crate::TdmsType::Extended => {
                type $T = $crate::Extended;
                $do
            }
            $crate::TdmsType::Bool => {
                type $T = bool;
                $do
            }
            $crate::TdmsType::Time => {
                type $T = $crate::TdmsTime;
                $do
            }
            $crate::TdmsType::ComplexF32 => {
                type $T = [f32; 2];
                $do
            }
            $crate::TdmsType::ComplexF64 => {
                type $T = [f64; 2];
                $do
            }
            _ => $other,
        }
    };
}

pub(crate) use with_element;

impl Values {
    /// Returns the number of values.
    pub fn len(&self) -> usize {
        match self {
            Self::Void => 0,
            Self::I8(v) => v.len(),
            Self::I16(v) => v.len(),
            Self::I32(v) => v.len(),
            Self::I64(v) => v.len(),
            Self::U8(v) => v.len(),
            Self::U16(v) => v.len(),
            Self::U32(v) => v.len(),
            Self::U64(v) => v.len(),
            Self::F32(v) => v.len(),
            Self::F64(v) => v.len(),
            Self::Extended(v) => v.len(),
            Self::String(v) => v.len(),
            Self::Bool(v) => v.len(),
            Self::Time(v) => v.len(),
            Self::ComplexF32(v) => v.len(),
            Self::ComplexF64(v) => v.len(),
        }
    }

    /// Returns true if there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
