//! What does not stay in program text: markers of unfinished work, tests that do not run or wait.
//!
//! The words looked for are put together from pieces, so that this file does not contain them.

use super::is_program;
use crate::finding::Finding;
use crate::rust_source::{RustSource, has_word};
use crate::tree::{Tree, has_ending, is_test_file};

const UNFINISHED_MACROS: [&str; 2] = ["todo!", "unimplemented!"];
const UNFINISHED_WORDS: [&str; 2] = [concat!("FIX", "ME"), concat!("XX", "X")];

/// Nothing unfinished: no macro that panics in its place, no note to come back.
pub(super) fn markers(tree: &Tree) -> Vec<Finding> {
    let rule = "markers";
    let mut findings = Vec::new();
    for (path, text) in tree.texts().filter(|(path, _)| is_program(path)) {
        for (index, line) in text.lines().enumerate() {
            if let Some(word) = UNFINISHED_WORDS.iter().find(|word| has_word(line, word)) {
                let message = format!("`{word}`: finish it now, or open an issue and delete it");
                findings.push(Finding::at(path, index + 1, rule, message));
            }
        }
        if has_ending(path, "rs") {
            let source = RustSource::scan(text);
            findings.extend(source.numbered().filter_map(|(number, line)| {
                let name = UNFINISHED_MACROS
                    .iter()
                    .find(|name| line.contains(**name))?;
                let message = format!("`{name}`: write what belongs here, or return an error");
                Some(Finding::at(path, number, rule, message))
            }));
        }
    }
    findings
}

/// Every test runs: a test that may fail is put right or deleted, not switched off. What is no
/// test, but where a process begins that a test starts, says so and is not counted as one.
pub(super) fn ignored_tests(tree: &Tree) -> Vec<Finding> {
    let attribute = concat!("#[", "ignore");
    let mut findings = Vec::new();
    for (path, text) in tree.with_ending("rs") {
        let source = RustSource::scan(text);
        findings.extend(source.numbered().filter_map(|(number, line)| {
            let conditional = line.contains("cfg_attr") && has_word(line, "ignore");
            let entry_point = concat!("#[", "ignore = \"an entry point of ");
            let raw = text
                .lines()
                .nth(number.saturating_sub(1))
                .unwrap_or_default();
            let is_off = line.contains(attribute) && !raw.contains(entry_point);
            (is_off || conditional).then(|| {
                let message = "a test that does not run; make it run, move it behind a target of \
                               its own (`make soak`), or delete it";
                Finding::at(path, number, "ignored-tests", message)
            })
        }));
    }
    findings
}

/// Tests wait for events or turn a clock of their own; they do not wait for wall time.
pub(super) fn sleeps_in_tests(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.with_ending("rs") {
        let source = RustSource::scan(text);
        let sleeps = |(number, line): (usize, &str)| {
            let is_sleep = ["thread::sleep", "time::sleep"]
                .iter()
                .any(|s| has_word(line, s));
            is_sleep.then(|| finding_of_sleep(path, number))
        };
        if is_test_file(path) {
            findings.extend(source.numbered().filter_map(sleeps));
        } else {
            findings.extend(source.tests().filter_map(sleeps));
        }
    }
    for (path, text) in tree
        .with_ending("py")
        .filter(|(path, _)| is_test_file(path))
    {
        let lines = text
            .lines()
            .enumerate()
            .filter(|(_, line)| has_word(line, "time.sleep"));
        findings.extend(lines.map(|(index, _)| finding_of_sleep(path, index + 1)));
    }
    findings
}

fn finding_of_sleep(path: &str, line: usize) -> Finding {
    let message = "a test that sleeps; wait for the event itself (a channel, a condition, a line of \
                   output), or pass the time in";
    Finding::at(path, line, "sleeps-in-tests", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_are_found_in_code_and_comments() {
        let word = UNFINISHED_WORDS[1];
        let note = format!("// {word}: later\n// {word}L is a size\n");
        let text = format!(
            "{note}fn f() {{ {}() }}\n// todo! in words\n",
            UNFINISHED_MACROS[0]
        );
        let found = markers(&Tree::of(&[("crates/a/src/b.rs", &text)]));
        let lines: Vec<usize> = found.iter().map(|f| f.line).collect();
        assert_eq!(lines, [1, 3]);
    }

    #[test]
    fn test_that_does_not_run_is_found() {
        let attribute = format!("#{}", "[ignore = \"slow\"]");
        let text = format!("#[test]\n{attribute}\nfn f() {{}}\n#[cfg_attr(loom, ignore)]\n");
        let found = ignored_tests(&Tree::of(&[("crates/a/tests/b.rs", &text)]));
        let lines: Vec<usize> = found.iter().map(|f| f.line).collect();
        assert_eq!(lines, [2, 4]);
    }

    #[test]
    fn sleep_in_a_test_is_found() {
        let call = format!("std::thread::{}(d);", "sleep");
        let module = format!("fn f() {{ {call} }}\n#[cfg(test)]\nmod tests {{\n{call}\n}}\n");
        let tree = Tree::of(&[
            ("crates/a/src/b.rs", &module),
            ("crates/a/tests/c.rs", &call),
            ("python/tests/test_d.py", &format!("time.{}(1)\n", "sleep")),
        ]);
        let found: Vec<(String, usize)> = sleeps_in_tests(&tree)
            .into_iter()
            .map(|f| (f.path, f.line))
            .collect();
        let expected = [("crates/a/src/b.rs", 4), ("crates/a/tests/c.rs", 1)];
        let expected = expected.into_iter().chain([("python/tests/test_d.py", 1)]);
        assert_eq!(
            found,
            expected.map(|(p, l)| (p.to_owned(), l)).collect::<Vec<_>>()
        );
    }
}
