//! Stores values in the type of their channel.

use crate::data_type::TdmsType;
use crate::element::Extended;
use crate::text::Text;
use crate::time::TdmsTime;

#[derive(Clone, PartialEq, Debug)]
pub enum Values {
    /// No values, of a channel that never had a type.
    Void,
    I8(Vec<i8>),
    I16(Vec<i16>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    U8(Vec<u8>),
    U16(Vec<u16>),
    U32(Vec<u32>),
    U64(Vec<u64>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    Extended(Vec<Extended>),
    String(Vec<Text>),
    Bool(Vec<bool>),
    Time(Vec<TdmsTime>),
    /// Pairs of a real and an imaginary part, with 32 bits each.
    ComplexF32(Vec<[f32; 2]>),
    /// Pairs of a real and an imaginary part, with 64 bits each.
    ComplexF64(Vec<[f64; 2]>),
}

/// Evaluates `$do` with `T` as the Rust type of a fixed-size type. Evaluates `$other` for other
/// types.
macro_rules! with_element {
    ($data_type:expr, $T:ident => $do:expr, $other:expr) => {
        $crate::values::with_element!(
            @arms $data_type, $T, $do, $other;
            I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64, F32 f32, F64 f64,
            Extended $crate::element::Extended, Bool bool, Time $crate::time::TdmsTime, ComplexF32 [f32; 2],
            ComplexF64 [f64; 2]
        )
    };
    (
        @arms $data_type:expr, $T:ident, $do:expr, $other:expr;
        $($variant:ident $element:ty),*
    ) => {
        match $data_type.without_unit() {
            $($crate::data_type::TdmsType::$variant => {
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

/// Matches an enum with one variant per type. `$do` handles the values of writable types with a
/// fixed size, and `$other` contains the arms for the other types.
macro_rules! match_fixed {
    ($value:expr, $all:ident, $v:ident => $do:expr, $($other:tt)*) => {
        match $value {
            $all::I8($v) => $do,
            $all::I16($v) => $do,
            $all::I32($v) => $do,
            $all::I64($v) => $do,
            $all::U8($v) => $do,
            $all::U16($v) => $do,
            $all::U32($v) => $do,
            $all::U64($v) => $do,
            $all::F32($v) => $do,
            $all::F64($v) => $do,
            $all::Bool($v) => $do,
            $all::Time($v) => $do,
            $all::ComplexF32($v) => $do,
            $all::ComplexF64($v) => $do,
            $($other)*
        }
    };
}

pub(crate) use match_fixed;

/// Evaluates `$do` with `$v` as the vector of values. Evaluates `$void` if there is no type.
macro_rules! with_vec {
    ($values:expr, $v:ident => $do:expr, $void:expr) => {
        match_fixed! {
            $values, Values, $v => $do,
            Values::Extended($v) => $do,
            Values::String($v) => $do,
            Values::Void => $void,
        }
    };
}

impl Values {
    /// Creates an empty collection for this type; [`Values::Void`] if values of the type cannot be
    /// read.
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

    pub fn len(&self) -> usize {
        with_vec!(self, v => v.len(), 0)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes all values, and retains memory for at most `retained` values.
    pub fn clear(&mut self, retained: usize) {
        with_vec!(
            self,
            v => {
                v.clear();
                v.shrink_to(retained);
            },
            ()
        );
    }

    /// Moves all values of `other` to the end. Does nothing if `other` has a different type.
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
