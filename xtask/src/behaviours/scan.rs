//! Finds the tests that name a behaviour.

use super::RULE;
use super::specification::Specification;
use crate::finding::Finding;
use crate::tree::{Tree, is_test_file};
use crate::words::{has_word, is_comment};

/// A test and the behaviours that it names.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NamedTest {
    /// File, relative to the root.
    pub path: String,
    /// Name of the function.
    pub name: String,
    /// Ids in the order named.
    pub ids: Vec<String>,
}

const MARK: &str = "Behaviour:";

/// The tests of the tree that name a behaviour; malformed lines go to `findings`.
pub(super) fn tests(
    tree: &Tree,
    specification: &Specification,
    findings: &mut Vec<Finding>,
) -> Vec<NamedTest> {
    let mut tests = Vec::new();
    for (path, text) in tree
        .with_ending("rs")
        .filter(|(_, text)| text.contains(MARK))
    {
        let file = File::new(tree, path, text);
        for start in file.marked_lines() {
            match file.read(start, specification) {
                Ok(test) => tests.push(test),
                Err(message) => findings.push(Finding::at(path, start + 1, RULE, message)),
            }
        }
    }
    tests
}

struct File<'a> {
    tree: &'a Tree,
    path: &'a str,
    lines: Vec<&'a str>,
}

impl<'a> File<'a> {
    fn new(tree: &'a Tree, path: &'a str, text: &'a str) -> Self {
        Self {
            tree,
            path,
            lines: text.lines().collect(),
        }
    }

    fn marked_lines(&self) -> Vec<usize> {
        let is_marked = |line: &str| comment(line).is_some_and(|c| c.starts_with(MARK));
        (0..self.lines.len())
            .filter(|&i| is_marked(self.lines[i]))
            .collect()
    }

    fn is_comment(&self, index: usize) -> bool {
        self.lines.get(index).is_some_and(|line| is_comment(line))
    }

    fn read(&self, start: usize, specification: &Specification) -> Result<NamedTest, String> {
        let (list, after) = self.list(start)?;
        let ids = specification.expand(&list)?;
        let name = self.test_below(start, after)?;
        Ok(NamedTest {
            path: self.path.to_owned(),
            name,
            ids,
        })
    }

    /// The ids between the mark and the full stop, and the line after them.
    fn list(&self, start: usize) -> Result<(String, usize), String> {
        let mut list = String::new();
        for index in start.. {
            if !self.is_comment(index) {
                break;
            }
            let part = comment(self.lines[index]).unwrap_or_default();
            list.push_str(part.strip_prefix(MARK).unwrap_or(part).trim());
            if let Some(list) = list.strip_suffix('.') {
                return Ok((list.to_owned(), index + 1));
            }
            list.push(' ');
        }
        Err("the list of ids does not end in a full stop: `Behaviour: SP-10, SP-11.`".to_owned())
    }

    /// The name of the test function below line `after`, past comments and attributes.
    fn test_below(&self, start: usize, after: usize) -> Result<String, String> {
        let mut is_test = (0..start)
            .rev()
            .take_while(|&i| self.is_comment(i) || self.code(i).starts_with("#["))
            .any(|i| is_test_attribute(self.code(i)));
        let mut brackets = 0_usize;
        for index in after..self.lines.len() {
            let code = self.code(index);
            let in_attribute = brackets > 0 || code.starts_with("#[");
            if in_attribute {
                brackets += code.matches('[').count();
                brackets = brackets.saturating_sub(code.matches(']').count());
                is_test |= is_test_attribute(code);
            }
            if !in_attribute && !self.is_comment(index) {
                let name = function_name(code).ok_or("not directly above a test function")?;
                return match is_test || self.is_scenario(name) {
                    true => Ok(name.to_owned()),
                    false => Err(format!("`{name}` is not a test, and no test runs it")),
                };
            }
        }
        Err("not directly above a test function".to_owned())
    }

    fn code(&self, index: usize) -> &str {
        self.lines.get(index).map_or("", |line| line.trim())
    }

    /// A function below `tests` that tests of the same crate run by its name, as a scenario table
    /// does.
    fn is_scenario(&self, name: &str) -> bool {
        if !is_test_file(self.path) {
            return false;
        }
        let folder: String = self.path.split_inclusive('/').take(2).collect();
        let files = self
            .tree
            .with_ending("rs")
            .filter(|(path, _)| path.starts_with(&folder));
        let uses = files
            .flat_map(|(_, text)| text.lines())
            .filter(|line| !is_comment(line) && has_word(line, name));
        uses.count() > 1
    }
}

fn is_test_attribute(code: &str) -> bool {
    code.starts_with("#[") && has_word(code, "test") && !code.starts_with("#[cfg")
}

fn comment(line: &str) -> Option<&str> {
    let line = line.trim();
    line.strip_prefix("///")
        .or_else(|| line.strip_prefix("//"))
        .map(str::trim)
}

fn function_name(code: &str) -> Option<&str> {
    let after = code
        .strip_prefix("fn ")
        .or_else(|| code.split_once(" fn ").map(|(_, a)| a))?;
    let end = after.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    Some(&after[..end])
}
