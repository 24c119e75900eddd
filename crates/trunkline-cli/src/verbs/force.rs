//! `force`: holds variables at values, lists those that are held, and switches forcing for all.

use trunkline::proto::ForcedEntry;
use trunkline::{CallError, ForcedList, OpenOptions, Write};

use super::{Context, Verb, library, put};
use crate::connection::{Connection, facts};
use crate::exit::Exit;
use crate::output::json::Object;
use crate::output::records::{Records, Row};
use crate::output::times::{TimeColumn, Times};
use crate::problem::{Problem, Stop};
use crate::targets;
use crate::terminal::Mood;

/// Hold variables at values, overriding their sources and other writers
///
/// Every reading of a forced variable is marked `forced`. The engine keeps the newest value of the
/// source, and the variable shows it after `unforce`. `--list` shows what is forced, by whom and
/// since when. To force several variables at the same time, run `force --off`, force each variable,
/// then run `force --on`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    values: put::Args,

    /// List the variables that are forced
    #[arg(long, conflicts_with_all = ["words", "csv", "no_wait", "on", "off"])]
    list: bool,

    /// Resume forcing with all values on the list
    #[arg(long, conflicts_with_all = ["words", "csv", "no_wait", "off"])]
    on: bool,

    /// Suspend forcing; keep the list
    #[arg(long, conflicts_with_all = ["words", "csv", "no_wait"])]
    off: bool,
}

pub(crate) const VERB: Verb = Verb::writing("force", put::EXITS);

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Stop> {
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
    put::write_values(&args.values, Write::force, context)
}

fn list(context: &Context) -> Result<Exit, Stop> {
    crate::interrupt::end_process_on_interrupt(&context.terminal)?;
    let engine = targets::engine(&context.settings)?;
    let connection = Connection::new(&engine, context)?;
    let list = connection
        .client
        .forced(connection.timeout())
        .map_err(|error| failed(&connection, &error))?;
    let columns = &["name", "forced", "source", "since", "by"];
    let mut records = Records::new(&context.settings, &context.terminal, columns)?.headed();
    let mut times = context.settings.times.column(true, context.started);
    let names: Vec<&str> = list.entries.iter().map(|entry| &*entry.name).collect();
    let options = OpenOptions {
        describe: true,
        ..OpenOptions::default()
    };
    // Values are formatted as everywhere else; those of variables that cannot be opened, without
    // their precision.
    let opened = connection.open(&names, options)?;
    for (entry, opened) in list.entries.iter().zip(&opened) {
        let precision = opened.as_ref().ok().and_then(|o| facts(o).precision);
        records.push(row(context, &list, entry, precision, &mut times))?;
    }
    records.finish()?;
    if list.entries.is_empty() {
        context.terminal.note("no variable is forced")?;
    }
    if !list.is_on && !list.entries.is_empty() {
        let sentence = "forcing is off: `trunkline force --on` applies these values";
        context.terminal.note(sentence)?;
    }
    Ok(Exit::Done)
}

fn row(
    context: &Context,
    list: &ForcedList,
    entry: &ForcedEntry,
    precision: Option<u8>,
    times: &mut Option<TimeColumn>,
) -> Row {
    let values = context.settings.values;
    let text = |value| values.text(value, &entry.data_type, precision);
    let behind = match &entry.behind {
        Some((value, quality)) if quality.is_good() => text(value),
        Some((value, quality)) => format!("{} ({quality})", text(value)),
        None => "nothing yet".to_owned(),
    };
    let mut object = Object::new();
    object.put("name", entry.name.as_str());
    object.put("type", entry.data_type.to_string());
    object.put("forced", values.json(&entry.value, &entry.data_type).value);
    if let Some((value, quality)) = &entry.behind {
        object.put("behind", values.json(value, &entry.data_type).value);
        object.put("behind_q", quality.to_string());
    }
    object.put("since", entry.since.to_string());
    object.put("by", entry.by.as_str());
    object.put("holds", list.is_on);
    let when = Times {
        source: entry.since,
        engine: entry.since,
        local: entry.since,
    };
    let since = times.as_mut().map(|times| times.text(&entry.name, when));
    let cells = vec![
        entry.name.clone(),
        text(&entry.value),
        behind,
        since.unwrap_or_default(),
        entry.by.clone(),
    ];
    Row {
        cells,
        object,
        mood: Mood::Plain,
    }
}

/// Carries out an order about the whole list, and reports the number of variables affected.
pub(super) fn switch(
    context: &Context,
    outcome: &str,
    order: impl FnOnce(&Connection) -> Result<ForcedList, CallError>,
) -> Result<Exit, Stop> {
    crate::interrupt::end_process_on_interrupt(&context.terminal)?;
    let engine = targets::engine(&context.settings)?;
    let connection = Connection::new(&engine, context)?;
    let list = order(&connection).map_err(|error| failed(&connection, &error))?;
    let columns = &["forcing", "variables"];
    let mut records = Records::new(&context.settings, &context.terminal, columns)?;
    let mut object = Object::new();
    object.put("forcing", outcome);
    object.put("variables", list.total);
    records.push(Row {
        cells: vec![outcome.to_owned(), list.total.to_string()],
        object,
        mood: Mood::Plain,
    })?;
    records.finish()?;
    Ok(Exit::Done)
}

fn failed(connection: &Connection, error: &CallError) -> Problem {
    library::of_call(connection, error)
}
