//! `send`: sends the current values of variables to their devices.

use trunkline::Write;

use super::{Context, Verb, put};
use crate::exit::Exit;
use crate::problem::Stop;

/// Send the current values of variables to their devices, and wait until the devices have taken
/// them
///
/// This is the register form of `put`: first `set`, then `send`. For a variable without a device,
/// `send` does nothing.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The variables
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
}

pub(crate) const VERB: Verb = Verb::writing("send", put::EXITS);

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Stop> {
    put::write_orders(&args.names, Write::send, context)
}
