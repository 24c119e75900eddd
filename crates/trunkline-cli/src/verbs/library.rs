//! `library`: stops and starts libraries that stay deployed.

use trunkline::CallError;
use trunkline::proto::{FaultCode, LibraryReport};

use super::{Context, Verb};
use crate::connection::Connection;
use crate::exit::{Exit, Tally};
use crate::output::json::Object;
use crate::output::records::{Records, Row};
use crate::problem::{Problem, Stop};
use crate::targets;
use crate::terminal::Mood;

/// Start or stop deployed libraries
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum Subcommand {
    /// Start libraries again: their variables can be written
    Start(Args),
    /// Stop libraries, which stay deployed
    ///
    /// The variables of a stopped library keep their values, are bad, and refuse every write until
    /// the library is started again.
    Stop(Args),
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The libraries; `trunkline ls` lists them
    #[arg(value_name = "LIBRARY", required = true)]
    libraries: Vec<String>,
}

/// Exit codes of orders about libraries.
pub(super) const EXITS: &[Exit] = &[
    Exit::Done,
    Exit::SomeFailed,
    Exit::Usage,
    Exit::Unreachable,
    Exit::TimedOut,
    Exit::NotPermitted,
    Exit::Refused,
    Exit::Unknown,
    Exit::Interrupted,
];

pub(crate) const VERB: Verb = Verb::group(
    "library",
    &[Verb::writing("start", EXITS), Verb::writing("stop", EXITS)],
);

pub(crate) fn run(command: &Subcommand, context: &Context) -> Result<Exit, Stop> {
    crate::interrupt::end_process_on_interrupt(&context.terminal)?;
    let engine = targets::engine(&context.settings)?;
    let connection = Connection::new(&engine, context)?;
    let mut outcomes = Outcomes::new(context)?;
    let (Subcommand::Start(args) | Subcommand::Stop(args)) = command;
    for name in &args.libraries {
        let (client, timeout) = (&connection.client, connection.timeout());
        let (word, result) = match command {
            Subcommand::Start(_) => ("started", client.start_library(name, timeout)),
            Subcommand::Stop(_) => ("stopped", client.stop_library(name, timeout)),
        };
        outcomes.add(&connection, name, word, result)?;
    }
    outcomes.finish()
}

/// Prints the outcomes of orders about libraries, one line each.
#[derive(Debug)]
pub(super) struct Outcomes<'c> {
    context: &'c Context,
    records: Records,
    tally: Tally,
}

impl<'c> Outcomes<'c> {
    pub(super) fn new(context: &'c Context) -> Result<Self, Stop> {
        let columns = &["name", "outcome", "variables"];
        Ok(Self {
            context,
            records: Records::new(&context.settings, &context.terminal, columns)?,
            tally: Tally::default(),
        })
    }

    /// Shows the outcome of one order.
    pub(super) fn add(
        &mut self,
        connection: &Connection,
        name: &str,
        outcome: &str,
        result: Result<LibraryReport, CallError>,
    ) -> Result<(), Stop> {
        let report = match result {
            Ok(report) => report,
            Err(error) => {
                return self.failed(&of_call(connection, &error).of(name));
            }
        };
        let mut object = Object::new();
        object.put("name", name);
        object.put("outcome", outcome);
        object.put("added", report.added);
        object.put("changed", report.changed);
        object.put("kept", report.kept);
        object.put("removed", report.removed);
        let cells = vec![name.to_owned(), outcome.to_owned(), counts(&report)];
        self.records.push(Row {
            cells,
            object,
            mood: Mood::Plain,
        })
    }

    /// Shows why an order was not carried out.
    pub(super) fn failed(&mut self, problem: &Problem) -> Result<(), Stop> {
        self.tally.item_failed(problem.exit);
        let name = problem.name.as_deref().unwrap_or_default();
        self.context.show(problem, crate::terminal::width(name))?;
        Ok(())
    }

    pub(super) fn finish(self) -> Result<Exit, Stop> {
        self.records.finish()?;
        Ok(self.tally.exit())
    }
}

/// Formats `3 new, 1 changed, 2 the same, 1 gone`, leaving out zeros.
fn counts(report: &LibraryReport) -> String {
    let counts = [
        (report.added, "new"),
        (report.changed, "changed"),
        (report.kept, "the same"),
        (report.removed, "gone"),
    ];
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> = counts
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    parts.join(", ")
}

/// Returns the problem of an order that was not carried out.
pub(super) fn of_call(connection: &Connection, error: &CallError) -> Problem {
    let CallError::Fault(fault) = error else {
        return connection.failed(error);
    };
    let exit = match fault.code {
        FaultCode::Denied => Exit::NotPermitted,
        FaultCode::TimedOut => Exit::Unknown,
        FaultCode::UnknownLibrary => Exit::SomeFailed,
        FaultCode::BadLibrary | FaultCode::TooLarge => Exit::Found,
        _ => Exit::Refused,
    };
    Problem::new(exit, fault.code.name(), &fault.sentence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_name_what_there_is() {
        let report = LibraryReport {
            added: 3,
            kept: 2,
            ..LibraryReport::default()
        };
        assert_eq!(counts(&report), "3 new, 2 the same");
        assert_eq!(counts(&LibraryReport::default()), "");
    }
}
