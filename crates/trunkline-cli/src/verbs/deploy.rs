//! `deploy`: deploys libraries of configuration files to a running engine.

use trunkline::config;
use trunkline_config::LoadOptions;

use super::library::Outcomes;
use super::serve::show_errors;
use super::{Context, Verb};
use crate::connection::Connection;
use crate::exit::Exit;
use crate::problem::{Problem, Stop};
use crate::targets;

/// Deploy libraries to a running engine
///
/// The libraries stay deployed until `trunkline undeploy`, also after a restart if the engine has a
/// store. Each library is deployed completely or not at all.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Configuration files, and directories of files that end in .toml; only their libraries are
    /// deployed
    #[arg(value_name = "FILE", required = true)]
    files: Vec<std::path::PathBuf>,

    /// Replace libraries that are already deployed: variables that keep their type keep their
    /// values and subscribers, other variables are added or removed
    #[arg(long)]
    replace: bool,
}

pub(crate) const VERB: Verb = Verb::writing(
    "deploy",
    &[
        Exit::Done,
        Exit::SomeFailed,
        Exit::Usage,
        Exit::Unreachable,
        Exit::TimedOut,
        Exit::NotPermitted,
        Exit::Refused,
        Exit::Found,
        Exit::Unknown,
        Exit::Interrupted,
    ],
);

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Stop> {
    crate::interrupt::end_process_on_interrupt(&context.terminal)?;
    let options = LoadOptions {
        // Only the engine knows its I/O servers.
        any_io_server: true,
        ..LoadOptions::default()
    };
    let plan = match config::load_with(&args.files, &options) {
        Ok(plan) => plan,
        Err(errors) => return show_errors(&errors, context),
    };
    if let Some(io) = plan.io.first() {
        let sentence = format!(
            "{} [[io]] sections are ignored: only `serve` starts I/O servers",
            io.origin
        );
        context.terminal.note(&sentence)?;
    }
    if plan.libraries.is_empty() {
        let sentence = "the files contain no library; add [[variable]] sections";
        return Err(Problem::new(Exit::Found, "no-library", sentence).into());
    }
    let engine = targets::engine(&context.settings)?;
    let connection = Connection::new(&engine, context)?;
    let mut outcomes = Outcomes::new(context)?;
    for library in plan.libraries {
        let name = library.name.clone();
        let (client, timeout) = (&connection.client, connection.timeout());
        let deployed = client.deploy(library, args.replace, timeout);
        outcomes.add(&connection, &name, "deployed", deployed)?;
    }
    outcomes.finish()
}
