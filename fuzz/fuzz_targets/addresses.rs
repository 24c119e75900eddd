#![no_main]
//! Names, patterns, URLs and contracts, as people and peers write them.

use libfuzzer_sys::fuzz_target;
use trunkline_types::{Contract, Name, Pattern, Url};

fuzz_target!(|text: &str| {
    if let Ok(name) = Name::parse(text) {
        assert_eq!(Name::parse(name.as_str()).as_ref(), Ok(&name));
    }
    if let Ok(url) = Url::parse(text) {
        assert_eq!(Url::parse(&url.to_string()).as_ref(), Ok(&url));
    }
    if let Ok(contract) = text.parse::<Contract>() {
        assert_eq!(contract.to_string().parse::<Contract>().as_ref().ok(), Some(&contract));
    }
    let (pattern, name) = text.split_once('\n').unwrap_or((text, text));
    if let Ok(pattern) = Pattern::parse(pattern) {
        pattern.matches(name);
    }
});
