//! Defines the errors of streams. Each message names the remedy.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use trunkline_net::{BindError, StartError, TlsError};
use trunkline_proto::stream::StreamFault;
use trunkline_proto::{Disconnect, FaultCode};
use trunkline_types::wire::DecodeError;
use trunkline_types::{DataType, StreamUrl, StreamUrlError};

use crate::journal::JournalError;

/// An error of a call on an endpoint of a stream. The message is written for users.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The URL of this endpoint, or of its peer, is invalid.
    #[error(transparent)]
    Url(#[from] StreamUrlError),
    /// An endpoint can only be created on this machine. An endpoint on another machine can be its
    /// peer.
    #[error(
        "an endpoint cannot be created on another machine, {host}: remove the host from the URL of \
         this endpoint, and specify the endpoint on {host} as the peer"
    )]
    RemoteHost {
        /// The host in the URL.
        host: String,
    },
    /// The buffer cannot be created. It must hold at least one element.
    #[error(
        "cannot create a buffer of {capacity} elements of {bytes} bytes; a buffer must hold at least one element"
    )]
    Capacity {
        /// Requested capacity, in elements.
        capacity: usize,
        /// Bytes per element, or of all elements if they vary in size.
        bytes: usize,
    },
    /// An endpoint with several peers cannot have a journal. It cannot name a peer either, because
    /// its peers dial it.
    #[error(
        "an endpoint with several peers cannot name a peer or have a journal, because its peers dial it: leave out both, and let the peers name this endpoint"
    )]
    MultiplePeers,
    /// The system provides no memory for the buffer.
    #[error("cannot allocate a buffer of {bytes} bytes: {cause}; use a smaller buffer")]
    Memory {
        /// Requested size, in bytes.
        bytes: usize,
        /// The system's error.
        #[source]
        cause: io::Error,
    },
    /// The system provides no random numbers, which identify the endpoint to its peer.
    #[error(
        "the system provides no random numbers, which protect the stream from other programs: {cause}; allow this program to make the system call getrandom"
    )]
    Random {
        /// The system's error.
        #[source]
        cause: io::Error,
    },
    /// The keys of this endpoint cannot be used for encryption.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The peer is on another machine, and the connection to it would not be encrypted.
    #[error(
        "the stream to {} would not be encrypted, so anyone on the network could read and change it: join the engine there with `trunkline join`, or, on a network that you trust, create this endpoint as insecure",
        .peer.host()
    )]
    NotEncrypted {
        /// The URL of the peer.
        peer: Box<StreamUrl>,
    },
    /// The system provides no descriptor or thread.
    #[error(transparent)]
    Start(#[from] StartError),
    /// Listening on the port in the endpoint's URL failed.
    #[error("{}", listen_text(.0))]
    Listen(#[from] BindError),
    /// Another endpoint of this program has opened the port in the endpoint's URL, and only one of the two
    /// is insecure.
    #[error("{}", shared_port_text(address, *insecure))]
    SharedPort {
        /// The address of the port.
        address: SocketAddr,
        /// The endpoint that was not created is the insecure one.
        insecure: bool,
    },
    /// The engine of this machine, which manages the names of endpoints, was not reached.
    #[error(
        "no engine answers at {socket}{}, so the name {} cannot be registered; start an engine, or give the endpoint its own port, as in tl://localhost:5900/{}",
        cause_text(cause),
        display_name(url),
        path(url)
    )]
    NoDirectory {
        /// Path of the engine's socket.
        socket: String,
        /// The URL of the endpoint.
        url: Box<StreamUrl>,
        /// The reason why the engine was not reached.
        cause: Disconnect,
    },
    /// The journal cannot be used, permanently or at present.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Nothing becomes durable at the reader, because it has no journal.
    #[error(
        "the peer has no journal, so nothing becomes durable there: create the peer with a journal, or wait until elements are read"
    )]
    NoJournal,
    #[error("{sentence}")]
    Refused {
        /// The code for programs to match on.
        code: FaultCode,
        /// The reason, as a sentence.
        sentence: String,
    },
    /// No peer connected in time.
    #[error(
        "{} within {:.1} s{}",
        connection_failure(.peer), timeout.as_secs_f64(), last_failure(.peer, .last)
    )]
    NoPeer {
        /// The peer, if this endpoint names one.
        peer: Option<Box<StreamUrl>>,
        timeout: Duration,
        /// The reason why the last attempt failed, if this endpoint is the one that dials.
        last: Option<Disconnect>,
    },
    /// There was not enough room, or there were not enough elements, in time. Nothing was written
    /// or read.
    #[error("timed out after {:.3} s: {what}; nothing was written or read", timeout.as_secs_f64())]
    Timeout {
        timeout: Duration,
        /// The condition that was not met.
        what: &'static str,
    },
    /// The call needs more elements at once than the buffer can hold.
    #[error(
        "{asked} elements do not fit into a buffer of {capacity} elements; use fewer, or create the endpoint with a larger buffer"
    )]
    TooMany {
        asked: usize,
        /// Capacity of the buffer, in elements.
        capacity: usize,
    },
    /// An element is longer than one of the two buffers.
    #[error(
        "an element of {bytes} bytes does not fit into a buffer of {max} bytes; create both endpoints with larger buffers"
    )]
    TooLong {
        /// Length of the element, in bytes.
        bytes: usize,
        /// Size of the smaller buffer, in bytes.
        max: u64,
    },
    /// Arrays read by one call must have equal lengths (NS-35). Nothing was read.
    #[error(
        "one call cannot read arrays of different lengths, here {first} and {other} elements; read the arrays one by one"
    )]
    UnequalLengths {
        /// Length of the first array, in elements.
        first: usize,
        /// Length of the first array that differs, in elements.
        other: usize,
    },
    /// Elements are missing at this position. The writer does not wait for slow readers, and dropped
    /// the elements because this reader was too far behind. This error is returned once, and the next
    /// call continues after the gap.
    #[error(
        "{elements} elements are missing here: the writer does not wait for slow readers, and this reader was too far behind; read faster, or use a larger buffer"
    )]
    Lost {
        /// Number of missing elements.
        elements: u64,
    },
    /// The stream has ended, and everything has been read.
    #[error("the stream has ended: the writer was closed, and everything it wrote has been read")]
    Ended,
    /// The writer was aborted before the end of its stream. Everything that reached this endpoint
    /// has been read, but the stream is incomplete.
    #[error("the writer stopped before the end of the stream: {reason}{}; everything received has been read", never_arrived(.missing))]
    Aborted {
        /// Bytes that the writer had accepted but did not send.
        missing: u64,
        reason: String,
    },
    /// The stream is over for another reason.
    #[error(transparent)]
    Fault(#[from] StreamFault),
    #[error(
        "the value does not have the element type of this stream; write values of type {data_type}"
    )]
    Type { data_type: DataType },
    #[error(
        "elements of type {data_type} vary in size and cannot be accessed as raw bytes; read and write them as values"
    )]
    VariableSize { data_type: DataType },
    /// The received bytes are not an element of this type.
    #[error(
        "the received bytes are not an element of the agreed type ({0}); the other program is at fault"
    )]
    Element(#[from] DecodeError),
    /// The endpoint is closed, or has ended its stream.
    #[error("this endpoint of the stream is closed; create it again to continue")]
    Closed,
}

fn never_arrived(missing: &u64) -> String {
    match missing {
        0 => String::new(),
        missing => format!("; {missing} bytes never arrived"),
    }
}

fn connection_failure(peer: &Option<Box<StreamUrl>>) -> String {
    match peer {
        Some(peer) => format!("no connection to {}", display_name(peer)),
        None => "no peer connected".to_owned(),
    }
}

/// Returns the name of an endpoint on this machine, or the URL of an endpoint on another machine.
fn display_name(url: &StreamUrl) -> String {
    let url = url.to_string();
    url.strip_prefix("tl://localhost/")
        .unwrap_or(&url)
        .to_owned()
}

fn path(url: &StreamUrl) -> String {
    url.segments().collect::<Vec<_>>().join("/")
}

/// Returns the reason why the last attempt to connect failed.
fn last_failure(peer: &Option<Box<StreamUrl>>, last: &Option<Disconnect>) -> String {
    let has_port = peer.as_ref().is_some_and(|peer| peer.port().is_some());
    match last {
        None => String::new(),
        // The endpoint itself listens at this port, not an engine.
        Some(Disconnect::Io {
            kind: io::ErrorKind::ConnectionRefused,
            text,
        }) if has_port => format!(
            ": no program is listening there ({text}); start the program with that endpoint, or \
             check the port"
        ),
        Some(cause) => format!(": {cause}"),
    }
}

fn listen_text(error: &BindError) -> String {
    match error {
        BindError::NotLoopback { address } => format!(
            "other machines can reach {address}, and connections to the port of an endpoint are neither \
             encrypted nor authenticated: remove the host and the port from its URL, so that the engine of \
             this machine introduces the peer, or, on a network that you trust, create this endpoint as \
             insecure"
        ),
        error => error.to_string(),
    }
}

fn shared_port_text(address: &SocketAddr, insecure: bool) -> String {
    let (own, other) = match insecure {
        true => ("insecure", "not insecure"),
        false => (
            "not insecure",
            "insecure, and so open to programs of other users",
        ),
    };
    format!(
        "this endpoint is {own}, but another endpoint of this program has opened the port {address}, and is \
         {other}: give the two endpoints different ports, or create both alike"
    )
}

/// Returns the reason why the engine was not reached, without the remedy; empty if no engine is
/// listening.
fn cause_text(cause: &Disconnect) -> String {
    match cause {
        Disconnect::Io {
            kind: io::ErrorKind::ConnectionRefused,
            ..
        } => String::new(),
        cause => {
            let cause = cause.to_string();
            format!(" ({})", cause.split(';').next().unwrap_or_default())
        }
    }
}
