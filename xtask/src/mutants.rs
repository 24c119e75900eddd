//! Bugs that are planted on purpose, for the simulator to find: a series of patches for the source.
//!
//! `target/mutants/tree` is the tree with all patches applied. A thread chooses the bug that is active in it,
//! so one build serves all bugs. Only files whose content changed are rewritten there, so that cargo rebuilds
//! little.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::finding::Outcome;

/// The patches, their order in `series`, and the module that chooses the active bug.
const FOLDER: &str = "crates/trunkline-sim/mutants";
/// The place of that module in the tree with the bugs.
const MODULE: &str = "crates/trunkline-types/src/planted.rs";
/// Largest number of context lines in a patch. A saved patch has as few as make its positions unambiguous.
const CONTEXT_MAX: usize = 5;

pub(crate) fn run(root: &Path, options: &[String]) -> Result<Outcome, String> {
    let mutants = Mutants::load(root)?;
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let note = match options[..] {
        [] => mutants.make_tree()?,
        ["--edit", name] => mutants.edit(name)?,
        ["--save", name] => mutants.save(name)?,
        _ => return Err("`mutants` takes nothing, `--edit NAME` or `--save NAME`".to_owned()),
    };
    Ok(Outcome {
        notes: vec![note],
        ..Outcome::default()
    })
}

struct Mutants {
    root: PathBuf,
    /// The working folder, under `target`.
    work: PathBuf,
    /// Names of the patches, in order.
    series: Vec<String>,
}

impl Mutants {
    fn load(root: &Path) -> Result<Self, String> {
        let series = read(&root.join(FOLDER).join("series"))?;
        Ok(Self {
            root: root.to_owned(),
            work: root.join("target/mutants"),
            series: series.lines().map(str::to_owned).collect(),
        })
    }

    fn patch(&self, name: &str) -> PathBuf {
        self.root.join(FOLDER).join(format!("{name}.patch"))
    }

    /// Creates `target/mutants/tree`.
    fn make_tree(&self) -> Result<String, String> {
        let patched = self.patched("patched", &self.series)?;
        let tree = self.work.join("tree");
        let mut files: BTreeSet<PathBuf> = self.files()?.into_iter().collect();
        files.insert(MODULE.into());
        for file in &files {
            let with_bugs = patched.join(file);
            let from = match with_bugs.exists() {
                true => with_bugs,
                false => self.root.join(file),
            };
            write_if_changed(&from, &tree.join(file))?;
        }
        remove_others(&tree, &tree, &files)?;
        Ok(format!(
            "{} bugs in {}",
            self.series.len() - 1,
            tree.display()
        ))
    }

    /// Creates `target/mutants/before` with the patches of the series before `name`, and
    /// `target/mutants/edit` with this patch too, as far as it applies.
    fn edit(&self, name: &str) -> Result<String, String> {
        let earlier = self.earlier(name);
        self.patched("before", earlier)?;
        let edit = self.patched("edit", earlier)?;
        let mut note = String::new();
        if self.patch(name).exists() {
            let applied = self.apply(name, &edit, &["--reject"])?;
            if !applied.status.success() {
                note = format!(
                    "{}\nThe rest is in the files `.rej`; remove them.\n",
                    String::from_utf8_lossy(&applied.stderr)
                );
            }
        }
        let shown = edit.display();
        Ok(format!(
            "{note}Edit the files in {shown}, then: cargo xtask mutants --save {name}"
        ))
    }

    /// Writes the difference between `target/mutants/before` and `edit` as a patch. Keeps the sentence above
    /// the old patch, and appends a new name to the series.
    fn save(&self, name: &str) -> Result<String, String> {
        let mut diff = String::new();
        for context in 1..=CONTEXT_MAX {
            diff = self.difference(context)?;
            if is_unambiguous(&diff, &self.work.join("before")) {
                break;
            }
        }
        let path = self.patch(name);
        let before = read(&path).unwrap_or_default();
        let sentence = before.split("--- ").next().unwrap_or_default();
        write(&path, format!("{sentence}{diff}").as_bytes())?;
        if !self.series.iter().any(|known| known == name) {
            let series = self.root.join(FOLDER).join("series");
            write(&series, format!("{}{name}\n", read(&series)?).as_bytes())?;
        }
        Ok(format!("{} is written", path.display()))
    }

    fn earlier(&self, name: &str) -> &[String] {
        let at = self.series.iter().position(|known| known == name);
        &self.series[..at.unwrap_or(self.series.len())]
    }

    /// Copies the source of the crates to a folder, and applies patches there.
    fn patched(&self, folder: &str, names: &[String]) -> Result<PathBuf, String> {
        let to = self.work.join(folder);
        if to.exists() {
            fs::remove_dir_all(&to).map_err(|error| about(&to, &error))?;
        }
        for file in self.files()? {
            if file.starts_with("crates") && file.extension().is_some_and(|name| name == "rs") {
                write(&to.join(&file), &bytes(&self.root.join(&file))?)?;
            }
        }
        let module = bytes(&self.root.join(FOLDER).join("planted.rs"))?;
        write(&to.join(MODULE), &module)?;
        for name in names {
            let applied = self.apply(name, &to, &[])?;
            if !applied.status.success() {
                return Err(format!(
                    "the patch {name} does not apply; put it right with `cargo xtask mutants \
                     --edit {name}`:\n{}",
                    String::from_utf8_lossy(&applied.stderr)
                ));
            }
        }
        Ok(to)
    }

    fn apply(&self, name: &str, to: &Path, options: &[&str]) -> Result<Output, String> {
        let patch = self.patch(name);
        let mut git = Command::new("git");
        // Git must find no repository here, or it would skip ignored files.
        git.env("GIT_CEILING_DIRECTORIES", &self.work)
            .current_dir(to)
            .arg("apply")
            .args(options)
            .arg(&patch);
        git.output().map_err(|error| format!("git apply: {error}"))
    }

    fn difference(&self, context: usize) -> Result<String, String> {
        let mut git = Command::new("git");
        git.env("GIT_CEILING_DIRECTORIES", &self.work)
            .current_dir(&self.work)
            .args(["diff", "--no-index", "--no-prefix", &format!("-U{context}")])
            .args(["before", "edit"]);
        let diff = git.output().map_err(|error| format!("git diff: {error}"))?;
        let diff = String::from_utf8_lossy(&diff.stdout);
        let lines = diff.lines().filter(|line| {
            let is_head = line.starts_with("diff ") || line.starts_with("index ");
            !is_head
        });
        let lines = lines.map(|line| {
            let line = line.replacen("--- before/", "--- a/", 1);
            // The name of the function is unnecessary, and changes with each edit.
            let line = match line
                .strip_prefix("@@ ")
                .and_then(|rest| rest.split_once(" @@"))
            {
                Some((range, _)) => format!("@@ {range} @@"),
                None => line,
            };
            line.replacen("+++ edit/", "+++ b/", 1) + "\n"
        });
        Ok(lines.collect())
    }

    /// Returns the files that git tracks or would track.
    fn files(&self) -> Result<Vec<PathBuf>, String> {
        let mut git = Command::new("git");
        git.current_dir(&self.root).args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ]);
        let listed = git
            .output()
            .map_err(|error| format!("git ls-files: {error}"))?;
        let listed = String::from_utf8_lossy(&listed.stdout);
        let files = listed.split('\0').filter(|name| !name.is_empty());
        let files = files.map(PathBuf::from);
        Ok(files
            .filter(|file| self.root.join(file).is_file())
            .collect())
    }
}

/// Returns true if the lines that each part of a patch replaces occur only once in their file.
fn is_unambiguous(diff: &str, before: &Path) -> bool {
    let mut text = String::new();
    let mut part: Option<String> = None;
    let mut is_clear = true;
    let is_at_one_place = |text: &str, part: Option<String>| {
        part.is_none_or(|part| format!("\n{text}").matches(&format!("\n{part}")).count() < 2)
    };
    for line in diff.lines() {
        if let Some(path) = line.strip_prefix("--- a/") {
            is_clear &= is_at_one_place(&text, part.take());
            text = read(&before.join(path)).unwrap_or_default();
        } else if line.starts_with("@@") {
            is_clear &= is_at_one_place(&text, part.replace(String::new()));
        } else if let (Some(part), true) = (&mut part, line.starts_with([' ', '-'])) {
            part.push_str(&line[1..]);
            part.push('\n');
        }
    }
    is_clear && is_at_one_place(&text, part)
}

fn write_if_changed(from: &Path, to: &Path) -> Result<(), String> {
    let new = bytes(from)?;
    match fs::read(to) {
        Ok(old) if old == new => Ok(()),
        _ => write(to, &new),
    }
}

/// Removes files of an earlier tree that are not in this one.
fn remove_others(tree: &Path, folder: &Path, files: &BTreeSet<PathBuf>) -> Result<(), String> {
    let entries = fs::read_dir(folder).map_err(|error| about(folder, &error))?;
    for entry in entries {
        let path = entry.map_err(|error| about(folder, &error))?.path();
        if path.is_dir() {
            remove_others(tree, &path, files)?;
        } else if path
            .strip_prefix(tree)
            .is_ok_and(|file| !files.contains(file))
        {
            fs::remove_file(&path).map_err(|error| about(&path, &error))?;
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| about(path, &error))
}

fn bytes(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| about(path, &error))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
    let written = folder.and_then(|()| fs::write(path, bytes));
    written.map_err(|error| about(path, &error))
}

fn about(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_whose_lines_are_at_two_places_needs_more_context() {
        let folder = std::env::temp_dir().join(format!("mutants-{}", std::process::id()));
        write(&folder.join("x.rs"), b"a\n}\nb\n}\nc\n").unwrap();
        let patch = |hunk: &str| format!("--- a/x.rs\n+++ b/x.rs\n@@ -1 +1 @@\n{hunk}");
        assert!(!is_unambiguous(&patch(" }\n+new\n"), &folder));
        assert!(is_unambiguous(&patch(" }\n+new\n b\n"), &folder));
        fs::remove_dir_all(&folder).unwrap();
    }
}
