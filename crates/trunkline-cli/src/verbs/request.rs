//! `request`: requests fresh values from devices.

use trunkline::Write;

use super::{Context, Verb, put};
use crate::exit::Exit;
use crate::problem::Stop;

/// Request fresh values from devices, and wait until the devices have read them
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The variables
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
}

pub(crate) const VERB: Verb = Verb::writing("request", put::EXITS);

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Stop> {
    put::write_orders(&args.names, Write::request, context)
}
