use proptest::prelude::*;

use crate::wire::{DecodeError, Reader, put_varint, put_zigzag, varint_len};

#[test]
fn varints_take_seven_bits_per_byte() {
    for (value, bytes) in [
        (0, &[0x00][..]),
        (1, &[0x01]),
        (127, &[0x7f]),
        (128, &[0x80, 0x01]),
        (300, &[0xac, 0x02]),
        (16_383, &[0xff, 0x7f]),
        (
            u64::MAX,
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
        ),
    ] {
        let mut out = Vec::new();
        put_varint(&mut out, value);
        assert_eq!(out, bytes);
        assert_eq!(varint_len(value), bytes.len());
        assert_eq!(Reader::new(bytes).varint(), Ok(value));
    }
}

#[test]
fn zigzag_keeps_small_magnitudes_short() {
    for (value, byte) in [(0, 0), (-1, 1), (1, 2), (-2, 3), (63, 126), (-64, 127)] {
        let mut out = Vec::new();
        put_zigzag(&mut out, value);
        assert_eq!(out, [byte]);
    }
    for value in [i64::MIN, i64::MAX] {
        let mut out = Vec::new();
        put_zigzag(&mut out, value);
        assert_eq!(Reader::new(&out).zigzag(), Ok(value));
    }
}

#[test]
fn overlong_varint_is_refused_and_padded_varint_is_accepted() {
    // Zero, encoded in ten bytes.
    let padded = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00];
    assert_eq!(Reader::new(&padded).varint(), Ok(0));
    // An eleventh byte, and a 65th bit.
    for bytes in [[0x80; 11], [0xff; 11]] {
        assert_eq!(
            Reader::new(&bytes).varint(),
            Err(DecodeError::OverlongVarint { offset: 0 })
        );
    }
    let bit_65 = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
    assert_eq!(
        Reader::new(&bit_65).varint(),
        Err(DecodeError::OverlongVarint { offset: 0 })
    );
}

#[test]
fn a_varint_that_does_not_end_is_truncated() {
    for length in 0..9 {
        let bytes = vec![0x80; length];
        let error = Reader::new(&bytes).varint();
        assert!(
            matches!(error, Err(DecodeError::Truncated { offset: 0, .. })),
            "{error:?}"
        );
    }
}

#[test]
fn offset_is_counted_from_the_outermost_reader() {
    let bytes = [1, 2, 3, 4, 5, 6];
    let mut outer = Reader::new(&bytes);
    outer.u16().unwrap();
    let mut inner = outer.sub(3).unwrap();
    assert_eq!((outer.offset(), outer.remaining()), (5, 1));
    assert_eq!((inner.offset(), inner.remaining()), (2, 3));
    assert_eq!(inner.u8(), Ok(3));
    assert_eq!(
        inner.u32(),
        Err(DecodeError::Truncated {
            offset: 3,
            needed: 4,
            present: 2
        })
    );
    assert_eq!(
        inner.finish(),
        Err(DecodeError::Trailing {
            offset: 3,
            extra: 2
        })
    );
    assert_eq!(inner.rest(), [4, 5]);
    assert_eq!(inner.finish(), Ok(()));
    assert_eq!(outer.u8(), Ok(6));
    assert!(outer.is_empty());
    assert!(outer.sub(1).is_err());
}

proptest! {
    #[test]
    fn numbers_round_trip(value in any::<u64>(), signed in any::<i64>()) {
        let mut out = Vec::new();
        put_varint(&mut out, value);
        prop_assert_eq!(out.len(), varint_len(value));
        put_zigzag(&mut out, signed);
        let mut reader = Reader::new(&out);
        prop_assert_eq!(reader.varint(), Ok(value));
        prop_assert_eq!(reader.zigzag(), Ok(signed));
        prop_assert!(reader.is_empty());
    }
}
