//! 64-bit numbers whose slices have the same memory layout as slices of words.

use crate::words::Word;

/// A [`Word`] of 64 bits that has the same bits as its word. A slice of such values has the same
/// memory layout as a slice of words, so a block of them is pushed to and popped from a FIFO
/// without conversion.
///
/// ```
/// use trunkline_ring::WholeWord;
///
/// assert_eq!(f64::as_words(&[1.0, -0.0]), [1.0_f64.to_bits(), 1 << 63]);
/// assert_eq!(i64::of_words(&[u64::MAX, 7]), [-1, 7]);
/// ```
pub trait WholeWord: Word + sealed::Sealed {
    #[must_use]
    fn as_words(values: &[Self]) -> &[u64];

    #[must_use]
    fn of_words(words: &[u64]) -> &[Self];
}

macro_rules! whole_words {
    ($($number:ty),*) => {$(
        impl sealed::Sealed for $number {}

        impl WholeWord for $number {
            #[inline]
            fn as_words(values: &[Self]) -> &[u64] {
                const { assert!(size_of::<$number>() == size_of::<u64>()) };
                const { assert!(align_of::<$number>() == align_of::<u64>()) };
                // SAFETY: both are 64 bits with the same alignment, every bit pattern is a valid
                // value, and the returned slice borrows the argument.
                unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), values.len()) }
            }

            #[inline]
            fn of_words(words: &[u64]) -> &[Self] {
                // SAFETY: as in `as_words`, in the other direction.
                unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), words.len()) }
            }
        }
    )*};
}

whole_words!(u64, i64, f64);

mod sealed {
    pub trait Sealed {}
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use crate::words::Words;

    #[test]
    fn slices_convert_to_the_words_of_their_values() {
        let values = [0.0, -1.5, f64::INFINITY, f64::MIN_POSITIVE];
        assert_eq!(f64::as_words(&values), values.to_words());
        assert_eq!(f64::of_words(&values.to_words()), values);
        assert_eq!(i64::as_words(&[-2, 3]), [-2_i64, 3].to_words());
        assert_eq!(u64::of_words(u64::as_words(&[])), [0_u64; 0]);
    }
}
