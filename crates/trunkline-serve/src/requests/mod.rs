//! Handles the requests of a session, each in the file that it is named after.
//!
//! The `handle` function of a file decodes a frame. Unless it can answer immediately, it queues a
//! [`Request`](crate::context::Request).

pub(crate) mod alarm;
pub(crate) mod control;
pub(crate) mod convergence;
pub(crate) mod deploy;
pub(crate) mod engine;
pub(crate) mod find;
pub(crate) mod flush;
pub(crate) mod forcing;
pub(crate) mod group;
pub(crate) mod history;
mod info;
pub(crate) mod lease;
pub(crate) mod open;
pub(crate) mod orders;
pub(crate) mod pair;
pub(crate) mod provider;
pub(crate) mod read;
pub(crate) mod snapshot;
pub(crate) mod subscribe;
pub(crate) mod watch;
pub(crate) mod why;
pub(crate) mod write;

use trunkline_proto::{DecodeError, Disconnect, Fault};

/// The reason why a frame is not accepted as a request.
#[derive(Debug)]
pub(crate) enum Rejection {
    /// The request is answered with a fault.
    Fault(Fault),
    /// The connection ends.
    Disconnect(Disconnect),
}

impl From<Fault> for Rejection {
    fn from(fault: Fault) -> Self {
        Rejection::Fault(fault)
    }
}

impl From<Disconnect> for Rejection {
    fn from(cause: Disconnect) -> Self {
        Rejection::Disconnect(cause)
    }
}

impl From<DecodeError> for Rejection {
    fn from(error: DecodeError) -> Self {
        Rejection::Disconnect(error.into())
    }
}
