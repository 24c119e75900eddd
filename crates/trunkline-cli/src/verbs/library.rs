//! `library`: stops and starts deployed libraries.

use std::time::Duration;

use trunkline::proto::{FaultCode, LibraryReport};
use trunkline::{CallError, Client};

use crate::connection::Connection;
use crate::output::record::{JsonSchema, Record, Serialize, Table};
use crate::{CliError, Context, Exit, Problem, Tally};

/// Start or stop deployed libraries
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum Subcommand {
    /// Start stopped libraries, so that their variables can be written again
    Start(Args),
    /// Stop libraries, which stay deployed
    ///
    /// The variables of a stopped library keep their values with bad quality, and refuse every
    /// write until the library is started again.
    Stop(Args),
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The libraries; `trunkline ls` lists them
    #[arg(value_name = "LIBRARY", required = true)]
    libraries: Vec<String>,
}

pub(crate) fn run(command: &Subcommand, context: &Context) -> Result<Exit, CliError> {
    let mut orders = Orders::new(context)?;
    let (Subcommand::Start(args) | Subcommand::Stop(args)) = command;
    for name in &args.libraries {
        match command {
            Subcommand::Start(_) => orders.run_order(name, "started", |client, wait| {
                client.start_library(name, wait)
            }),
            Subcommand::Stop(_) => orders.run_order(name, "stopped", |client, wait| {
                client.stop_library(name, wait)
            }),
        }?;
    }
    orders.finish()
}

/// A line of `deploy`, `undeploy`, `library`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "Trunkline library order, version 1")]
pub(crate) struct Outcome {
    /// The library.
    name: String,
    /// Result of the command.
    #[schemars(extend("enum" = ["deployed", "undeployed", "started", "stopped"]))]
    outcome: &'static str,
    /// Number of new variables.
    added: u64,
    /// Number of variables that were kept with other properties or in another state.
    changed: u64,
    /// Number of variables that were kept unchanged.
    kept: u64,
    /// Number of removed variables.
    removed: u64,
}

impl Record for Outcome {
    const COLUMNS: &'static [&'static str] = &["name", "outcome", "variables"];
    const IS_HEADED: bool = false;

    fn cell(&self, column: &str) -> Option<String> {
        (column == "variables").then(|| self.counts())
    }
}

impl Outcome {
    /// Formats counts as in `3 new, 1 changed, 2 unchanged, 1 gone`, without zeros.
    fn counts(&self) -> String {
        let counts = [
            (self.added, "new"),
            (self.changed, "changed"),
            (self.kept, "unchanged"),
            (self.removed, "gone"),
        ];
        let counts = counts.iter().filter(|(count, _)| *count > 0);
        let counts = counts.map(|(count, word)| format!("{count} {word}"));
        counts.collect::<Vec<_>>().join(", ")
    }
}

#[derive(Debug)]
pub(super) struct Orders<'c> {
    context: &'c Context,
    pub(super) connection: Connection,
    table: Table,
    tally: Tally,
}

impl<'c> Orders<'c> {
    pub(super) fn new(context: &'c Context) -> Result<Self, CliError> {
        Ok(Self {
            context,
            connection: Connection::to_engine(context)?,
            table: context.table::<Outcome>()?,
            tally: Tally::default(),
        })
    }

    pub(super) fn run_order(
        &mut self,
        name: &str,
        outcome: &'static str,
        order: impl FnOnce(&Client, Duration) -> Result<LibraryReport, CallError>,
    ) -> Result<(), CliError> {
        let report = match order(&self.connection.client, self.connection.timeout()) {
            Ok(report) => report,
            Err(error) => {
                return self.failed(&problem_of_order(&self.connection, &error).with_name(name));
            }
        };
        self.table.push(&Outcome {
            name: name.to_owned(),
            outcome,
            added: report.added,
            changed: report.changed,
            kept: report.kept,
            removed: report.removed,
        })
    }

    pub(super) fn failed(&mut self, problem: &Problem) -> Result<(), CliError> {
        self.tally.item_failed(problem.exit);
        let name = problem.name.as_deref().unwrap_or_default();
        self.context.show(problem, crate::terminal::width(name))?;
        Ok(())
    }

    pub(super) fn finish(self) -> Result<Exit, CliError> {
        self.table.finish()?;
        Ok(self.tally.exit())
    }
}

pub(super) fn problem_of_order(connection: &Connection, error: &CallError) -> Problem {
    let CallError::Fault(fault) = error else {
        return connection.failed(error);
    };
    let exit = match fault.code {
        FaultCode::Denied => Exit::NotPermitted,
        FaultCode::TimedOut => Exit::OutcomeUnknown,
        FaultCode::UnknownLibrary => Exit::Failed,
        FaultCode::BadLibrary | FaultCode::TooLarge | FaultCode::BadConfiguration => {
            Exit::ProblemsFound
        }
        _ => Exit::Refused,
    };
    let problem = Problem::new(exit, fault.code.name(), &fault.sentence);
    match fault.code {
        FaultCode::LibraryExists => problem.with_hint("use --replace, or undeploy it first"),
        _ => problem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_omit_zeros() {
        let outcome = |added, kept| Outcome {
            name: String::new(),
            outcome: "deployed",
            added,
            changed: 0,
            kept,
            removed: 0,
        };
        assert_eq!(outcome(3, 2).counts(), "3 new, 2 unchanged");
        assert_eq!(outcome(0, 0).counts(), "");
    }
}
