//! `cargo xtask tidy`: house style as a check that names the replacement.
//!
//! One function per rule, one test with a planted violation per rule. A rule that is only written
//! down is no rule; one that costs more than it gives is deleted here.

mod code;
mod links;
mod machine_paths;
mod manifests;
mod names;
mod purity;
mod size;
mod text;

use crate::finding::{Finding, Outcome};
use crate::tree::Tree;

type Rule = fn(&Tree) -> Vec<Finding>;

/// Every rule, in the order they run.
const RULES: &[Rule] = &[
    size::file_length,
    size::line_width,
    text::tabs,
    text::trailing_whitespace,
    text::conflicts,
    names::banned_names,
    code::markers,
    code::ignored_tests,
    code::sleeps_in_tests,
    purity::primitives_outside_sync,
    purity::environment_in_sans_io,
    machine_paths::machine_paths,
    links::links,
    links::paths_in_code_spans,
    manifests::licences,
    manifests::lints_and_description,
];

/// Applies every rule.
pub(crate) fn run(tree: &Tree) -> Result<Outcome, String> {
    let findings = RULES.iter().flat_map(|rule| rule(tree)).collect();
    let note = format!(
        "tidy: {} rules, {} files",
        RULES.len(),
        tree.texts().count()
    );
    Ok(Outcome {
        notes: vec![note],
        findings,
    })
}

/// Whether the specification, kept word for word, exempts a file from rules about texts.
fn is_specification(path: &str) -> bool {
    path.starts_with("docs/reference/spec/")
}

/// Whether a file is program text.
fn is_program(path: &str) -> bool {
    ["rs", "py", "ts", "svelte", "c", "h"]
        .iter()
        .any(|e| crate::tree::has_ending(path, e))
}
