#![no_main]
//! TDMS files: everything that can be done with one; written anew it holds the same.

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| trunkline_fuzz::exercise_tdms::exercise(data));
