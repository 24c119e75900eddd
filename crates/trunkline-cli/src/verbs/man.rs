//! `man`: writes the manual pages. Packages contain them; users read them with `man trunkline-get`.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::CommandFactory;
use clap_mangen::Man;

use super::help;
use crate::arguments::Cli;
use crate::replace::{replace, write_problem};
use crate::{CliError, Context, Exit};

/// Write the manual pages of all commands to a folder
///
/// Existing pages are replaced. The folder must exist.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// Title of the manual, in the heading of each page.
const MANUAL: &str = "Trunkline";

/// The page of the short name leads to the page of the command.
const SHORT_NAME: (&str, &str) = ("tl.1", ".so man1/trunkline.1\n");

pub(crate) fn run(args: &Args, _context: &Context) -> Result<Exit, CliError> {
    // The global options are on the page of `trunkline` only, as in the help.
    let mut program = Cli::command();
    program.build();
    write_page(program, &args.folder)?;
    let mut commands = help::command();
    commands.build();
    write_pages_below(&commands, &args.folder)?;
    let (name, page) = SHORT_NAME;
    write_file(&args.folder.join(name), page.as_bytes())?;
    Ok(Exit::Success)
}

fn write_pages_below(command: &clap::Command, folder: &Path) -> Result<(), CliError> {
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        write_page(verb.clone(), folder)?;
        write_pages_below(verb, folder)?;
    }
    Ok(())
}

fn write_page(command: clap::Command, folder: &Path) -> Result<(), CliError> {
    let version = env!("CARGO_PKG_VERSION");
    let page = Man::new(command)
        .source(format!("Trunkline {version}"))
        .manual(MANUAL);
    let path = folder.join(page.get_filename());
    let mut text = Vec::new();
    let rendered = page.render(&mut text);
    rendered.map_err(|error| write_problem(&path, &error))?;
    write_file(&path, &text)
}

fn write_file(path: &Path, text: &[u8]) -> Result<(), CliError> {
    let written = replace(path, true, |file| file.write_all(text));
    written.map_err(|error| write_problem(path, &error).into())
}
