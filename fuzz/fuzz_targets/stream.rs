#![no_main]
//! Frames of the group `stream`, with their extensions.

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    trunkline_fuzz::message(trunkline_fuzz::STREAM, data);
    trunkline_fuzz::stream_extensions(data);
});
