//! `cargo xtask behaviours`: which tests check which behaviours of the specification.
//!
//! The specification gives every behaviour an id. A test names the ids that it checks in the line above it,
//! in the form `/// Behaviour: SP-10, SP-14..SP-16.`. A decision record may instead state
//! `Does not apply: DP-11 — reason`. From these two sources alone, `--page` writes the page
//! `docs/reference/behaviours.md` of the book, which git ignores. An id that neither source names is shown as
//! open.

mod decisions;
mod page;
mod scan;
mod specification;

use std::fs;

use self::decisions::Exception;
use self::scan::NamedTest;
use self::specification::Specification;
use crate::finding::{Finding, Outcome};
use crate::tree::Tree;

const SPECIFICATION: &str = "docs/reference/spec/behaviours.md";
const PAGE: &str = "docs/reference/behaviours.md";
const RULE: &str = "behaviours";

/// Checks ids, contradictions and exceptions; with `--page`, also writes the page.
pub(crate) fn run(tree: &Tree, options: &[String]) -> Result<Outcome, String> {
    let write_page = match options {
        [] => false,
        [option] if option == "--page" => true,
        _ => return Err(format!("`behaviours` takes only `--page`, not {options:?}")),
    };
    let text = tree
        .text(SPECIFICATION)
        .ok_or_else(|| format!("there is no {SPECIFICATION}"))?;
    let specification = Specification::parse(text)?;
    let mut findings = Vec::new();
    let tests = scan::tests(tree, &specification, &mut findings);
    let exceptions = decisions::exceptions(tree, &specification, &mut findings);
    let coverage = Coverage {
        specification: &specification,
        tests,
        exceptions,
    };
    findings.extend(coverage.contradictions());
    if write_page {
        fs::write(tree.root().join(PAGE), page::write(&coverage))
            .map_err(|e| format!("cannot write {PAGE}: {e}"))?;
    }
    Ok(Outcome {
        notes: vec![format!("behaviours: {}", coverage.summary())],
        findings,
    })
}

/// The coverage of each behaviour.
struct Coverage<'a> {
    specification: &'a Specification,
    tests: Vec<NamedTest>,
    exceptions: Vec<Exception>,
}

impl Coverage<'_> {
    fn tests_of(&self, id: &str) -> Vec<&NamedTest> {
        self.tests
            .iter()
            .filter(|t| t.ids.iter().any(|i| i == id))
            .collect()
    }

    fn exception_of(&self, id: &str) -> Option<&Exception> {
        self.exceptions
            .iter()
            .find(|e| e.ids.iter().any(|i| i == id))
    }

    /// A behaviour cannot both be tested and not apply.
    fn contradictions(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        for exception in &self.exceptions {
            for id in exception
                .ids
                .iter()
                .filter(|id| !self.tests_of(id).is_empty())
            {
                let message = format!("{id} is said not to apply, but a test names it");
                findings.push(Finding::at(&exception.path, exception.line, RULE, message));
            }
        }
        findings
    }

    fn summary(&self) -> String {
        let ids = self.specification.ids();
        let tested = ids
            .iter()
            .filter(|id| !self.tests_of(id).is_empty())
            .count();
        let excepted = ids
            .iter()
            .filter(|id| self.exception_of(id).is_some())
            .count();
        let open = ids.len() - tested - excepted;
        format!(
            "{} behaviours: {tested} with a test, {excepted} that do not apply, {open} open",
            ids.len()
        )
    }
}

#[cfg(test)]
mod tests;
