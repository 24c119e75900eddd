use std::sync::Arc;

use proptest::prelude::*;

use crate::arbitrary::{bits, data_type, typed_value};
use crate::wire::{
    Reader, check_value, decode_tagged, decode_type, decode_value, decoded_bytes_max,
    encode_tagged, encode_type, encode_value, encoded_len,
};
use crate::{Array, ArrayType, DataType, ElementType, Elements, Timestamp, Value};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn values_round_trip_bit_for_bit((ty, value) in typed_value()) {
        prop_assert!(value.has_type(&ty));
        let mut bytes = Vec::new();
        encode_value(&value, &mut bytes);
        prop_assert_eq!(bytes.len(), encoded_len(&value));
        prop_assert_eq!(check_value(&ty, &bytes), Ok(()));
        let mut reader = Reader::new(&bytes);
        let decoded = decode_value(&ty, &mut reader).unwrap();
        prop_assert!(reader.is_empty());
        prop_assert!(decoded.has_type(&ty));
        prop_assert_eq!(bits(&decoded), bytes);
    }

    #[test]
    fn tagged_values_round_trip_with_their_type((ty, value) in typed_value()) {
        let mut bytes = Vec::new();
        encode_tagged(&ty, &value, &mut bytes);
        let mut reader = Reader::new(&bytes);
        let (decoded_type, decoded) = decode_tagged(&mut reader).unwrap();
        prop_assert!(reader.is_empty());
        prop_assert_eq!(&decoded_type, &ty);
        prop_assert_eq!(bits(&decoded), bits(&value));
    }

    #[test]
    fn types_round_trip(ty in data_type()) {
        prop_assert_eq!(ty.check(), Ok(()));
        let mut bytes = Vec::new();
        encode_type(&ty, &mut bytes);
        let mut reader = Reader::new(&bytes);
        prop_assert_eq!(decode_type(&mut reader), Ok(ty));
        prop_assert!(reader.is_empty());
    }

    #[test]
    fn concatenated_values_are_decoded_in_sequence((first, a) in typed_value(), (second, b) in typed_value()) {
        let mut bytes = bits(&a);
        encode_value(&b, &mut bytes);
        let mut reader = Reader::new(&bytes);
        prop_assert_eq!(bits(&decode_value(&first, &mut reader).unwrap()), bits(&a));
        prop_assert_eq!(bits(&decode_value(&second, &mut reader).unwrap()), bits(&b));
        prop_assert!(reader.is_empty());
    }

    #[test]
    fn defaults_are_values_of_their_type(ty in data_type()) {
        let value = Value::default_of(&ty);
        prop_assert!(value.has_type(&ty));
        prop_assert_eq!(check_value(&ty, &bits(&value)), Ok(()));
    }
}

/// The part of B-40 that this crate covers: on the wire, timestamps are exact nanoseconds since
/// 1970.
///
/// Behaviour: B-40.
#[test]
fn timestamps_are_nanoseconds_since_1970_on_the_wire() {
    for nanos in [i64::MIN, -1, 0, 1, 1_795_210_744_123_456_789, i64::MAX] {
        let value = Value::Timestamp(Timestamp::from_nanos(nanos));
        assert_eq!(bits(&value), nanos.to_le_bytes());
        let bytes = nanos.to_le_bytes();
        assert_eq!(
            decode_value(&DataType::Timestamp, &mut Reader::new(&bytes)),
            Ok(value)
        );
    }
}

#[test]
fn every_bit_of_a_nan_is_preserved() {
    let odd = f64::from_bits(0x7ff8_dead_beef_0001);
    let bytes = bits(&Value::F64(odd));
    match decode_value(&DataType::F64, &mut Reader::new(&bytes)) {
        Ok(Value::F64(back)) => assert_eq!(back.to_bits(), odd.to_bits()),
        other => panic!("{other:?}"),
    }
}

/// This bound determines how much memory is requested before a value is decoded.
#[test]
fn bound_of_the_decoded_form_covers_every_part() {
    let bound = |ty: &DataType, value: &Value| {
        let mut bytes = Vec::new();
        encode_value(value, &mut bytes);
        assert_eq!(
            decoded_bytes_max(ty, &bytes[..bytes.len() - 1]),
            bytes.len() - 1
        );
        (decoded_bytes_max(ty, &bytes), bytes.len())
    };
    let text = Value::String("a".repeat(1000).into());
    assert_eq!(bound(&DataType::String, &text), (1002, 1002));

    let strings = |shape| {
        DataType::Array(Arc::new(ArrayType {
            element: ElementType::String,
            shape,
        }))
    };
    let texts = Elements::String(vec!["b".into(); 100]);
    let array = Value::Array(Arc::new(Array::new(vec![100], texts).unwrap()));
    // Pointer and length, two counts, and the text with rounding.
    let (of_strings, wire) = bound(&strings(vec![None]), &array);
    assert!(
        (100 * (16 + 16 + 8)..100 * 200).contains(&of_strings),
        "{of_strings}"
    );
    assert_eq!(wire, 201);
}
