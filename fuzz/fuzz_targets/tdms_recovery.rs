#![no_main]
//! TDMS files: every operation on one; a rewritten file has the same content, and an altered
//! companion file is detected.

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    trunkline_fuzz::exercise_tdms::exercise(data);
    trunkline_fuzz::exercise_tdms::exercise_with_companions(data);
});
