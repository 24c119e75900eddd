use proptest::prelude::*;

use super::*;

fn survives<T: Words + PartialEq + std::fmt::Debug>(value: T) {
    assert_eq!(T::from_words(value.to_words()), value);
}

#[test]
fn extremes_of_every_integer_survive() {
    survives([u8::MIN, u8::MAX]);
    survives([u16::MIN, u16::MAX]);
    survives([u32::MIN, u32::MAX]);
    survives([u64::MIN, u64::MAX]);
    survives([usize::MIN, usize::MAX]);
    survives([i8::MIN, -1, i8::MAX]);
    survives([i16::MIN, -1, i16::MAX]);
    survives([i32::MIN, -1, i32::MAX]);
    survives([i64::MIN, -1, i64::MAX]);
    survives([isize::MIN, -1, isize::MAX]);
}

/// Behaviour: SP-18.
#[test]
fn word_zero_is_the_default_of_every_type() {
    assert_eq!(
        <(u8, u16, u32, u64)>::from_words([0; 4]),
        Default::default()
    );
    assert_eq!(
        <(i8, i16, i32, i64)>::from_words([0; 4]),
        Default::default()
    );
    assert_eq!(<(f32, f64, bool)>::from_words([0; 3]), Default::default());
}

proptest! {
    #[test]
    fn every_bit_pattern_of_a_float_survives(double: u64, single: u32) {
        prop_assert_eq!(f64::from_word(double).to_word(), double);
        prop_assert_eq!(f32::from_word(single.into()).to_word(), u64::from(single));
    }

    #[test]
    fn every_word_decodes_to_a_value(word: u64) {
        prop_assert_eq!(bool::from_word(word), word != 0);
        prop_assert_eq!(i16::from_word(word), word as i16);
    }

    #[test]
    fn tuples_and_arrays_survive(value: (i32, f32, bool, u64), array: [i64; 7]) {
        prop_assume!(!value.1.is_nan());
        survives(value);
        survives(array);
    }
}
