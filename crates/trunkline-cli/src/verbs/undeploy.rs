//! `undeploy`: takes libraries out of an engine.

use super::library::Outcomes;
use super::{Context, Verb};
use crate::connection::Connection;
use crate::exit::Exit;
use crate::problem::Stop;
use crate::targets;

/// Undeploy libraries, with the values that were kept of their variables
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The libraries
    #[arg(value_name = "LIBRARY", required = true)]
    libraries: Vec<String>,

    /// Even if somebody is subscribed to their variables
    #[arg(long)]
    force: bool,
}

pub(crate) const VERB: Verb = Verb {
    name: "undeploy",
    writes: true,
    exits: super::library::EXITS,
};

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Stop> {
    crate::interrupt::end_process_on_interrupt(&context.terminal)?;
    let engine = targets::engine(&context.settings)?;
    let connection = Connection::new(&engine, context)?;
    let mut outcomes = Outcomes::new(context)?;
    for name in &args.libraries {
        let undeployed = connection
            .client
            .undeploy(name, args.force, connection.timeout());
        outcomes.add(&connection, name, "undeployed", undeployed)?;
    }
    outcomes.finish()
}
