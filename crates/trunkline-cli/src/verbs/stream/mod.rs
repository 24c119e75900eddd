//! `stream`: lossless streams on the command line.
//!
//! # Layout
//! - `write`, `read`: standard input into a stream, a stream to standard output. `text` has the
//!   forms for people, `arrow` the one for data programs, `input` reads standard input without
//!   read-ahead, and `pace` waits and prints the summary. `writing_end`, `reading_end`: an end with
//!   one peer or with several, on which `peers` reports.
//! - `form`: the form of the elements outside the stream. `list`: the existing endpoints. `bench`:
//!   a measurement. `units`: sizes and rates.

mod arrow;
mod bench;
mod form;
mod input;
mod list;
mod pace;
mod peers;
mod read;
mod reading_end;
mod text;
pub(super) mod units;
mod write;
mod writing_end;

use std::path::PathBuf;
use std::time::Duration;

use trunkline::stream::{JournalError, JournalOptions, Options, StreamError, StreamFault};
use trunkline_types::DataType;
use trunkline_types::text::parse_type;

use self::form::ElementForm;
use super::{Context, Verb};
use crate::arguments;
use crate::exit::Exit;
use crate::problem::{Problem, Stop};
use crate::targets;

/// Send elements from program to program without loss
///
/// `stream write` sends standard input, `stream read` prints the elements. Each end has a name:
/// `daq/raw` if an engine of this machine keeps the names, or `tl://localhost:5900/daq/raw` with a
/// port of its own, which needs no engine. One of the two ends names the other, with --to or
/// --from. That end connects, and connects again after each interruption.
///
/// Both ends wait for the other end, for space and for elements without limit, unless --timeout is
/// given. Ctrl-C ends them in order: written elements are still delivered. A second Ctrl-C does not
/// wait for that. Exit code 7 means that some elements were not delivered.
///
/// With --journal at both ends, the stream survives the end of either program: elements that were
/// written and not yet read stay on the disk, and the next program with the same folder continues.
/// It reports how many elements were written, or read, before.
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum Subcommand {
    Write(Box<write::Args>),
    Read(Box<read::Args>),
    Ls(list::LsArgs),
    Info(list::InfoArgs),
    Bench(Box<bench::Args>),
}

/// One end of a stream.
#[derive(Clone, Debug, clap::Args)]
struct EndArgs {
    /// The name or URL of this end
    #[arg(value_name = "URL")]
    own_url: String,

    #[command(flatten)]
    buffer: BufferArgs,

    /// The form of elements on standard input and output (default: the form of -o, otherwise jsonl)
    #[arg(long = "as", value_name = "FORM")]
    element_form: Option<ElementForm>,

    /// End after this number of elements
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// Fail if the other end was connected and then is away for this time
    #[arg(long, value_name = "TIME", value_parser = arguments::duration)]
    gone_after: Option<Duration>,

    /// Keep undelivered elements in this folder, which belongs to this end alone, so that the
    /// stream continues when the program is started again
    #[arg(long, value_name = "DIR")]
    journal: Option<PathBuf>,

    /// Maximum size of the journal (default: 1 GiB)
    #[arg(long, value_name = "SIZE", value_parser = units::size, requires = "journal")]
    journal_size: Option<u64>,

    /// Let other machines reach this end's own port, although nothing protects it
    #[arg(long)]
    insecure: bool,
}

/// The elements of a stream, and the buffer that holds them.
#[derive(Clone, Debug, clap::Args)]
struct BufferArgs {
    /// The type of the elements, such as i32, string or 'struct(t: timestamp, volts: f64)'; both
    /// ends must have the same
    #[arg(long = "type", value_name = "TYPE", default_value = "f64", value_parser = data_type)]
    data_type: DataType,

    /// Elements that the buffer of this end holds (default: 4096; for bench 1000000, or 100000 of
    /// varying size)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    capacity: Option<u64>,

    /// Maximum number of elements per read or write (default: a tenth of the buffer)
    #[arg(
        long,
        visible_alias = "call",
        value_name = "N",
        value_parser = clap::value_parser!(u64).range(1..=1 << 40)
    )]
    chunk: Option<u64>,

    /// Bytes that the buffer of this end holds, for elements of varying size (default: 16 MiB)
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    buffer: Option<u64>,
}

/// Exit codes of an end.
const EXITS: &[Exit] = &[
    Exit::Done,
    Exit::SomeFailed,
    Exit::Usage,
    Exit::Unreachable,
    Exit::TimedOut,
    Exit::NotPermitted,
    Exit::Lost,
    Exit::Interrupted,
];

pub(crate) const VERB: Verb = Verb::group(
    "stream",
    &[
        Verb::writing("write", EXITS),
        Verb::writing("read", EXITS),
        list::LS,
        list::INFO,
        Verb::reading("bench", EXITS),
    ],
);

/// Elements that a buffer holds by default.
const CAPACITY: u64 = 4096;

pub(crate) fn run(command: &Subcommand, context: &Context) -> Result<Exit, Stop> {
    match command {
        Subcommand::Write(args) => write::run(args, context),
        Subcommand::Read(args) => read::run(args, context),
        Subcommand::Ls(args) => list::ls(args, context),
        Subcommand::Info(args) => list::info(args, context),
        Subcommand::Bench(args) => bench::run(args, context),
    }
}

impl BufferArgs {
    /// Returns the elements per call, which must fit both the buffer and a `usize`.
    fn chunk(&self, capacity: u64) -> Result<usize, Problem> {
        let chunk = self.chunk.unwrap_or((capacity / 10).max(1));
        if chunk > capacity {
            let sentence = format!(
                "--chunk {chunk} does not fit a buffer of {capacity}; use a smaller --chunk or a \
                 larger --capacity"
            );
            return Err(Problem::usage(&sentence));
        }
        Ok(usize::try_from(chunk).unwrap_or(usize::MAX))
    }
}

impl EndArgs {
    fn capacity(&self) -> u64 {
        self.buffer.capacity.unwrap_or(CAPACITY)
    }

    fn chunk(&self) -> Result<usize, Problem> {
        self.buffer.chunk(self.capacity())
    }

    /// Returns the options of the journal that keeps the elements when the program ends.
    fn journal_options(&self) -> Option<JournalOptions> {
        let mut journal = JournalOptions::at(self.journal.as_ref()?);
        journal.bytes_max = self.journal_size.unwrap_or(journal.bytes_max);
        Some(journal)
    }

    /// Returns the options with which the end is created.
    fn options(&self, peer: Option<&str>, context: &Context) -> Result<Options, Problem> {
        let engine = targets::engine(&context.settings)?;
        let defaults = Options::default();
        let capacity = usize::try_from(self.capacity());
        let bytes_max = self.buffer.buffer.map(usize::try_from).transpose();
        let (Ok(capacity), Ok(bytes_max)) = (capacity, bytes_max) else {
            return Err(Problem::usage(
                "the buffer is larger than this machine's memory",
            ));
        };
        Ok(Options {
            peer: peer.map(str::to_owned),
            capacity,
            bytes_max: bytes_max.unwrap_or(defaults.bytes_max),
            timeout: context.settings.patience(),
            gone_after: self.gone_after,
            directory_port: engine.port_or_default(),
            insecure: self.insecure,
            journal: self.journal_options(),
            program: concat!("trunkline ", env!("CARGO_PKG_VERSION")).to_owned(),
            ..defaults
        })
    }
}

/// Maximum number of peers of one end; each takes a thread.
const PEERS_MAX: usize = 10_000;

fn peers(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count) if count <= PEERS_MAX => Ok(count),
        _ => Err(format!("it is not a number from 0 to {PEERS_MAX}")),
    }
}

fn data_type(text: &str) -> Result<DataType, String> {
    parse_type(text).map_err(|error| error.to_string())
}

/// Converts an error of an end to a problem for the user.
pub(super) fn problem(error: &StreamError) -> Problem {
    let (exit, code) = match error {
        StreamError::Url(_) => (Exit::Usage, "bad-name"),
        StreamError::NotHere { .. } => (Exit::Usage, "not-here"),
        StreamError::Capacity { .. } | StreamError::TooMany { .. } => (Exit::Usage, "capacity"),
        StreamError::TooLong { .. } => (Exit::SomeFailed, "too-long"),
        StreamError::Journal(JournalError::Damaged { .. }) => (Exit::Lost, "journal-damaged"),
        StreamError::Journal(_) => (Exit::SomeFailed, "journal"),
        StreamError::Listen(_) => (Exit::SomeFailed, "listen"),
        StreamError::NoDirectory { .. } => (Exit::Unreachable, "no-directory"),
        StreamError::Refused { code, .. } => (Exit::SomeFailed, code.name()),
        StreamError::NoPeer { .. } => (Exit::TimedOut, "no-peer"),
        StreamError::Timeout { .. } => (Exit::TimedOut, "timed-out"),
        StreamError::Type { .. } | StreamError::Element(_) => (Exit::SomeFailed, "type"),
        StreamError::Aborted { .. } => (Exit::Lost, "aborted"),
        StreamError::Fault(StreamFault::PeerDestroyed { .. }) => {
            (Exit::SomeFailed, "peer-destroyed")
        }
        StreamError::Fault(StreamFault::Refused { code, .. }) => (Exit::SomeFailed, code.name()),
        StreamError::Fault(StreamFault::DataLost { .. }) => (Exit::Lost, "data-lost"),
        StreamError::Fault(StreamFault::PeerRestarted) => (Exit::Lost, "peer-restarted"),
        StreamError::Fault(StreamFault::PeerGone { .. }) => (Exit::Lost, "peer-gone"),
        StreamError::Fault(StreamFault::VersionMismatch(_)) => {
            (Exit::SomeFailed, "version-mismatch")
        }
        _ => (Exit::SomeFailed, "failed"),
    };
    Problem::new(exit, code, &error.to_string())
}
