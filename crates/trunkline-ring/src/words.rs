//! Plain values as 64-bit words, without allocation.
//!
//! A cell's reader copies while a writer may be overwriting the cell, so a cell stores atomic words
//! instead of values; these traits convert values to words. A FIFO's element belongs to one thread
//! at a time and needs no conversion.

/// A value that fits one word.
///
/// Implement it for your own newtype or field-less enum to use it in a cell:
///
/// ```
/// use trunkline_ring::{Word, Words};
///
/// #[derive(Clone, Copy, Debug, PartialEq)]
/// struct Celsius(f64);
///
/// impl Word for Celsius {
///     fn to_word(self) -> u64 {
///         self.0.to_word()
///     }
///     fn from_word(word: u64) -> Self {
///         Celsius(f64::from_word(word))
///     }
/// }
///
/// assert_eq!(<[Celsius; 1]>::from_words([Celsius(21.5)].to_words()), [Celsius(21.5)]);
/// ```
pub trait Word: Copy {
    #[must_use]
    fn to_word(self) -> u64;

    /// Returns the value that a word represents: the inverse of [`to_word`](Self::to_word).
    ///
    /// Every word must represent some value. The word 0 represents the type's default, because that
    /// is the content of a cell or FIFO before the first write.
    #[must_use]
    fn from_word(word: u64) -> Self;
}

macro_rules! word_by_cast {
    ($($integer:ty),*) => {$(
        impl Word for $integer {
            #[inline]
            fn to_word(self) -> u64 {
                // Widening preserves the sign of signed values; narrowing drops only copies of the
                // sign bit.
                self as u64
            }

            #[inline]
            fn from_word(word: u64) -> Self {
                word as Self
            }
        }
    )*};
}

word_by_cast!(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize);

impl Word for f64 {
    #[inline]
    fn to_word(self) -> u64 {
        self.to_bits()
    }

    #[inline]
    fn from_word(word: u64) -> Self {
        Self::from_bits(word)
    }
}

impl Word for f32 {
    #[inline]
    fn to_word(self) -> u64 {
        u64::from(self.to_bits())
    }

    #[inline]
    fn from_word(word: u64) -> Self {
        Self::from_bits(word as u32)
    }
}

impl Word for bool {
    #[inline]
    fn to_word(self) -> u64 {
        u64::from(self)
    }

    #[inline]
    fn from_word(word: u64) -> Self {
        word != 0
    }
}

/// A value that is a fixed number of words: a [`Word`], an array of them, or a tuple of up to four.
///
/// ```
/// use trunkline_ring::Words;
///
/// assert_eq!([1.0_f64, -1.0].to_words(), [0x3FF0_0000_0000_0000, 0xBFF0_0000_0000_0000]);
/// assert_eq!(<(i16, bool)>::from_words([u64::MAX, 1]), (-1, true));
/// ```
pub trait Words: Copy {
    type Array: WordArray;

    #[must_use]
    fn to_words(self) -> Self::Array;

    /// Returns the value that `words` represent: the inverse of [`to_words`](Self::to_words).
    #[must_use]
    fn from_words(words: Self::Array) -> Self;
}

impl<W: Word> Words for W {
    type Array = [u64; 1];

    #[inline]
    fn to_words(self) -> [u64; 1] {
        [self.to_word()]
    }

    #[inline]
    fn from_words([word]: [u64; 1]) -> Self {
        Self::from_word(word)
    }
}

impl<W: Word, const N: usize> Words for [W; N] {
    type Array = [u64; N];

    #[inline]
    fn to_words(self) -> [u64; N] {
        self.map(W::to_word)
    }

    #[inline]
    fn from_words(words: [u64; N]) -> Self {
        words.map(W::from_word)
    }
}

macro_rules! words_of_tuple {
    ($count:literal: $($part:ident $word:ident),+) => {
        impl<$($part: Word),+> Words for ($($part,)+) {
            type Array = [u64; $count];

            #[inline]
            fn to_words(self) -> [u64; $count] {
                let ($($word,)+) = self;
                [$($word.to_word()),+]
            }

            #[inline]
            fn from_words([$($word),+]: [u64; $count]) -> Self {
                ($($part::from_word($word),)+)
            }
        }
    };
}

words_of_tuple!(2: A a, B b);
words_of_tuple!(3: A a, B b, C c);
words_of_tuple!(4: A a, B b, C c, D d);

/// An array of words, `[u64; N]`; nothing else implements it.
pub trait WordArray: Copy + std::fmt::Debug + AsRef<[u64]> + AsMut<[u64]> + sealed::Sealed {
    const ZERO: Self;
}

impl<const N: usize> WordArray for [u64; N] {
    const ZERO: Self = [0; N];
}

mod sealed {
    pub trait Sealed {}
    impl<const N: usize> Sealed for [u64; N] {}
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
