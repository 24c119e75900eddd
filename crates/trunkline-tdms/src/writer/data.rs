//! Encodes the values that are written to a file.

use crate::data_type::TdmsType;
use crate::element::Element;
use crate::text::Text;
use crate::time::TdmsTime;
use crate::values::{Values, match_fixed};

/// Borrowed values of a channel that are written to a file.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Data<'a> {
    I8(&'a [i8]),
    I16(&'a [i16]),
    I32(&'a [i32]),
    I64(&'a [i64]),
    U8(&'a [u8]),
    U16(&'a [u16]),
    U32(&'a [u32]),
    U64(&'a [u64]),
    F32(&'a [f32]),
    F64(&'a [f64]),
    String(&'a [Text]),
    Bool(&'a [bool]),
    Time(&'a [TdmsTime]),
    /// Pairs of a real and an imaginary part, with 32 bits each.
    ComplexF32(&'a [[f32; 2]]),
    /// Pairs of a real and an imaginary part, with 64 bits each.
    ComplexF64(&'a [[f64; 2]]),
}

impl Data<'_> {
    pub fn data_type(&self) -> TdmsType {
        fn of<T: Element>(_: &[T]) -> TdmsType {
            T::TYPE
        }
        match_fixed!(self, Data, v => of(v), Data::String(_) => TdmsType::String)
    }

    pub fn len(&self) -> usize {
        match_fixed!(self, Data, v => v.len(), Data::String(v) => v.len())
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of bytes of the values in a chunk, including the table of string ends.
    pub fn byte_len(&self) -> u64 {
        let text = |s: &[Text]| s.iter().map(|t| t.as_bytes().len() as u64 + 4).sum();
        match_fixed!(self, Data, v => size_in_file(v), Data::String(s) => text(s))
    }

    /// Appends all values one after the other.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        match_fixed!(self, Data, v => Element::encode_all(v, out), Data::String(s) => encode_text(s, out));
    }

    /// Appends one value; does nothing for strings.
    pub(super) fn encode_one(&self, at: usize, out: &mut Vec<u8>) {
        match_fixed!(
            self, Data,
            v => if let Some(v) = v.get(at) { v.encode(out) },
            Data::String(_) => {}
        );
    }
}

fn size_in_file<T: Element>(values: &[T]) -> u64 {
    values.len() as u64 * T::SIZE as u64
}

fn encode_text(strings: &[Text], out: &mut Vec<u8>) {
    let mut end = 0_u32;
    for string in strings {
        // The sum does not wrap, because the writer rejects text of 4 GiB and more.
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
    /// Returns the values as data for the writer; `None` if their type is never written.
    pub fn as_data(&self) -> Option<Data<'_>> {
        Some(match_fixed! {
            self, Values, v => Data::from(&**v),
            Values::String(v) => Data::String(v),
            Values::Void | Values::Extended(_) => return None,
        })
    }
}
