//! The errors of streams. Each message names the remedy.

use std::io;
use std::time::Duration;

use trunkline_net::{BindError, StartError};
use trunkline_proto::stream::StreamFault;
use trunkline_proto::{Disconnect, FaultCode};
use trunkline_types::wire::DecodeError;
use trunkline_types::{DataType, StreamUrlError};

use crate::journal::JournalError;

/// An error of a call on an endpoint of a stream. The message is written for users.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// The URL of this endpoint, or of its peer, is invalid.
    #[error(transparent)]
    Url(#[from] StreamUrlError),
    /// Endpoints can only be created on this machine; a program connects to those of other
    /// machines.
    #[error(
        "an endpoint is created on its own machine, not on {host}: name this one without a host, \
         and {host}'s as its peer"
    )]
    NotHere {
        /// The host in the URL.
        host: String,
    },
    /// The buffer cannot be created. It must hold at least one element.
    #[error(
        "a buffer of {capacity} elements of {bytes} bytes cannot be had; it holds at least one"
    )]
    Capacity {
        /// Requested capacity, in elements.
        capacity: usize,
        /// Bytes per element, or of all elements if they vary in size.
        bytes: usize,
    },
    /// An endpoint with several peers cannot name a peer, because its peers dial it, and cannot
    /// have a journal.
    #[error(
        "an endpoint with several peers names none, as they dial it, and has no journal: leave out \
         peer and journal, and have the others name this one"
    )]
    Dialled,
    /// The system provides no memory for the buffer.
    #[error("the system gives no memory for a buffer of {bytes} bytes: {cause}")]
    Memory {
        /// Requested size, in bytes.
        bytes: usize,
        /// The system's error.
        #[source]
        cause: io::Error,
    },
    /// The system provides no random numbers, which identify the endpoint to its peer.
    #[error(
        "the system gives no random numbers, which keep other programs out of the stream: {cause}; \
         allow this program the system call getrandom"
    )]
    Random {
        /// The system's error.
        #[source]
        cause: io::Error,
    },
    /// The system provides no descriptor or thread.
    #[error(transparent)]
    Start(#[from] StartError),
    /// Listening on the port in the endpoint's URL failed.
    #[error(transparent)]
    Listen(#[from] BindError),
    /// No engine on this machine keeps the directory.
    #[error(
        "no engine on this machine keeps the directory of its endpoints ({cause}): start one, or \
         give the endpoint a port of its own, as in tl://localhost:5900/name"
    )]
    NoDirectory {
        /// The reason why the engine was not reached.
        cause: Disconnect,
    },
    /// The journal cannot be used, permanently or at present.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Nothing becomes durable at the reader, because it has no journal.
    #[error(
        "the other end of the stream has no journal, so that nothing becomes durable there: create \
         it with one, or wait until elements are read"
    )]
    NoJournal,
    /// The directory refused the name.
    #[error("{sentence}")]
    Refused {
        /// The code for programs to match on.
        code: FaultCode,
        /// The reason, as a sentence.
        sentence: String,
    },
    /// No peer connected in time.
    #[error("no peer was connected within {:.1} s{}", timeout.as_secs_f64(), because(.last))]
    NoPeer {
        /// The time limit.
        timeout: Duration,
        /// The reason why the last attempt failed, if this end is the one that dials.
        last: Option<Disconnect>,
    },
    /// Not enough room, or not enough elements, in time. Nothing was written or read.
    #[error("not within {:.3} s: {what}; nothing was taken or given", timeout.as_secs_f64())]
    Timeout {
        /// The time limit.
        timeout: Duration,
        /// The condition that was waited for.
        what: &'static str,
    },
    /// The call needs more elements at once than the buffer can hold.
    #[error(
        "{asked} elements at once do not fit a buffer of {capacity}; use fewer, or create the \
         endpoint with a larger one"
    )]
    TooMany {
        /// Elements that the call asked for.
        asked: usize,
        /// Capacity of the buffer, in elements.
        capacity: usize,
    },
    /// An element is longer than one of the two buffers.
    #[error(
        "an element of {bytes} bytes does not fit a buffer of {max} bytes; create both ends with \
         larger ones"
    )]
    TooLong {
        /// Length of the element, in bytes.
        bytes: usize,
        /// Size of the smaller buffer, in bytes.
        max: u64,
    },
    /// Arrays read by one call must have equal lengths (NS-35). Nothing was read.
    #[error(
        "one call cannot read arrays of {first} and of {other} elements; read them one by one, or \
         as many as are of equal lengths"
    )]
    Lengths {
        /// Length of the first array, in elements.
        first: usize,
        /// Length of the first array that differs, in elements.
        other: usize,
    },
    /// Elements are missing at this position: the writer does not wait for slow readers and dropped
    /// them, because this end was too far behind. Returned once; the next call continues after the
    /// gap.
    #[error(
        "{elements} elements are missing here: the writer does not wait for slow readers, and this \
         one was too far behind; read faster, or have a larger buffer"
    )]
    Lost {
        /// Number of missing elements.
        elements: u64,
    },
    /// The stream has ended, and everything has been read.
    #[error("the stream has ended: the writer was closed, and everything it wrote has been read")]
    Ended,
    /// The writer was aborted before the end of its stream. Everything that reached this end has
    /// been read, but the stream is incomplete.
    #[error("the writer was aborted before its end: {reason}{}; what came has been read", never_came(.missing))]
    Aborted {
        /// Bytes that the writer had accepted but did not send.
        missing: u64,
        /// The reason given by the writing program.
        reason: String,
    },
    /// The stream is over for another reason.
    #[error(transparent)]
    Fault(#[from] StreamFault),
    /// A value is not of the stream's element type.
    #[error("a value is not of the type of this stream's elements, {data_type}")]
    Type {
        /// The element type of the stream.
        data_type: DataType,
    },
    /// Elements of this type vary in size and have no raw form.
    #[error(
        "elements of {data_type} vary in size, and have no raw form: read and write them as values"
    )]
    Varying {
        /// The element type of the stream.
        data_type: DataType,
    },
    /// The received bytes are not an element of this type.
    #[error("what arrived is no element of the type agreed ({0}); the other program is at fault")]
    Element(#[from] DecodeError),
    /// The endpoint's driver has ended.
    #[error("this end of the stream is closed")]
    Closed,
}

fn never_came(missing: &u64) -> String {
    match missing {
        0 => String::new(),
        missing => format!("; {missing} bytes of it never came"),
    }
}

fn because(last: &Option<Disconnect>) -> String {
    last.as_ref()
        .map_or(String::new(), |cause| format!(": {cause}"))
}
