//! Compiles a program against the library of this build, and runs it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// A folder with the library under its installed names.
pub(crate) struct Installed {
    folder: TempDir,
}

impl Installed {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let library = library();
        for name in ["libtrunkline.so", "libtrunkline.so.0"] {
            symlink(&library, folder.path().join(name)).unwrap();
        }
        Self { folder }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Compiles a program with all warnings as errors, and returns its path.
    pub(crate) fn compile(&self, source: &Path, standard: &str, more: &[&str]) -> PathBuf {
        let name = source.file_stem().unwrap().to_str().unwrap();
        let program = self.path().join(format!("{name}-{standard}"));
        let compiler = match standard.starts_with("c++") {
            true => "c++",
            false => "cc",
        };
        let mut command = Command::new(compiler);
        command
            .arg(format!("-std={standard}"))
            .args([
                "-Wall",
                "-Wextra",
                "-Wpedantic",
                "-Wconversion",
                "-Werror",
                "-O1",
                "-g",
            ])
            .arg("-I")
            .arg(root().join("crates/trunkline-c/include"))
            .arg("-o")
            .arg(&program)
            .arg(source)
            .args(more)
            .arg("-L")
            .arg(self.path())
            .arg("-ltrunkline")
            .arg("-lm")
            .arg("-pthread");
        expect_success(&mut command);
        program
    }

    /// A command that runs a program, or a tool with a program, against the library.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env("LD_LIBRARY_PATH", self.path());
        command
    }
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs a command, and returns what it printed on standard output.
pub(crate) fn expect_success(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    check(command, &output);
    String::from_utf8(output.stdout).unwrap()
}

pub(crate) fn check(command: &Command, output: &Output) {
    assert!(
        output.status.success(),
        "{command:?} ended with {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The library that was built with this test.
pub(crate) fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let deps = test.parent().unwrap();
    let candidates = [deps.to_owned(), deps.parent().unwrap().to_owned()];
    let newest = candidates
        .iter()
        .map(|folder| folder.join("libtrunkline_c.so"))
        .filter_map(|path| Some((fs::metadata(&path).ok()?.modified().ok()?, path)))
        .max();
    newest.expect("cargo builds the library before this test").1
}
