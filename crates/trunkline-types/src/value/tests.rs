use std::sync::Arc;

use crate::text::parse_type;
use crate::{Array, DataType, ElementType, Elements, Value, Waveform};

#[test]
fn a_value_takes_24_bytes_and_a_type_16() {
    assert_eq!(size_of::<Value>(), 24);
    assert_eq!(size_of::<DataType>(), 16);
}

#[test]
fn a_value_has_its_type_and_no_other() {
    let types = [
        "bool",
        "i8",
        "i16",
        "i32",
        "i64",
        "u8",
        "u16",
        "u32",
        "u64",
        "f32",
        "f64",
        "string",
        "bytes",
        "timestamp",
        "enum(A, B)",
        "array(f64, 2)",
        "array(f32, 2)",
        "array(f64, 3)",
        "array(f64, 2, 2)",
        "struct(a: u8)",
        "struct(a: u8, b: u8)",
        "struct(a: i8)",
        "waveform(f64)",
        "waveform(f32)",
    ]
    .map(|text| parse_type(text).unwrap());
    for ty in &types {
        for other in &types {
            assert_eq!(
                Value::default_of(other).has_type(ty),
                ty == other,
                "{other} as {ty}"
            );
        }
    }
}

#[test]
fn contents_of_enums_arrays_and_waveforms_are_checked() {
    let mode = parse_type("enum(A, B)").unwrap();
    assert!(Value::Enum(1).has_type(&mode));
    assert!(!Value::Enum(2).has_type(&mode));
    let free = parse_type("array(u8, *, 2)").unwrap();
    let array = |shape: &[u32], count| {
        let elements = Elements::U8(vec![0; count]);
        Value::Array(Arc::new(Array::new(shape.to_vec(), elements).unwrap()))
    };
    assert!(array(&[7, 2], 14).has_type(&free));
    assert!(!array(&[7, 3], 21).has_type(&free));
    assert!(!array(&[14], 14).has_type(&free));
    let mut wave = Waveform::empty(ElementType::F64);
    wave.attributes
        .insert("x".repeat(1025).into(), Value::Bool(true));
    assert!(!Value::Waveform(Arc::new(wave)).has_type(&DataType::Waveform(ElementType::F64)));
}

#[test]
fn shape_must_match_the_number_of_elements() {
    let new = |shape: &[u32], count: usize| {
        Array::new(shape.to_vec(), Elements::Bool(vec![false; count]))
    };
    assert!(new(&[2, 3], 6).is_ok());
    assert!(new(&[2, 0], 0).is_ok());
    assert!(new(&[], 1).is_err());
    assert!(new(&[u32::MAX, u32::MAX, u32::MAX], 1).is_err());
    let error = new(&[2, 3], 5).unwrap_err();
    assert_eq!(
        error.to_string(),
        "shape [2, 3] needs 6 elements, but 5 were given"
    );
}

#[test]
fn only_numbers_are_numbers() {
    assert_eq!(
        Value::U64(u64::MAX).as_f64(),
        Some(18_446_744_073_709_551_615.0)
    );
    assert_eq!(Value::F32(0.5).as_f64(), Some(0.5));
    for value in [Value::Bool(true), Value::Enum(1), Value::String("1".into())] {
        assert_eq!(value.as_f64(), None);
    }
}

#[test]
fn elements_are_accessible_by_index() {
    let elements = Elements::I16(vec![5, -6]);
    assert_eq!(elements.value_at(1), Some(Value::I16(-6)));
    assert_eq!(elements.value_at(2), None);
    let texts = Elements::String(vec!["a".into()]);
    assert_eq!(texts.value_at(0), Some(Value::String("a".into())));
}

#[test]
fn numbers_convert_to_types_that_can_hold_them() {
    let max = Value::U64(u64::MAX);
    assert_eq!(max.to_number(&DataType::U64), Some(max.clone()), "exactly");
    assert_eq!(max.to_number(&DataType::I64), None);
    let odd = Value::I64((1 << 53) + 1);
    assert_eq!(
        odd.to_number(&DataType::U64),
        Some(Value::U64((1 << 53) + 1)),
        "not by way of floating point"
    );
    assert_eq!(Value::I8(-1).to_number(&DataType::U8), None);
    assert_eq!(
        Value::F64(41.5).to_number(&DataType::I16),
        Some(Value::I16(42))
    );
    assert_eq!(Value::F64(f64::NAN).to_number(&DataType::I16), None);
    assert_eq!(Value::Bool(true).to_number(&DataType::F64), None);
    assert_eq!(Value::F64(1.0).to_number(&DataType::String), None);
}
