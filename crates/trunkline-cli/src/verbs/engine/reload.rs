//! `engine reload`: makes an engine read its configuration files again.

use std::fmt;

use trunkline::Client;

use super::super::library::problem_of_order;
use crate::connection::Connection;
use crate::output::record::{JsonSchema, Notice, Serialize, json};
use crate::{CliError, Context, Exit, counted};

/// Make an engine read its configuration files again
///
/// The engine of `trunkline serve` reads the files, and the accounts and certificates, and applies
/// what it can while it runs: libraries, limits and other settings. Variables whose definition has not
/// changed keep their values and subscribers. The command names the settings that need a restart. If
/// the files have an error, the command shows it, and the configuration stays as it is. SIGHUP has the
/// same effect. The audit trail records who requested it.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {}

/// The output of `engine reload`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "Trunkline reload, version 1")]
pub(crate) struct Reloaded {
    /// Name of the engine.
    reloaded: String,
    /// Address of the engine.
    address: String,
    /// Number of variables that are new, or whose type, scope or FIFO has changed.
    added: u64,
    /// Number of variables that remain, with changed properties.
    changed: u64,
    /// Number of variables of the files that remain as they were.
    kept: u64,
    /// Number of removed variables.
    removed: u64,
    /// Changed keys of the configuration that take effect.
    applied: Vec<String>,
    /// Changed keys and sections that take effect when the engine is started again.
    restart: Vec<String>,
}

impl fmt::Display for Reloaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the engine {} at {} has reloaded its configuration",
            self.reloaded, self.address
        )?;
        let counts = [
            (self.added, "new"),
            (self.changed, "changed"),
            (self.removed, "removed"),
        ];
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        for (index, (count, what)) in counts.enumerate() {
            match index {
                0 => write!(f, "\nvariables: {count} {what}")?,
                _ => write!(f, ", {count} {what}")?,
            }
        }
        if !self.applied.is_empty() {
            write!(f, "\napplied: {}", self.applied.join(", "))?;
        }
        if !self.restart.is_empty() {
            write!(f, "\nneeds a restart: {}", self.restart.join(", "))?;
        }
        let is_same = self.added + self.changed + self.removed == 0
            && self.applied.is_empty()
            && self.restart.is_empty();
        match is_same {
            true => write!(
                f,
                "\nnothing changed; {} kept",
                counted(self.kept, "variable")
            ),
            false => Ok(()),
        }
    }
}

impl Notice for Reloaded {}

pub(crate) fn run(_args: &Args, context: &Context) -> Result<Exit, CliError> {
    let connection = Connection::to_engine(context)?;
    let report = Client::reload_engine(&connection.client, connection.timeout());
    let report = report.map_err(|error| problem_of_order(&connection, &error))?;
    let line = Reloaded {
        reloaded: connection.engine_name.clone(),
        address: connection.address.clone(),
        added: report.added,
        changed: report.changed,
        kept: report.kept,
        removed: report.removed,
        applied: report.applied,
        restart: report.restart,
    };
    if context.settings.is_json() {
        context.terminal.line(&json(&line))?;
        return Ok(Exit::Success);
    }
    for line in line.to_string().lines() {
        context.terminal.line(line)?;
    }
    Ok(Exit::Success)
}
