//! Tests of the bill of materials.

use std::collections::BTreeSet;

use serde_json::Value as Json;

use super::facts::{Facts, Use};
use super::lock::Lock;
use super::{LOCK, PROGRAM, document, without_licence};
use crate::tree::workspace_root;

const SMALL: &str = r#"
version = 4

[[package]]
name = "trunkline-cli"
version = "0.1.0"
dependencies = ["serde", "syn 2.0.1"]

[[package]]
name = "serde"
version = "1.0.0"
source = "registry+https://example.org/index"
checksum = "aa"

[[package]]
name = "syn"
version = "1.0.9"
source = "registry+https://example.org/index"
checksum = "bb"

[[package]]
name = "syn"
version = "2.0.1+zstd"
source = "registry+https://example.org/index"
checksum = "cc"
"#;

fn small() -> (Lock, Facts) {
    let facts = Facts::of(&[
        ("trunkline-cli", "0.1.0", "MIT OR Apache-2.0", Use::Linked),
        ("serde", "1.0.0", "MIT", Use::Linked),
        ("syn", "2.0.1+zstd", "MIT", Use::Build),
    ]);
    let text = SMALL.replace("syn 2.0.1", "syn 2.0.1+zstd");
    (Lock::parse(&text).expect("readable"), facts)
}

fn parsed(text: &str) -> Json {
    serde_json::from_str(text).expect("JSON")
}

/// The references of all components, with the program.
fn references(document: &Json) -> BTreeSet<String> {
    let components = document["components"].as_array().expect("a list");
    let program = &document["metadata"]["component"];
    let all = components.iter().chain(std::iter::once(program));
    all.map(|c| c["bom-ref"].as_str().expect("text").to_owned())
        .collect()
}

/// The lock file of this repository: each package that it names is a component, and has its checksum.
#[test]
fn every_package_of_the_lock_file_is_a_component() {
    let root = workspace_root().expect("a root");
    let text = std::fs::read_to_string(root.join(LOCK)).expect("a lock file");
    let lock = Lock::parse(&text).expect("readable");
    let written = document::write(&lock, &Facts::default(), PROGRAM).expect("a document");
    let document = parsed(&written);
    // Counted in the text, not by the parser under test.
    let named = text.matches("[[package]]").count();
    assert!(named > 100, "{named}");
    assert_eq!(references(&document).len(), named);
    let checksums = text.matches("\nchecksum = ").count();
    assert_eq!(written.matches("\"SHA-256\"").count(), checksums);
    assert_eq!(written.matches("\"purl\"").count(), checksums);
    let edges = document["dependencies"].as_array().expect("a list");
    assert_eq!(edges.len(), named);
}

#[test]
fn components_state_licence_checksum_and_use() {
    let (lock, facts) = small();
    let document = parsed(&document::write(&lock, &facts, PROGRAM).expect("a document"));
    let program = &document["metadata"]["component"];
    assert_eq!(program["type"], "application");
    assert!(program["purl"].is_null() && program["hashes"].is_null());
    let component = |reference: &str| {
        let mut all = document["components"].as_array().expect("a list").iter();
        all.find(|c| c["bom-ref"] == reference).expect(reference)
    };
    let serde = component("pkg:cargo/serde@1.0.0");
    assert_eq!(serde["hashes"][0]["content"], "aa");
    assert_eq!(serde["licenses"][0]["expression"], "MIT");
    assert_eq!(serde["scope"], "required");
    let syn = component("pkg:cargo/syn@2.0.1%2Bzstd");
    assert_eq!(syn["scope"], "excluded");
    assert_eq!(syn["properties"][0]["value"], "build");
    assert_eq!(
        component("pkg:cargo/syn@1.0.9")["properties"][0]["value"],
        "test"
    );
}

#[test]
fn a_dependency_means_the_version_that_its_line_names() {
    let (lock, facts) = small();
    let document = parsed(&document::write(&lock, &facts, PROGRAM).expect("a document"));
    let targets = &document["dependencies"][0]["dependsOn"];
    let expected = ["pkg:cargo/serde@1.0.0", "pkg:cargo/syn@2.0.1%2Bzstd"];
    assert_eq!(*targets, serde_json::json!(expected));
}

#[test]
fn the_same_lock_file_gives_the_same_document() {
    let (lock, facts) = small();
    let written = || document::write(&lock, &facts, PROGRAM).expect("a document");
    assert_eq!(written(), written());
}

#[test]
fn a_package_without_a_licence_is_a_finding() {
    let (lock, facts) = small();
    let findings = without_licence(&lock, &facts);
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(findings[0].message.contains("syn 1.0.9"), "{findings:?}");
}

#[test]
fn a_damaged_lock_file_is_refused() {
    for (text, reason) in [
        ("version = 4\n[[package]]\nversion = \"1\"\n", "has no name"),
        (
            "version = 9\n[[package]]\nname = \"a\"\nversion = \"1\"\n",
            "format",
        ),
        ("version = 4\n", "names no package"),
        ("version = ", "not TOML"),
    ] {
        let error = Lock::parse(text).expect_err(reason);
        assert!(error.contains(reason), "{error}");
    }
    let dangling = "version = 4\n[[package]]\nname = \"trunkline-cli\"\nversion = \"1\"\n\
                    dependencies = [\"gone\"]\n";
    let lock = Lock::parse(dangling).expect("readable");
    let error = document::write(&lock, &Facts::default(), PROGRAM).expect_err("dangling");
    assert!(error.contains("`gone`"), "{error}");
}
