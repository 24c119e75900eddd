//! An engine with plain variables, for the scenarios.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use trunkline::types::{DataType, LibraryDefinition, Properties, VariableDefinition};
use trunkline::{Engine, EngineOptions};

use crate::Outcome;
use crate::role::{say, wait_for_end};
use crate::settings::Settings;

/// The library all scenarios use.
const LIBRARY: &str = "bench";

/// Full name of a variable.
pub fn name(index: usize) -> String {
    format!("{LIBRARY}/{}", path(index))
}

fn path(index: usize) -> String {
    format!("rig/channel{index:04}")
}

/// Full names of the first `count` variables.
pub fn names(count: usize) -> Vec<String> {
    (0..count).map(name).collect()
}

/// A library of `count` variables of one type, whose writers wait up to `stall` for a full feed.
pub fn library(count: usize, data_type: DataType, stall: Duration) -> LibraryDefinition {
    let properties = Arc::new(Properties {
        stall,
        ..Properties::new(data_type)
    });
    let variable = |index| VariableDefinition {
        path: path(index),
        properties: properties.clone(),
    };
    LibraryDefinition {
        name: LIBRARY.to_owned(),
        description: String::new(),
        variables: (0..count).map(variable).collect(),
    }
}

/// Any free port of this machine.
pub fn free_port() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
}

/// An engine that listens on a free port of this machine.
///
/// # Errors
/// The system refuses it one.
pub fn start(library: &LibraryDefinition) -> Outcome<Engine> {
    let options = EngineOptions {
        listen: vec![free_port().into()],
        ..EngineOptions::default()
    };
    let engine = Engine::start(options)?;
    engine.deploy(library)?;
    Ok(engine)
}

/// URL of an engine.
pub fn url(address: SocketAddr) -> String {
    // The scenarios are of TCP, also where an engine on this machine offers something faster.
    format!("tl+tcp://{address}")
}

/// The far end of W1 and W2: an engine with variables, until the near end has had enough.
///
/// # Errors
/// The engine cannot be started.
pub fn serve(settings: &Settings) -> Outcome<()> {
    let data_type = match settings.value::<String>("type")?.as_str() {
        "i32" => DataType::I32,
        "f32" => DataType::F32,
        "f64" => DataType::F64,
        "string16" => DataType::String,
        other => return Err(format!("no scenario has variables of type {other}").into()),
    };
    let engine = start(&library(settings.value("n")?, data_type, Duration::ZERO))?;
    let address = engine
        .local_addrs()
        .first()
        .copied()
        .ok_or("the engine listens nowhere")?;
    say(&format!("LISTENING {}", url(address)));
    wait_for_end();
    engine.shutdown(Duration::ZERO);
    Ok(())
}
