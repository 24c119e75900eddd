//! `stream`: lossless streams on the command line.
//!
//! # Layout
//! - `write`, `read`: standard input into a stream, a stream to standard output. `text` has the
//!   forms for people, `arrow` the one for data programs, `input` reads standard input without
//!   read-ahead, and `pace` waits and prints the summary. `writing_end`, `reading_end`: an end with
//!   one peer or with several, on which `peers` reports.
//! - `checks`: invalid combinations of arguments. `list`: the existing endpoints. `bench`: a
//!   measurement. `units`: sizes and rates.

mod arrow;
mod bench;
mod checks;
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

use self::bench::Over;
use super::{Context, Verb};
use crate::arguments;
use crate::exit::Exit;
use crate::problem::{Problem, Stop};
use crate::targets;

/// Move elements from program to program, losing none
///
/// `stream write URL --to PEER` sends standard input, `stream read URL` prints what comes. The URL
/// is this end's own name: `daq/raw` where an engine of this machine keeps the names, or
/// `tl://localhost:5900/daq/raw` with a port of its own, which needs no engine. One of the two ends
/// names the other, by --to or --from; that one connects, and again after each cut.
///
/// `stream ls` and `stream info` tell what endpoints there are: with whom each is connected, how
/// full its buffer is and for how long, its rate, and who runs it.
///
/// `stream bench` needs neither engine nor URL: it sends a gigabyte whose content follows from the
/// place of each element, checks it, and ends with the line `lost 0`, or how many.
///
/// Both ends wait for the other one, for room and for elements for ever, unless --timeout is given.
/// Ctrl-C ends them in order: what was written is still delivered, a second one does not wait for
/// it. Exit code 7 says that elements were not delivered.
///
/// With --readers an end writes to any number of readers, which name it by --from: each gets
/// everything, and the slowest is waited for, unless --quota says how many elements may wait for
/// one. With --writers an end reads from any number of writers, which name it by --to, and says of
/// each element whose it is.
///
/// With --journal at both ends the stream outlives either program: what is written and not yet read
/// is kept on the disk, and the next one with that folder goes on. It says how many elements were
/// written, or read, before.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// What to do
    #[arg(value_name = "VERB")]
    verb: Order,

    /// This end's name or URL; of info the endpoint, of ls the host, with a port where it is not
    /// the engine's
    #[arg(
        value_name = "URL",
        required_if_eq_any([("verb", "write"), ("verb", "read"), ("verb", "info")])
    )]
    end: Option<String>,

    /// The reading end to write to; without it, any that names this one
    #[arg(long, value_name = "PEER")]
    to: Option<String>,

    /// The writing end to read from; without it, any that names this one
    #[arg(long, value_name = "PEER")]
    from: Option<String>,

    /// write: to any number of readers, which name this end by --from; begin when so many are there
    #[arg(long, value_name = "N", value_parser = peers)]
    readers: Option<usize>,

    /// write --readers: wait for nobody; a reader for which more than N elements wait loses the
    /// oldest of them, and is told
    #[arg(long, value_name = "N", requires = "readers")]
    quota: Option<u64>,

    /// read: from any number of writers, which name this end by --to; begin when so many are there,
    /// and end when so many have ended and none is left, with 0 not at all
    #[arg(long, value_name = "N", value_parser = peers)]
    writers: Option<usize>,

    /// The type of the elements, such as i32, string or 'struct(t: timestamp, volts: f64)'; both
    /// ends say the same
    #[arg(long = "type", value_name = "TYPE", default_value = "f64", value_parser = data_type)]
    data_type: DataType,

    /// How elements look on standard input and output; jsonl unless -o says otherwise
    #[arg(long = "as", value_name = "FORM")]
    element_form: Option<ElementForm>,

    /// End after so many elements
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// Elements that this end's buffer holds; 4096 unless said otherwise
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    capacity: Option<u64>,

    /// Elements per read or write, at most; a tenth of the buffer unless said otherwise
    #[arg(
        long,
        visible_alias = "call",
        value_name = "N",
        value_parser = clap::value_parser!(u64).range(1..=1 << 40)
    )]
    chunk: Option<u64>,

    /// Bytes that this end's buffer holds where elements vary in size; 16 MiB unless said otherwise
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    buffer: Option<u64>,

    /// End with a failure when the other end was there and has been away for so long
    #[arg(long, value_name = "TIME", value_parser = arguments::duration)]
    gone_after: Option<Duration>,

    /// Keep what is on its way in this folder, of this end alone, so that the stream goes on when
    /// its program is started again
    #[arg(long, value_name = "DIR")]
    journal: Option<PathBuf>,

    /// Bytes that the journal may have; 1 GiB unless said otherwise
    #[arg(long, value_name = "SIZE", value_parser = units::size, requires = "journal")]
    journal_size: Option<u64>,

    /// Let other machines reach a port of this end's own, although nothing is protected
    #[arg(long)]
    insecure: bool,

    /// bench: how much is sent, such as 64MB; 1GB unless said otherwise
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    bytes: Option<u64>,

    /// write: send a checksum with the elements on one machine too; between machines they always
    /// have one
    #[arg(long)]
    checksums: bool,

    /// bench: what the two ends are connected by
    #[arg(long, value_name = "TRANSPORT", default_value = "tcp")]
    over: Over,

    /// bench: both ends in one process; otherwise each has its own
    #[arg(long)]
    threads: bool,

    /// bench: elements that are timed one by one; 10000 unless said otherwise
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=10_000_000))]
    samples: Option<u64>,

    /// The writer of a measurement: where the reader is
    #[arg(long, value_name = "URL", hide = true)]
    bench_writer: Option<String>,

    /// The writer of a measurement: where its engine's socket is
    #[arg(long, value_name = "PATH", hide = true)]
    bench_sockets: Option<PathBuf>,
}

/// What can be done with streams.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Order {
    /// Send standard input
    Write,
    /// Print what comes
    Read,
    /// List the endpoints of this machine, or of a HOST
    Ls,
    /// Everything about one endpoint
    Info,
    /// Measure a stream of this machine, and check its content
    Bench,
}

/// How elements look outside a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum ElementForm {
    /// As they lie in memory, little-endian, one behind the other; for types of one size
    Raw,
    /// Comma-separated values; the first line names the columns
    Csv,
    /// A JSON value per line
    Jsonl,
    /// Arrow IPC, the stream format: batches of columns
    Arrow,
}

pub(crate) const VERB: Verb = Verb {
    name: "stream",
    writes: true,
    exits: &[
        Exit::Done,
        Exit::SomeFailed,
        Exit::Usage,
        Exit::Unreachable,
        Exit::TimedOut,
        Exit::NotPermitted,
        Exit::Lost,
        Exit::Interrupted,
    ],
    verbs: &[],
};

/// Elements that a buffer holds by default.
const CAPACITY: u64 = 4096;

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Stop> {
    checks::check(args)?;
    match args.verb {
        Order::Write => write::run(args, context),
        Order::Read => read::run(args, context),
        Order::Ls => list::ls(args, context),
        Order::Info => list::info(args, context),
        Order::Bench => bench::run(args, context),
    }
}

impl Args {
    fn url(&self) -> &str {
        self.end.as_deref().unwrap_or_default()
    }

    fn capacity(&self) -> u64 {
        self.capacity.unwrap_or(CAPACITY)
    }

    /// Returns the elements per call, which must fit both the buffer and a `usize`.
    fn chunk(&self, capacity: u64) -> Result<usize, Problem> {
        let chunk = self.chunk.unwrap_or((capacity / 10).max(1));
        if chunk > capacity {
            let sentence = format!(
                "--chunk {chunk} does not fit a buffer of {capacity}; use a smaller one, or a \
                 larger --capacity"
            );
            return Err(Problem::usage(&sentence));
        }
        Ok(usize::try_from(chunk).unwrap_or(usize::MAX))
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
        let bytes_max = self.buffer.map(usize::try_from).transpose();
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
            is_checked: self.checksums.then_some(true).or(defaults.is_checked),
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
