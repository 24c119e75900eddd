#![no_main]
//! Frames of the group `stream`.

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| trunkline_fuzz::message(trunkline_fuzz::STREAM, data));
