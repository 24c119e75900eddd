//! Programs that test the library from C.

use std::path::{Path, PathBuf};
use std::process::Command;

use trunkline::io::Drivers;
use trunkline::{Engine, OpenHistory};

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

/// Behaviour: API-03.
#[test]
fn patterns_alarms_audit_and_control_work_from_c() {
    let installed = Installed::new();
    let program = installed.compile(&source("operations.c"), "c99", &[]);
    expect_success(&mut installed.command(&program));
}

/// Behaviour: API-03.
#[test]
fn streams_with_several_peers_leases_and_journals_work_from_c() {
    let installed = Installed::new();
    let program = installed.compile(&source("streams.c"), "c99", &[]);
    let folder = tempfile::tempdir().unwrap();
    expect_success(installed.command(&program).arg(folder.path()));
}

/// Behaviour: API-03.
#[test]
fn recorded_history_is_read_page_by_page() {
    let folder = tempfile::tempdir().unwrap();
    let configuration = format!(
        "[engine]\nstore = \"{}/plant.db\"\nlisten = [\"127.0.0.1:0\"]\n[library]\nname = \"rig\"\n\
         [[variable]]\nname = \"a\"\ntype = \"f64\"\n[[variable]]\nname = \"b\"\ntype = \"i64\"\n\
         [[history]]\nvariables = \"rig/**\"\n",
        folder.path().display()
    );
    let plan = trunkline::config::parse("plant.toml", &configuration).unwrap();
    let open = Some(trunkline_history::open as OpenHistory);
    let engine = Engine::from_plan_with(&plan, &Drivers::built_in(), open).unwrap();
    let (a, b) = (
        engine.variable::<f64>("rig/a"),
        engine.variable::<i64>("rig/b"),
    );
    let (a, b) = (a.unwrap(), b.unwrap());
    for number in 0..50_i32 {
        a.write(f64::from(number)).unwrap();
        b.write(i64::from(number)).unwrap();
    }
    let installed = Installed::new();
    let program = installed.compile(&source("history.c"), "c99", &[]);
    let url = format!("tl://{}", engine.local_addrs()[0]);
    expect_success(installed.command(&program).arg(url));
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
