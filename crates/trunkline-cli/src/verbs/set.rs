//! `set`: writes values into the engine's cell only, bypassing every device.

use trunkline::Write;

use super::{Context, Verb, put};
use crate::exit::Exit;
use crate::problem::Stop;

/// Set values in the engine only: no device is asked
///
/// The register form of `put`. What a device says next replaces the value; `send` hands it to the
/// device. For a variable without a device it is the same as `put`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    values: put::Args,
}

pub(crate) const VERB: Verb = Verb::writing("set", put::EXITS);

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Stop> {
    put::write_values(&args.values, Write::set, context)
}
