#![no_main]
//! Configuration files: a plan, or errors that lie within the file.

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Err(errors) = trunkline_config::parse("fuzz.toml", text) {
        assert!(!errors.errors.is_empty());
        let _ = errors.to_string();
    }
});
