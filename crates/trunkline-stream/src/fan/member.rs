//! Who is at the other ends, and what comes from them.

use std::sync::Arc;

use trunkline_proto::stream::{Left, StreamFault};

use crate::error::StreamError;

/// One of several peers of an endpoint.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Member {
    /// Its number at this endpoint, from 1 on; never another one's.
    pub number: u64,
    /// Its URL, as it calls itself.
    pub url: String,
    /// Its program and release, as it says.
    pub program: String,
    /// Its life: other 128 random bits each time it is created. With a journal the last 8 bytes
    /// stay.
    pub incarnation: [u8; 16],
}

/// A peer that is there, or is waited for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Present {
    /// Who.
    pub member: Arc<Member>,
    /// It is connected now.
    pub is_connected: bool,
    /// Of a reader: elements that were written and are not known to have reached it. Of a writer:
    /// elements that have arrived from it and were not read.
    pub waiting: u64,
    /// Of a reader: elements that it will never have, because it was too slow.
    pub lost: u64,
}

/// What a reader lacked when its writer was closed, or when it left.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lacking {
    /// Who.
    pub member: Arc<Member>,
    /// What was not known to have reached it.
    pub left: Left,
    /// What it was told is lost, because it was too slow.
    pub lost: u64,
    /// Why it has left: it was destroyed, or away for too long, or does not keep to the protocol.
    /// `None`: it was there to the end.
    pub fault: Option<StreamFault>,
}

/// What one of several writers has written, in order.
#[derive(Clone, PartialEq, Debug)]
pub enum Run<T> {
    /// Elements, at least one.
    Elements {
        /// Who has written them.
        writer: Arc<Member>,
        /// They, in its order.
        elements: Vec<T>,
    },
    /// Nothing more comes of this writer, and everything that came was read. Told once for each.
    Ended {
        /// Whose.
        writer: Arc<Member>,
        /// How.
        end: RunEnd,
    },
}

/// A [`Run`] where it has arrived, without a copy: `R` is a [`Region`](crate::Region) or a
/// [`ByteRegion`](crate::ByteRegion).
#[derive(Debug)]
pub enum Acquired<R> {
    /// Elements, at least one. They have been read when they are dropped.
    Elements {
        /// Who has written them.
        writer: Arc<Member>,
        /// They, in its order.
        elements: R,
    },
    /// As [`Run::Ended`].
    Ended {
        /// Whose.
        writer: Arc<Member>,
        /// How.
        end: RunEnd,
    },
}

impl<R> Acquired<R> {
    /// The same with what `f` makes of the elements.
    pub(super) fn map<S>(self, f: impl FnOnce(R) -> S) -> Acquired<S> {
        match self {
            Self::Elements { writer, elements } => Acquired::Elements {
                writer,
                elements: f(elements),
            },
            Self::Ended { writer, end } => Acquired::Ended { writer, end },
        }
    }
}

/// How a writer has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RunEnd {
    /// It was closed, and everything it wrote has been read.
    Closed,
    /// It was aborted before the end of its stream: what came is not the whole.
    Aborted {
        /// Bytes that it had accepted and did not send.
        missing: u64,
        /// Why, in the words of the writing program.
        reason: String,
    },
    /// It was lost: for too long away, created anew, or it does not keep to the protocol.
    Fault(StreamFault),
}

impl RunEnd {
    /// From what a read of that writer alone would be told.
    ///
    /// # Errors
    /// It is no end.
    pub(super) fn of(error: StreamError) -> Result<Self, StreamError> {
        match error {
            StreamError::Ended => Ok(Self::Closed),
            StreamError::Aborted { missing, reason } => Ok(Self::Aborted { missing, reason }),
            StreamError::Fault(fault) => Ok(Self::Fault(fault)),
            other => Err(other),
        }
    }
}
