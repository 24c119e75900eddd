#![no_main]
//! TDMS files: everything that can be done with one.

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| trunkline_fuzz::exercise_tdms::exercise(data));
