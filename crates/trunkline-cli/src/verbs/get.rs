//! `get`: reads variables once, all of them in one round trip.

use trunkline::OpenOptions;

use super::{Context, Verb};
use crate::connection::{Connection, Entry, facts, readable};
use crate::exit::{Exit, Tally};
use crate::output::Shown;
use crate::output::readings::{Plan, ReadingPrinter};
use crate::problem::Stop;
use crate::targets;

/// Read variables once
///
/// Variables that can be read are printed on standard output, errors of the others on standard
/// error. The placeholders of `--format` are {name} {value} {units} {type} {time} {ts} {engine_ts}
/// {quality} {epoch} {seq} {lost} {coalesced} {age}.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Names, URLs, or patterns such as 'boiler/**'
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
}

pub(crate) const VERB: Verb = Verb::reading(
    "get",
    &[
        Exit::Done,
        Exit::SomeFailed,
        Exit::Usage,
        Exit::Unreachable,
        Exit::TimedOut,
        Exit::NotPermitted,
        Exit::Interrupted,
    ],
);

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Stop> {
    crate::interrupt::end_process_on_interrupt(&context.terminal)?;
    let targets = targets::resolve(&args.names, &context.settings)?;
    let connection = Connection::new(&targets.engine, context)?;
    let entries = connection.expand(targets, context)?;
    let options = OpenOptions {
        read: true,
        describe: true,
        ..OpenOptions::default()
    };
    let mut opened = connection.open(&entries.names(), options)?.into_iter();
    let name_width = entries.width();
    let plan = Plan {
        name_width,
        with_time: false,
        started: context.started,
    };
    let mut printer = ReadingPrinter::new(&context.settings, &context.terminal, plan)?;
    let mut tally = Tally::default();
    for entry in &entries.0 {
        let result = match entry {
            Entry::Problem(problem) => Err(problem.clone()),
            Entry::Name(name) => {
                let Some(opened) = opened.next() else { break };
                opened
                    .and_then(|opened| readable(name, opened))
                    .map(|opened| (name, opened))
            }
        };
        match result {
            Ok((name, opened)) => {
                let Some(reading) = &opened.reading else {
                    continue;
                };
                let received = context.clock.wall();
                let facts = facts(&opened);
                let shown = Shown::new(name, &facts, reading, received);
                printer.print(&shown)?;
                if !shown.has_value {
                    tally.item_failed(Exit::SomeFailed);
                }
            }
            Err(problem) => tally.item_failed(context.show(&problem, name_width)?),
        }
    }
    Ok(tally.exit())
}
