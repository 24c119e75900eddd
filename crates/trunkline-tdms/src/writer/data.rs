//! Values to be written to a file.

use crate::data_type::TdmsType;
use crate::element::Element;
use crate::text::Text;
use crate::time::TdmsTime;
use crate::values::Values;

/// Borrowed values of a channel, to be written.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub enum Data<'a> {
    /// Signed, 8 bits.
    I8(&'a [i8]),
    /// Signed, 16 bits.
    I16(&'a [i16]),
    /// Signed, 32 bits.
    I32(&'a [i32]),
    /// Signed, 64 bits.
    I64(&'a [i64]),
    /// Unsigned, 8 bits.
    U8(&'a [u8]),
    /// Unsigned, 16 bits.
    U16(&'a [u16]),
    /// Unsigned, 32 bits.
    U32(&'a [u32]),
    /// Unsigned, 64 bits.
    U64(&'a [u64]),
    /// 32-bit floats.
    F32(&'a [f32]),
    /// 64-bit floats.
    F64(&'a [f64]),
    /// Text.
    String(&'a [Text]),
    /// Booleans.
    Bool(&'a [bool]),
    /// Points in time.
    Time(&'a [TdmsTime]),
    /// Real and imaginary parts, 32 bits each.
    ComplexF32(&'a [[f32; 2]]),
    /// Real and imaginary parts, 64 bits each.
    ComplexF64(&'a [[f64; 2]]),
}

/// Evaluates `$do` with `$v` as the slice of fixed-size values, or `$text` with `$s` as the
/// strings.
macro_rules! with_slice {
    ($data:expr, $v:ident => $do:expr, $s:ident => $text:expr) => {
        match $data {
            Data::I8($v) => $do,
            Data::I16($v) => $do,
            Data::I32($v) => $do,
            Data::I64($v) => $do,
            Data::U8($v) => $do,
            Data::U16($v) => $do,
            Data::U32($v) => $do,
            Data::U64($v) => $do,
            Data::F32($v) => $do,
            Data::F64($v) => $do,
            Data::Bool($v) => $do,
            Data::Time($v) => $do,
            Data::ComplexF32($v) => $do,
            Data::ComplexF64($v) => $do,
            Data::String($s) => $text,
        }
    };
}

impl Data<'_> {
    /// Returns the type used for writing.
    pub fn data_type(&self) -> TdmsType {
        fn of<T: Element>(_: &[T]) -> TdmsType {
            T::TYPE
        }
        with_slice!(self, v => of(v), _s => TdmsType::String)
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        with_slice!(self, v => v.len(), s => s.len())
    }

    /// Returns true if there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes of the values in a chunk, including the table of string ends.
    pub fn byte_len(&self) -> u64 {
        let text = |s: &[Text]| s.iter().map(|t| t.as_bytes().len() as u64 + 4).sum();
        with_slice!(self, v => size_in_file(v), s => text(s))
    }

    /// Appends all values one after the other.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        with_slice!(self, v => Element::encode_all(v, out), s => encode_text(s, out));
    }

    /// Appends one value; does nothing for strings.
    pub(super) fn encode_one(&self, at: usize, out: &mut Vec<u8>) {
        with_slice!(
            self,
            v => if let Some(v) = v.get(at) { v.encode(out) },
            _s => ()
        );
    }
}

fn size_in_file<T: Element>(values: &[T]) -> u64 {
    values.len() as u64 * T::SIZE as u64
}

fn encode_text(strings: &[Text], out: &mut Vec<u8>) {
    let mut end = 0_u32;
    for string in strings {
        // The writer has refused text of 4 GiB and more.
        end = end.wrapping_add(string.as_bytes().len() as u32);
        end.encode(out);
    }
    for string in strings {
        out.extend(string.as_bytes());
    }
}

macro_rules! from {
    ($($ty:ty => $variant:ident),* $(,)?) => {$(
        impl<'a> From<&'a [$ty]> for Data<'a> {
            fn from(values: &'a [$ty]) -> Self {
                Self::$variant(values)
            }
        }

        impl<'a, const N: usize> From<&'a [$ty; N]> for Data<'a> {
            fn from(values: &'a [$ty; N]) -> Self {
                Self::$variant(values)
            }
        }
    )*};
}

from! {
    i8 => I8, i16 => I16, i32 => I32, i64 => I64, u8 => U8, u16 => U16, u32 => U32, u64 => U64,
    f32 => F32, f64 => F64, Text => String, bool => Bool, TdmsTime => Time,
    [f32; 2] => ComplexF32, [f64; 2] => ComplexF64,
}

impl Values {
    /// Returns the same values for the writer; `None` if their type is never written.
    pub fn as_data(&self) -> Option<Data<'_>> {
        Some(match self {
            Self::Void | Self::Extended(_) => return None,
            Self::I8(v) => Data::I8(v),
            Self::I16(v) => Data::I16(v),
            Self::I32(v) => Data::I32(v),
            Self::I64(v) => Data::I64(v),
            Self::U8(v) => Data::U8(v),
            Self::U16(v) => Data::U16(v),
            Self::U32(v) => Data::U32(v),
            Self::U64(v) => Data::U64(v),
            Self::F32(v) => Data::F32(v),
            Self::F64(v) => Data::F64(v),
            Self::String(v) => Data::String(v),
            Self::Bool(v) => Data::Bool(v),
            Self::Time(v) => Data::Time(v),
            Self::ComplexF32(v) => Data::ComplexF32(v),
            Self::ComplexF64(v) => Data::ComplexF64(v),
        })
    }
}
