//! `stream`: writes, reads, lists and measures lossless streams.
//!
//! # Layout
//! - `write`: copies standard input to a stream. `read`: copies a stream to standard output.
//! - `form`: selects the format of the elements outside the stream: `text` for JSON Lines and CSV,
//!   `arrow` for Arrow IPC. `input`: reads standard input without read-ahead.
//! - `writer_endpoint`, `reader_endpoint`: an endpoint with one peer or several. `peers`: events of
//!   the peers. `transfer`: waiting, progress and summary. `events`: lines on standard error.
//! - `list`: lists the endpoints. `bench`: measures a stream. `units`: sizes and rates.

mod arrow;
pub(crate) mod bench;
pub(crate) mod events;
mod form;
mod input;
pub(crate) mod list;
mod peers;
mod read;
mod reader_endpoint;
mod text;
mod transfer;
pub(super) mod units;
mod write;
mod writer_endpoint;

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use trunkline::engine_of_peer;
use trunkline::proto::FaultCode;
use trunkline::stream::{
    DIRECTORY_PORT, JournalError, JournalOptions, Options, StreamError, StreamFault,
};
use trunkline_net::server::BindError;
use trunkline_types::{DataType, Url};

use self::form::ElementForm;
use crate::arguments;
use crate::connection::security;
use crate::targets;
use crate::terminal::escaped;
use crate::{CliError, Context, Exit, Problem};

/// Send streams of data from program to program without loss
///
/// `stream write` writes standard input to a stream, and `stream read` prints the elements. Each
/// endpoint has a name: `daq/raw` if an engine on this machine manages the names, or
/// `tl://localhost:5900/daq/raw` for an endpoint with its own port, which needs no engine. One of
/// the two endpoints names its peer, with --to or --from. That endpoint connects, and reconnects
/// after each interruption.
///
/// A stream between two machines is encrypted from program to program. The machine that connects
/// must have joined the engine of the other one, with `trunkline join`, and its account needs the
/// action `stream`: `trunkline stream write daq/raw --to tl://plant.example/archive/raw`.
///
/// Both commands wait indefinitely for the peer, for buffer space and for elements, unless
/// --timeout is given. Ctrl-C stops them cleanly: elements already written are still delivered. A
/// second Ctrl-C stops them at once. Exit code 7 means that some elements were not delivered.
///
/// With --journal at both endpoints, no element is lost when either program stops: elements that
/// were written but not yet read stay on the disk. The next program that uses the same folder
/// resumes the stream, and reports how many elements were written or read before.
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum Subcommand {
    Write(Box<write::Args>),
    Read(Box<read::Args>),
    Ls(list::LsArgs),
    Info(list::InfoArgs),
    Bench(Box<bench::Args>),
}

/// Arguments for one endpoint of a stream.
#[derive(Clone, Debug, clap::Args)]
struct EndpointArgs {
    /// Name or URL of this endpoint
    #[arg(value_name = "URL")]
    own_url: String,

    #[command(flatten)]
    buffer: BufferArgs,

    /// Format of the elements on standard input or output (default: csv with `-o csv`, otherwise
    /// jsonl)
    #[arg(long = "as", value_name = "FORMAT")]
    element_form: Option<ElementForm>,

    /// Stop after this number of elements
    #[arg(
        long,
        value_name = "N",
        value_parser = arguments::number::<u64>(1..=u64::MAX),
        allow_negative_numbers = true
    )]
    count: Option<u64>,

    /// Fail if the peer disconnects and does not return within this time, such as 10s (a bare
    /// number is seconds; default: wait indefinitely)
    #[arg(
        long,
        value_name = "TIME",
        value_parser = arguments::duration,
        allow_hyphen_values = true
    )]
    gone_after: Option<Duration>,

    /// Keep undelivered elements in this folder, which no other endpoint may use, so that the
    /// stream continues when the program is started again
    #[arg(long, value_name = "FOLDER")]
    journal: Option<PathBuf>,

    /// Maximum size of the journal; when it is reached, the writer waits (default: 1GiB)
    #[arg(
        long,
        value_name = "SIZE",
        value_parser = units::size,
        requires = "journal",
        allow_hyphen_values = true
    )]
    journal_size: Option<u64>,

    /// Allow connections with other machines that are neither encrypted nor authenticated: to a peer
    /// whose engine this user has not joined, and to this endpoint's own port
    #[arg(long)]
    insecure: bool,
}

/// The elements of a stream, and the buffer that holds them.
#[derive(Clone, Debug, clap::Args)]
struct BufferArgs {
    /// Type of the elements, such as i32, string or 'struct(t: timestamp, volts: f64)'; it must be
    /// the same at both endpoints
    #[arg(
        long = "type",
        value_name = "TYPE",
        default_value = "f64",
        value_parser = arguments::data_type
    )]
    data_type: DataType,

    /// Size of the buffer in elements (default: 4096)
    #[arg(
        long,
        value_name = "N",
        value_parser = arguments::number::<u64>(1..=1 << 40),
        allow_negative_numbers = true
    )]
    capacity: Option<u64>,

    /// Maximum number of elements per read or write (default: a tenth of the buffer)
    #[arg(
        long,
        visible_alias = "call",
        value_name = "N",
        value_parser = arguments::number::<u64>(1..=1 << 40),
        allow_negative_numbers = true
    )]
    chunk: Option<u64>,

    /// Size of the buffer in bytes, for elements of varying size (default: 16MiB)
    #[arg(long, value_name = "SIZE", value_parser = units::size, allow_hyphen_values = true)]
    buffer: Option<u64>,
}

/// Default size of the buffer in elements.
const CAPACITY: u64 = 4096;

pub(crate) fn run(command: &Subcommand, context: &Context) -> Result<Exit, CliError> {
    match command {
        Subcommand::Write(args) => write::run(args, context),
        Subcommand::Read(args) => read::run(args, context),
        Subcommand::Ls(args) => list::ls(args, context),
        Subcommand::Info(args) => list::info(args, context),
        Subcommand::Bench(args) => bench::run(args, context),
    }
}

impl BufferArgs {
    /// Returns the number of elements per call, which must not exceed the capacity of the buffer.
    fn chunk(&self, capacity: u64) -> Result<usize, Problem> {
        let chunk = self.chunk.unwrap_or((capacity / 10).max(1));
        if chunk > capacity {
            let sentence = format!(
                "--chunk {chunk} is more than the {capacity} elements of the buffer; use a \
                 smaller --chunk or a larger --capacity"
            );
            return Err(Problem::usage(sentence));
        }
        Ok(usize::try_from(chunk).unwrap_or(usize::MAX))
    }
}

impl EndpointArgs {
    fn capacity(&self) -> u64 {
        self.buffer.capacity.unwrap_or(CAPACITY)
    }

    fn chunk(&self) -> Result<usize, Problem> {
        self.buffer.chunk(self.capacity())
    }

    fn journal_options(&self) -> Option<JournalOptions> {
        let mut journal = JournalOptions::at(self.journal.as_ref()?);
        journal.bytes_max = self.journal_size.unwrap_or(journal.bytes_max);
        Some(journal)
    }

    fn options(&self, peer: Option<&str>, context: &Context) -> Result<Options, Problem> {
        let defaults = options(peer, context)?;
        let capacity = usize::try_from(self.capacity());
        let bytes_max = self.buffer.buffer.map(usize::try_from).transpose();
        let (Ok(capacity), Ok(bytes_max)) = (capacity, bytes_max) else {
            let sentence = "the buffer is larger than this machine can address; use a smaller \
                            --capacity or --buffer";
            return Err(Problem::usage(sentence));
        };
        Ok(Options {
            capacity,
            bytes_max: bytes_max.unwrap_or(defaults.bytes_max),
            gone_after: self.gone_after,
            insecure: self.insecure,
            journal: self.journal_options(),
            ..defaults
        })
    }

    /// Returns the number of elements to move next, after `moved` elements; at most one chunk.
    fn next_count(&self, moved: u64, chunk: usize) -> usize {
        let remaining = self.count.map(|count| count.saturating_sub(moved));
        remaining.map_or(chunk, |remaining| {
            usize::try_from(remaining).map_or(chunk, |remaining| remaining.min(chunk))
        })
    }
}

/// Returns the options of an endpoint, with the context of the user for the peer's engine if there is one.
pub(super) fn options(peer: Option<&str>, context: &Context) -> Result<Options, Problem> {
    let engine = targets::engine(&context.settings)?;
    let is_here = engine.host.as_deref().is_none_or(is_this_machine);
    let peer = peer.map(|peer| match is_here {
        true => peer.to_owned(),
        false => url_of_peer(peer, &engine),
    });
    let security = match peer.as_deref().and_then(engine_of_peer) {
        Some(engine) => security(&engine, &context.settings)?,
        None => None,
    };
    Ok(Options {
        peer,
        security: security.and_then(|security| security.for_streams()),
        timeout: context.settings.explicit_timeout(),
        directory_port: match is_here {
            true => engine.port_or_default(),
            // The name of this endpoint is registered on this machine.
            false => DIRECTORY_PORT,
        },
        program: PROGRAM.to_owned(),
        ..Options::default()
    })
}

fn is_this_machine(host: &str) -> bool {
    let is_loopback = |address: IpAddr| address.is_loopback();
    host == "localhost" || host.parse().is_ok_and(is_loopback)
}

/// Returns the URL of a peer. A name without a host is one of the engine that other commands use.
fn url_of_peer(peer: &str, engine: &Url) -> String {
    let (Some(host), false) = (&engine.host, peer.contains("//")) else {
        return peer.to_owned();
    };
    let port = engine.port_or_default();
    match host.contains(':') && !host.starts_with('[') {
        true => format!("tl://[{host}]:{port}/{peer}"),
        false => format!("tl://{host}:{port}/{peer}"),
    }
}

const PROGRAM: &str = concat!("trunkline ", env!("CARGO_PKG_VERSION"));

/// Maximum number of peers of one endpoint. Each peer needs a thread.
const PEERS_MAX: u64 = 10_000;

fn peer_count(text: &str) -> Result<usize, String> {
    arguments::number(0..=PEERS_MAX)(text)
}

pub(super) fn problem(error: &StreamError) -> Problem {
    let (exit, code) = match error {
        StreamError::Url(_) => (Exit::Usage, "bad-name"),
        StreamError::RemoteHost { .. } => (Exit::Usage, "not-here"),
        StreamError::Capacity { .. } | StreamError::TooMany { .. } => (Exit::Usage, "capacity"),
        StreamError::TooLong { .. } => (Exit::Failed, "too-long"),
        StreamError::Journal(JournalError::Damaged { .. }) => (Exit::Lost, "journal-damaged"),
        StreamError::Journal(_) => (Exit::Failed, "journal"),
        StreamError::Listen(_) => (Exit::Failed, "listen"),
        StreamError::NoDirectory { .. } => (Exit::Unreachable, "no-directory"),
        StreamError::NotEncrypted { .. } => (Exit::Failed, "not-encrypted"),
        StreamError::SharedPort { .. } => (Exit::Failed, "shared-port"),
        StreamError::Refused {
            code: code @ (FaultCode::Denied | FaultCode::NotAuthenticated),
            ..
        }
        | StreamError::Fault(StreamFault::Refused {
            code: code @ (FaultCode::Denied | FaultCode::NotAuthenticated),
            ..
        }) => (Exit::NotPermitted, code.name()),
        StreamError::Refused { code, .. } => (Exit::Failed, code.name()),
        StreamError::NoPeer { .. } => (Exit::TimedOut, "no-peer"),
        StreamError::Timeout { .. } => (Exit::TimedOut, "timed-out"),
        StreamError::Type { .. } | StreamError::Element(_) => (Exit::Failed, "type"),
        StreamError::Aborted { .. } => (Exit::Lost, "aborted"),
        StreamError::Fault(StreamFault::PeerDestroyed { .. }) => (Exit::Failed, "peer-destroyed"),
        StreamError::Fault(StreamFault::Refused { code, .. }) => (Exit::Failed, code.name()),
        StreamError::Fault(StreamFault::DataLost { .. }) => (Exit::Lost, "data-lost"),
        StreamError::Fault(StreamFault::PeerRestarted) => (Exit::Lost, "peer-restarted"),
        StreamError::Fault(StreamFault::PeerGone { .. }) => (Exit::Lost, "peer-gone"),
        StreamError::Fault(StreamFault::PeerExcluded) => (Exit::Lost, "peer-excluded"),
        StreamError::Fault(StreamFault::VersionMismatch(_)) => (Exit::Failed, "version-mismatch"),
        _ => (Exit::Failed, "failed"),
    };
    // One line: a peer can have any name, and end with any reason.
    let sentence = || escaped(&error.to_string());
    match error {
        StreamError::NotEncrypted { peer } => {
            let host = peer.host();
            let sentence = format!(
                "the stream to {host} would not be encrypted, so anyone on the network could read and \
                 change it; join the engine there with `trunkline join`, or, on a network that you \
                 trust, use --insecure"
            );
            Problem::new(exit, code, sentence)
        }
        StreamError::Listen(BindError::NotLoopback { address }) => {
            let sentence = format!(
                "other machines can reach {address}, and connections to the port of an endpoint are neither \
                 encrypted nor authenticated; remove the host and the port from its URL, so that the engine \
                 of this machine introduces the peer, or, on a network that you trust, use --insecure"
            );
            Problem::new(exit, code, sentence)
        }
        // The message names the options of this command.
        StreamError::RemoteHost { host } => {
            let sentence = format!(
                "an endpoint cannot be created on another machine, {host}; remove the host from \
                 this name, and specify the endpoint on {host} with --to or --from"
            );
            Problem::new(exit, code, sentence)
        }
        StreamError::NoPeer { last: None, .. } => Problem::new(exit, code, sentence())
            .with_hint("start the other endpoint; `trunkline stream ls` lists those that exist"),
        _ => Problem::new(exit, code, sentence()),
    }
}
