//! `engine`: asks an engine as a whole how it is, reloads its configuration, and stops it.

pub(crate) mod info;
pub(crate) mod ping;
pub(crate) mod reload;
pub(crate) mod stop;

use crate::{CliError, Context, Exit};

/// Check, describe, reload and stop an engine
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum Subcommand {
    Ping(ping::Args),
    Info(info::Args),
    Reload(reload::Args),
    Stop(stop::Args),
}

pub(crate) fn run(command: &Subcommand, context: &Context) -> Result<Exit, CliError> {
    match command {
        Subcommand::Ping(args) => ping::run(args, context),
        Subcommand::Info(args) => info::run(args, context),
        Subcommand::Reload(args) => reload::run(args, context),
        Subcommand::Stop(args) => stop::run(args, context),
    }
}
