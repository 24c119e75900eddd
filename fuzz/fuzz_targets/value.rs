#![no_main]
//! A value of any type: the input is a type and then a value.

use libfuzzer_sys::fuzz_target;
use trunkline_types::wire::{
    Reader, check_value, decode_type, decode_value, encode_value, encoded_len,
};

fuzz_target!(|data: &[u8]| {
    let mut reader = Reader::new(data);
    let Ok(ty) = decode_type(&mut reader) else {
        return;
    };
    let bytes = reader.rest();
    let mut reader = Reader::new(bytes);
    let decoded = decode_value(&ty, &mut reader);
    let is_whole = decoded.is_ok() && reader.is_empty();
    assert_eq!(
        check_value(&ty, bytes).is_ok(),
        is_whole,
        "checking agrees with decoding"
    );
    let Ok(value) = decoded else { return };
    assert!(value.has_type(&ty));
    // Compared as bytes, because a NaN equals nothing.
    let mut once = Vec::new();
    encode_value(&value, &mut once);
    assert_eq!(once.len(), encoded_len(&value));
    let mut reader = Reader::new(&once);
    let again = decode_value(&ty, &mut reader).expect("what was written can be read");
    assert!(reader.is_empty());
    let mut twice = Vec::new();
    encode_value(&again, &mut twice);
    assert_eq!(once, twice);
});
