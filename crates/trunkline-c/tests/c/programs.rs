//! Programs that test the library from C.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::compiler::{Installed, check, expect_success};

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/c")
        .join(name)
}

/// Behaviour: API-03.
#[test]
fn every_group_of_functions_works_from_c() {
    let installed = Installed::new();
    let program = installed.compile(&source("scenarios.c"), "c99", &[]);
    expect_success(&mut installed.command(&program));
}

#[test]
fn bad_input_gives_an_error_with_a_message() {
    let installed = Installed::new();
    let program = installed.compile(&source("bad_input.c"), "c11", &["-DCYCLES=100000"]);
    expect_success(&mut installed.command(&program));
}

#[test]
fn bad_input_touches_no_foreign_memory() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("skipped, because valgrind is not installed: bad_input.c under valgrind");
        return;
    }
    let installed = Installed::new();
    let program = installed.compile(&source("bad_input.c"), "c11", &["-DCYCLES=1000"]);
    let mut command = installed.command(Path::new("valgrind"));
    command
        .args(["--quiet", "--error-exitcode=99", "--leak-check=full"])
        .args([
            "--errors-for-leak-kinds=definite",
            "--show-leak-kinds=definite",
        ])
        .arg("--fair-sched=yes")
        .arg(&program);
    let output = command.output().unwrap();
    check(&command, &output);
}
