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

    /// Complete only this name of the command. Packages install one script for each name, because zsh
    /// and fish find a script by the name of the command
    #[arg(long, value_name = "NAME", value_parser = NAMES, hide = true)]
    name: Option<String>,
}

/// The names under which the command is installed.
const NAMES: [&str; 2] = ["trunkline", "tl"];

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, CliError> {
    let mut script = Vec::new();
    let is_requested = |name: &&str| args.name.as_ref().is_none_or(|only| only == name);
    for name in NAMES.into_iter().filter(is_requested) {
        clap_complete::generate(args.shell, &mut Cli::command(), name, &mut script);
    }
    context.terminal.raw(&script)?;
    Ok(Exit::Success)
}
