#![no_main]
//! A type, in wire form and as text.

use libfuzzer_sys::fuzz_target;
use trunkline_types::wire::{Reader, decode_type, encode_type};

fuzz_target!(|data: &[u8]| {
    let Ok(ty) = decode_type(&mut Reader::new(data)) else {
        return;
    };
    let mut bytes = Vec::new();
    encode_type(&ty, &mut bytes);
    let mut reader = Reader::new(&bytes);
    assert_eq!(
        decode_type(&mut reader).expect("what was written can be read"),
        ty
    );
    assert!(reader.is_empty());
    let text = ty.to_string();
    let parsed = trunkline_types::text::parse_type(&text);
    assert_eq!(parsed.expect("what is shown can be read"), ty, "{text}");
});
