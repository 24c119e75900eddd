//! `force`: holds variables at values.

use trunkline::Write;

use super::{Context, Verb, put};
use crate::exit::Exit;
use crate::problem::Stop;

/// Hold variables at values, whatever their sources and other writers say
///
/// A forced value is marked `forced` wherever it is read. What the source says meanwhile is kept,
/// and shows when the variable is unforced.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    values: put::Args,
}

pub(crate) const VERB: Verb = Verb {
    name: "force",
    writes: true,
    exits: put::EXITS,
};

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Stop> {
    put::write_values(&args.values, Write::force, context)
}
