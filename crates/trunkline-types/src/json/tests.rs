use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;

use super::{from_json, to_json};
use crate::arbitrary::{bits, normal, typed_value};
use crate::text::parse_type;
use crate::{Array, DataType, ElementType, Elements, Timestamp, Value, Waveform};

fn ty(text: &str) -> DataType {
    parse_type(text).unwrap()
}

fn sentence(json: serde_json::Value, text: &str) -> String {
    from_json(&json, &ty(text)).unwrap_err().to_string()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn values_round_trip((ty, value) in typed_value()) {
        let json = to_json(&value, &ty);
        // Through text, as in transmission.
        let text = json.clone().into_plain().to_string();
        let parsed = serde_json::from_str::<serde_json::Value>(&text).unwrap();
        let back = from_json(&parsed, &ty);
        prop_assert!(back.is_ok(), "{} as {}: {:?}", text, ty, back);
        prop_assert_eq!(bits(&back.unwrap()), bits(&normal(&value, &ty)), "{} as {}", text, ty);
    }

    #[test]
    fn json_of_another_type_is_an_error_or_a_value(
        (ty, _) in typed_value(),
        (other, value) in typed_value(),
    ) {
        let json = to_json(&value, &other).into_plain();
        if let Ok(value) = from_json(&json, &ty) {
            prop_assert!(value.has_type(&ty));
        }
    }
}

#[test]
fn special_numbers_are_null_with_a_separate_name() {
    for (number, word) in [
        (f64::NAN, "nan"),
        (f64::INFINITY, "inf"),
        (f64::NEG_INFINITY, "-inf"),
    ] {
        for (value, ty) in [
            (Value::F64(number), DataType::F64),
            (Value::F32(number as f32), DataType::F32),
        ] {
            let json = to_json(&value, &ty);
            assert_eq!((json.value.is_null(), json.special), (true, Some(word)));
            assert_eq!(json.into_plain(), json!(word));
        }
    }
    let list = Value::Array(Arc::new(Array::vector(Elements::F64(vec![
        f64::NAN,
        1.0,
        f64::NEG_INFINITY,
    ]))));
    assert_eq!(
        to_json(&list, &ty("array(f64, *)")).value,
        json!(["NaN", 1.0, "-Infinity"])
    );
}

#[test]
fn each_type_has_its_form() {
    let mode = ty("enum(OFF, AUTO)");
    let matrix = Array::new(vec![2, 2], Elements::I32(vec![1, 2, 3, 4])).unwrap();
    let time = Timestamp::from_nanos(1_795_210_744_123_456_789);
    let mut wave = Waveform::empty(ElementType::I16);
    wave.t0 = time;
    wave.dt = 0.001;
    wave.samples = Elements::I16(vec![-1, 2]);
    wave.attributes
        .insert("unit".into(), Value::String("V".into()));
    wave.attributes.insert("channel".into(), Value::U8(3));
    wave.attributes.insert("gain".into(), Value::F64(2.5));
    for (value, ty, json) in [
        (Value::Bool(true), DataType::Bool, json!(true)),
        (Value::I64(i64::MIN), DataType::I64, json!(i64::MIN)),
        (Value::U64(u64::MAX), DataType::U64, json!(u64::MAX)),
        (Value::F32(0.1), DataType::F32, json!(0.1)),
        (Value::F64(72.5), DataType::F64, json!(72.5)),
        (Value::String("\"é".into()), DataType::String, json!("\"é")),
        (
            Value::Bytes([0, 255].into()),
            DataType::Bytes,
            json!("AP8="),
        ),
        (
            Value::Timestamp(time),
            DataType::Timestamp,
            json!("2026-11-20T21:39:04.123456789Z"),
        ),
        (Value::Enum(1), mode.clone(), json!("AUTO")),
        (
            Value::Array(Arc::new(matrix)),
            ty("array(i32, 2, *)"),
            json!([[1, 2], [3, 4]]),
        ),
        (
            Value::Struct([Value::F64(1.0), Value::Enum(0)].into()),
            ty("struct(level: f64, mode: enum(OFF, AUTO))"),
            json!({"level": 1.0, "mode": "OFF"}),
        ),
        (
            Value::Waveform(Arc::new(wave)),
            ty("waveform(i16)"),
            json!({
                "t0": "2026-11-20T21:39:04.123456789Z",
                "dt": 0.001,
                "samples": [-1, 2],
                "attributes": {"channel": {"type": "u8", "value": 3}, "gain": 2.5, "unit": "V"},
            }),
        ),
    ] {
        let written = to_json(&value, &ty);
        assert_eq!(written.value, json);
        assert_eq!(written.enc, (ty == DataType::Bytes).then_some("base64"));
        assert_eq!(from_json(&json, &ty), Ok(value));
    }
    // Values that do not match the type are shown by number instead of being omitted.
    assert_eq!(to_json(&Value::Enum(7), &mode).value, json!(7));
    assert_eq!(
        to_json(&Value::Struct([Value::U8(1)].into()), &mode).value,
        json!({"0": 1})
    );
}

#[test]
fn lossless_conversions_are_accepted() {
    for (json, text, value) in [
        (json!(5.0), "i32", Value::I32(5)),
        (json!(5), "f64", Value::F64(5.0)),
        (json!(16_777_216), "f32", Value::F32(16_777_216.0)),
        (json!(0.3), "f32", Value::F32(0.3)),
        (json!("18446744073709551615"), "u64", Value::U64(u64::MAX)),
        (json!("-9223372036854775808"), "i64", Value::I64(i64::MIN)),
        (json!(1), "enum(OFF, AUTO)", Value::Enum(1)),
        (json!("inf"), "f64", Value::F64(f64::INFINITY)),
        (json!(1e15), "u64", Value::U64(1_000_000_000_000_000)),
    ] {
        assert_eq!(from_json(&json, &ty(text)), Ok(value), "{json} as {text}");
    }
}

#[test]
fn lossy_conversions_are_refused_with_the_reason() {
    for (json, text, expected) in [
        (json!(300), "u8", "300 is outside the range of u8, 0 to 255"),
        (
            json!(-1),
            "u64",
            "-1 is outside the range of u64, 0 to 18446744073709551615",
        ),
        (
            json!(9_223_372_036_854_775_808_u64),
            "i64",
            "9223372036854775808 is outside the range of i64, -9223372036854775808 to 9223372036854775807",
        ),
        (
            json!(1e300),
            "i32",
            "1e+300 is outside the range of i32, -2147483648 to 2147483647",
        ),
        (json!(1.5), "i32", "1.5 is not an integer (type i32)"),
        (
            json!(1e17),
            "i64",
            "1e+17 cannot be represented exactly as an i64",
        ),
        (
            json!(9_007_199_254_740_993_u64),
            "f64",
            "9007199254740993 cannot be represented exactly as an f64",
        ),
        (
            json!(16_777_217),
            "f32",
            "16777217 cannot be represented exactly as an f32",
        ),
        (
            json!(1e39),
            "f32",
            "1e+39 is outside the range of f32, -3.4028235e38 to 3.4028235e38",
        ),
        (json!("5"), "i32", "\"5\" is not an integer (type i32)"),
        (json!("x"), "u64", "\"x\" is not an integer (type u64)"),
        (json!(null), "f64", "null is not a number (type f64)"),
        (json!(1), "bool", "1 is not a bool: write true or false"),
        (json!([1]), "string", "a list of 1 is not a string"),
        (
            json!({}),
            "array(f64, *)",
            "an object is not a list: array(f64, *) has 1 dimension",
        ),
        (
            json!("STOP"),
            "enum(OFF, AUTO)",
            "\"STOP\" is not one of OFF, AUTO",
        ),
        (json!(2), "enum(OFF, AUTO)", "2 is not one of OFF, AUTO"),
        (json!(-1), "enum(OFF, AUTO)", "-1 is not one of OFF, AUTO"),
        (json!("?"), "bytes", "? is not base64"),
        (
            json!("soon"),
            "timestamp",
            "soon is not a time: write a time such as 2026-11-20T21:39:04.123456789Z",
        ),
        (
            json!([1, 2]),
            "array(f64, 3)",
            "dimension 1 has length 2, but the type requires 3",
        ),
        (
            json!([[1, 2], [3]]),
            "array(f64, *, *)",
            "the lists of dimension 2 have different lengths, 2 and 1; make them equal",
        ),
        (
            json!([1, [2]]),
            "array(f64, *)",
            "element 1: a list of 1 is not a number (type f64)",
        ),
        (
            json!([1, "x"]),
            "array(u8, *)",
            "element 1: \"x\" is not an integer (type u8)",
        ),
        (
            json!({"a": 1}),
            "struct(a: u8, b: u8)",
            "the field \"b\" is missing",
        ),
        (
            json!({"a": 1, "b": 2, "c": 3}),
            "struct(a: u8, b: u8)",
            "there is no field \"c\"; the fields are a, b",
        ),
        (
            json!({"a": 1, "c": 3}),
            "struct(a: u8, b: u8)",
            "there is no field \"c\"; the fields are a, b",
        ),
        (
            json!({"a": {"x": 256}}),
            "struct(a: struct(x: u8))",
            "a: x: 256 is outside the range of u8, 0 to 255",
        ),
        (
            json!({"t0": "2026-01-01T00:00:00Z"}),
            "waveform(f64)",
            "the field \"samples\" is missing",
        ),
        (
            json!({"samples": [], "rate": 1}),
            "waveform(f64)",
            "there is no field \"rate\"; the fields are t0, dt, samples, attributes",
        ),
        (
            json!({"samples": [], "attributes": {"a": [1]}}),
            "waveform(f64)",
            "attributes: a: a list of 1 is not a boolean, a number, a string, or an object with type and value",
        ),
        (
            json!({"samples": [], "attributes": {"a": {"type": "array(u8, *)", "value": []}}}),
            "waveform(f64)",
            "attributes: a: array(u8, *) is not the type of a boolean, number, string, bytes or timestamp",
        ),
    ] {
        assert_eq!(sentence(json.clone(), text), expected, "{json} as {text}");
    }
}

#[test]
fn an_empty_list_is_every_array_without_elements() {
    for (text, json, shape) in [
        ("array(f64, *)", json!([]), &[0][..]),
        ("array(f64, *, 3)", json!([]), &[0, 3]),
        ("array(f64, 2, *)", json!([]), &[2, 0]),
        ("array(f64, 2, *)", json!([[], []]), &[2, 0]),
        ("array(f64, *, *)", json!([[], [], []]), &[3, 0]),
        ("array(f64, 0)", json!([]), &[0]),
    ] {
        match from_json(&json, &ty(text)).unwrap() {
            Value::Array(array) => assert_eq!(array.shape(), shape, "{text}"),
            other => panic!("{other:?}"),
        }
    }
    assert!(from_json(&json!([]), &ty("array(f64, 2)")).is_err());
    assert!(from_json(&json!([[], []]), &ty("array(f64, *, 3)")).is_err());
    assert!(from_json(&json!([[]]), &ty("array(f64, 2, *)")).is_err());
}

#[test]
fn array_without_elements_keeps_its_shape() {
    for (text, shape, json) in [
        ("array(f64, *)", &[0][..], json!([])),
        ("array(f64, *, 3)", &[0, 3], json!([])),
        ("array(f64, *, *)", &[0, 0], json!([])),
        ("array(f64, *, *)", &[0, 3], json!({"shape": [0, 3]})),
        ("array(f64, *, *)", &[3, 0], json!({"shape": [3, 0]})),
        (
            "array(u8, *, *)",
            &[u32::MAX, 0],
            json!({"shape": [u32::MAX, 0]}),
        ),
    ] {
        let ty = ty(text);
        let empty = from_json(&json, &ty).unwrap();
        let Value::Array(array) = &empty else {
            panic!("{empty:?}")
        };
        assert_eq!(array.shape(), shape, "{text}");
        assert_eq!(to_json(&empty, &ty).value, json, "{text}");
    }
    let sentence = |json| {
        from_json(&json, &ty("array(f64, *, 3)"))
            .unwrap_err()
            .to_string()
    };
    assert!(sentence(json!({"shape": [0, 2]})).contains("2"));
    for json in [
        json!({"shape": [2, 3]}),
        json!({"shape": [0]}),
        json!({"shape": [-1, 3]}),
        json!({"shape": "0,3"}),
        json!({"lengths": [0, 3]}),
        json!({}),
    ] {
        assert!(!sentence(json.clone()).is_empty(), "{json}");
    }
}

#[test]
fn waveform_needs_only_samples() {
    match from_json(&json!({"samples": [1, 2]}), &ty("waveform(f64)")).unwrap() {
        Value::Waveform(wave) => {
            assert_eq!(wave.samples, Elements::F64(vec![1.0, 2.0]));
            assert_eq!((wave.t0, wave.dt), (Timestamp::UNIX_EPOCH, 0.0));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn values_over_the_limit_are_refused() {
    let text = "x".repeat(16 << 20);
    let error = from_json(&json!(text), &DataType::String)
        .unwrap_err()
        .to_string();
    assert_eq!(error, "the value has 16777220 bytes; 16777216 is the limit");
    let error = sentence(json!("y".repeat(64 << 10)), "f64");
    assert!(error.len() < 200, "{error}");
}
