//! Converts fixed-size values between their bytes in a file and Rust types.

use crate::data_type::TdmsType;
use crate::time::TdmsTime;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ByteOrder {
    /// The least significant byte comes first.
    Little,
    /// The most significant byte comes first.
    Big,
}

/// An x87 extended-precision number, with the bytes in little-endian order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Extended(pub [u8; 10]);

impl Extended {
    /// Returns the nearest 64-bit float.
    pub fn to_f64(self) -> f64 {
        let b = self.0;
        let mantissa = u64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]);
        let sign_and_exponent = u16::from_le_bytes([b[8], b[9]]);
        let exponent = i32::from(sign_and_exponent & 0x7fff);
        let magnitude = match (exponent, mantissa << 1) {
            (0x7fff, 0) => f64::INFINITY,
            (0x7fff, _) => f64::NAN,
            // Two steps are needed, because 2^exponent alone may exceed the range of `f64`.
            _ => {
                let exponent = exponent - 16_383 - 63;
                let half_exponent = exponent / 2;
                mantissa as f64 * 2_f64.powi(half_exponent) * 2_f64.powi(exponent - half_exponent)
            }
        };
        if sign_and_exponent & 0x8000 == 0 {
            magnitude
        } else {
            -magnitude
        }
    }
}

/// A Rust type of values that can be read from a file and written to it.
pub trait Element: Copy + Default + sealed::Sealed {
    /// The file type with which values of this Rust type are written.
    const TYPE: TdmsType;
    /// Size in bytes of one value in a file.
    const SIZE: usize;

    /// Decodes a value from exactly [`Element::SIZE`] bytes.
    #[doc(hidden)]
    fn decode(bytes: &[u8], order: ByteOrder) -> Self;

    /// Appends the bytes of a value in little-endian order.
    #[doc(hidden)]
    fn encode(self, out: &mut Vec<u8>);

    /// Returns the memory of values that have the same layout in memory as in a little-endian file.
    /// Returns `None` for other types and on big-endian machines.
    #[doc(hidden)]
    fn as_bytes(values: &[Self]) -> Option<&[u8]> {
        let _ = values;
        None
    }

    /// Returns the same memory as [`as_bytes`](Self::as_bytes), for writing.
    #[doc(hidden)]
    fn as_bytes_mut(values: &mut [Self]) -> Option<&mut [u8]> {
        let _ = values;
        None
    }

    /// Appends the bytes of several values in little-endian order.
    #[doc(hidden)]
    fn encode_all(values: &[Self], out: &mut Vec<u8>) {
        match Self::as_bytes(values) {
            Some(bytes) => out.extend_from_slice(bytes),
            None => values.iter().for_each(|value| value.encode(out)),
        }
    }

    /// Returns one bit of an integer as 0 or 1. Returns values of other types unchanged.
    #[doc(hidden)]
    #[must_use]
    fn bit(self, shift: u32) -> Self {
        let _ = shift;
        self
    }

    /// Returns the value as a 64-bit float; `None` for times and complex numbers.
    #[doc(hidden)]
    fn to_f64(self) -> Option<f64> {
        None
    }
}

mod sealed {
    pub trait Sealed {}
}

/// Converts `bytes`, of length `N`, to an array in little-endian order.
fn little<const N: usize>(bytes: &[u8], order: ByteOrder) -> [u8; N] {
    let mut out = <[u8; N]>::try_from(bytes).unwrap_or([0; N]);
    if order == ByteOrder::Big {
        out.reverse();
    }
    out
}

/// Implements `as_bytes` and `as_bytes_mut`. The macro is only for types for which every bit
/// pattern is a valid value. On little-endian machines, these types have the same layout in memory
/// as in a file.
macro_rules! impl_byte_views {
    () => {
        fn as_bytes(values: &[Self]) -> Option<&[u8]> {
            cfg!(target_endian = "little").then(|| bytemuck::cast_slice(values))
        }

        fn as_bytes_mut(values: &mut [Self]) -> Option<&mut [u8]> {
            match cfg!(target_endian = "little") {
                true => Some(bytemuck::cast_slice_mut(values)),
                false => None,
            }
        }
    };
}

macro_rules! number {
    ($($ty:ty, $code:ident, |$value:ident, $shift:ident| $bit:expr;)*) => {$(
        impl sealed::Sealed for $ty {}
        impl Element for $ty {
            const TYPE: TdmsType = TdmsType::$code;
            const SIZE: usize = size_of::<$ty>();

            fn decode(bytes: &[u8], order: ByteOrder) -> Self {
                Self::from_le_bytes(little(bytes, order))
            }

            fn encode(self, out: &mut Vec<u8>) {
                out.extend(self.to_le_bytes());
            }

            impl_byte_views!();

            fn bit(self, $shift: u32) -> Self {
                let $value = self;
                $bit
            }

            fn to_f64(self) -> Option<f64> {
                Some(self as f64)
            }
        }
    )*};
}

number! {
    i8, I8, |v, s| v.checked_shr(s).unwrap_or(0) & 1;
    i16, I16, |v, s| v.checked_shr(s).unwrap_or(0) & 1;
    i32, I32, |v, s| v.checked_shr(s).unwrap_or(0) & 1;
    i64, I64, |v, s| v.checked_shr(s).unwrap_or(0) & 1;
    u8, U8, |v, s| v.checked_shr(s).unwrap_or(0) & 1;
    u16, U16, |v, s| v.checked_shr(s).unwrap_or(0) & 1;
    u32, U32, |v, s| v.checked_shr(s).unwrap_or(0) & 1;
    u64, U64, |v, s| v.checked_shr(s).unwrap_or(0) & 1;
    f32, F32, |v, _s| v;
    f64, F64, |v, _s| v;
}

impl sealed::Sealed for bool {}
impl Element for bool {
    const TYPE: TdmsType = TdmsType::Bool;
    const SIZE: usize = 1;

    fn decode(bytes: &[u8], _: ByteOrder) -> Self {
        bytes.first().is_some_and(|byte| *byte != 0)
    }

    fn encode(self, out: &mut Vec<u8>) {
        out.push(u8::from(self));
    }

    fn to_f64(self) -> Option<f64> {
        Some(f64::from(u8::from(self)))
    }
}

impl sealed::Sealed for TdmsTime {}
impl Element for TdmsTime {
    const TYPE: TdmsType = TdmsType::Time;
    const SIZE: usize = 16;

    fn decode(bytes: &[u8], order: ByteOrder) -> Self {
        let number = u128::from_le_bytes(little(bytes, order));
        Self {
            seconds: (number >> 64) as i64,
            fraction: number as u64,
        }
    }

    fn encode(self, out: &mut Vec<u8>) {
        out.extend(self.fraction.to_le_bytes());
        out.extend(self.seconds.to_le_bytes());
    }
}

impl sealed::Sealed for Extended {}
impl Element for Extended {
    const TYPE: TdmsType = TdmsType::Extended;
    const SIZE: usize = 10;

    fn decode(bytes: &[u8], order: ByteOrder) -> Self {
        Self(little(bytes, order))
    }

    fn encode(self, out: &mut Vec<u8>) {
        out.extend(self.0);
    }

    fn to_f64(self) -> Option<f64> {
        Some(Extended::to_f64(self))
    }
}

macro_rules! complex {
    ($($part:ty, $code:ident;)*) => {$(
        impl sealed::Sealed for [$part; 2] {}
        impl Element for [$part; 2] {
            const TYPE: TdmsType = TdmsType::$code;
            const SIZE: usize = 2 * size_of::<$part>();

            fn decode(bytes: &[u8], order: ByteOrder) -> Self {
                let (real, imaginary) = bytes.split_at(bytes.len().min(size_of::<$part>()));
                [<$part>::decode(real, order), <$part>::decode(imaginary, order)]
            }

            fn encode(self, out: &mut Vec<u8>) {
                self[0].encode(out);
                self[1].encode(out);
            }

            impl_byte_views!();
        }
    )*};
}

complex! {
    f32, ComplexF32;
    f64, ComplexF64;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extended_precision_becomes_the_nearest_double() {
        let one = Extended([0, 0, 0, 0, 0, 0, 0, 0x80, 0xff, 0x3f]);
        assert_eq!(one.to_f64(), 1.0);
        let minus_two_and_a_half = Extended([0, 0, 0, 0, 0, 0, 0, 0xa0, 0x00, 0xc0]);
        assert_eq!(minus_two_and_a_half.to_f64(), -2.5);
        let infinite = Extended([0, 0, 0, 0, 0, 0, 0, 0x80, 0xff, 0x7f]);
        assert_eq!(infinite.to_f64(), f64::INFINITY);
        let nan = Extended([1, 0, 0, 0, 0, 0, 0, 0xc0, 0xff, 0x7f]);
        assert!(nan.to_f64().is_nan());
        let smallest = Extended([1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(smallest.to_f64(), 0.0);
        let max = Extended([0, 0xf8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe, 0x43]);
        assert_eq!(max.to_f64(), f64::MAX);
        let tiny = Extended([0, 0, 0, 0, 0, 0, 0, 0x80, 0x01, 0x3c]);
        assert_eq!(tiny.to_f64(), f64::MIN_POSITIVE);
    }

    #[test]
    fn both_byte_orders_give_the_same_value() {
        let bytes = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
        let mut reversed = bytes;
        reversed.reverse();
        let little = TdmsTime::decode(&bytes, ByteOrder::Little);
        assert_eq!(little, TdmsTime::decode(&reversed, ByteOrder::Big));
        let mut out = Vec::new();
        little.encode(&mut out);
        assert_eq!(out, bytes);
        // The order of the two parts of a complex number is the same in both byte orders.
        let big = <[f32; 2]>::decode(&[0x3f, 0x80, 0, 0, 0x40, 0, 0, 0], ByteOrder::Big);
        assert_eq!(big, [1.0, 2.0]);
    }
}
