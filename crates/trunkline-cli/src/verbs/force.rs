//! `force`: holds variables at fixed values, lists the forced variables, and switches forcing on or
//! off.

use serde_json::Value as Json;
use trunkline::proto::ForcedEntry;
use trunkline::{CallError, ForcedList};

use super::{library, put};
use crate::connection::{Connection, metadata, open_options};
use crate::output::record::{JsonSchema, Record, Serialize};
use crate::output::times::TimeColumn;
use crate::{CliError, Context, Exit};

/// Hold variables at fixed values, overriding their sources and other writers
///
/// Every reading of a forced variable is marked `forced`. The engine keeps the newest value of the
/// source, and the variable shows this value after `unforce`. `--list` shows the forced variables,
/// who forced them, and when. To force several variables at the same time, run `force --off`, force
/// each variable, then run `force --on`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    values: put::ValueArgs,

    /// List the variables that are forced
    #[arg(long, conflicts_with_all = ["words", "csv", "no_wait", "on", "off"])]
    list: bool,

    /// Resume forcing: the variables that `--list` shows return to their forced values
    #[arg(long, conflicts_with_all = ["words", "csv", "no_wait", "off"])]
    on: bool,

    /// Suspend forcing: the variables show the values of their sources until `--on`
    #[arg(long, conflicts_with_all = ["words", "csv", "no_wait"])]
    off: bool,
}

/// A line of `force --list`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "Trunkline forced variable, version 1")]
pub(crate) struct Forced {
    /// Name of the variable.
    name: String,
    /// Data type of the variable.
    #[serde(rename = "type")]
    data_type: String,
    /// The forced value.
    forced: Json,
    /// The current value of its source. Left out when there is none yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    behind: Option<Json>,
    /// Quality of that value. Only with `behind`.
    #[serde(skip_serializing_if = "Option::is_none")]
    behind_q: Option<String>,
    /// Time at which the variable was forced.
    #[schemars(extend("format" = "date-time"))]
    since: String,
    /// Principal that forced it.
    by: String,
    /// Whether forcing is on and the variable shows the forced value.
    holds: bool,
    /// Cells of the table: the forced value, the value of the source, and the time of forcing.
    #[serde(skip)]
    texts: [(&'static str, String); 3],
}

impl Record for Forced {
    const COLUMNS: &'static [&'static str] = &["name", "forced", "source", "since", "by"];

    fn texts(&self) -> &[(&'static str, String)] {
        &self.texts
    }
}

/// The line of `force --on`, `force --off` and `unforce --all`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "Trunkline switch of forcing, version 1")]
pub(crate) struct Forcing {
    /// State of the forced values after the command.
    #[schemars(extend("enum" = ["on", "off", "cleared"]))]
    forcing: &'static str,
    /// Number of affected variables.
    variables: u32,
}

impl Record for Forcing {
    const COLUMNS: &'static [&'static str] = &["forcing", "variables"];
    const IS_HEADED: bool = false;
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, CliError> {
    if args.list {
        return list(context);
    }
    if args.on || args.off {
        let outcome = if args.on { "on" } else { "off" };
        return switch(context, outcome, |connection| {
            let timeout = connection.timeout();
            connection.client.set_forcing(args.on, timeout)
        });
    }
    put::force_values(&args.values, context)
}

fn list(context: &Context) -> Result<Exit, CliError> {
    let connection = Connection::to_engine(context)?;
    let list = connection
        .client
        .forced(connection.timeout())
        .map_err(|error| library::problem_of_order(&connection, &error))?;
    let mut table = context.table::<Forced>()?;
    let mut times = context.settings.times.column(true, context.started);
    let names: Vec<&str> = list.entries.iter().map(|entry| &*entry.name).collect();
    // The configured precision applies, except to variables that cannot be opened.
    let opened = connection.open(&names, open_options(false, true))?;
    for (entry, opened) in list.entries.iter().zip(&opened) {
        let precision = opened.as_ref().ok().and_then(|o| metadata(o).precision);
        table.push(&forced(context, &list, entry, precision, &mut times))?;
    }
    table.finish()?;
    if list.entries.is_empty() {
        context.terminal.note("no variable is forced")?;
    }
    if !list.is_on && !list.entries.is_empty() {
        let sentence = "forcing is off: `trunkline force --on` applies these values";
        context.terminal.note(sentence)?;
    }
    Ok(Exit::Success)
}

fn forced(
    context: &Context,
    list: &ForcedList,
    entry: &ForcedEntry,
    precision: Option<u8>,
    times: &mut Option<TimeColumn>,
) -> Forced {
    let values = context.settings.values;
    let text = |value| values.text(value, &entry.data_type, precision);
    let json = |value| values.json(value, &entry.data_type).value;
    let source = match &entry.behind {
        Some((value, quality)) if quality.is_good() => text(value),
        Some((value, quality)) => format!("{} ({quality})", text(value)),
        None => "nothing yet".to_owned(),
    };
    let since = times
        .as_mut()
        .map(|times| times.text(&entry.name, entry.since.into()));
    let behind = entry.behind.as_ref();
    Forced {
        name: entry.name.clone(),
        data_type: entry.data_type.to_string(),
        forced: json(&entry.value),
        behind: behind.map(|(value, _)| json(value)),
        behind_q: behind.map(|(_, quality)| quality.to_string()),
        since: entry.since.to_string(),
        by: entry.by.clone(),
        holds: list.is_on,
        texts: [
            ("forced", text(&entry.value)),
            ("source", source),
            ("since", since.unwrap_or_default()),
        ],
    }
}

pub(super) fn switch(
    context: &Context,
    forcing: &'static str,
    order: impl FnOnce(&Connection) -> Result<ForcedList, CallError>,
) -> Result<Exit, CliError> {
    let connection = Connection::to_engine(context)?;
    let list =
        order(&connection).map_err(|error| library::problem_of_order(&connection, &error))?;
    context.list([Forcing {
        forcing,
        variables: list.total,
    }])?;
    Ok(Exit::Success)
}
