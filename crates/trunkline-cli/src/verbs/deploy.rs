//! `deploy`: deploys the libraries in configuration files to a running engine.

use trunkline::config;
use trunkline_config::LoadOptions;

use super::library::Orders;
use super::serve::show_errors;
use crate::{CliError, Context, Exit, Problem};

/// Deploy libraries to a running engine
///
/// The libraries stay deployed until `trunkline undeploy`, even across restarts if the engine has a
/// store (`serve --store`). Each library is deployed completely or not at all.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Configuration files, and folders of files that end in .toml; only their libraries are
    /// deployed
    #[arg(value_name = "FILE", required = true)]
    files: Vec<std::path::PathBuf>,

    /// Replace libraries that are already deployed: variables whose type stays the same keep their
    /// values and subscribers, variables whose type changes are created again, and variables that
    /// are no longer in the files are removed without confirmation
    #[arg(long)]
    replace: bool,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, CliError> {
    let options = LoadOptions {
        // Only the engine knows which I/O servers it has.
        accepts_unknown_io_servers: true,
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
    if plan.history.is_some() {
        let sentence = "[[history]] sections are ignored: only `serve` records history";
        context.terminal.note(sentence)?;
    }
    if plan.libraries.is_empty() {
        let sentence = "the files contain no library; add [[variable]] sections";
        return Err(Problem::new(Exit::ProblemsFound, "no-library", sentence).into());
    }
    let mut orders = Orders::new(context)?;
    for library in plan.libraries {
        let name = library.name.clone();
        orders.run_order(&name, "deployed", |client, wait| {
            client.deploy(library, args.replace, wait)
        })?;
    }
    orders.finish()
}
