//! Paths that exist on one machine only.

use super::is_specification;
use crate::finding::Finding;
use crate::rust_source::RustSource;
use crate::tree::{Tree, has_ending, is_test_file};

/// Top folders that differ from machine to machine.
const FOLDERS: [&str; 4] = ["work", "home", "root", "tmp"];

/// No absolute path of somebody's machine, in code, scripts, configuration or texts.
pub(super) fn machine_paths(tree: &Tree) -> Vec<Finding> {
    let starts: Vec<String> = FOLDERS.iter().map(|folder| format!("/{folder}/")).collect();
    let mut findings = Vec::new();
    for (path, text) in tree.texts() {
        if is_specification(path) || is_test_file(path) {
            continue;
        }
        let in_test = match has_ending(path, "rs") {
            true => RustSource::scan(text).in_test,
            false => Vec::new(),
        };
        for (index, line) in text.lines().enumerate() {
            if in_test.get(index) == Some(&true) {
                continue;
            }
            if let Some(start) = starts.iter().find(|start| names_absolute(line, start)) {
                let message = format!(
                    "a path below `{start}`, which is one machine's; use a relative path, an \
                     option, or the temporary folder the system gives"
                );
                findings.push(Finding::at(path, index + 1, "machine-paths", message));
            }
        }
    }
    findings
}

/// Whether `start` begins a path in `line`, and is not the middle of one or of an address.
fn names_absolute(line: &str, start: &str) -> bool {
    line.match_indices(start).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "._-~/$}*".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_of_one_machine_is_found() {
        let path = format!("/{}/someone/x", FOLDERS[1]);
        let planted = format!("let a = \"{path}\";\nlet b = \"crates{path}\";\n");
        let in_test = format!("#[cfg(test)]\nmod t {{\n    const P: &str = \"{path}\";\n}}\n");
        let tree = Tree::of(&[
            ("crates/a/src/b.rs", &planted),
            ("crates/a/src/c.rs", &in_test),
            ("docs/x.md", &format!("run `{path}`\n")),
        ]);
        let found: Vec<(String, usize)> = machine_paths(&tree)
            .into_iter()
            .map(|f| (f.path, f.line))
            .collect();
        assert_eq!(
            found,
            [
                ("crates/a/src/b.rs".to_owned(), 1),
                ("docs/x.md".to_owned(), 1)
            ]
        );
    }
}
