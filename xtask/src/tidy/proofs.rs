//! The tests that the page for auditors names.
//!
//! In a table whose last column is `Test`, each row names at least one test, as a code span with its file and
//! its function (`crates/x/tests/y.rs:name`), or begins that column with `not claimed`.

use super::is_specification;
use crate::finding::Finding;
use crate::markdown::Page;
use crate::tree::Tree;
use crate::words::is_comment;

const RULE: &str = "proofs";
const PAGE: &str = "docs/reference/security.md";
/// The heading of the column, and what a row without a test states in it.
const COLUMN: &str = "Test";
const UNCLAIMED: &str = "not claimed";

/// Every test that a page names exists, and each row of a table of tests has one.
pub(super) fn proofs(tree: &Tree) -> Vec<Finding> {
    let mut findings = named_tests(tree);
    if let Some(text) = tree.text(PAGE) {
        findings.extend(rows_without_a_test(tree, text));
    }
    findings
}

/// Checks the names of tests on all pages. The changelog and the decisions may name deleted tests.
fn named_tests(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.with_ending("md") {
        let is_history = path == "CHANGELOG.md" || path.starts_with("docs/decisions/");
        if is_specification(path) || is_history {
            continue;
        }
        for span in Page::parse(text).code_spans {
            let Some((file, name)) = named_test(&span.text) else {
                continue;
            };
            if let Some(wrong) = wrong_test(tree, file, name) {
                findings.push(Finding::at(path, span.line, RULE, wrong));
            }
        }
    }
    findings
}

/// Splits `crates/x/tests/y.rs:name`. Returns `None` for other code, such as a path with a line number.
fn named_test(span: &str) -> Option<(&str, &str)> {
    let (file, name) = span.split_once(':')?;
    let is_source = file.contains('/') && (file.ends_with(".rs") || file.ends_with(".py"));
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    (is_source && is_name).then_some((file, name))
}

fn wrong_test(tree: &Tree, file: &str, name: &str) -> Option<String> {
    let Some(text) = tree.text(file) else {
        return Some(format!("there is no file {file}"));
    };
    let is_found = match file.ends_with(".rs") {
        true => has_rust_test(text, name),
        false => name.starts_with("test_") && text.contains(&format!("def {name}(self")),
    };
    (!is_found).then(|| format!("{file} has no test `{name}`; name the test that shows it"))
}

/// Returns true if the function exists and has a test attribute above it.
fn has_rust_test(text: &str, name: &str) -> bool {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let declared = format!("fn {name}(");
    lines.iter().enumerate().any(|(index, line)| {
        let above = lines.get(..index).unwrap_or_default();
        line.starts_with(&declared)
            && above
                .iter()
                .rev()
                .take_while(|line| line.starts_with("#[") || is_comment(line))
                .any(|line| *line == "#[test]")
    })
}

/// Checks that each row of the tables of tests names a test or claims nothing.
fn rows_without_a_test(tree: &Tree, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut is_table_of_tests = false;
    let mut tables = 0_usize;
    let mut previous_is_row = false;
    for (index, line) in text.lines().enumerate() {
        let Some(last) = last_cell(line) else {
            previous_is_row = false;
            is_table_of_tests = false;
            continue;
        };
        if !previous_is_row {
            is_table_of_tests = last == COLUMN;
            tables += usize::from(is_table_of_tests);
        } else if is_table_of_tests && !is_rule_of_a_table(last) {
            let is_named = last
                .split('`')
                .skip(1)
                .step_by(2)
                .filter_map(named_test)
                .any(|(file, name)| wrong_test(tree, file, name).is_none());
            if !is_named && !last.starts_with(UNCLAIMED) {
                let message = format!(
                    "the row names no test; name one as `FILE:FUNCTION`, or write `{UNCLAIMED}`"
                );
                findings.push(Finding::at(PAGE, index + 1, RULE, message));
            }
        }
        previous_is_row = true;
    }
    if tables == 0 {
        let message = format!("no table has a last column `{COLUMN}`");
        findings.push(Finding::of_file(PAGE, RULE, message));
    }
    findings
}

/// The last cell of a line of a table.
fn last_cell(line: &str) -> Option<&str> {
    let row = line.strip_prefix('|')?.trim_end().strip_suffix('|')?;
    row.rsplit('|').next().map(str::trim)
}

fn is_rule_of_a_table(cell: &str) -> bool {
    cell.contains('-') && cell.chars().all(|c| matches!(c, '-' | ':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUST: &str = "#[test]\n#[cfg(unix)]\nfn it_holds() {}\n\nfn helper() {}\n\n\
                        #[cfg(test)]\nfn made_for_tests() {}\n";
    const PYTHON: &str =
        "class T:\n    def test_it(self):\n        pass\n    def helper(self): pass\n";

    fn found(page: &str) -> Vec<String> {
        let tree = Tree::of(&[
            (PAGE, page),
            ("crates/x/tests/y.rs", RUST),
            ("packaging/tests/test_z.py", PYTHON),
        ]);
        proofs(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn tests_that_exist_are_accepted() {
        let page = "| Requirement | Test |\n|---|:---|\n| a | `crates/x/tests/y.rs:it_holds` |\n\
                    | b | `packaging/tests/test_z.py:test_it`, and more |\n| c | not claimed: later |\n";
        assert_eq!(found(page), Vec::<String>::new());
    }

    #[test]
    fn a_name_that_is_no_test_is_found() {
        for span in [
            "crates/x/tests/y.rs:gone",
            "crates/x/tests/y.rs:helper",
            "crates/x/tests/y.rs:made_for_tests",
            "crates/x/tests/none.rs:it_holds",
            "packaging/tests/test_z.py:helper",
        ] {
            let page = format!("| a | Test |\n|---|---|\n| b | not claimed |\n\nSee `{span}`.\n");
            let findings = found(&page);
            assert_eq!(findings.len(), 1, "{span}: {findings:?}");
            assert!(findings[0].starts_with(&format!("{PAGE}:5: proofs")));
        }
    }

    #[test]
    fn a_row_without_a_test_is_found_with_its_line() {
        let page = "| a | Test |\n|---|---|\n| b | it is tested |\n| c | |\n\n| d | e |\n|---|---|\n| f | g |\n";
        let findings = found(page);
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(
            findings[0].starts_with(&format!("{PAGE}:3:")),
            "{findings:?}"
        );
        assert!(
            findings[1].starts_with(&format!("{PAGE}:4:")),
            "{findings:?}"
        );
    }

    #[test]
    fn a_page_without_a_table_of_tests_is_found() {
        assert_eq!(found("# Security\n").len(), 1);
    }

    #[test]
    fn lines_and_commands_are_not_names_of_tests() {
        for span in [
            "crates/x/y.rs:12",
            "tl://host/a.rs",
            "a.rs:name",
            "crates/x.md:y",
        ] {
            assert_eq!(named_test(span), None, "{span}");
        }
    }
}
