//! `undeploy`: removes libraries from an engine.

use trunkline_types::name::is_reserved;

use super::library::Outcomes;
use super::{Context, Verb};
use crate::connection::Connection;
use crate::exit::Exit;
use crate::output::counted;
use crate::problem::{Problem, Stop};
use crate::targets;

/// Undeploy libraries, together with the retained values of their variables
///
/// A library that has variables is undeployed only with `--yes` or `--force`; a library with
/// subscribers only with `--force`.
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

pub(crate) const VERB: Verb = Verb::writing("undeploy", super::library::EXITS);

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Stop> {
    crate::interrupt::end_process_on_interrupt(&context.terminal)?;
    let engine = targets::engine(&context.settings)?;
    let connection = Connection::new(&engine, context)?;
    let mut outcomes = Outcomes::new(context)?;
    for name in &args.libraries {
        // The engine refuses its own libraries.
        if !args.yes && !args.force && !is_reserved(name) {
            let variables = variables(&connection, name)?;
            if variables > 0 {
                let sentence = format!(
                    "it has {}, and their retained values would be deleted; --yes undeploys it",
                    counted(variables, "variable")
                );
                let problem = Problem::new(Exit::Refused, "not-confirmed", &sentence);
                outcomes.failed(&problem.of(name))?;
                continue;
            }
        }
        let undeployed = connection
            .client
            .undeploy(name, args.force, connection.timeout());
        outcomes.add(&connection, name, "undeployed", undeployed)?;
    }
    outcomes.finish()
}

/// Returns the number of variables of a library; 0 if it does not exist.
fn variables(connection: &Connection, name: &str) -> Result<u64, Stop> {
    let info = connection.client.engine_info(connection.timeout());
    let info = info.map_err(|error| connection.failed(&error))?;
    if let Some(library) = info.libraries.iter().find(|library| library.name == *name) {
        return Ok(library.variables);
    }
    // An engine with very many libraries does not name all of them.
    let found = connection
        .client
        .find(&format!("{name}/**"), None, connection.timeout());
    Ok(found.map_or(0, |found| found.len() as u64))
}
