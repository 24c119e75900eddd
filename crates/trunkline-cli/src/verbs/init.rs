//! `init`: writes a first configuration.

use std::io::{self, Write};
use std::path::PathBuf;

use crate::replace::{exists, replace, write_problem};
use crate::terminal::escaped_path;
use crate::{CliError, Context, Exit, Problem};

/// Write an example configuration with comments, ready for `serve`
///
/// The file contains a library with several variables, one of them scaled, and an I/O server that
/// reads the CPU, memory, disk and network use of this computer. An existing file is replaced only
/// with --force.
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
        _ => Problem {
            code: "file".into(),
            ..write_problem(path, &error)
        },
    })?;
    let line = format!("{0} written; try: trunkline serve {0}", escaped_path(path));
    context.terminal.note(&line)?;
    Ok(Exit::Success)
}
