//! Converts the attributes of a waveform to text and back.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use serde_json::Value as Json;
use trunkline_types::json::{from_json, to_json};
use trunkline_types::wire::{Reader, decode_value, encode_value};
use trunkline_types::{DataType, ElementType, Value, Waveform};

type Attributes = BTreeMap<Arc<str>, Value>;

/// Prefix of attributes in wire encoding, which is used if JSON cannot represent them exactly.
const WIRE_PREFIX: &str = "wire:";

/// The type of a waveform that only carries attributes.
const TYPE: DataType = DataType::Waveform(ElementType::Bool);

/// Converts attributes to a JSON object, or to an empty string if there are none. If JSON cannot
/// represent a number exactly (a NaN with a payload), the text is the wire encoding in hexadecimal.
pub(super) fn to_text(attributes: &Attributes) -> String {
    if attributes.is_empty() {
        return String::new();
    }
    let value = value(attributes.clone());
    let json = to_json(&value, &TYPE).value;
    if let Some(json) = json.get("attributes") {
        let text = json.to_string();
        let back = from_text(&text).map(self::value);
        if back.is_some_and(|back| wire(&back) == wire(&value)) {
            return text;
        }
    }
    let mut text = WIRE_PREFIX.to_owned();
    for byte in wire(&value) {
        // Writing to memory cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Converts the text that [`to_text`] returned to attributes. Returns `None` for other text.
pub(super) fn from_text(text: &str) -> Option<Attributes> {
    if text.is_empty() {
        return Some(Attributes::new());
    }
    let value = match text.strip_prefix(WIRE_PREFIX) {
        Some(digits) => {
            let bytes: Option<Vec<u8>> = digits.as_bytes().chunks(2).map(byte).collect();
            let bytes = bytes?;
            let mut reader = Reader::new(&bytes);
            let value = decode_value(&TYPE, &mut reader).ok()?;
            reader.finish().ok()?;
            value
        }
        None => {
            let attributes: Json = serde_json::from_str(text).ok()?;
            let waveform = serde_json::json!({ "samples": [], "attributes": attributes });
            from_json(&waveform, &TYPE).ok()?
        }
    };
    match value {
        Value::Waveform(waveform) => Some(waveform.attributes.clone()),
        _ => None,
    }
}

fn byte(digits: &[u8]) -> Option<u8> {
    let digits = std::str::from_utf8(digits)
        .ok()
        .filter(|two| two.len() == 2)?;
    u8::from_str_radix(digits, 16).ok()
}

fn value(attributes: Attributes) -> Value {
    Value::Waveform(Arc::new(Waveform {
        attributes,
        ..Waveform::empty(ElementType::Bool)
    }))
}

fn wire(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_value(value, &mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes(pairs: &[(&str, Value)]) -> Attributes {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| (Arc::from(*name), value.clone()))
            .collect()
    }

    #[test]
    fn attributes_become_json_where_representable() {
        assert_eq!(to_text(&attributes(&[])), "");
        let usual = attributes(&[
            ("unit", Value::String("V".into())),
            ("gain", Value::F64(0.1)),
        ]);
        assert_eq!(to_text(&usual), r#"{"gain":0.1,"unit":"V"}"#);
        assert_eq!(from_text(&to_text(&usual)), Some(usual));
    }

    #[test]
    fn every_bit_round_trips() {
        let nan = f64::from_bits(0x7ff8_0000_0000_1234);
        for value in [
            Value::F64(nan),
            Value::F32(-0.0),
            Value::U64(u64::MAX),
            Value::F64(0.1 + 0.2),
        ] {
            let expected = attributes(&[("", value)]);
            let back = from_text(&to_text(&expected)).unwrap();
            assert_eq!(wire(&super::value(back)), wire(&super::value(expected)));
        }
    }

    #[test]
    fn other_texts_are_not_attributes() {
        for text in [
            "wire:",
            "wire:0",
            "wire:zz",
            "wire:+1",
            "[1]",
            "{",
            "{\"a\":[1]}",
            "null",
        ] {
            assert_eq!(from_text(text), None, "{text}");
        }
    }
}
