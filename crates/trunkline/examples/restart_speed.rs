//! How long an engine takes to have its libraries and retained values back.
//!
//! `cargo run --release -p trunkline --example restart_speed [VARIABLES]` (100,000). Every variable
//! is retained and has been written. Prints the time of each step, then the median of the restarts.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a measurement for people"
)]

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use trunkline::types::{DataType, LibraryDefinition, Properties, VariableDefinition};
use trunkline::{Engine, EngineOptions};

const RESTARTS: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let count = std::env::args()
        .nth(1)
        .map_or(Ok(100_000), |text| text.parse())?;
    let folder = tempfile::tempdir()?;
    let options = || EngineOptions {
        store: Some(folder.path().join("store.db")),
        ..EngineOptions::default()
    };
    let library = library(count);
    let engine = Engine::start(options())?;
    timed("deploy and store the library", || engine.deploy(&library))?;
    let names: Vec<String> = library
        .variables
        .iter()
        .map(|variable| format!("rig/{}", variable.path))
        .collect();
    for (number, name) in names.iter().enumerate() {
        engine.variable::<f64>(name)?.write(number as f64)?;
    }
    timed("store the values, and stop", || -> Result<(), String> {
        engine.shutdown(Duration::from_secs(1));
        Ok(())
    })?;
    drop(engine);
    let mut times = Vec::new();
    for _ in 0..RESTARTS {
        let before = Instant::now();
        let engine = Engine::start(options())?;
        times.push(before.elapsed());
        let last = engine.variable::<f64>(&names[count - 1])?.read()?;
        assert_eq!(
            (last.value, engine.variable_count()),
            ((count - 1) as f64, count)
        );
        engine.shutdown(Duration::from_secs(1));
    }
    times.sort();
    println!(
        "start with {count} variables and their values: {:?} (median of {RESTARTS})",
        times[RESTARTS / 2]
    );
    Ok(())
}

fn library(count: usize) -> LibraryDefinition {
    let mut properties = Properties::new(DataType::F64);
    properties.retain = true;
    let properties = Arc::new(properties);
    let variable = |number: usize| VariableDefinition {
        path: format!("group {}/value {number}", number % 100),
        properties: Arc::clone(&properties),
    };
    LibraryDefinition {
        name: "rig".to_owned(),
        description: String::new(),
        variables: (0..count).map(variable).collect(),
    }
}

fn timed<T, E>(what: &str, step: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    let before = Instant::now();
    let result = step();
    println!("{what}: {:?}", before.elapsed());
    result
}
