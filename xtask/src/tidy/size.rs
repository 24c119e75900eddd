//! Lengths of files and lines.

use std::collections::BTreeMap;

use super::is_program;
use crate::finding::Finding;
use crate::rust_source::{IN_LITERAL, RustSource};
use crate::tree::{Tree, has_ending, is_test_file};

/// A file longer than this is split, or listed in the ratchet.
const LINES_MAX: usize = 700;
/// No file has more lines than this, its test modules aside; the ratchet does not help.
const LINES_HARD_MAX: usize = 1_000;
const WIDTH_MAX: usize = 100;

/// Files over the limit when the rule came: `path lines`, one per line. It only gets shorter.
const RATCHET: &str = "xtask/ratchet.txt";

/// Files stay short enough to read; those in the ratchet do not grow.
pub(super) fn file_length(tree: &Tree) -> Vec<Finding> {
    let rule = "file-length";
    let mut ratchet = read_ratchet(tree.text(RATCHET).unwrap_or_default());
    let mut findings = Vec::new();
    for (path, text) in tree.texts().filter(|(path, _)| is_program(path)) {
        let lines = text.lines().count();
        let allowed = ratchet.remove(path);
        if is_test_file(path) || lines <= LINES_MAX {
            findings.extend(allowed.map(|_| {
                Finding::of_file(
                    RATCHET,
                    rule,
                    format!("{path} is short now; delete its line"),
                )
            }));
        } else if without_tests(path, text) > LINES_HARD_MAX {
            let message = format!("{lines} lines; split the file by concern");
            findings.push(Finding::of_file(path, rule, message));
        } else if lines > allowed.unwrap_or(LINES_MAX) {
            let limit = allowed.unwrap_or(LINES_MAX);
            let message = format!(
                "{lines} lines, the limit is {limit}; move the tests to a file of their own, or \
                 split the file by concern"
            );
            findings.push(Finding::of_file(path, rule, message));
        } else if allowed.is_some_and(|allowed| lines < allowed) {
            let message = format!("{path} has {lines} lines now; write that number");
            findings.push(Finding::of_file(RATCHET, rule, message));
        }
    }
    for path in ratchet.keys() {
        let message = format!("{path} does not exist; delete its line");
        findings.push(Finding::of_file(RATCHET, rule, message));
    }
    findings
}

fn read_ratchet(text: &str) -> BTreeMap<&str, usize> {
    let entries = text.lines().filter(|line| !line.starts_with('#'));
    entries
        .filter_map(|line| {
            let (path, lines) = line.rsplit_once(' ')?;
            Some((path, lines.parse().ok()?))
        })
        .collect()
}

fn without_tests(path: &str, text: &str) -> usize {
    match has_ending(path, "rs") {
        true => RustSource::scan(text).production().count(),
        false => text.lines().count(),
    }
}

/// Lines of Rust fit in 100 columns; a string or an address that cannot be broken does not count.
pub(super) fn line_width(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.with_ending("rs") {
        if text.lines().all(|line| line.chars().count() <= WIDTH_MAX) {
            continue;
        }
        let source = RustSource::scan(text);
        for ((number, code), line) in source.numbered().zip(text.lines()) {
            let width = line.chars().count();
            let is_address = line.contains("https://") || line.contains("http://");
            if width <= WIDTH_MAX || is_address || is_long_for_its_strings(code, line) {
                continue;
            }
            let message = format!("{width} columns; break the line at {WIDTH_MAX}");
            findings.push(Finding::at(path, number, "line-width", message));
        }
    }
    findings
}

/// Whether the line would fit if the contents of its string literals were taken out.
fn is_long_for_its_strings(code: &str, line: &str) -> bool {
    let hidden = code.chars().filter(|c| *c == IN_LITERAL).count();
    hidden > 0 && line.chars().count() - hidden <= WIDTH_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(count: usize) -> String {
        "let x = 1;\n".repeat(count)
    }

    #[test]
    fn file_over_the_limit_is_found() {
        let tree = Tree::of(&[("crates/a/src/b.rs", &lines(701))]);
        let found = file_length(&tree);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].message.contains("701 lines, the limit is 700"),
            "{found:?}"
        );
    }

    #[test]
    fn file_in_the_ratchet_may_stay_but_not_grow() {
        let path = "crates/a/src/b.rs";
        let ratchet = "# path lines\ncrates/a/src/b.rs 800\n";
        let same = Tree::of(&[(path, &lines(800)), (RATCHET, ratchet)]);
        assert_eq!(file_length(&same), []);
        let longer = Tree::of(&[(path, &lines(801)), (RATCHET, ratchet)]);
        assert_eq!(file_length(&longer).len(), 1);
    }

    #[test]
    fn ratchet_is_lowered_when_a_file_shrinks_or_goes() {
        let ratchet = "crates/a/src/b.rs 800\ncrates/a/src/c.rs 750\ncrates/a/src/d.rs 900\n";
        let tree = Tree::of(&[
            ("crates/a/src/b.rs", &lines(750)),
            ("crates/a/src/c.rs", &lines(10)),
            (RATCHET, ratchet),
        ]);
        let found: Vec<String> = file_length(&tree).into_iter().map(|f| f.message).collect();
        assert_eq!(found.len(), 3);
        assert!(found[0].contains("750 lines now"), "{found:?}");
        assert!(found[1].contains("short now"), "{found:?}");
        assert!(found[2].contains("does not exist"), "{found:?}");
    }

    #[test]
    fn ratchet_does_not_lift_the_hard_limit() {
        let ratchet = "crates/a/src/b.rs 2000\n";
        let tree = Tree::of(&[("crates/a/src/b.rs", &lines(1_001)), (RATCHET, ratchet)]);
        assert!(
            file_length(&tree)[0]
                .message
                .contains("split the file by concern")
        );
    }

    #[test]
    fn wide_line_is_found() {
        let text = format!("fn f() {{}}\nlet x = {};\n", "y + ".repeat(30));
        let found = line_width(&Tree::of(&[("crates/a/src/b.rs", &text)]));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].line, 2);
    }

    #[test]
    fn long_strings_and_addresses_may_stand() {
        let string = format!("    message(\"{}\");\n", "word ".repeat(25));
        let address = format!("// https://example.org/{}\n", "x".repeat(90));
        let comment = format!("// {}\n", "word ".repeat(25));
        let text = format!("{string}{address}{comment}");
        let found = line_width(&Tree::of(&[("crates/a/src/b.rs", &text)]));
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].line, 3);
    }
}
