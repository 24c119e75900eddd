//! Facts that the texts repeat, compared with their source.

use super::RULE;
use super::cli::Help;
use crate::finding::Finding;
use crate::tree::Tree;

const EXIT_CODES: &str = "docs/reference/exit-codes.md";

/// The texts name the same Rust version as the workspace.
pub(super) fn rust_version(tree: &Tree) -> Vec<Finding> {
    let manifest = tree.text("Cargo.toml").unwrap_or_default();
    let line = manifest
        .lines()
        .find_map(|l| l.strip_prefix("rust-version = \""));
    let Some(wanted) = line.and_then(|l| l.strip_suffix('"')) else {
        let message = "no `rust-version = \"...\"` in the workspace";
        return vec![Finding::of_file("Cargo.toml", RULE, message)];
    };
    let mut findings = Vec::new();
    let pages = tree.with_ending("md").filter(|(path, _)| {
        *path != "CHANGELOG.md"
            && !path.starts_with("docs/decisions/")
            && !path.starts_with("docs/reference/spec/")
    });
    for (path, text) in pages {
        for (index, line) in text.lines().enumerate() {
            for said in rust_versions_in(line).filter(|said| *said != wanted) {
                let message = format!("says Rust {said}; the workspace asks for {wanted}");
                findings.push(Finding::at(path, index + 1, RULE, message));
            }
        }
    }
    findings
}

fn rust_versions_in(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("Rust 1.").map(|(at, _)| {
        let version = &line[at + "Rust ".len()..];
        let end = version
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(version.len());
        version[..end].trim_end_matches('.')
    })
}

/// The documentation explains every exit code of a command.
pub(super) fn exit_codes(tree: &Tree, help: &Help) -> Vec<Finding> {
    let page = tree.text(EXIT_CODES).unwrap_or_default();
    let mut codes: Vec<u8> = help
        .commands
        .iter()
        .flat_map(|c| c.exit_codes.iter().copied())
        .collect();
    codes.sort_unstable();
    codes.dedup();
    codes
        .into_iter()
        .filter(|code| !page.contains(&format!("| {code} |")))
        .map(|code| {
            let message = format!("code {code} is not explained; add a row `| {code} | ... |`");
            Finding::of_file(EXIT_CODES, RULE, message)
        })
        .collect()
}
