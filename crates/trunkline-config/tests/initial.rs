//! Tests initial values of every type.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::collections::BTreeMap;
use std::sync::Arc;

use trunkline_config::parse;
use trunkline_types::{Array, Elements, Timestamp, Value, Waveform};

/// Returns the initial value of a variable of this type.
fn initial(data_type: &str, value: &str) -> Value {
    let text = format!("[[variable]]\nname = \"x\"\ntype = \"{data_type}\"\ninitial = {value}\n");
    let plan = parse("a.toml", &text).unwrap_or_else(|errors| panic!("{text}\n{errors}"));
    let value = plan.libraries[0].variables[0]
        .properties
        .initial
        .clone()
        .unwrap();
    assert!(value.has_type(&plan.libraries[0].variables[0].properties.data_type));
    value
}

fn array(shape: &[u32], elements: Elements) -> Value {
    Value::Array(Arc::new(Array::new(shape.to_vec(), elements).unwrap()))
}

#[test]
fn scalars_have_initial_values() {
    assert_eq!(initial("bool", "true"), Value::Bool(true));
    assert_eq!(initial("i8", "-128"), Value::I8(-128));
    assert_eq!(initial("i16", "-1"), Value::I16(-1));
    assert_eq!(initial("i32", "1_000_000"), Value::I32(1_000_000));
    assert_eq!(initial("i64", "-9223372036854775808"), Value::I64(i64::MIN));
    assert_eq!(initial("u8", "0xFF"), Value::U8(255));
    assert_eq!(initial("u16", "7"), Value::U16(7));
    assert_eq!(initial("u32", "0b11"), Value::U32(3));
    assert_eq!(initial("u64", "5"), Value::U64(5));
    assert_eq!(
        initial("u64", "\"18446744073709551615\""),
        Value::U64(u64::MAX)
    );
    assert_eq!(initial("f32", "0.1"), Value::F32(0.1));
    assert_eq!(initial("f64", "72.5"), Value::F64(72.5));
    assert_eq!(initial("f64", "3"), Value::F64(3.0));
    assert_eq!(initial("f64", "-inf"), Value::F64(f64::NEG_INFINITY));
    assert!(matches!(initial("f32", "nan"), Value::F32(value) if value.is_nan()));
    assert_eq!(
        initial("string", "\"gr\u{fc}n\""),
        Value::String("gr\u{fc}n".into())
    );
    assert_eq!(
        initial("bytes", "\"0x0aff\""),
        Value::Bytes([0x0a, 0xff].into())
    );
    assert_eq!(
        initial("bytes", "\"base64:Cv8=\""),
        Value::Bytes([0x0a, 0xff].into())
    );
    assert_eq!(initial("enum(OFF, AUTO)", "\"AUTO\""), Value::Enum(1));
    assert_eq!(initial("enum(OFF, AUTO)", "0"), Value::Enum(0));
}

#[test]
fn times_have_offsets_or_are_utc() {
    let second = Value::Timestamp(Timestamp::from_nanos(1_000_000_000));
    for text in [
        "1970-01-01T00:00:01Z",
        "1970-01-01T02:00:01+02:00",
        "1970-01-01T00:00:01",
        "\"1970-01-01T00:00:01Z\"",
        "\"1970-01-01T00:00:01.000000000Z\"",
    ] {
        assert_eq!(initial("timestamp", text), second, "{text}");
    }
}

#[test]
fn arrays_are_nested_lists() {
    let f64s = |values: &[f64]| Elements::F64(values.to_vec());
    assert_eq!(
        initial("array(f64, *)", "[1, 2.5]"),
        array(&[2], f64s(&[1.0, 2.5]))
    );
    assert_eq!(
        initial("array(f64, 2, *)", "[[1, 2, 3], [4, 5, 6]]"),
        array(&[2, 3], f64s(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))
    );
    assert_eq!(initial("array(f64, *)", "[]"), array(&[0], f64s(&[])));
    assert_eq!(initial("array(f64, *, 3)", "[]"), array(&[0, 3], f64s(&[])));
    assert_eq!(
        initial("array(string, 2)", "[\"a\", \"b\"]"),
        array(&[2], Elements::String(vec!["a".into(), "b".into()]))
    );
    assert_eq!(
        initial("array(bool, 1, 1)", "[[true]]"),
        array(&[1, 1], Elements::Bool(vec![true]))
    );
    let epoch = Elements::Timestamp(vec![Timestamp::UNIX_EPOCH]);
    assert_eq!(
        initial("array(timestamp, *)", "[1970-01-01T00:00:00Z]"),
        array(&[1], epoch)
    );
    macro_rules! numbers {
        ($($name:literal $variant:ident),*) => {
            $(assert_eq!(
                initial(concat!("array(", $name, ", *)"), "[1, 2]"),
                array(&[2], Elements::$variant(vec![1 as _, 2 as _]))
            );)*
        };
    }
    numbers!("i8" I8, "i16" I16, "i32" I32, "i64" I64, "u8" U8, "u16" U16, "u32" U32, "u64" U64,
        "f32" F32);
}

#[test]
fn structs_are_tables_in_any_order_of_fields() {
    let inner = Value::Struct([Value::Enum(1), array(&[1], Elements::U8(vec![9]))].into());
    let outer = Value::Struct([Value::F64(1.5), inner].into());
    let data_type = "struct(x: f64, s: struct(e: enum(A, B), a: array(u8, *)))";
    assert_eq!(
        initial(data_type, "{ s = { a = [9], e = \"B\" }, x = 1.5 }"),
        outer
    );
    assert_eq!(initial(data_type, "{ s.a = [9], s.e = 1, x = 1.5 }"), outer);
}

#[test]
fn waveforms_are_configured_as_tables() {
    let empty = Waveform::empty(trunkline_types::ElementType::I16);
    assert_eq!(
        initial("waveform(i16)", "{}"),
        Value::Waveform(Arc::new(empty))
    );
    let attributes = [
        ("unit", Value::String("g".into())),
        ("channel", Value::I64(3)),
        ("gain", Value::F64(0.5)),
        ("spare", Value::Bool(false)),
        ("since", Value::Timestamp(Timestamp::UNIX_EPOCH)),
    ];
    let waveform = Waveform {
        t0: Timestamp::from_nanos(1_000_000_000),
        dt: 1e-4,
        samples: Elements::F32(vec![1.0, -1.0]),
        attributes: BTreeMap::from(attributes.map(|(name, value)| (Arc::from(name), value))),
    };
    let text = "{ t0 = 1970-01-01T00:00:01Z, dt = 1e-4, samples = [1, -1], attributes = { \
                unit = \"g\", channel = 3, gain = 0.5, spare = false, \
                since = 1970-01-01T00:00:00Z } }";
    assert_eq!(
        initial("waveform(f32)", text),
        Value::Waveform(Arc::new(waveform))
    );
}

#[test]
fn parameters_become_values_of_the_type() {
    let text = "[[variable]]\nname = \"{t}\"\ninitial = \"{v}\"\ntype = \"{t}\"\n\
                zip = { t = [\"f64\", \"string\", \"bool\", \"u8\"], v = [2.5, 7, true, 255] }\n";
    let plan = parse("a.toml", text).unwrap_or_else(|errors| panic!("{errors}"));
    let values: Vec<_> = plan.libraries[0]
        .variables
        .iter()
        .map(|variable| variable.properties.initial.clone().unwrap())
        .collect();
    let seven = Value::String("7".into());
    assert_eq!(
        values,
        [Value::F64(2.5), seven, Value::Bool(true), Value::U8(255)]
    );
}
