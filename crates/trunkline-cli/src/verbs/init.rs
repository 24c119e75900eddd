//! `init`: writes a first configuration.

use std::io::{self, Write};
use std::path::PathBuf;

use crate::replace::{exists, replace};
use crate::terminal::shown;
use crate::{CliError, Context, Exit, Problem};

/// Write an example configuration with comments, ready for `serve`
///
/// The file has a library with several variables, one of them scaled, and an I/O server with the
/// readings of this machine. An existing file is replaced only with --force.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The file to write
    #[arg(value_name = "FILE", default_value = "trunkline.toml")]
    file: PathBuf,

    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
}

const EXAMPLE: &str = include_str!("init.toml");

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, CliError> {
    let path = &args.file;
    let written = replace(path, args.force, |file| file.write_all(EXAMPLE.as_bytes()));
    written.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => exists(path),
        _ => {
            let sentence = format!("{} cannot be written: {error}", shown(path));
            Problem::failed("file", sentence)
        }
    })?;
    let line = format!("{0} written; try: trunkline serve {0}", shown(path));
    context.terminal.note(&line)?;
    Ok(Exit::Done)
}
