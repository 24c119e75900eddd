#![no_main]
//! TDMS files: everything that can be done with one; written anew it holds the same, and
//! what is altered beside it is found.

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    trunkline_fuzz::exercise_tdms::exercise(data);
    trunkline_fuzz::exercise_tdms::exercise_beside(data);
});
