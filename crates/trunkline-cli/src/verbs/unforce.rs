//! `unforce`: takes the force from variables.

use trunkline::Write;

use super::{Context, Verb, put};
use crate::exit::Exit;
use crate::problem::Stop;

/// Let forced variables show what their sources say again
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The variables
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
}

pub(crate) const VERB: Verb = Verb {
    name: "unforce",
    writes: true,
    exits: put::EXITS,
};

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Stop> {
    put::write_orders(&args.names, Write::unforce, context)
}
