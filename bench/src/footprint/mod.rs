//! W8: the cost of variables for an engine: memory per variable, memory per subscribed item, the
//! time until a client has its first full set, and the time of a restart.

pub mod connect;
pub mod items;
pub mod memory;
pub mod restart;

use std::fs;
use std::sync::Arc;

use trunkline::types::{
    ArrayType, DataType, ElementType, LibraryDefinition, Properties, Value, VariableDefinition,
};
use trunkline::{Engine, EngineOptions};

use crate::Outcome;
use crate::hosting::{free_port, url};
use crate::role::{say, wait_for_end};
use crate::settings::Settings;

/// Name of the scenario in results.
pub const SCENARIO: &str = "footprint";
/// Numbers of variables of the memory curve.
pub const POINTS: [usize; 4] = [500, 1000, 100_000, 1_000_000];
/// Numbers of variables for `connect` and `items`.
pub const CONNECTED: [usize; 2] = [1000, 100_000];
/// Number of variables of the restart.
pub const RESTARTED: usize = 100_000;
/// Types of the published test (PB-06), which has 500 and 1000 variables of each.
pub const TYPES: [&str; 6] = ["f64", "f32", "bool", "f64x10", "f32x10", "boolx10"];
/// Elements of the arrays.
const ARRAY: u32 = 10;
/// Bytes of a full name.
pub const NAME_BYTES: usize = 24;

const LIBRARY: &str = "bench";

/// Returns the full name of a variable: 24 bytes.
pub fn name(index: usize) -> String {
    format!("{LIBRARY}/{}", path(index))
}

fn path(index: usize) -> String {
    format!("rig/channel{index:07}")
}

pub fn library(count: usize, kind: &str, retained: bool) -> Outcome<LibraryDefinition> {
    let mut properties = Properties::new(data_type(kind)?);
    properties.retain = retained;
    let properties = Arc::new(properties);
    let variable = |index| VariableDefinition {
        path: path(index),
        properties: Arc::clone(&properties),
    };
    Ok(LibraryDefinition {
        name: LIBRARY.to_owned(),
        description: String::new(),
        variables: (0..count).map(variable).collect(),
    })
}

fn data_type(kind: &str) -> Outcome<DataType> {
    let array = |element| {
        DataType::Array(Arc::new(ArrayType {
            element,
            shape: vec![Some(ARRAY)],
        }))
    };
    Ok(match kind {
        "f64" => DataType::F64,
        "f32" => DataType::F32,
        "bool" => DataType::Bool,
        "f64x10" => array(ElementType::F64),
        "f32x10" => array(ElementType::F32),
        "boolx10" => array(ElementType::Bool),
        other => return Err(format!("footprint has no variables of type {other}").into()),
    })
}

/// Returns an engine that listens on a free port of this machine, without limits for a client.
pub fn engine() -> Outcome<Engine> {
    Ok(Engine::start(EngineOptions {
        listen: vec![free_port().into()],
        ..EngineOptions::default()
    })?)
}

/// Writes every variable once: its index to a number, otherwise a value of its type.
pub fn write_all(engine: &Engine, library: &LibraryDefinition) -> Outcome<()> {
    for index in 0..library.variables.len() {
        let data_type = &library.variables[index].properties.data_type;
        let value = match data_type {
            DataType::F64 => Value::F64(index as f64),
            other => Value::default_of(other),
        };
        engine.variable::<Value>(&name(index))?.write(value)?;
    }
    Ok(())
}

/// The far end of `connect` and `items`: an engine in which all variables have a value.
pub fn serve(settings: &Settings) -> Outcome<()> {
    let engine = engine()?;
    let library = library(settings.value("vars")?, "f64", false)?;
    engine.deploy(&library)?;
    write_all(&engine, &library)?;
    let address = engine.local_addrs().first().copied();
    let address = address.ok_or("the engine listens nowhere")?;
    say(&format!("LISTENING {}", url(address)));
    wait_for_end();
    // Not earlier: later allocations would reuse its memory and cost nothing.
    drop(library);
    Ok(())
}

/// Returns the resident bytes of a process. Exact, unlike the approximate counters in `status`.
pub fn resident_bytes(pid: u32) -> Outcome<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let kib = resident_kib(&text).ok_or("the system does not tell what is resident")?;
    Ok(kib * 1024.0)
}

fn resident_kib(text: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix("Rss:"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_24_bytes_up_to_the_last_point() {
        for index in [0, POINTS[3] - 1] {
            assert_eq!(name(index).len(), NAME_BYTES);
        }
    }

    #[test]
    fn every_type_can_be_deployed_and_written() {
        for kind in TYPES {
            let sut = Engine::start(EngineOptions::default()).unwrap();
            let library = library(3, kind, false).unwrap();
            sut.deploy(&library).unwrap();
            write_all(&sut, &library).unwrap();
            let held = sut.variable::<Value>(&name(2)).unwrap().read().unwrap();
            assert_eq!(held.position.sequence, 1, "{kind}");
        }
        assert!(library(1, "text", false).is_err());
    }

    #[test]
    fn resident_bytes_are_found() {
        let text = "55-7f ---p 00000000 00:00 0 [rollup]\nRss:     1884 kB\nPss:   9 kB\n";
        assert_eq!(resident_kib(text), Some(1884.0));
        assert!(resident_bytes(std::process::id()).unwrap() > 100_000.0);
    }
}
