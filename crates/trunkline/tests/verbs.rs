//! Every client has every verb: a method of a client or a subscription comes from the lists in
//! `src/client`, or is named here with the reason why it does not.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::collections::BTreeSet;
use std::path::Path;

use trunkline::client::{EVENTS, VERBS};

/// The methods that are written by hand, by type, and the reason for each type.
const BY_HAND: [(&str, &[&str], &str); 7] = [
    (
        "Client",
        &["local_reader", "variable"],
        "a local reader asks the engine on the caller's thread; `variable` is typed",
    ),
    (
        "RecordedSubscription",
        &["new", "next", "starting_at"],
        "it queries the history on the caller's thread",
    ),
    ("aio::Client", &["variable"], "typed"),
    (
        "polled::Client",
        &["read_into"],
        "the buffer is given and taken back",
    ),
    ("Variable<C, T>", &["reference"], "the same in every form"),
    ("Variable<Client, T>", &["get", "put", "read"], "typed"),
    ("Variable<aio::Client, T>", &["get", "put", "read"], "typed"),
];

/// Returns the type of an inherent `impl` block outside macros, if it is a client, a variable or an
/// event source.
fn of_client(line: &str) -> Option<&str> {
    let header = line.strip_prefix("impl")?.strip_suffix('{')?.trim();
    let header = match header.strip_prefix('<') {
        Some(generics) => generics.split_once('>')?.1.trim(),
        None => header,
    };
    let names = ["Client", "Subscription", "Watch", "Variable<"];
    let is_trait = header.contains(" for ");
    let is_one = !is_trait && names.iter().any(|name| header.contains(name));
    is_one.then_some(header)
}

fn method(line: &str) -> Option<&str> {
    let line = line.strip_prefix("    pub ")?;
    let line = line.strip_prefix("async ").unwrap_or(line);
    line.strip_prefix("fn ")?.split(['(', '<']).next()
}

/// The methods written by hand, as `type: method`.
fn written() -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/client");
    let mut found = BTreeSet::new();
    for file in folder.read_dir().unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let mut of = None;
        for line in text.lines() {
            if !line.starts_with([' ', '}']) {
                of = of_client(line).or(of.filter(|_| line.is_empty()));
            }
            let method = of.and_then(|of| Some(format!("{of}: {}", method(line)?)));
            found.extend(method);
        }
    }
    found
}

#[test]
fn every_method_of_a_client_is_in_the_list_of_verbs_or_has_a_reason() {
    let known = BY_HAND.iter().flat_map(|(of, methods, _)| {
        let methods = methods.iter();
        methods.map(move |method| format!("{of}: {method}"))
    });
    assert_eq!(written(), known.collect());
}

#[test]
fn no_name_is_in_a_list_twice() {
    let lists = EVENTS.iter().map(|(_, names)| *names).chain([VERBS]);
    for names in lists {
        let distinct: BTreeSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len(), "{names:?}");
    }
    assert!(VERBS.len() > 30, "{VERBS:?}");
}
