//! `record`: records variables, streams and simulated devices into TDMS files.
//!
//! # Layout
//! - `start`: records variables; `unmatched`: reports names and patterns that match nothing.
//! - `stream`: records a stream; `stream_file`: its files; `peer`: waits for the writer.
//! - `bench`: records simulated devices.
//! - `running`: makes a running recording visible to other commands; `stop`: stops it from another
//!   command.
//! - `list`: lists recordings; `info`: shows the contents of one.
//! - `recorded`: events at the start and the end of a recording; `notices`: events in between.
//! - `write_path`: reports how a file is written; `disk`: free space.

pub(crate) mod bench;
mod disk;
pub(crate) mod info;
pub(crate) mod list;
pub(crate) mod notices;
mod peer;
pub(crate) mod recorded;
mod running;
mod start;
mod stop;
mod stream;
mod stream_file;
mod unmatched;
mod write_path;

pub(super) use self::info::open;
pub(super) use self::peer::wait_for_peer;

use std::path::Path;

use trunkline::record::{PlaybackError, RecordingError};

use crate::problem::{file_reason, folder_reason, is_folder};
use crate::terminal::{escaped, escaped_path};
use crate::{CliError, Context, Exit, Problem};

/// Record variables, or a stream, to TDMS files
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum Subcommand {
    Start(Box<start::Args>),
    Stop(stop::Args),
    Ls(list::Args),
    Info(info::Args),
    Bench(bench::Args),
}

pub(crate) fn run(command: &Subcommand, context: &Context) -> Result<Exit, CliError> {
    match command {
        Subcommand::Start(args) => {
            args.check()?;
            match &args.stream {
                Some(url) => stream::run(args, url, &context.for_file_output()),
                None => start::run(args, &context.for_file_output()),
            }
        }
        Subcommand::Stop(args) => stop::run(args, context),
        Subcommand::Ls(args) => list::ls(args, context),
        Subcommand::Info(args) => info::info(args, context),
        Subcommand::Bench(args) => bench::run(args, &context.for_file_output()),
    }
}

pub(super) fn problem(error: &RecordingError) -> Problem {
    let (exit, code) = match error {
        RecordingError::Stream(error) => return super::stream::problem(error),
        RecordingError::File(_) => (Exit::Failed, "file"),
        RecordingError::Type { .. }
        | RecordingError::RowSizeMismatch { .. }
        | RecordingError::OtherElements { .. } => (Exit::Usage, "type"),
        RecordingError::NothingToPlay { .. } => (Exit::Failed, "nothing-to-play"),
        RecordingError::Unwritten { .. } => (Exit::Lost, "lost"),
        RecordingError::SampleRate { .. } => (Exit::Usage, "sample-rate"),
        RecordingError::Both { first, second } => {
            let (mut reported, second) = (problem(first), problem(second));
            if second.exit == Exit::Lost && reported.exit != Exit::Lost {
                (reported.exit, reported.code) = (second.exit, second.code);
            }
            reported.message = escaped(&error.to_string());
            return reported;
        }
        RecordingError::Playback(error) => return playback_problem(error),
        _ => (Exit::Failed, "failed"),
    };
    Problem::new(exit, code, escaped(&error.to_string()))
}

/// Converts an error that occurred while a recording was read.
pub(super) fn playback_problem(error: &PlaybackError) -> Problem {
    let sentence = match error {
        PlaybackError::File { path, source } => {
            format!(
                "{} cannot be opened: {}",
                escaped_path(path),
                file_reason(source)
            )
        }
        other => escaped(&other.to_string()),
    };
    Problem::failed("recording", sentence)
}

fn files_text(path: &Path, files: u32) -> String {
    match files {
        0 | 1 => escaped_path(path),
        files => format!("{files} files, starting with {}", escaped_path(path)),
    }
}

fn untrimmed_text(errno: i32) -> String {
    let error = recorded::system_error(errno);
    format!(
        "the file may have extra bytes at its end, which could not be removed ({error}); `trunkline \
         tdms repair` removes them"
    )
}

fn start_problem(error: &RecordingError, path: &Path) -> Problem {
    let mut problem = problem(error);
    if let RecordingError::File(error) = error {
        if path.is_dir() {
            return is_folder("file", &escaped_path(path));
        }
        let reason = folder_reason(error);
        problem.message = format!("{} cannot be created: {reason}", escaped_path(path));
        if error.kind() == std::io::ErrorKind::AlreadyExists {
            // An error about a later file of the series contains its own message. If the first file
            // exists as well, that is reported instead.
            if error.get_ref().is_none() || path.exists() {
                problem.message = format!("{} already exists", escaped_path(path));
            } else {
                problem.message = escaped(&error.to_string());
            }
            problem.hint = Some(
                "existing files are never overwritten: choose another name or delete the file"
                    .to_owned(),
            );
        }
    }
    problem
}
