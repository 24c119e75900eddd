//! `engine info`: shows information about an engine.

use trunkline::Client;
use trunkline::proto::EngineInfo;
use trunkline_types::Timestamp;

use crate::connection::Connection;
use crate::output::record::{JsonSchema, Record, Serialize};
use crate::output::values::WideInt;
use crate::terminal::Style;
use crate::{CliError, Context, Exit, counted};

/// Show information about an engine
///
/// This includes its name and version, where it runs and since when, and its libraries.
/// `trunkline limits` shows its limits, and `trunkline get '_engine/**'` its measurements.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {}

/// The output of `engine info`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "Trunkline engine, version 1")]
pub(crate) struct Engine {
    /// Address of the engine.
    address: String,
    /// Name of the engine.
    name: String,
    /// Version of the program that runs it.
    version: String,
    /// Name of its machine. Left out if the engine does not report it.
    #[serde(skip_serializing_if = "String::is_empty")]
    host: String,
    /// Process id. Left out if the engine does not report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    /// Identifies this start of the engine.
    epoch: WideInt,
    /// Start time, by the clock of the engine's machine.
    started: String,
    /// Time since the start in seconds.
    uptime: f64,
    /// Number of deployed variables.
    variables: WideInt,
    /// Number of open connections, including this one.
    sessions: WideInt,
    /// The libraries, at most 1,024.
    libraries: Vec<Library>,
}

/// A library of an engine.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Library {
    /// Name of the library.
    name: String,
    /// State: running or stopped.
    state: String,
    /// Number of its variables.
    variables: WideInt,
    /// Description of the library.
    description: String,
}

impl Record for Engine {
    const COLUMNS: &'static [&'static str] = &["property", "value"];
    const IS_HEADED: bool = false;
}

pub(crate) fn run(_args: &Args, context: &Context) -> Result<Exit, CliError> {
    let connection = Connection::to_engine(context)?;
    let info = connection.call(Client::engine_info)?;
    let values = context.settings.values;
    let libraries = info.libraries.iter().map(|library| Library {
        name: library.name.clone(),
        state: library.state.clone(),
        variables: values.int_or_text(library.variables),
        description: library.description.clone(),
    });
    let record = Engine {
        address: connection.address.clone(),
        name: info.name.clone(),
        version: info.version.clone(),
        host: info.host.clone(),
        pid: Some(info.pid).filter(|pid| *pid > 0),
        epoch: values.int_or_text(info.epoch),
        started: info.started.to_string(),
        uptime: info.uptime.as_secs_f64(),
        variables: values.int_or_text(info.variables),
        sessions: values.int_or_text(info.sessions),
        libraries: libraries.collect(),
    };
    let rows = rows(&record, &info, |time| {
        let times = context.settings.times.column(true, context.started);
        times.map_or_else(|| time.to_string(), |times| times.absolute(time))
    });
    context.print_details(&record, rows)?;
    Ok(Exit::Success)
}

fn rows(
    record: &Engine,
    info: &EngineInfo,
    time: impl Fn(Timestamp) -> String,
) -> Vec<(&'static str, String, Style)> {
    let libraries = info.libraries.iter().map(|library| {
        let count = counted(library.variables, "variable");
        match library.state.as_str() {
            "running" => format!("{} ({count})", library.name),
            state => format!("{} ({count}, {state})", library.name),
        }
    });
    let seconds = info.uptime.as_secs();
    let uptime = match (
        seconds / 86_400,
        seconds % 86_400 / 3600,
        seconds % 3600 / 60,
    ) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min {} s", seconds % 60),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    };
    [
        ("name", record.name.clone()),
        ("address", record.address.clone()),
        ("version", record.version.clone()),
        ("host", record.host.clone()),
        (
            "process",
            record.pid.map_or_else(String::new, |pid| pid.to_string()),
        ),
        ("epoch", info.epoch.to_string()),
        ("started", time(info.started)),
        ("uptime", uptime),
        ("variables", info.variables.to_string()),
        ("sessions", info.sessions.to_string()),
        ("libraries", libraries.collect::<Vec<_>>().join(", ")),
    ]
    .map(|(name, value)| (name, value, Style::Plain))
    .into()
}
