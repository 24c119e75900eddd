//! What can go wrong with a stream, and who is to do what about it.

use std::io;
use std::time::Duration;

use trunkline_net::{BindError, StartError};
use trunkline_proto::stream::StreamFault;
use trunkline_proto::{Disconnect, FaultCode};
use trunkline_types::wire::DecodeError;
use trunkline_types::{DataType, StreamUrlError};

use crate::journal::JournalError;

/// Why a call on an endpoint of a stream failed. Shown to people as it is.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// The URL of this endpoint, or of its peer, is none.
    #[error(transparent)]
    Url(#[from] StreamUrlError),
    /// Endpoints are created on this machine only; one connects to those of others.
    #[error(
        "an endpoint is created on its own machine, not on {host}: name this one without a host, \
         and {host}'s as its peer"
    )]
    NotHere {
        /// The host that was named.
        host: String,
    },
    /// A buffer holds at least one element.
    #[error(
        "a buffer of {capacity} elements of {bytes} bytes cannot be had; it holds at least one"
    )]
    Capacity {
        /// Elements.
        capacity: usize,
        /// Bytes of each, or of all where they vary.
        bytes: usize,
    },
    /// An endpoint with several peers is dialled by them, and has no journal.
    #[error(
        "an endpoint with several peers names none, as they dial it, and has no journal: leave out \
         peer and journal, and have the others name this one"
    )]
    Dialled,
    /// The system gives no memory for the buffer.
    #[error("the system gives no memory for a buffer of {bytes} bytes: {cause}")]
    Memory {
        /// How much.
        bytes: usize,
        /// What it said.
        #[source]
        cause: io::Error,
    },
    /// No descriptor or thread is left.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The port of the endpoint's URL cannot be listened on.
    #[error(transparent)]
    Listen(#[from] BindError),
    /// No engine of this machine keeps the directory.
    #[error(
        "no engine on this machine keeps the directory of its endpoints ({cause}): start one, or \
         give the endpoint a port of its own, as in tl://localhost:5900/name"
    )]
    NoDirectory {
        /// Why it was not reached.
        cause: Disconnect,
    },
    /// The journal cannot be used, or not now.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Nothing becomes durable where the reader has no journal.
    #[error(
        "the other end of the stream has no journal, so that nothing becomes durable there: create \
         it with one, or wait until elements are read"
    )]
    NoJournal,
    /// The directory does not take the name.
    #[error("{sentence}")]
    Refused {
        /// What programs match on.
        code: FaultCode,
        /// Why.
        sentence: String,
    },
    /// No peer came in time.
    #[error("no peer was connected within {:.1} s{}", timeout.as_secs_f64(), because(.last))]
    NoPeer {
        /// How long.
        timeout: Duration,
        /// Why the last attempt failed, where this end is the one that tries.
        last: Option<Disconnect>,
    },
    /// Not enough room, or not enough elements, in time. Nothing was written or read.
    #[error("not within {:.3} s: {what}; nothing was taken or given", timeout.as_secs_f64())]
    Timeout {
        /// How long.
        timeout: Duration,
        /// What was waited for.
        what: &'static str,
    },
    /// More than the buffer can hold at a time.
    #[error(
        "{asked} elements at once do not fit a buffer of {capacity}; use fewer, or create the \
         endpoint with a larger one"
    )]
    TooMany {
        /// Elements of the call.
        asked: usize,
        /// Elements of the buffer.
        capacity: usize,
    },
    /// An element is longer than one of the two buffers.
    #[error(
        "an element of {bytes} bytes does not fit a buffer of {max} bytes; create both ends with \
         larger ones"
    )]
    TooLong {
        /// Its bytes.
        bytes: usize,
        /// Bytes of the smaller buffer.
        max: u64,
    },
    /// Arrays that one call reads are of equal lengths (NS-35). Nothing was read.
    #[error(
        "one call cannot read arrays of {first} and of {other} elements; read them one by one, or \
         as many as are of equal lengths"
    )]
    Lengths {
        /// Of the first.
        first: usize,
        /// Of another.
        other: usize,
    },
    /// The writer did not wait: at this place so many elements are missing, which it has dropped
    /// because this end was too far behind. Told once; the next call goes on behind them.
    #[error(
        "{elements} elements are missing here: the writer does not wait for slow readers, and this \
         one was too far behind; read faster, or have a larger buffer"
    )]
    Lost {
        /// How many.
        elements: u64,
    },
    /// The stream has ended, and everything was read.
    #[error("the stream has ended: the writer was closed, and everything it wrote has been read")]
    Ended,
    /// The writer was aborted before the end of its stream, and what reached this end was read: it
    /// is not the whole.
    #[error("the writer was aborted before its end: {reason}{}; what came has been read", never_came(.missing))]
    Aborted {
        /// Bytes that the writer had accepted and did not send.
        missing: u64,
        /// Why, in the words of the writing program.
        reason: String,
    },
    /// The stream is over for another reason.
    #[error(transparent)]
    Fault(#[from] StreamFault),
    /// A value is not of the type of the stream's elements.
    #[error("a value is not of the type of this stream's elements, {data_type}")]
    Type {
        /// The type.
        data_type: DataType,
    },
    /// Elements of this type are of different sizes, and have no raw form.
    #[error(
        "elements of {data_type} vary in size, and have no raw form: read and write them as values"
    )]
    Varying {
        /// The type.
        data_type: DataType,
    },
    /// What arrived is not an element of this type.
    #[error("what arrived is no element of the type agreed ({0}); the other program is at fault")]
    Element(#[from] DecodeError),
    /// The endpoint's own driver has ended.
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
