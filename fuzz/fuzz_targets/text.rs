#![no_main]
//! Types and values as text and JSON: parsed text is written and read back unchanged.

use libfuzzer_sys::fuzz_target;
use trunkline_types::text::{FormatOptions, format_value, parse_rfc3339, parse_type, parse_value};
use trunkline_types::{json, wire};

fuzz_target!(|text: &str| {
    let (ty, value) = text.split_once('\n').unwrap_or((text, text));
    let _ = parse_rfc3339(value);
    let Ok(ty) = parse_type(ty) else { return };
    assert_eq!(parse_type(&ty.to_string()).as_ref(), Ok(&ty));
    if let Ok(value) = parse_value(value, &ty) {
        assert!(value.has_type(&ty));
        let written = format_value(&value, &ty, &FormatOptions::default());
        let again = parse_value(&written, &ty).expect("what was written is read");
        let (mut first, mut second) = (Vec::new(), Vec::new());
        wire::encode_value(&value, &mut first);
        wire::encode_value(&again, &mut second);
        assert_eq!(first, second);
    }
    if let Ok(document) = serde_json::from_str(value)
        && let Ok(value) = json::from_json(&document, &ty)
    {
        assert!(value.has_type(&ty));
    }
});
