//! `get`: reads variables once, all in one round trip.

use crate::connection::{Connection, metadata, open_options, readable};
use crate::output::ReadingView;
use crate::output::readings::{PrinterOptions, ReadingPrinter};
use crate::targets;
use crate::{CliError, Context, Exit, Tally};

/// Read variables once
///
/// Readings are printed on standard output. Errors for variables that cannot be read are printed on
/// standard error.
///
/// The placeholders of `--format` are {name}, {value}, {units}, {type}, {quality}, {time}, {ts},
/// {engine_ts}, {age}, {epoch}, {seq}, {lost} and {coalesced}. {time} has the style of --time and
/// --clock. {ts} is the time at which the value was measured, and {engine_ts} the time at which the
/// engine accepted it; both are ISO 8601 times in UTC. {age} is the age of a stale value in seconds,
/// and is empty for other values. {epoch} is the number of the engine's current run, and {seq} is
/// the sequence number of the update. {lost} counts the updates before this one that were lost, and
/// {coalesced} counts those that the engine skipped, as `monitor --contract` allows.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Names, URLs, or patterns such as 'boiler/**'
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, CliError> {
    let targets = targets::resolve(&args.names, &context.settings)?;
    let connection = Connection::new(&targets.engine, context)?;
    let entries = connection.expand(targets, context)?;
    let opened = connection.open_all(&entries, open_options(true, true))?;
    let name_width = entries.width();
    let options = PrinterOptions {
        name_width,
        with_time: false,
        started: context.started,
    };
    let mut printer = ReadingPrinter::new(&context.settings, &context.terminal, options)?;
    let mut tally = Tally::default();
    for (name, opened) in opened {
        match opened.and_then(|opened| readable(&name, opened)) {
            Ok(opened) => {
                let Some(reading) = &opened.reading else {
                    continue;
                };
                let received = context.clock.wall();
                let metadata = metadata(&opened);
                let view = ReadingView::new(&name, &metadata, reading, received);
                printer.print(&view)?;
                if !view.has_value {
                    tally.item_failed(Exit::Failed);
                }
            }
            Err(problem) => tally.item_failed(context.show(&problem, name_width)?),
        }
    }
    Ok(tally.exit())
}
