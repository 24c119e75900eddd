//! `undeploy`: removes libraries from an engine.

use trunkline::Client;
use trunkline_types::name::is_reserved;

use super::library::Orders;
use crate::connection::Connection;
use crate::{CliError, Context, Exit, Problem, counted};

/// Undeploy libraries, and delete the retained values of their variables
///
/// A library that has variables is undeployed only with `--yes` or `--force`; a library with
/// subscribers is undeployed only with `--force`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The libraries
    #[arg(value_name = "LIBRARY", required = true)]
    libraries: Vec<String>,

    /// Undeploy libraries that have variables
    #[arg(long)]
    yes: bool,

    /// Undeploy libraries that have variables, even if clients are subscribed to them
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, CliError> {
    let mut orders = Orders::new(context)?;
    for name in &args.libraries {
        // The engine refuses to undeploy its own libraries.
        if !args.yes && !args.force && !is_reserved(name) {
            let variables = variables(&orders.connection, name)?;
            if variables > 0 {
                let sentence = format!(
                    "the library has {}; use --yes to undeploy it and delete its retained values",
                    counted(variables, "variable")
                );
                let problem = Problem::new(Exit::Refused, "not-confirmed", sentence);
                orders.failed(&problem.with_name(name))?;
                continue;
            }
        }
        orders.run_order(name, "undeployed", |client, wait| {
            client.undeploy(name, args.force, wait)
        })?;
    }
    orders.finish()
}

/// Returns the number of variables in a library, or 0 if it does not exist.
fn variables(connection: &Connection, name: &str) -> Result<u64, CliError> {
    let info = connection.call(Client::engine_info)?;
    if let Some(library) = info.libraries.iter().find(|library| library.name == *name) {
        return Ok(library.variables);
    }
    // The engine does not list all libraries if there are too many.
    let pattern = format!("{name}/**");
    let found = connection.call(|client, wait| client.find(&pattern, None, wait));
    Ok(found.map_or(0, |found| found.len() as u64))
}
