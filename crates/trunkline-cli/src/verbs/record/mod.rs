//! `record`: records variables, streams and simulated devices into TDMS files.
//!
//! # Layout
//! - `start`: variables, with `unmatched` for those that do not exist. `stream`: a stream, with
//!   `stream_file` for its destination. `list`: the existing recordings; `info`: the contents of
//!   one.
//! - `running`: a running recording as other commands see it; `stop`: ending it from there.
//! - `meeting`: waiting for the other end of a stream. `bench`: simulated devices. `disk`: free
//!   space. `way`: the way in which a file is written.

mod bench;
mod disk;
mod info;
mod list;
mod meeting;
mod notices;
mod running;
mod start;
mod stop;
mod stream;
mod stream_file;
mod unmatched;
mod way;

pub(super) use self::info::open;
pub(super) use self::meeting::meet;

use std::path::Path;

use trunkline::record::RecordingError;

use super::{Context, Verb};
use crate::exit::Exit;
use crate::output::json::Object;
use crate::problem::{Problem, Stop};
use crate::terminal::{plain, shown};

/// Record variables, or a stream, to TDMS files
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum Subcommand {
    Start(Box<start::Args>),
    Stop(stop::Args),
    Ls(list::Args),
    Info(info::Args),
    Bench(bench::Args),
}

pub(crate) const VERB: Verb = Verb::group(
    "record",
    &[start::VERB, stop::VERB, list::VERB, info::VERB, bench::VERB],
);

pub(crate) fn run(command: &Subcommand, context: &Context) -> Result<Exit, Stop> {
    match command {
        Subcommand::Start(args) => match &args.stream {
            Some(url) => stream::run(args, url, &context.beside_files()),
            None => start::run(args, &context.beside_files()),
        },
        Subcommand::Stop(args) => stop::run(args, context),
        Subcommand::Ls(args) => list::ls(args, context),
        Subcommand::Info(args) => info::info(args, context),
        Subcommand::Bench(args) => bench::run(args, &context.beside_files()),
    }
}

/// Converts an error to a problem for the user.
pub(super) fn problem(error: &RecordingError) -> Problem {
    let (exit, code) = match error {
        RecordingError::Stream(error) => return super::stream::problem(error),
        RecordingError::File(_) => (Exit::SomeFailed, "file"),
        RecordingError::Type { .. }
        | RecordingError::OtherRows { .. }
        | RecordingError::OtherElements { .. } => (Exit::Usage, "type"),
        RecordingError::NothingToPlay { .. } => (Exit::SomeFailed, "nothing-to-play"),
        RecordingError::Unwritten { .. } => (Exit::Lost, "lost"),
        RecordingError::SampleRate { .. } => (Exit::Usage, "sample-rate"),
        RecordingError::Both { first, second } => {
            let (mut found, second) = (problem(first), problem(second));
            if second.exit == Exit::Lost && found.exit != Exit::Lost {
                (found.exit, found.code) = (second.exit, second.code);
            }
            found.message = plain(&error.to_string());
            return found;
        }
        RecordingError::Playback(_) => (Exit::SomeFailed, "recording"),
        _ => (Exit::SomeFailed, "failed"),
    };
    Problem::new(exit, code, &plain(&error.to_string()))
}

/// Describes the place of a recording: a file, or the first of a series.
fn files_text(path: &Path, files: u32) -> String {
    match files {
        0 | 1 => shown(path),
        files => format!("{files} files from {} on", shown(path)),
    }
}

/// Adds failures of the last operations on the file.
fn put_failures(object: &mut Object, sync_failure: Option<i32>, untrimmed: Option<i32>) {
    let text = |number| std::io::Error::from_raw_os_error(number).to_string();
    if let Some(number) = sync_failure {
        object.put("sync_failure", text(number));
    }
    if let Some(number) = untrimmed {
        object.put("untrimmed", text(number));
    }
}

fn untrimmed_text(number: i32) -> String {
    let error = std::io::Error::from_raw_os_error(number);
    format!(
        "the file may have bytes after its end, which could not be cut off ({error}): `trunkline \
         tdms repair` cuts them off"
    )
}

/// Returns the problem of a recording that could not begin.
fn not_begun(error: &RecordingError, path: &Path) -> Problem {
    let mut found = problem(error);
    if let RecordingError::File(error) = error {
        found.message = format!("{} cannot be created: {error}", shown(path));
        if error.kind() == std::io::ErrorKind::AlreadyExists {
            // The error about the next file of a series has its own message, but an existing first
            // file is reported before that.
            if error.get_ref().is_none() || path.exists() {
                found.message = format!("{} already exists", shown(path));
            } else {
                found.message = plain(&error.to_string());
            }
            found.hint =
                Some("no file is overwritten: name another file, or remove this one".to_owned());
        }
    }
    found
}
