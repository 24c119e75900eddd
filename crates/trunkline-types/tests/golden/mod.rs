//! The golden vectors of the value forms, made by code so that file and code cannot differ.

#![allow(clippy::expect_used, reason = "a generator that is wrong must stop")]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::json;
use trunkline_types::json::to_json;
use trunkline_types::text::parse_type;
use trunkline_types::wire::{encode_tagged, encode_value};
use trunkline_types::{Array, DataType, Elements, Timestamp, Value, Waveform};

/// One value of one type.
pub struct Vector {
    pub name: String,
    pub data_type: DataType,
    pub value: Value,
}

/// `vectors/values.json` at the root of the repository, read by the tests of every language.
pub fn path() -> PathBuf {
    PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../vectors/values.json"
    ))
}

/// The text of the file: one vector per line, so that a change of one is a change of one line.
pub fn render(vectors: &[Vector]) -> String {
    let lines = vectors.iter().map(|vector| {
        let Vector {
            name,
            data_type,
            value,
        } = vector;
        let (mut wire, mut tagged) = (Vec::new(), Vec::new());
        encode_value(value, &mut wire);
        encode_tagged(data_type, value, &mut tagged);
        let json = to_json(value, data_type);
        let mut line = json!({"name": name, "type": data_type.to_string(), "json": json.value});
        if let Some(special) = json.special {
            line["special"] = json!(special);
        }
        if let Some(enc) = json.enc {
            line["enc"] = json!(enc);
        }
        line["wire_hex"] = json!(hex(&wire));
        line["tagged_hex"] = json!(hex(&tagged));
        format!("  {line}")
    });
    format!("[\n{}\n]\n", lines.collect::<Vec<_>>().join(",\n"))
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").expect("a String takes everything");
        hex
    })
}

/// Every type, with its extremes.
pub fn vectors() -> Vec<Vector> {
    let mut list = List::default();
    scalars(&mut list);
    texts(&mut list);
    arrays(&mut list);
    composed(&mut list);
    list.0
}

#[derive(Default)]
struct List(Vec<Vector>);

impl List {
    fn add(&mut self, name: &str, data_type: &str, value: Value) {
        let data_type = parse_type(data_type).expect("the types here are written correctly");
        assert!(
            value.has_type(&data_type),
            "{name}: {value:?} is not a {data_type}"
        );
        self.0.push(Vector {
            name: name.to_owned(),
            data_type,
            value,
        });
    }
}

fn scalars(list: &mut List) {
    list.add("bool false", "bool", Value::Bool(false));
    list.add("bool true", "bool", Value::Bool(true));
    for (name, small, large) in [
        ("min", i8::MIN, i64::MIN),
        ("-1", -1, -1),
        ("max", i8::MAX, i64::MAX),
    ] {
        list.add(&format!("i8 {name}"), "i8", Value::I8(small));
        list.add(&format!("i64 {name}"), "i64", Value::I64(large));
    }
    list.add("i16 min", "i16", Value::I16(i16::MIN));
    list.add("i16 max", "i16", Value::I16(i16::MAX));
    list.add("i32 min", "i32", Value::I32(i32::MIN));
    list.add("i32 max", "i32", Value::I32(i32::MAX));
    list.add("u8 max", "u8", Value::U8(u8::MAX));
    list.add("u16 258", "u16", Value::U16(258));
    list.add("u16 max", "u16", Value::U16(u16::MAX));
    list.add("u32 bit field", "u32", Value::U32(0x8000_0001));
    list.add("u32 max", "u32", Value::U32(u32::MAX));
    list.add("u64 above 2^53", "u64", Value::U64((1 << 53) + 1));
    list.add("u64 max", "u64", Value::U64(u64::MAX));
    for (name, number) in [
        ("0", 0.0),
        ("-0", -0.0),
        ("0.1", 0.1),
        ("-72.5", -72.5),
        ("smallest", f64::from_bits(1)),
        ("max", f64::MAX),
        ("lowest", f64::MIN),
        ("inf", f64::INFINITY),
        ("-inf", f64::NEG_INFINITY),
        ("nan", f64::from_bits(0x7ff8_0000_0000_0000)),
    ] {
        list.add(&format!("f64 {name}"), "f64", Value::F64(number));
    }
    for (name, number) in [
        ("-0", -0.0),
        ("0.1", 0.1),
        ("smallest", f32::from_bits(1)),
        ("max", f32::MAX),
        ("-inf", f32::NEG_INFINITY),
        ("nan", f32::from_bits(0x7fc0_0000)),
    ] {
        list.add(&format!("f32 {name}"), "f32", Value::F32(number));
    }
    for (name, nanos) in [
        ("epoch", 0),
        ("2026", 1_795_210_744_123_456_789),
        ("before 1970", -1),
        ("leap day 2000", 951_782_400_000_000_000),
        ("min", i64::MIN),
        ("max", i64::MAX),
    ] {
        list.add(&format!("timestamp {name}"), "timestamp", time(nanos));
    }
    list.add("enum first", "enum(OFF, MANUAL, AUTO)", Value::Enum(0));
    list.add("enum last", "enum(OFF, MANUAL, AUTO)", Value::Enum(2));
    list.add(
        "enum with quoted labels",
        "enum(\"\", \"a, b\", \"(\")",
        Value::Enum(1),
    );
}

fn texts(list: &mut List) {
    for (name, text) in [
        ("empty", ""),
        ("ASCII", "hello"),
        ("Unicode", "Füllstand 液位 🌡"),
        ("quotes and controls", "\"\\\n\u{0}"),
        ("two-byte length", &"x".repeat(128)),
    ] {
        list.add(
            &format!("string {name}"),
            "string",
            Value::String(text.into()),
        );
    }
    list.add("bytes empty", "bytes", Value::Bytes([].into()));
    list.add(
        "bytes",
        "bytes",
        Value::Bytes([0, 1, 0x7f, 0x80, 0xff].into()),
    );
}

fn arrays(list: &mut List) {
    let mut add = |name: &str, ty: &str, elements: Elements| {
        list.add(name, ty, Value::Array(Arc::new(Array::vector(elements))));
    };
    add(
        "array of bool",
        "array(bool, *)",
        Elements::Bool(vec![true, false, true]),
    );
    add(
        "array of i8",
        "array(i8, *)",
        Elements::I8(vec![i8::MIN, 0, i8::MAX]),
    );
    add(
        "array of i16",
        "array(i16, *)",
        Elements::I16(vec![i16::MIN, 0, i16::MAX]),
    );
    add(
        "array of i32",
        "array(i32, *)",
        Elements::I32(vec![i32::MIN, 0, i32::MAX]),
    );
    add(
        "array of i64",
        "array(i64, *)",
        Elements::I64(vec![i64::MIN, 0, i64::MAX]),
    );
    add(
        "array of u8",
        "array(u8, 3)",
        Elements::U8(vec![0, 1, u8::MAX]),
    );
    add(
        "array of u16",
        "array(u16, *)",
        Elements::U16(vec![0, 1, u16::MAX]),
    );
    add(
        "array of u32",
        "array(u32, *)",
        Elements::U32(vec![0, 1, u32::MAX]),
    );
    add(
        "array of u64",
        "array(u64, *)",
        Elements::U64(vec![0, 1, u64::MAX]),
    );
    add(
        "array of f32",
        "array(f32, *)",
        Elements::F32(vec![-0.0, 0.1, f32::INFINITY]),
    );
    add(
        "array of f64",
        "array(f64, *)",
        Elements::F64(vec![-0.0, 0.1, f64::NAN, f64::NEG_INFINITY]),
    );
    let texts = ["", "a", "ä, \"quoted\""].map(Arc::from).to_vec();
    add(
        "array of string",
        "array(string, *)",
        Elements::String(texts),
    );
    let times = [0, -1, i64::MAX].map(Timestamp::from_nanos).to_vec();
    add(
        "array of timestamp",
        "array(timestamp, *)",
        Elements::Timestamp(times),
    );
    add(
        "array without elements",
        "array(f64, *)",
        Elements::F64(Vec::new()),
    );
    add(
        "array of 200",
        "array(u8, *)",
        Elements::U8((0..200).collect()),
    );
    let mut add = |name: &str, ty: &str, shape: &[u32], elements: Elements| {
        let array = Array::new(shape.to_vec(), elements).expect("shapes here fit");
        list.add(name, ty, Value::Array(Arc::new(array)));
    };
    let six = || Elements::F64(vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    add("array 2 x 3, fixed", "array(f64, 2, 3)", &[2, 3], six());
    add("array 3 x 2, free", "array(f64, *, *)", &[3, 2], six());
    add("array 1 x 2 x 3", "array(f64, *, 2, *)", &[1, 2, 3], six());
    add(
        "array 0 x 3",
        "array(f64, *, 3)",
        &[0, 3],
        Elements::F64(Vec::new()),
    );
}

fn composed(list: &mut List) {
    let point = Value::Struct([Value::F64(1.5), Value::F64(-2.0)].into());
    list.add("struct", "struct(x: f64, y: f64)", point.clone());
    let matrix = Array::new(vec![2, 2], Elements::I16(vec![1, 2, 3, 4])).expect("it fits");
    let nested = Value::Struct(
        [
            point,
            Value::Struct([Value::Enum(1), Value::String("on".into())].into()),
            Value::Array(Arc::new(matrix)),
            Value::Bytes([0xde, 0xad].into()),
            time(1_795_210_744_000_000_000),
            Value::F32(f32::NAN),
        ]
        .into(),
    );
    list.add(
        "struct nested",
        "struct(position: struct(x: f64, y: f64), state: struct(mode: enum(OFF, AUTO), \"full text\": string), \
         calibration: array(i16, 2, 2), raw: bytes, since: timestamp, \"a:b\": f32)",
        nested,
    );
    let innermost = (0..7).fold(Value::U8(7), |inner, _| Value::Struct([inner].into()));
    let deepest = "struct(s: ".repeat(7) + "u8" + &")".repeat(7);
    list.add(
        "struct eight deep",
        &format!("struct(s: {deepest})"),
        Value::Struct([innermost].into()),
    );
    let attributes = [
        ("channel", Value::U8(3)),
        ("gain", Value::F64(2.5)),
        ("offset", Value::F64(f64::NAN)),
        ("scale", Value::F32(0.1)),
        ("serial", Value::I64(1_234_567)),
        ("simulated", Value::Bool(false)),
        ("since", time(0)),
        ("unit", Value::String("V".into())),
        ("vendor data", Value::Bytes([1, 2, 3].into())),
    ];
    let attributes = attributes.map(|(name, value)| (Arc::from(name), value));
    list.add(
        "waveform with attributes",
        "waveform(f64)",
        Value::Waveform(Arc::new(Waveform {
            t0: Timestamp::from_nanos(1_795_210_744_123_456_789),
            dt: 0.000_01,
            samples: Elements::F64(vec![0.0, 1.0, -1.0, f64::INFINITY]),
            attributes: BTreeMap::from(attributes),
        })),
    );
    let plain = |samples: Elements, dt: f64| {
        let (t0, attributes) = (Timestamp::UNIX_EPOCH, BTreeMap::new());
        Value::Waveform(Arc::new(Waveform {
            t0,
            dt,
            samples,
            attributes,
        }))
    };
    list.add(
        "waveform of i16",
        "waveform(i16)",
        plain(Elements::I16(vec![-1, 0, 1]), 1.0),
    );
    list.add(
        "waveform of bool",
        "waveform(bool)",
        plain(Elements::Bool(vec![true, false]), 0.001),
    );
    list.add(
        "waveform without samples",
        "waveform(f32)",
        plain(Elements::F32(Vec::new()), 0.0),
    );
}

fn time(nanos: i64) -> Value {
    Value::Timestamp(Timestamp::from_nanos(nanos))
}
