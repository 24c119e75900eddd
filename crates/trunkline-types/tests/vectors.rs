//! The golden vectors match the code, and the code matches them.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod golden;

use serde_json::Value as Json;
use trunkline_types::json::from_json;
use trunkline_types::text::parse_type;
use trunkline_types::wire::{Reader, check_value, decode_tagged, decode_value, encode_value};
use trunkline_types::{DataType, Value};

fn file() -> String {
    let path = golden::path();
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn unhex(hex: &str) -> Vec<u8> {
    let digits = hex
        .as_bytes()
        .chunks(2)
        .map(|pair| std::str::from_utf8(pair).unwrap());
    digits
        .map(|pair| u8::from_str_radix(pair, 16).unwrap())
        .collect()
}

fn bits(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    encode_value(value, &mut out);
    out
}

#[test]
fn the_file_is_what_the_generator_writes() {
    let same = file() == golden::render(&golden::vectors());
    assert!(
        same,
        "vectors/values.json differs: cargo run -p trunkline-types --example write_vectors"
    );
}

#[test]
fn every_vector_is_read_as_its_value() {
    let lines: Vec<Json> = serde_json::from_str(&file()).unwrap();
    let vectors = golden::vectors();
    assert_eq!(lines.len(), vectors.len());
    for (line, vector) in lines.iter().zip(&vectors) {
        let name = line["name"].as_str().unwrap();
        assert_eq!(name, vector.name);
        let ty = parse_type(line["type"].as_str().unwrap()).unwrap();
        assert_eq!(ty, vector.data_type, "{name}");

        let wire = unhex(line["wire_hex"].as_str().unwrap());
        assert_eq!(check_value(&ty, &wire), Ok(()), "{name}");
        let mut reader = Reader::new(&wire);
        let value = decode_value(&ty, &mut reader).unwrap();
        assert!(reader.is_empty(), "{name}");
        assert_eq!(bits(&value), bits(&vector.value), "{name}");
        assert_eq!(golden::hex(&bits(&value)), line["wire_hex"], "{name}");

        let tagged = unhex(line["tagged_hex"].as_str().unwrap());
        let mut reader = Reader::new(&tagged);
        let (tagged_type, tagged_value) = decode_tagged(&mut reader).unwrap();
        assert!(reader.is_empty(), "{name}");
        assert_eq!(tagged_type, ty, "{name}");
        assert_eq!(bits(&tagged_value), wire, "{name}");

        let json = line.get("special").unwrap_or(&line["json"]);
        let value = from_json(json, &ty).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(bits(&value), wire, "{name}");
    }
}

#[test]
fn every_type_has_a_vector() {
    let vectors = golden::vectors();
    let has = |fits: &dyn Fn(&DataType) -> bool| vectors.iter().any(|v| fits(&v.data_type));
    for scalar in [
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
    ] {
        let scalar = parse_type(scalar).unwrap();
        assert!(has(&|ty| *ty == scalar), "{scalar}");
        if scalar != DataType::Bytes {
            let is_array_of = |ty: &DataType| match ty {
                DataType::Array(ty) => ty.element.data_type() == scalar,
                _ => false,
            };
            assert!(has(&is_array_of), "array of {scalar}");
        }
    }
    assert!(has(&|ty| matches!(ty, DataType::Enum(_))));
    assert!(has(&|ty| matches!(ty, DataType::Struct(_))));
    assert!(has(&|ty| matches!(ty, DataType::Waveform(_))));
}
