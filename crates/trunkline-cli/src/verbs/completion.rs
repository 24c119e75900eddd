//! `completion`: prints scripts that complete command lines in shells.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::arguments::Cli;
use crate::{CliError, Context, Exit};

/// Print a script that completes commands and options in a shell
///
/// For bash: `eval "$(trunkline completion bash)"`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, CliError> {
    let mut script = Vec::new();
    for name in ["trunkline", "tl"] {
        clap_complete::generate(args.shell, &mut Cli::command(), name, &mut script);
    }
    context.terminal.raw(&script)?;
    Ok(Exit::Success)
}
