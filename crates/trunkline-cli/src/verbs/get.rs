//! `get`: reads variables once, all in one round trip.

use crate::connection::{Connection, metadata, open_options, readable};
use crate::output::ReadingView;
use crate::output::readings::{PrinterOptions, ReadingPrinter};
use crate::targets;
use crate::{CliError, Context, Exit, Tally};

/// Read variables once
///
/// Variables that can be read are printed on standard output, errors for the other variables on
/// standard error.
///
/// The placeholders of `--format` are {name}, {value}, {units}, {type} and {quality}; {time}, the
/// time in the style of --time and --clock; {ts} and {engine_ts}, when the value was measured and
/// when the engine accepted it, as ISO times in UTC; {age}, the time since the measurement;
/// {epoch}, the number of the engine's current run; {seq}, the sequence number of the update;
/// {lost} and {coalesced}, the number of updates before this one that were lost, or that the engine
/// skipped, as `monitor --contract` allows.
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
