//! `cargo xtask tidy`: rules that rustfmt and clippy cannot check.
//!
//! One function per rule, and one test with a planted violation per rule.

mod links;
mod manifests;
mod proofs;
mod purity;

use crate::finding::{Finding, Outcome};
use crate::tree::Tree;

type Rule = fn(&Tree) -> Vec<Finding>;

/// Every rule, in the order they run.
const RULES: &[Rule] = &[
    purity::primitives_outside_sync,
    purity::environment_in_sans_io,
    links::links,
    links::paths_in_code_spans,
    proofs::proofs,
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

/// Returns true if a file is part of the specification, which is verbatim and exempt from rules
/// about texts.
fn is_specification(path: &str) -> bool {
    path.starts_with("docs/reference/spec/")
}
