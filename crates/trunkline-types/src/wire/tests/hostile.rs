use std::sync::Arc;

use proptest::prelude::*;

use crate::arbitrary::{bits, typed_value};
use crate::data_type::TypeError;
use crate::text::parse_type;
use crate::wire::{
    DecodeError, Reader, VALUE_BYTES_MAX, check_value, decode_properties, decode_tagged,
    decode_type, decode_value, encode_tagged, encode_type, put_f64, put_i64, put_str, put_u8,
    put_varint, varint_len,
};
use crate::{ArrayType, DataType, ElementType, Elements, StructType, Value, Waveform};

/// Decodes a value, and checks that the checker agrees with the decoder.
fn decode(ty: &DataType, bytes: &[u8]) -> Result<Value, DecodeError> {
    let mut reader = Reader::new(bytes);
    let decoded = decode_value(ty, &mut reader).and_then(|value| {
        reader.finish()?;
        Ok(value)
    });
    assert_eq!(
        check_value(ty, bytes),
        decoded.as_ref().map(|_| ()).map_err(Clone::clone)
    );
    decoded
}

fn ty(text: &str) -> DataType {
    parse_type(text).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn every_truncation_is_an_error((ty, value) in typed_value()) {
        let bytes = bits(&value);
        for length in 0..bytes.len() {
            prop_assert!(decode(&ty, &bytes[..length]).is_err());
        }
    }

    #[test]
    fn every_truncation_of_a_tagged_value_is_an_error((ty, value) in typed_value()) {
        let mut bytes = Vec::new();
        encode_tagged(&ty, &value, &mut bytes);
        for length in 0..bytes.len() {
            prop_assert!(decode_tagged(&mut Reader::new(&bytes[..length])).is_err());
        }
    }

    #[test]
    fn an_extra_byte_is_an_error((ty, value) in typed_value(), extra in any::<u8>()) {
        let mut bytes = bits(&value);
        let offset = bytes.len();
        bytes.push(extra);
        prop_assert_eq!(decode(&ty, &bytes), Err(DecodeError::Trailing { offset, extra: 1 }));
    }

    #[test]
    fn damaged_values_are_refused_or_are_values(
        (ty, value) in typed_value(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = bits(&value);
        prop_assume!(!bytes.is_empty());
        for (index, byte) in damage {
            *index.get_mut(&mut bytes) = byte;
        }
        match decode(&ty, &bytes) {
            Ok(value) => prop_assert!(value.has_type(&ty)),
            Err(error) => prop_assert!(error.offset() <= bytes.len(), "{}", error),
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok((ty, value)) = decode_tagged(&mut Reader::new(&bytes)) {
            prop_assert!(ty.check().is_ok() && value.has_type(&ty));
        }
        let _ = decode_properties(&mut Reader::new(&bytes));
    }

    #[test]
    fn random_bytes_never_panic_for_any_type(
        (ty, _) in typed_value(),
        bytes in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let _ = decode(&ty, &bytes);
    }
}

#[test]
fn counts_are_compared_with_the_bytes_present_before_allocating() {
    for count in [1 << 20, 2 << 30, u64::from(u32::MAX), 1 << 40, u64::MAX] {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, count);
        bytes.extend_from_slice(&[0; 16]);
        for text in [
            "array(f64, *)",
            "array(bool, *)",
            "array(string, *)",
            "string",
            "bytes",
        ] {
            let error = decode(&ty(text), &bytes).unwrap_err();
            let fits = matches!(
                error,
                DecodeError::Truncated { .. } | DecodeError::TooLong { .. }
            );
            assert!(fits, "{text}: {error:?}");
        }
        let mut waveform = vec![0; 16];
        waveform.extend_from_slice(&bytes);
        assert!(decode(&ty("waveform(f64)"), &waveform).is_err());
        let mut attributes = vec![0; 17];
        put_varint(&mut attributes, count);
        assert!(decode(&ty("waveform(f64)"), &attributes).is_err());
    }
}

#[test]
fn shapes_whose_product_overflows_are_refused() {
    let mut bytes = Vec::new();
    for _ in 0..8 {
        put_varint(&mut bytes, u64::from(u32::MAX));
    }
    let cube = ty("array(u8, *, *, *, *, *, *, *, *)");
    assert!(matches!(
        decode(&cube, &bytes),
        Err(DecodeError::TooLong { .. })
    ));
    // 2^32 * 2^32 is 0 in 64 bits; this must not be treated as an empty array.
    let mut square = Vec::new();
    put_varint(&mut square, 1 << 31);
    put_varint(&mut square, 1 << 31);
    put_varint(&mut square, 4);
    assert!(decode(&ty("array(u8, *, *, *)"), &square).is_err());
}

#[test]
fn empty_array_with_long_dimensions_allocates_nothing() {
    let mut bytes = Vec::new();
    put_varint(&mut bytes, u64::from(u32::MAX));
    put_varint(&mut bytes, 0);
    let matrix = ty("array(f64, *, *)");
    let value = decode(&matrix, &bytes).unwrap();
    assert_eq!(
        crate::json::to_json(&value, &matrix).value.to_string(),
        r#"{"shape":[4294967295,0]}"#
    );
    assert!(
        crate::text::format_value(&value, &matrix, &Default::default()).len() < 40,
        "its shape, and no element"
    );
}

#[test]
fn array_with_a_wrong_fixed_length_is_refused() {
    let error = decode(&ty("array(u8, 2)"), &[3, 1, 2, 3]).unwrap_err();
    assert_eq!(
        error,
        DecodeError::FixedLength {
            offset: 0,
            fixed: 2,
            found: 3
        }
    );
    assert!(decode(&ty("array(u8, 2, *)"), &[2, 1, 7, 8]).is_ok());
}

#[test]
fn boolean_byte_other_than_0_and_1_is_refused() {
    let error = decode(&DataType::Bool, &[2]).unwrap_err();
    assert_eq!(error.to_string(), "at byte 0: expected 0 or 1, found 2");
    let error = decode(&ty("array(bool, *)"), &[3, 1, 0, 255]).unwrap_err();
    assert_eq!(error.to_string(), "at byte 3: expected 0 or 1, found 255");
}

#[test]
fn enum_number_without_a_label_is_refused() {
    let mode = ty("enum(OFF, AUTO)");
    assert_eq!(decode(&mode, &[1, 0, 0, 0]), Ok(Value::Enum(1)));
    let error = decode(&mode, &[2, 0, 0, 0]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "at byte 0: number 2 is outside the enum's 2 labels"
    );
    assert!(decode(&mode, &[255; 4]).is_err());
}

#[test]
fn text_must_be_utf_8() {
    for bad in [
        &[0xff][..],
        &[b'a', 0xc3, 0x28],
        &[0xed, 0xa0, 0x80],
        &[0xf0, 0x9f, 0x92],
    ] {
        let mut bytes = Vec::new();
        crate::wire::put_bytes(&mut bytes, bad);
        let error = decode(&DataType::String, &bytes).unwrap_err();
        assert!(
            matches!(error, DecodeError::InvalidUtf8 { .. }),
            "{error:?}"
        );
        let mut list = vec![1];
        list.extend_from_slice(&bytes);
        assert!(decode(&ty("array(string, *)"), &list).is_err());
    }
    let error = decode(&DataType::String, &[3, b'a', b'b', 0xff]).unwrap_err();
    assert_eq!(error, DecodeError::InvalidUtf8 { offset: 3 });
}

#[test]
fn the_largest_value_passes_and_one_byte_more_does_not() {
    let text = |length: usize| {
        let mut bytes = Vec::new();
        put_str(&mut bytes, &"x".repeat(length));
        bytes
    };
    let longest = VALUE_BYTES_MAX - varint_len(VALUE_BYTES_MAX as u64);
    assert!(decode(&DataType::String, &text(longest)).is_ok());
    assert!(matches!(
        decode(&DataType::String, &text(longest + 1)),
        Err(DecodeError::TooLong { .. })
    ));
    // The sum of small parts is limited too.
    let pair = ty("struct(a: string, b: string)");
    let mut bytes = text(VALUE_BYTES_MAX / 2);
    bytes.extend_from_slice(&text(VALUE_BYTES_MAX / 2));
    assert!(matches!(
        decode(&pair, &bytes),
        Err(DecodeError::TooLong { .. })
    ));
}

fn nested_struct(depth: usize) -> DataType {
    (0..depth).fold(DataType::U8, |inner, _| {
        DataType::Struct(Arc::new(StructType {
            fields: vec![("x".into(), inner)],
        }))
    })
}

#[test]
fn structs_nest_eight_deep_and_no_deeper() {
    let mut bytes = Vec::new();
    encode_type(&nested_struct(8), &mut bytes);
    assert!(decode_type(&mut Reader::new(&bytes)).is_ok());
    bytes.clear();
    encode_type(&nested_struct(9), &mut bytes);
    let error = decode_type(&mut Reader::new(&bytes)).unwrap_err();
    assert!(matches!(&error, DecodeError::Type { source, .. } if **source == TypeError::TooDeep));
    // Deeply nested structs that fill a whole frame must not overflow the stack.
    let bomb = [17, 1, 1, b'x'].repeat(100_000);
    assert!(decode_type(&mut Reader::new(&bomb)).is_err());
}

#[test]
fn type_counts_are_limited() {
    let decode_bytes = |bytes: &[u8]| decode_type(&mut Reader::new(bytes));
    for (tag, count) in [
        (15, 65_537),
        (15, u64::MAX),
        (17, 1025),
        (17, u64::MAX),
        (16, 9),
    ] {
        let mut bytes = vec![tag];
        if tag == 16 {
            put_u8(&mut bytes, 1);
        }
        put_varint(&mut bytes, count);
        bytes.extend_from_slice(&[0; 64]);
        let error = decode_bytes(&bytes).unwrap_err();
        assert!(matches!(error, DecodeError::TooLong { .. }), "{error:?}");
    }
    let empty_enum = decode_bytes(&[15, 0]).unwrap_err();
    assert_eq!(
        empty_enum.to_string(),
        "at byte 0: an enum needs at least one label"
    );
    for bytes in [
        &[17, 0][..],                               // a struct without fields
        &[17, 1, 0, 1],                             // a field without a name
        &[17, 2, 1, b'a', 1, 1, b'a', 1],           // two fields of one name
        &[15, 2, 1, b'a', 1, b'a'],                 // two labels of one name
        &[16, 11, 0],                               // an array without dimensions
        &[16, 11, 1, 0xff, 0xff, 0xff, 0xff, 0x7f], // a length over 32 bits
        &[16, 13, 1, 0],                            // an array of bytes
        &[16, 15, 1, 0],                            // an array of enums
        &[18, 17],                                  // a waveform of structs
        &[0],
        &[19],
        &[255],
    ] {
        assert!(decode_bytes(bytes).is_err(), "{bytes:?}");
    }
}

#[test]
fn a_type_whose_smallest_value_is_too_large_is_refused() {
    let huge = |length| {
        let (element, shape) = (ElementType::F64, vec![Some(length), Some(length)]);
        DataType::Array(Arc::new(ArrayType { element, shape }))
    };
    for length in [1 << 20, u32::MAX] {
        let mut bytes = Vec::new();
        encode_type(&huge(length), &mut bytes);
        let error = decode_type(&mut Reader::new(&bytes)).unwrap_err();
        assert!(error.to_string().contains("fixed lengths"), "{error}");
    }
    let megabyte = ty("array(u8, 1048576)");
    let fields = (0..17)
        .map(|n| (format!("f{n}").into(), megabyte.clone()))
        .collect();
    let sum = DataType::Struct(Arc::new(StructType { fields }));
    assert!(matches!(sum.check(), Err(TypeError::TooLarge { .. })));
}

#[test]
fn attributes_are_ordered_and_unique() {
    let waveform = |names: &[&str], tag: u8| {
        let mut bytes = Vec::new();
        put_i64(&mut bytes, 0);
        put_f64(&mut bytes, 0.1);
        put_varint(&mut bytes, 0);
        put_varint(&mut bytes, names.len() as u64);
        for name in names {
            put_str(&mut bytes, name);
            put_u8(&mut bytes, tag);
            put_u8(&mut bytes, 1);
        }
        decode(&ty("waveform(f64)"), &bytes)
    };
    assert!(waveform(&["a", "b", "é"], 1).is_ok());
    assert!(waveform(&["", "a"], 1).is_ok());
    assert!(waveform(&["a", "a"], 1).is_err());
    assert!(waveform(&["b", "a"], 1).is_err());
    for tag in [0, 15, 16, 17, 18, 200] {
        assert!(waveform(&["a"], tag).is_err());
    }
    assert!(waveform(&[&"x".repeat(1025)], 1).is_err());
}

#[test]
fn attributes_that_are_not_scalars_are_invalid_and_omitted() {
    let mut waveform = Waveform::empty(ElementType::F64);
    waveform.samples = Elements::F64(vec![1.0]);
    waveform.attributes.insert("bad".into(), Value::Enum(0));
    waveform.attributes.insert("good".into(), Value::Bool(true));
    let value = Value::Waveform(Arc::new(waveform));
    let ty = DataType::Waveform(ElementType::F64);
    assert!(!value.has_type(&ty));
    let bytes = bits(&value);
    assert_eq!(bytes.len(), crate::wire::encoded_len(&value));
    match decode(&ty, &bytes).unwrap() {
        Value::Waveform(back) => assert_eq!(back.attributes.len(), 1),
        other => panic!("{other:?}"),
    }
}

#[test]
fn many_empty_strings_share_one_allocation() {
    let count = 1_000_000;
    let mut bytes = Vec::new();
    put_varint(&mut bytes, count);
    bytes.resize(bytes.len() + count as usize, 0);
    match decode(&ty("array(string, *)"), &bytes).unwrap() {
        Value::Array(array) => match array.elements() {
            Elements::String(texts) => assert!(Arc::ptr_eq(&texts[0], &texts[999_999])),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}
