//! The peers of an endpoint, and the data that arrives from them.

use std::sync::Arc;

use trunkline_proto::stream::{Left, StreamFault};

use crate::error::StreamError;

/// One of several peers of an endpoint.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Member {
    /// Number at this endpoint, starting at 1; never reused.
    pub number: u64,
    /// URL, as reported by the peer.
    pub url: String,
    /// Program and release, as reported by the peer.
    pub program: String,
    /// 128 random bits that change each time the peer is created. With a journal the last 8 bytes
    /// stay the same.
    pub incarnation: [u8; 16],
}

/// A peer that is connected or expected back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerStatus {
    pub member: Arc<Member>,
    /// True while connected.
    pub is_connected: bool,
    /// For a reader: elements written that are not known to have reached it. For a writer: elements
    /// that have arrived from it and have not been read.
    pub waiting: u64,
    /// For a reader: elements that it will never get, because it was too slow. 0 for a writer.
    pub lost: u64,
}

/// The elements that a reader had not received when its writer was closed, or when the reader left.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Undelivered {
    pub member: Arc<Member>,
    /// Elements not known to have reached it.
    pub left: Left,
    /// Elements reported to it as lost, because it was too slow.
    pub lost: u64,
    /// Why it left: it was destroyed, away for too long, or violated the protocol. `None` if it
    /// stayed to the end.
    pub fault: Option<StreamFault>,
}

/// Consecutive data from one of several writers.
#[derive(Clone, PartialEq, Debug)]
pub enum Run<T> {
    /// Elements, at least one.
    Elements {
        writer: Arc<Member>,
        elements: Vec<T>,
    },
    /// This writer sends nothing more, and everything that arrived has been read. Returned once per
    /// writer.
    Ended { writer: Arc<Member>, end: RunEnd },
}

/// A [`Run`] in place, without a copy: `R` is a [`Region`](crate::Region) or a
/// [`ByteRegion`](crate::ByteRegion).
#[derive(Debug)]
pub enum Acquired<R> {
    /// Elements, at least one. They count as read when they are dropped.
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
    /// The writer was lost: away for too long, created again, or in violation of the protocol.
    Fault(StreamFault),
}

impl RunEnd {
    /// Converts the error of reading from that writer alone.
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
