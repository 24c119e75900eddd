//! Licences, and the manifest of every crate.

use crate::finding::Finding;
use crate::tree::Tree;

const LICENCES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// The texts of both licences are in the root.
pub(super) fn licences(tree: &Tree) -> Vec<Finding> {
    let missing = LICENCES.iter().filter(|path| !tree.exists(path));
    missing
        .map(|path| Finding::of_file(path, "licences", "the file is missing; add it"))
        .collect()
}

/// Every member of the workspace uses the workspace's lints and has a description.
pub(super) fn lints_and_description(tree: &Tree) -> Vec<Finding> {
    let rule = "manifests";
    let mut findings = Vec::new();
    for (path, text) in tree.with_ending("toml") {
        let is_member = path == "xtask/Cargo.toml"
            || path.starts_with("crates/") && path.ends_with("/Cargo.toml");
        if !is_member {
            continue;
        }
        if !has_entry(text, "[lints]", "workspace", |value| value == "true") {
            let message = "the lints of the workspace are not taken; add `[lints]` and \
                           `workspace = true`";
            findings.push(Finding::of_file(path, rule, message));
        }
        if !has_entry(text, "[package]", "description", |value| value.len() > 2) {
            let message = "no description; say in one sentence what the crate is for";
            findings.push(Finding::of_file(path, rule, message));
        }
    }
    findings
}

fn has_entry(text: &str, table: &str, key: &str, is_right: impl Fn(&str) -> bool) -> bool {
    let mut in_table = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            in_table = line == table;
        } else if in_table
            && let Some((name, value)) = line.split_once('=')
            && name.trim() == key
            && is_right(value.trim())
        {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_licence_is_found() {
        let found = licences(&Tree::of(&[("LICENSE-MIT", "")]));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path, "LICENSE-APACHE");
    }

    #[test]
    fn manifest_without_lints_or_description_is_detected() {
        let good = "[package]\nname = \"a\"\ndescription = \"An a\"\n\n[lints]\nworkspace = true\n";
        let bad = "[package]\nname = \"b\"\ndescription = \"\"\n[lints.rust]\nx = 1\n";
        let tree = Tree::of(&[("crates/a/Cargo.toml", good), ("crates/b/Cargo.toml", bad)]);
        let found = lints_and_description(&tree);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.iter().all(|f| f.path == "crates/b/Cargo.toml"));
    }
}
