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

use std::path::{Path, PathBuf};
use std::time::Duration;

use trunkline::record::{RecordingError, Rotation};
use trunkline_types::text::parse_type;
use trunkline_types::{Contract, DataType};

use super::{Context, Verb};
use crate::arguments;
use crate::exit::Exit;
use crate::output::json::Object;
use crate::problem::{Problem, Stop};
use crate::terminal::{plain, shown};

/// Record variables, or a stream, to a TDMS file
///
/// `record start FILE PATTERN...` records every update of the matching variables, with its time and
/// quality, until Ctrl-C, `record stop` or --for. Variables that appear later are recorded too.
/// Lost updates are marked in the file and reported at the end, with exit code 7. While the disk is
/// full, the recorder waits for space; --contract sets how many updates may wait. Names and
/// patterns without a match are reported at the beginning and at the end. If a name never matched,
/// the exit code is 1.
///
/// `record start FILE --stream URL --type TYPE` reads a stream and records elements of every type
/// until the stream ends. While the disk is slow or full, the writer of the stream waits, so
/// nothing is lost. If the recording ends while the disk is full, it reports the number of elements
/// that are not in the file, with exit code 7.
///
/// With --rotate-size or --rotate-time, the recording continues in FILE_0002, FILE_0003 and so on.
/// Each file can be read alone. The recording also continues in the next file if writing fails;
/// updates that may be missing are marked there as a gap.
///
/// `record stop FILE` ends a recording that the same user started in another terminal. It waits, at
/// most for --timeout, until the file is complete, safe and closed, and prints its summary.
///
/// `record ls DIR` lists the running recordings, with rate, queue and the time until the disk is
/// full, and the recordings in a folder. `record info FILE` shows the contents of a recording:
/// variables or channels, updates, gaps. If a recording was cut off, it shows the readable part.
///
/// Examples: `trunkline record start run.tdms 'boiler/**' --for 10m`, `trunkline record ls`,
/// `trunkline record stop run.tdms`, `trunkline record info run.tdms`,
/// `trunkline record start raw.tdms --stream daq/raw --type i16 --sums`.
///
/// `record bench DIR` needs no engine. Simulated devices fill memory as fast as it is written, or
/// at --rate, for 5 s or for --for. Each device is recorded to its own file; every value is checked
/// before the file is removed. The last line is `lost 0`, or the number of rows for which a device
/// had no room.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// What to do
    #[arg(value_name = "VERB")]
    verb: Order,

    /// The file; for ls and bench the folder (default: the current one)
    #[arg(value_name = "FILE", required_if_eq_any([("verb", "start"), ("verb", "info")]))]
    file: Option<PathBuf>,

    /// start: variables, as names or patterns such as 'boiler/**'
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    /// start: record a stream; the name of this end
    #[arg(long, value_name = "URL", conflicts_with = "names")]
    stream: Option<String>,

    /// start --stream: the writing end to read from (default: any that names this end)
    #[arg(long, value_name = "PEER", requires = "stream")]
    from: Option<String>,

    /// start --stream: the type of the elements
    #[arg(long = "type", value_name = "TYPE", default_value = "f64", value_parser = data_type)]
    data_type: DataType,

    /// bench: number of simulated devices
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = clap::value_parser!(u16).range(1..=64)
    )]
    devices: u16,

    /// bench: bytes per second of each device, such as 500MB (default: as fast as possible)
    #[arg(long, value_name = "SIZE", value_parser = super::stream::units::size)]
    rate: Option<u64>,

    /// start, bench: end after this time
    #[arg(long = "for", value_name = "TIME", value_parser = arguments::longer_than_none)]
    span: Option<Duration>,

    /// start: begin the next file, FILE_0002 and so on, at this size, such as 1GB
    #[arg(long, value_name = "SIZE", value_parser = super::stream::units::size)]
    rotate_size: Option<u64>,

    /// start: begin the next file after this time
    #[arg(long, value_name = "TIME", value_parser = arguments::longer_than_none)]
    rotate_time: Option<Duration>,

    /// start --stream: elements per second, such as 48000; `play` keeps this rate
    #[arg(long, value_name = "HZ", value_parser = sample_rate, requires = "stream")]
    sample_rate: Option<f64>,

    /// start: write checksums to FILE.sums, for `tdms verify`
    #[arg(long)]
    sums: bool,

    /// stop: all running recordings of this user
    #[arg(long, conflicts_with = "file")]
    all: bool,

    /// start: updates to record of each variable: all, latest, last:N, first:N, sampled:PERIOD
    #[arg(long, value_name = "CONTRACT", default_value = "all")]
    contract: Contract,
}

/// What can be done with recordings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Order {
    /// Record until Ctrl-C
    Start,
    /// End a running recording, and wait until it is closed
    Stop,
    /// List running recordings, and those in a folder
    Ls,
    /// Show the contents of a recording
    Info,
    /// Measure the recording of simulated devices to a folder, and check every value
    Bench,
}

pub(crate) const VERB: Verb = Verb {
    name: "record",
    writes: true,
    exits: &[
        Exit::Done,
        Exit::SomeFailed,
        Exit::Usage,
        Exit::Unreachable,
        Exit::TimedOut,
        Exit::Lost,
        Exit::Interrupted,
    ],
    verbs: &[],
};

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Stop> {
    args.check()?;
    match (args.verb, &args.stream) {
        (Order::Start, Some(url)) => stream::run(args, url, &context.beside_files()),
        (Order::Start, None) => start::run(args, &context.beside_files()),
        (Order::Stop, _) => stop::run(args, context),
        (Order::Ls, _) => list::ls(args, context),
        (Order::Info, _) => info::info(args, context),
        (Order::Bench, _) => bench::run(args, &context.beside_files()),
    }
}

impl Args {
    /// # Errors
    /// An argument that does not apply to this verb.
    fn check(&self) -> Result<(), Problem> {
        let verb = self.verb;
        let is_start = verb == Order::Start;
        let given = [
            (!self.names.is_empty(), is_start, "NAME"),
            (self.stream.is_some(), is_start, "--stream"),
            (self.sums, is_start, "--sums"),
            (self.sample_rate.is_some(), is_start, "--sample-rate"),
            (self.rotate_size.is_some(), is_start, "--rotate-size"),
            (self.rotate_time.is_some(), is_start, "--rotate-time"),
            (self.all, verb == Order::Stop, "--all"),
            (self.rate.is_some(), verb == Order::Bench, "--rate"),
            (
                self.span.is_some(),
                is_start || verb == Order::Bench,
                "--for",
            ),
        ];
        match given.iter().find(|(given, fits, _)| *given && !fits) {
            None => Ok(()),
            Some((_, _, option)) => {
                let sentence = format!(
                    "{option} does not go with this; `trunkline help record` says with what"
                );
                Err(Problem::usage(&sentence))
            }
        }
    }

    /// Returns the condition for continuing in another file; `None` for a single file.
    fn rotation(&self) -> Option<Rotation> {
        let is_asked = self.rotate_size.is_some() || self.rotate_time.is_some();
        let none = Rotation::default();
        is_asked.then(|| Rotation {
            bytes_max: self.rotate_size.unwrap_or(none.bytes_max),
            age_max: self.rotate_time.unwrap_or(none.age_max),
        })
    }

    fn path(&self) -> PathBuf {
        self.file.clone().unwrap_or_else(|| PathBuf::from("."))
    }
}

fn data_type(text: &str) -> Result<DataType, String> {
    parse_type(text).map_err(|error| error.to_string())
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
        "behind its end may be what is no part of it, which could not be cut off ({error}): \
         `trunkline tdms repair` does"
    )
}

fn sample_rate(text: &str) -> Result<f64, String> {
    let rate: Option<f64> = text.parse().ok();
    let rate = rate.filter(|rate| rate.is_normal() && *rate > 0.0);
    rate.ok_or_else(|| "write a number above 0, such as 48000 or 0.5".to_owned())
}

/// Returns the problem of a recording that could not begin.
fn not_begun(error: &RecordingError, path: &Path) -> Problem {
    let mut found = problem(error);
    if let RecordingError::File(error) = error {
        found.message = format!("{} cannot be made: {error}", shown(path));
        if error.kind() == std::io::ErrorKind::AlreadyExists {
            // The error about the next file of a series has its own message, but an existing first
            // file is reported before that.
            if error.get_ref().is_none() || path.exists() {
                found.message = format!("{} is there already", shown(path));
            } else {
                found.message = plain(&error.to_string());
            }
            found.hint =
                Some("nothing is written over: name another file, or remove it".to_owned());
        }
    }
    found
}
