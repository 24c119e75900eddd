//! `init`: writes a first configuration.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::{Context, Verb};
use crate::exit::Exit;
use crate::problem::{Problem, Stop};
use crate::replace::{exists, replace};
use crate::terminal::shown;

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

pub(crate) const VERB: Verb = Verb::writing("init", &[Exit::Done, Exit::SomeFailed, Exit::Usage]);

const EXAMPLE: &str = include_str!("init.toml");

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Stop> {
    let path = &args.file;
    let written = match args.force {
        true => replace(path, |file| file.write_all(EXAMPLE.as_bytes())),
        false => write_new(path),
    };
    written.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => exists(path),
        _ => {
            let sentence = format!("{} cannot be written: {error}", shown(path));
            Problem::new(Exit::SomeFailed, "file", &sentence)
        }
    })?;
    let line = format!("{0} written; try: trunkline serve {0}", shown(path));
    context.terminal.note(&line)?;
    Ok(Exit::Done)
}

fn write_new(path: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(EXAMPLE.as_bytes())
}
