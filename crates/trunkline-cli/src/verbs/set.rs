//! `set`: writes values into the engine's cell only, bypassing every device.

use trunkline::Write;

use super::{Context, Verb, put};
use crate::exit::Exit;
use crate::problem::Stop;

/// Set values in the engine only, without writing them to devices
///
/// This is the register form of `put`. `send` writes the value to the device; the device's next
/// value replaces it. For a variable without a device, `set` is the same as `put`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    values: put::Args,
}

pub(crate) const VERB: Verb = Verb::writing("set", put::EXITS);

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Stop> {
    put::write_values(&args.values, Write::set, context)
}
