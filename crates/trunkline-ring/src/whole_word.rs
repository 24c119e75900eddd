//! Numbers of 64 bits, slices of which are words as they lie in memory.

use crate::words::Word;

/// A [`Word`] that fills it: its bits are the word's, so that a slice of such values *is* a slice
/// of words, and a block of them goes into a FIFO and comes out of it as it is.
///
/// ```
/// use trunkline_ring::WholeWord;
///
/// assert_eq!(f64::as_words(&[1.0, -0.0]), [1.0_f64.to_bits(), 1 << 63]);
/// assert_eq!(i64::of_words(&[u64::MAX, 7]), [-1, 7]);
/// ```
pub trait WholeWord: Word + sealed::Sealed {
    /// The words that values are.
    #[must_use]
    fn as_words(values: &[Self]) -> &[u64];

    /// The values that words are.
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
                // SAFETY: both are 64 bits with the same alignment, any bits of which are a value,
                // and the slice that is given out borrows the other.
                unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), values.len()) }
            }

            #[inline]
            fn of_words(words: &[u64]) -> &[Self] {
                // SAFETY: as in `as_words`, the other way round.
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
    fn slices_are_the_words_of_their_values() {
        let values = [0.0, -1.5, f64::INFINITY, f64::MIN_POSITIVE];
        assert_eq!(f64::as_words(&values), values.to_words());
        assert_eq!(f64::of_words(&values.to_words()), values);
        assert_eq!(i64::as_words(&[-2, 3]), [-2_i64, 3].to_words());
        assert_eq!(u64::of_words(u64::as_words(&[])), [0_u64; 0]);
    }
}
