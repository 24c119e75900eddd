//! Values in the type of their channel.

use crate::data_type::TdmsType;
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
        $crate::values::with_element!(
            @arms $data_type, $T, $do, $other;
            I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64, F32 f32, F64 f64,
            Extended $crate::Extended, Bool bool, Time $crate::TdmsTime, ComplexF32 [f32; 2],
            ComplexF64 [f64; 2]
        )
    };
    (
        @arms $data_type:expr, $T:ident, $do:expr, $other:expr;
        $($variant:ident $element:ty),*
    ) => {
        match $data_type.without_unit() {
            $($crate::TdmsType::$variant => {
                type $T = $element;
                $do
            })*
            _ => $other,
        }
    };
}

pub(crate) use with_element;

macro_rules! from {
    ($($variant:ident $element:ty),*) => {$(
        impl From<Vec<$element>> for Values {
            fn from(values: Vec<$element>) -> Self {
                Self::$variant(values)
            }
        }
    )*};
}

from! {
    I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64, F32 f32, F64 f64,
    Extended Extended, String Text, Bool bool, Time TdmsTime, ComplexF32 [f32; 2],
    ComplexF64 [f64; 2]
}

/// Evaluates `$do` with `$v` as the vector of values, or `$void`.
macro_rules! with_vec {
    ($values:expr, $v:ident => $do:expr, $void:expr) => {
        match $values {
            Values::Void => $void,
            Values::I8($v) => $do,
            Values::I16($v) => $do,
            Values::I32($v) => $do,
            Values::I64($v) => $do,
            Values::U8($v) => $do,
            Values::U16($v) => $do,
            Values::U32($v) => $do,
            Values::U64($v) => $do,
            Values::F32($v) => $do,
            Values::F64($v) => $do,
            Values::Extended($v) => $do,
            Values::String($v) => $do,
            Values::Bool($v) => $do,
            Values::Time($v) => $do,
            Values::ComplexF32($v) => $do,
            Values::ComplexF64($v) => $do,
        }
    };
}

impl Values {
    /// Returns no values, of this type; [`Values::Void`] if values of it cannot be read.
    pub fn new(data_type: TdmsType) -> Self {
        with_element!(
            data_type,
            T => Self::from(Vec::<T>::new()),
            match data_type {
                TdmsType::String => Self::String(Vec::new()),
                _ => Self::Void,
            }
        )
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        with_vec!(self, v => v.len(), 0)
    }

    /// Returns true if there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes all values, and keeps memory for at most `kept` values.
    pub fn clear(&mut self, kept: usize) {
        with_vec!(
            self,
            v => {
                v.clear();
                v.shrink_to(kept);
            },
            ()
        );
    }

    /// Moves all values of `other` to the end. Does nothing if it has another type.
    pub fn append(&mut self, other: &mut Self) {
        macro_rules! append {
            ($both:expr; $($variant:ident)*) => {
                match $both {
                    $((Self::$variant(to), Self::$variant(from)) => to.append(from),)*
                    _ => {}
                }
            };
        }
        append!(
            (self, other);
            I8 I16 I32 I64 U8 U16 U32 U64 F32 F64 Extended String Bool Time ComplexF32 ComplexF64
        );
    }
}
