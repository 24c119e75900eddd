#![no_main]
//! The rows of a history, in its log and in frames.

use libfuzzer_sys::fuzz_target;
use trunkline_types::wire::{Reader, decode_buckets, decode_rows, encode_rows};

fuzz_target!(|data: &[u8]| {
    let _ = decode_buckets(&mut Reader::new(data));
    let Ok(rows) = decode_rows(&mut Reader::new(data)) else {
        return;
    };
    let mut once = Vec::new();
    encode_rows(&rows, 0, 0, &mut once);
    let mut reader = Reader::new(&once);
    let again = decode_rows(&mut reader).expect("what was written can be read");
    assert!(reader.is_empty());
    assert_eq!(rows.len(), again.len());
    for row in 0..rows.len() {
        assert_eq!(rows.key(row), again.key(row));
        let value = |of: &trunkline_types::history::Rows| of.with_row(row, |row| row.value.to_vec());
        assert_eq!(value(&rows), value(&again));
    }
    assert_eq!(rows.events(), again.events());
    let _ = again.sorted();
});
