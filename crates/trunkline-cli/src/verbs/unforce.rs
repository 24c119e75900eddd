//! `unforce`: stops forcing variables.

use trunkline::Write;

use super::{force, put};
use crate::{CliError, Context, Exit};

/// Stop forcing variables, so that they show the values of their sources again
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The variables
    #[arg(value_name = "NAME", required_unless_present = "all")]
    names: Vec<String>,

    /// Unforce every variable of the engine
    #[arg(long, conflicts_with = "names")]
    all: bool,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, CliError> {
    if args.all {
        return force::switch(context, "cleared", |connection| {
            connection.client.clear_forcing(connection.timeout())
        });
    }
    put::write_orders(&args.names, Write::unforce, context)
}
