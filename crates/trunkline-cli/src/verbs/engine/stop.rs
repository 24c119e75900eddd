//! `engine stop`: stops an engine.

use std::fmt;

use trunkline::Client;

use super::super::library::problem_of_order;
use crate::connection::Connection;
use crate::output::record::{JsonSchema, Notice, Serialize, json};
use crate::{CliError, Context, Exit};

/// Stop an engine that was started with `trunkline serve` or `trunkline demo`
///
/// The engine stops its I/O servers, stores all pending data, and closes its connections, as after
/// Ctrl-C. The audit trail records who requested it. The command ends as soon as the engine has
/// accepted the order. A service manager may start the engine again.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {}

/// The output of `engine stop`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "Trunkline stop, version 1")]
pub(crate) struct Stopping {
    /// Name of the engine that is stopping.
    stopping: String,
    /// Address of the engine.
    address: String,
}

impl fmt::Display for Stopping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the engine {} at {} is stopping",
            self.stopping, self.address
        )
    }
}

impl Notice for Stopping {}

pub(crate) fn run(_args: &Args, context: &Context) -> Result<Exit, CliError> {
    let connection = Connection::to_engine(context)?;
    let stopped = Client::stop_engine(&connection.client, connection.timeout());
    stopped.map_err(|error| problem_of_order(&connection, &error))?;
    let line = Stopping {
        stopping: connection.engine_name.clone(),
        address: connection.address.clone(),
    };
    context.terminal.line(&match context.settings.is_json() {
        true => json(&line),
        false => line.to_string(),
    })?;
    Ok(Exit::Success)
}
