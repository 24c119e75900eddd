#![no_main]
//! TDMS files: opened, and every channel read.

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| trunkline_fuzz::exercise_tdms::read(data));
