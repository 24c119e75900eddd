#![no_main]
//! The properties of a variable.

use libfuzzer_sys::fuzz_target;
use trunkline_types::wire::{Reader, decode_properties, encode_properties};

fuzz_target!(|data: &[u8]| {
    let Ok(properties) = decode_properties(&mut Reader::new(data)) else {
        return;
    };
    // Compared as bytes, because a NaN equals nothing.
    let mut once = Vec::new();
    encode_properties(&properties, &mut once);
    let mut reader = Reader::new(&once);
    let again = decode_properties(&mut reader).expect("what was written can be read");
    assert!(reader.is_empty());
    let mut twice = Vec::new();
    encode_properties(&again, &mut twice);
    assert_eq!(once, twice);
});
