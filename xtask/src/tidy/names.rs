//! Names of modules and folders.

use super::is_program;
use crate::finding::Finding;
use crate::layers::BANNED_NAMES;
use crate::rust_source::RustSource;
use crate::tree::{Tree, has_ending};

/// No crate, folder or module has a name that says nothing.
pub(super) fn banned_names(tree: &Tree) -> Vec<Finding> {
    let rule = "banned-names";
    let mut findings = Vec::new();
    for (path, text) in tree.texts().filter(|(path, _)| is_program(path)) {
        let stem = path.rsplit_once('.').map_or(path, |(stem, _)| stem);
        if let Some(name) = stem.split('/').find(|part| BANNED_NAMES.contains(part)) {
            findings.push(Finding::of_file(path, rule, advice(name)));
        }
        if has_ending(path, "rs") {
            let source = RustSource::scan(text);
            findings.extend(source.numbered().filter_map(|(number, line)| {
                let name = inline_module(line).filter(|n| BANNED_NAMES.contains(n))?;
                Some(Finding::at(path, number, rule, advice(name)))
            }));
        }
    }
    findings
}

fn advice(name: &str) -> String {
    format!(
        "`{name}` says nothing; name it after what it holds (for tests: `rig`, `scenario`, ...)"
    )
}

/// The name in `mod name {`; a module in a file of its own is found by the file's name.
fn inline_module(line: &str) -> Option<&str> {
    let before_brace = line.split_once('{')?.0.trim_end();
    let (before, name) = before_brace.rsplit_once(' ')?;
    before.ends_with("mod").then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn junk_file_folder_and_module_are_found() {
        let tree = Tree::of(&[
            ("crates/a/src/util.rs", ""),
            ("crates/a/tests/common/mod.rs", ""),
            ("crates/a/src/b.rs", "pub(crate) mod helpers {\n}\n"),
            ("crates/a/src/scores.rs", "// mod misc {\nlet core = 1;\n"),
        ]);
        let found: Vec<String> = banned_names(&tree).into_iter().map(|f| f.path).collect();
        assert_eq!(
            found,
            [
                "crates/a/src/b.rs",
                "crates/a/src/util.rs",
                "crates/a/tests/common/mod.rs"
            ]
        );
    }
}
