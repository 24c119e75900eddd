//! `init`: writes a first configuration.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::{Context, Verb};
use crate::exit::Exit;
use crate::problem::{Problem, Stop};
use crate::replace::{exists, replace};
use crate::terminal::shown;

/// Write a first configuration, with comments, that `serve` takes as it is
///
/// It has a library with some variables, one of them scaled, and the readings of this machine. A
/// file that is there already is left alone, unless --force is given.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The file to write
    #[arg(value_name = "FILE", default_value = "trunkline.toml")]
    file: PathBuf,

    /// Replace the file if it is there already
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
