//! How the connection is, and what has come over it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use trunkline_proto::{Disconnect, Features};
use trunkline_types::Tick;

/// How the connection is, with its cause.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ConnectionState {
    /// There is none; one is being made, or will be.
    Connecting {
        /// Attempts that have failed since the client started or the last connection broke.
        attempt: u32,
        /// When the next attempt begins; one that has passed: it is going on.
        dial_at: Tick,
        /// Why the last attempt or connection failed; `None` before the first one did.
        last_failure: Option<Arc<Disconnect>>,
    },
    /// It is up.
    Connected(Arc<Session>),
    /// There is none and none will be made, until the program asks for it.
    Closed {
        /// Why.
        cause: Arc<Disconnect>,
    },
}

/// The engine at the other end, as it introduced itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Session {
    /// The session's number at the engine.
    pub session: u64,
    /// The engine's epoch: the first half of every position.
    pub epoch: u64,
    /// Identifies the engine's store: the same at every start with it, and in copies of it. Without
    /// a store, another one at each start.
    pub engine_id: [u8; 16],
    /// What it calls itself.
    pub engine_name: String,
    /// Its release.
    pub engine_version: String,
    /// The version of the protocol that is spoken.
    pub version: u8,
    /// The features both ends have.
    pub features: Features,
    /// Items the engine allows.
    pub items_max: u32,
    /// Writes that may be on their way at the same time, as the engine began with.
    pub writes_max: u32,
    /// Bytes of them.
    pub write_bytes_max: u32,
    /// Interval of keep-alives.
    pub keepalive: Duration,
    /// Silence after which the engine counts as dead.
    pub deadline: Duration,
    /// Since when.
    pub since: Tick,
}

/// What came over all connections of a client so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ConnectionCounters {
    /// Connections that got as far as the engine's welcome.
    pub connections: u64,
    /// Update records received.
    pub records: u64,
    /// Records among them that belong to nothing: their subscription or item was just ended here.
    pub skipped: u64,
    /// Records among them that an item had already.
    pub repeated: u64,
    /// Keep-alives whose running digest was not that of the records received (B-10).
    pub diverged: u64,
    /// Items that were not what the engine had sent, and were put right (B-10).
    pub repaired: u64,
    /// Frames of kinds that this version does not know.
    pub unknown_frames: u64,
}

impl ConnectionState {
    /// Whether the connection is up.
    pub fn is_connected(&self) -> bool {
        matches!(self, ConnectionState::Connected(_))
    }

    /// Why the connection is not up; `None` while it is, and before the first attempt has failed.
    pub fn cause(&self) -> Option<&Arc<Disconnect>> {
        match self {
            ConnectionState::Connecting { last_failure, .. } => last_failure.as_ref(),
            ConnectionState::Connected(_) => None,
            ConnectionState::Closed { cause } => Some(cause),
        }
    }
}

impl fmt::Display for ConnectionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectionState::Connecting {
                last_failure: None, ..
            } => f.write_str("connecting"),
            ConnectionState::Connecting {
                last_failure: Some(cause),
                ..
            } => {
                write!(f, "connecting again: {cause}")
            }
            ConnectionState::Connected(session) => {
                write!(f, "connected to {}", session.engine_name)
            }
            ConnectionState::Closed { cause } => write!(f, "not connected: {cause}"),
        }
    }
}
