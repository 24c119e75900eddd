//! The files of the repository, read once.
//!
//! Files named in `.gitignore` are left out, so that a build or a fuzz corpus does not count as source. Four
//! forms of pattern are permitted, and any other is an error, so that git and this module never disagree:
//! `/path/` (a folder from the root), `/path.ext` (a file from the root, which a command writes), `name/` (a
//! folder anywhere), `*.ext` (files by ending).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Endings of files that are read as text. A file without an ending is text if it is named below.
const TEXT_ENDINGS: [&str; 17] = [
    "c", "css", "h", "html", "js", "json", "md", "py", "rs", "sh", "svelte", "toml", "ts", "txt",
    "yaml", "yml", "pyi",
];
const TEXT_NAMES: [&str; 3] = ["Makefile", ".ci/run", ".gitignore"];

/// The files of the repository by their path relative to the root, with `/` between segments.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    root: PathBuf,
    texts: BTreeMap<String, String>,
    others: BTreeSet<String>,
}

impl Tree {
    /// Reads the tree below `root`.
    pub(crate) fn load(root: &Path) -> Result<Self, String> {
        let ignore_file = root.join(".gitignore");
        let ignored = match fs::read_to_string(&ignore_file) {
            Ok(text) => Ignored::parse(&text)?,
            Err(_) => Ignored::default(),
        };
        let mut tree = Self {
            root: root.to_owned(),
            ..Self::default()
        };
        tree.read_folder("", &ignored)?;
        tree.others.extend(ignored.files);
        Ok(tree)
    }

    fn read_folder(&mut self, folder: &str, ignored: &Ignored) -> Result<(), String> {
        let full = self.root.join(folder);
        let entries =
            fs::read_dir(&full).map_err(|e| format!("cannot list {}: {e}", full.display()))?;
        for entry in entries {
            let entry = entry.map_err(|e| format!("cannot list {}: {e}", full.display()))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if folder.is_empty() {
                name
            } else {
                format!("{folder}/{name}")
            };
            let kind = entry
                .file_type()
                .map_err(|e| format!("cannot look at {path}: {e}"))?;
            if kind.is_dir() {
                if path != ".git" && !ignored.folder(&path) {
                    self.read_folder(&path, ignored)?;
                }
            } else if !ignored.file(&path) {
                self.read_file(path)?;
            }
        }
        Ok(())
    }

    fn read_file(&mut self, path: String) -> Result<(), String> {
        let ending = path
            .rsplit('/')
            .next()
            .and_then(|n| n.rsplit_once('.'))
            .map(|(_, e)| e);
        let is_text = TEXT_NAMES.contains(&path.as_str())
            || ending.is_some_and(|e| TEXT_ENDINGS.contains(&e));
        if !is_text {
            self.others.insert(path);
            return Ok(());
        }
        let text = fs::read_to_string(self.root.join(&path))
            .map_err(|e| format!("cannot read {path} as UTF-8 text: {e}"))?;
        self.texts.insert(path, text);
        Ok(())
    }

    /// A tree made of the given files, for tests of the rules.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let mut tree = Self::default();
        for (path, text) in files {
            tree.texts.insert((*path).to_owned(), (*text).to_owned());
        }
        tree
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// All text files, in order of their paths.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// All text files with this ending (`rs`, without the dot).
    pub(crate) fn with_ending<'a>(
        &'a self,
        ending: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.texts()
            .filter(move |(path, _)| has_ending(path, ending))
    }

    /// The text of one file.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.texts.get(path).map(String::as_str)
    }

    /// Returns true if a file or a folder of this path exists, or a command writes the file.
    pub(crate) fn exists(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        if path.is_empty() || self.texts.contains_key(path) || self.others.contains(path) {
            return true;
        }
        let below = format!("{path}/");
        let first_below = |first: Option<&String>| first.is_some_and(|p| p.starts_with(&below));
        first_below(self.texts.range(below.clone()..).next().map(|(p, _)| p))
            || first_below(self.others.range(below.clone()..).next())
    }
}

/// Returns true if the file's name ends in `.` and `ending`.
pub(crate) fn has_ending(path: &str, ending: &str) -> bool {
    path.rsplit_once('.').is_some_and(|(_, e)| e == ending)
}

/// Returns true if a file is test code as a whole: by its folder or its name.
pub(crate) fn is_test_file(path: &str) -> bool {
    let mut segments = path.split('/').rev();
    let name = segments.next().unwrap_or(path);
    name == "tests.rs"
        || name.starts_with("test_")
        || name.ends_with(".test.ts")
        || segments.any(|s| matches!(s, "tests" | "benches" | "examples"))
}

/// The folder of the workspace: the parent of this crate's.
///
/// `cargo run` passes the crate's folder at run time. The folder compiled in may be that of another checkout
/// that shares the target folder.
pub(crate) fn workspace_root() -> Result<PathBuf, String> {
    let at_run_time = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let here = at_run_time.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")));
    here.parent()
        .map(Path::to_owned)
        .ok_or_else(|| format!("{} has no parent", here.display()))
}

#[derive(Debug, Default)]
struct Ignored {
    rooted: Vec<String>,
    files: Vec<String>,
    folders: Vec<String>,
    endings: Vec<String>,
}

impl Ignored {
    fn parse(text: &str) -> Result<Self, String> {
        let mut ignored = Self::default();
        for line in text.lines().map(str::trim) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(path) = line.strip_prefix('/').and_then(|l| l.strip_suffix('/')) {
                ignored.rooted.push(path.to_owned());
            } else if let Some(path) = line.strip_prefix('/').filter(|p| is_file_name(p)) {
                ignored.files.push(path.to_owned());
            } else if let Some(ending) = line.strip_prefix("*.") {
                ignored.endings.push(ending.to_owned());
            } else if let Some(name) = line.strip_suffix('/').filter(|n| !n.contains('/')) {
                ignored.folders.push(name.to_owned());
            } else {
                return Err(format!(
                    ".gitignore: `{line}` has a form xtask does not read; \
                     write `/path/`, `/path.ext`, `name/` or `*.ext`"
                ));
            }
        }
        Ok(ignored)
    }

    fn folder(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        self.rooted.iter().any(|r| r == path) || self.folders.iter().any(|f| f == name)
    }

    fn file(&self, path: &str) -> bool {
        self.files.iter().any(|f| f == path) || self.endings.iter().any(|e| has_ending(path, e))
    }
}

/// Returns true if the last part of a path has an ending, and no part is a pattern.
fn is_file_name(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.contains('.') && !path.contains('*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_folders_and_files_are_left_out() {
        let ignored =
            Ignored::parse("/target/\n/docs/a.md\n# a remark\n\n*.profraw\n__pycache__/\n")
                .expect("readable");
        assert!(ignored.folder("target"));
        assert!(!ignored.folder("crates/target"));
        assert!(ignored.folder("crates/x/__pycache__"));
        assert!(ignored.file("a/b.profraw"));
        assert!(!ignored.file("a/b.rs"));
        assert!(ignored.file("docs/a.md"));
        assert!(!ignored.file("crates/docs/a.md"));
    }

    #[test]
    fn pattern_of_another_form_is_refused() {
        let error = Ignored::parse("docs/**/x").expect_err("unknown form");
        assert!(error.contains("docs/**/x"), "{error}");
    }

    #[test]
    fn folder_exists_if_it_contains_a_file() {
        let tree = Tree::of(&[("docs/a/b.md", ""), ("docs.md", "")]);
        assert!(tree.exists("docs"));
        assert!(tree.exists("docs/a/"));
        assert!(tree.exists("docs/a/b.md"));
        assert!(!tree.exists("docs/a/c.md"));
        assert!(!tree.exists("doc"));
    }

    #[test]
    fn test_files_are_known_by_folder_and_name() {
        assert!(is_test_file("crates/x/tests/y.rs"));
        assert!(is_test_file("crates/x/src/y/tests.rs"));
        assert!(is_test_file("crates/x/examples/y.rs"));
        assert!(!is_test_file("crates/x/src/y.rs"));
        assert!(!is_test_file("crates/x/src/latest.rs"));
    }
}
