//! `cargo xtask behaviours`: which behaviour of the specification is checked by which test.
//!
//! The specification gives every behaviour an id. A test names the ids it checks in the line above
//! it, in the form `/// Behaviour: SP-10, SP-14..SP-16.`; a decision record may instead say
//! `Does not apply: DP-11 — reason`. From both, and from nothing else, the page
//! `docs/reference/behaviours.md` is written. An id nobody names is shown as open.

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

/// Writes the page, or with `--check` compares it.
pub(crate) fn run(tree: &Tree, options: &[String]) -> Result<Outcome, String> {
    let check = match options {
        [] => false,
        [option] if option == "--check" => true,
        _ => {
            return Err(format!(
                "`behaviours` takes only `--check`, not {options:?}"
            ));
        }
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
    let page = page::write(&coverage);
    if check {
        if tree.text(PAGE) != Some(page.as_str()) {
            let message = "stale; run `cargo xtask behaviours` and commit the page";
            findings.push(Finding::of_file(PAGE, RULE, message));
        }
    } else {
        fs::write(tree.root().join(PAGE), &page)
            .map_err(|e| format!("cannot write {PAGE}: {e}"))?;
    }
    Ok(Outcome {
        notes: vec![format!("behaviours: {}", coverage.summary())],
        findings,
    })
}

/// Who answers for each behaviour.
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
