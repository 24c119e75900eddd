//! Tests that no text makes the reader panic, take too long, or recurse too deeply.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::path::Path;

use proptest::prelude::*;
use trunkline_config::{ConfigErrors, DeploymentPlan, default_config_text, keys::SECTIONS, parse};

/// Reads a text; every error has a sentence and a position inside the text.
fn read(text: &str) -> Result<DeploymentPlan, ConfigErrors> {
    let result = parse("any.toml", text);
    if let Err(errors) = &result {
        assert!(!errors.errors.is_empty());
        let lines = text.split('\n').count() as u32;
        for error in &errors.errors {
            let position = error.position.unwrap();
            assert!(position.line >= 1 && position.line <= lines, "{error}");
            assert!(position.column >= 1, "{error}");
            assert!(!error.message().is_empty());
        }
    }
    result
}

fn every_key_example() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/config/all-keys.toml");
    std::fs::read_to_string(path).unwrap()
}

/// Returns a random word of the language: a header, a key with a value of any form, or punctuation.
fn word() -> impl Strategy<Value = String> {
    let keys: Vec<String> = SECTIONS
        .iter()
        .flat_map(|section| section.keys())
        .map(|key| key.name.to_owned())
        .collect();
    let headers = [
        "engine",
        "engine.limits",
        "library",
        "defaults",
        "variable",
        "override",
    ];
    let more = [
        "template",
        "use",
        "io",
        "history",
        "variable.fields",
        "template.variable",
        "use.rows",
    ];
    let header = prop::sample::select([&headers[..], &more[..]].concat());
    let value = prop_oneof![
        prop::sample::select(vec![
            "0",
            "1",
            "-1",
            "2.5",
            "1e300",
            "nan",
            "true",
            "\"f64\"",
            "\"enum\"",
            "\"struct\"",
            "\"array(f64, *)\"",
            "\"{x}\"",
            "\"{x:03}\"",
            "\"{(x - 1) * 2}\"",
            "\"{\"",
            "\"1..3\"",
            "\"1..9999999999\"",
            "\"none\"",
            "\"plc1:{x}\"",
            "\"a/b\"",
            "[]",
            "[0, 100]",
            "{}",
            "{ x = \"1..3\" }",
            "{ x = [1, \"a\"] }",
            "{ kind = \"multi\", capacity = 3 }",
            "{ raw = [0, 1], eng = [0, 10], clamp = true }",
            "{ invert = true }",
            "\"sim\"",
            "[{ name = \"v{x}\", type = \"bool\" }]",
            "{ x = \"int\" }",
            "[{ x = 1 }]",
            "2026-11-20T00:00:00Z",
            "\"100ms\"",
            "[[1, 2], [3]]",
            "\"t\"",
        ])
        .prop_map(str::to_owned),
        any::<i64>().prop_map(|number| number.to_string()),
        ".{0,12}".prop_map(|text| format!("{text:?}")),
    ];
    let keys = prop::sample::select(keys);
    prop_oneof![
        (header, any::<bool>()).prop_map(|(header, list)| match list {
            true => format!("[[{header}]]\n"),
            false => format!("[{header}]\n"),
        }),
        (keys, value).prop_map(|(key, value)| format!("{key} = {value}\n")),
    ]
}

/// Returns the text with random pieces removed, duplicated or replaced.
fn mutated(text: String) -> impl Strategy<Value = String> {
    let chars: Vec<char> = text.chars().collect();
    let length = chars.len();
    let change = (0..length, 0..40_usize, ".{0,6}", any::<bool>());
    prop::collection::vec(change, 1..6).prop_map(move |changes| {
        let mut chars = chars.clone();
        for (at, count, with, doubled) in changes {
            let at = at.min(chars.len());
            let end = (at + count).min(chars.len());
            let old: Vec<char> = chars.splice(at..end, with.chars()).collect();
            if doubled {
                chars.splice(at..at, old.iter().chain(&old).copied());
            }
        }
        chars.into_iter().collect()
    })
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config(512))]

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,200}") {
        let _ = read(&text);
    }

    #[test]
    fn any_sequence_of_keys_and_values_is_read_or_refused(
        words in prop::collection::vec(word(), 0..24)
    ) {
        let _ = read(&words.concat());
    }

    #[test]
    fn any_properties_of_a_variable_are_read_or_refused(
        words in prop::collection::vec(word(), 0..8)
    ) {
        let head = "[[variable]]\nname = \"v{x}\"\neach = { x = \"1..3\" }\ntype = \"f64\"\n";
        let _ = read(&[head, &words.concat()].concat());
    }

    #[test]
    fn mutated_configuration_is_read_or_refused(text in mutated(every_key_example())) {
        let _ = read(&text);
    }

    #[test]
    fn mutated_default_configuration_is_read_or_refused(
        text in mutated(default_config_text().to_owned())
    ) {
        let _ = read(&text);
    }
}

#[test]
fn pathological_nesting_is_refused() {
    let many = 100_000;
    let texts = [
        format!("x = {}", "[".repeat(many)),
        format!("x = {}1{}", "[".repeat(many), "]".repeat(many)),
        format!("x = {}", "{a=".repeat(many)),
        format!("{}x = 1", "a.".repeat(many)),
        format!("[{}x]", "a.".repeat(many)),
        format!("[[variable]]\nname = \"{}\"", "{".repeat(many)),
        format!("[[variable]]\nname = \"{{{}\"", "(".repeat(many)),
        format!("[[variable]]\nname = \"{}\"", "{-".repeat(many)),
        format!(
            "[[variable]]\nname = \"a\"\ntype = \"{}\"",
            "struct(a: ".repeat(many)
        ),
        format!(
            "[[variable]]\nname = \"{}\"\ntype = \"f64\"",
            "a/".repeat(many)
        ),
        format!("[[override]]\nmatch = \"{}\"", "**/".repeat(many)),
        format!(
            "[[variable]]\nname = \"a\"\ntype = \"struct\"\nfields = {}",
            nested_fields(70)
        ),
        "\u{0}".repeat(many),
        "\"".repeat(many),
        "[[variable".repeat(many),
    ];
    for text in texts {
        assert!(
            read(&text).is_err(),
            "{}",
            text.chars().take(60).collect::<String>()
        );
    }
}

fn nested_fields(depth: u32) -> String {
    match depth {
        0 => "{ x = \"f64\" }".to_owned(),
        _ => format!(
            "{{ x = {{ type = \"struct\", fields = {} }} }}",
            nested_fields(depth - 1)
        ),
    }
}

#[test]
fn huge_counts_are_refused_before_variables_are_created() {
    for each in [
        "{ x = \"1..9223372036854775807\" }",
        "{ x = \"-9223372036854775808..9223372036854775807\", y = \"1..9223372036854775807\" }",
        "{ x = \"1..1000\", y = \"1..1000\", z = \"1..1000\" }",
    ] {
        let text = format!("[[variable]]\nname = \"v{{x}}\"\ntype = \"f64\"\neach = {each}\n");
        let errors = read(&text).unwrap_err().to_string();
        assert!(
            errors.contains("more than the limit of 1,000,000"),
            "{errors}"
        );
    }
}
