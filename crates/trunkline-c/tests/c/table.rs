//! The scenarios of variables and streams, which have the same results in every language.

use std::process::Command;

use trunkline::Engine;

use crate::compiler::{Installed, expect_success, root};
use crate::csharp::Bindings;

#[path = "../../../../scenarios/driver.rs"]
mod driver;

fn engine() -> (Engine, String, u16) {
    let configuration = std::fs::read_to_string(root().join("scenarios/engine.toml")).unwrap();
    let plan = trunkline::config::parse("engine.toml", &configuration).unwrap();
    let engine = Engine::from_plan(&plan).unwrap();
    let address = engine.local_addrs()[0];
    (engine, format!("tl://{address}"), address.port())
}

fn table() -> String {
    std::fs::read_to_string(root().join("scenarios/table.txt")).unwrap()
}

/// Compares what a driver printed with the steps and results of the table.
fn check(printed: &str) {
    let table = table();
    let is_step = |line: &&str| !line.starts_with('#') && !line.is_empty();
    let steps: Vec<&str> = table.lines().filter(is_step).collect();
    let printed: Vec<&str> = printed.lines().collect();
    let differences = steps
        .iter()
        .zip(&printed)
        .filter(|(step, line)| step != line);
    let differences: Vec<String> = differences
        .map(|(step, line)| format!("table:  {step}\ndriver: {line}"))
        .collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert_eq!(
        printed.len(),
        steps.len(),
        "the driver has carried out every step"
    );
}

/// Behaviour: API-03.
#[test]
fn rust_has_the_results_of_the_table() {
    let (_engine, url, port) = engine();
    check(&driver::run(&url, port, &table()));
}

fn run(command: &mut Command) {
    let (_engine, url, port) = engine();
    let table = root().join("scenarios/table.txt");
    let printed = expect_success(command.arg(url).arg(port.to_string()).arg(table));
    check(&printed);
}

/// Behaviour: API-03.
#[test]
fn c_has_the_results_of_the_table() {
    let installed = Installed::new();
    let program = installed.compile(&root().join("scenarios/driver.c"), "c99", &[]);
    run(&mut installed.command(&program));
}

/// Behaviour: API-03.
#[test]
fn csharp_has_the_results_of_the_table() {
    if let Some(bindings) = Bindings::new("scenarios/driver.cs") {
        run(&mut bindings.program(&root().join("scenarios/driver.cs")));
    }
}
