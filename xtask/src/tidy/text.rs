//! Blanks in text files.

use crate::finding::Finding;
use crate::tree::Tree;

use super::is_specification;

/// No tabs, except where a makefile needs them.
pub(super) fn tabs(tree: &Tree) -> Vec<Finding> {
    each_line(tree, |path, line| {
        let is_wrong = line.contains('\t') && path != "Makefile";
        is_wrong.then_some(("tabs", "a tab; use spaces"))
    })
}

/// No blanks at the end of a line.
pub(super) fn trailing_whitespace(tree: &Tree) -> Vec<Finding> {
    each_line(tree, |_, line| {
        let is_wrong = line.ends_with([' ', '\t', '\r']);
        is_wrong.then_some((
            "trailing-whitespace",
            "blanks at the end of the line; delete them",
        ))
    })
}

/// No marks of a merge that was not finished.
pub(super) fn conflicts(tree: &Tree) -> Vec<Finding> {
    // In parts, or this file would have one.
    let marks = ["<".repeat(7) + " ", ">".repeat(7) + " "];
    each_line(tree, |_, line| {
        let is_wrong = marks.iter().any(|mark| line.starts_with(mark));
        is_wrong.then_some(("conflicts", "two versions of a merge; keep one"))
    })
}

fn each_line(
    tree: &Tree,
    check: impl Fn(&str, &str) -> Option<(&'static str, &'static str)>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts().filter(|(path, _)| !is_specification(path)) {
        for (index, line) in text.split('\n').enumerate() {
            if let Some((rule, message)) = check(path, line) {
                findings.push(Finding::at(path, index + 1, rule, message));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tab_is_found_outside_the_makefile() {
        let tree = Tree::of(&[("a.rs", "fn f() {\n\tg();\n}\n"), ("Makefile", "a:\n\tb\n")]);
        let found = tabs(&tree);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].path.as_str(), found[0].line), ("a.rs", 2));
    }

    #[test]
    fn mark_of_an_unfinished_merge_is_found() {
        let text = format!(
            "one\n{} HEAD\ntwo\n{} other\n",
            "<".repeat(7),
            ">".repeat(7)
        );
        let found = conflicts(&Tree::of(&[("a.md", &text)]));
        let lines: Vec<usize> = found.iter().map(|f| f.line).collect();
        assert_eq!(lines, [2, 4]);
    }

    #[test]
    fn blank_at_the_end_of_a_line_is_found() {
        let found = trailing_whitespace(&Tree::of(&[("a.md", "one\ntwo \nthree\r\n")]));
        let lines: Vec<usize> = found.iter().map(|f| f.line).collect();
        assert_eq!(lines, [2, 3]);
    }
}
