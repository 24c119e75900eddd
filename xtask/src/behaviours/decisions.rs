//! Finds the behaviours that do not apply according to a decision record.

use super::RULE;
use super::specification::Specification;
use crate::finding::Finding;
use crate::tree::Tree;

/// Behaviours that do not apply, and why.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Exception {
    /// The decision record.
    pub path: String,
    /// Line of the statement, counted from 1.
    pub line: usize,
    /// Ids in the order named.
    pub ids: Vec<String>,
    /// The reason given.
    pub reason: String,
}

const FOLDER: &str = "docs/decisions/";
const MARK: &str = "Does not apply:";

/// The lines `Does not apply: ID, ID — reason` of the decision records.
pub(super) fn exceptions(
    tree: &Tree,
    specification: &Specification,
    findings: &mut Vec<Finding>,
) -> Vec<Exception> {
    let mut exceptions = Vec::new();
    for (path, text) in tree.with_ending("md").filter(|(path, _)| is_record(path)) {
        for (index, line) in text.lines().enumerate() {
            let Some(statement) = line.trim_start_matches("- ").strip_prefix(MARK) else {
                continue;
            };
            match read(statement, specification) {
                Ok((ids, reason)) => {
                    let path = path.to_owned();
                    exceptions.push(Exception {
                        path,
                        line: index + 1,
                        ids,
                        reason,
                    });
                }
                Err(message) => findings.push(Finding::at(path, index + 1, RULE, message)),
            }
        }
    }
    exceptions
}

/// Records are numbered; the index and the template are not records.
fn is_record(path: &str) -> bool {
    path.strip_prefix(FOLDER)
        .is_some_and(|name| name.starts_with(|c: char| c.is_ascii_digit()))
}

fn read(statement: &str, specification: &Specification) -> Result<(Vec<String>, String), String> {
    let form = "write `Does not apply: DP-11 — reason`";
    let parts = statement
        .split_once(" — ")
        .or_else(|| statement.split_once(" - "));
    let (list, reason) = parts.ok_or_else(|| format!("no reason is given; {form}"))?;
    let reason = reason.trim();
    if reason.is_empty() {
        return Err(format!("no reason is given; {form}"));
    }
    Ok((specification.expand(list.trim())?, reason.to_owned()))
}
