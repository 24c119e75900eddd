//! Defines the peers of an endpoint with several peers, and the results of reading from them.

use std::sync::Arc;

use trunkline_proto::stream::{Left, StreamFault};

use crate::error::StreamError;

/// One of several peers of an endpoint.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Member {
    /// Number of the peer at this endpoint, starting at 1. Numbers are never reused.
    pub number: u64,
    /// URL, as reported by the peer.
    pub url: String,
    /// Program and release, as reported by the peer.
    pub program: String,
    /// 128 random bits that change each time the peer is created. With a journal, the last 8 bytes
    /// stay the same.
    pub incarnation: [u8; 16],
}

/// The status of a peer that is connected or may reconnect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerStatus {
    pub member: Arc<Member>,
    /// True while connected.
    pub is_connected: bool,
    /// For a reader: number of written elements that the reader has not confirmed. For a writer:
    /// number of elements that have arrived from the writer and have not been read.
    pub waiting: u64,
    /// For a reader: number of elements that were dropped because the reader was too slow. For a
    /// writer: 0.
    pub lost: u64,
}

/// The elements that a reader had not received when its writer was closed, or when the reader left.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Undelivered {
    pub member: Arc<Member>,
    /// The elements that the reader has not confirmed.
    pub left: Left,
    /// Number of elements reported to the reader as lost, because the reader was too slow.
    pub lost: u64,
    /// The reason why the reader left: it was destroyed, was away for too long, or violated the
    /// protocol. `None` if the reader stayed until the end.
    pub fault: Option<StreamFault>,
}

/// Consecutive data from one of several writers.
#[derive(Clone, PartialEq, Debug)]
pub enum Run<T> {
    /// At least one element.
    Elements {
        writer: Arc<Member>,
        elements: Vec<T>,
    },
    /// This writer sends nothing more, and everything that arrived from it has been read. This is
    /// returned once per writer.
    Ended { writer: Arc<Member>, end: RunEnd },
}

/// A [`Run`] in place, without a copy: `R` is a [`Region`](crate::Region) or a
/// [`ByteRegion`](crate::ByteRegion).
#[derive(Debug)]
pub enum Acquired<R> {
    /// At least one element. The elements count as read when they are dropped.
    Elements { writer: Arc<Member>, elements: R },
    /// See [`Run::Ended`].
    Ended { writer: Arc<Member>, end: RunEnd },
}

impl<R> Acquired<R> {
    pub(crate) fn map<S>(self, f: impl FnOnce(R) -> S) -> Acquired<S> {
        match self {
            Self::Elements { writer, elements } => Acquired::Elements {
                writer,
                elements: f(elements),
            },
            Self::Ended { writer, end } => Acquired::Ended { writer, end },
        }
    }
}

/// The end of a writer's stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RunEnd {
    /// The writer was closed, and everything it wrote has been read.
    Closed,
    /// The writer was aborted before the end of its stream: the elements are incomplete.
    Aborted {
        /// Bytes that the writer had accepted but did not send.
        missing: u64,
        reason: String,
    },
    /// The writer was away for too long, was created again, or violated the protocol.
    Fault(StreamFault),
}

impl RunEnd {
    /// Converts the error of a read from a single writer.
    ///
    /// # Errors
    /// The error is not the end of a stream.
    pub(super) fn of(error: StreamError) -> Result<Self, StreamError> {
        match error {
            StreamError::Ended => Ok(Self::Closed),
            StreamError::Aborted { missing, reason } => Ok(Self::Aborted { missing, reason }),
            StreamError::Fault(fault) => Ok(Self::Fault(fault)),
            other => Err(other),
        }
    }
}
