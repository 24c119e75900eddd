//! The state of the connection, and its counters.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use trunkline_proto::{Disconnect, Features};
use trunkline_types::Tick;

/// The state of the connection, with the cause if it is down.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ConnectionState {
    /// There is no connection. An attempt is in progress or will follow.
    Connecting {
        /// Number of failed attempts since the client started or since the last connection broke.
        attempt: u32,
        /// The time of the next attempt. If it has passed, the attempt is in progress.
        dial_at: Tick,
        /// The reason why the last attempt or connection failed; `None` before the first failure.
        last_failure: Option<Arc<Disconnect>>,
    },
    /// The connection is up.
    Connected(Arc<Session>),
    /// There is no connection, and there will be no attempt until the program requests one.
    Closed {
        /// The reason why the client makes no attempt.
        cause: Arc<Disconnect>,
    },
}

/// The session with the engine, with the terms of the engine's WELCOME.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Session {
    /// The session number that the engine has assigned.
    pub session: u64,
    /// The engine's epoch, which is a part of every position.
    pub epoch: u64,
    /// Identifies the engine's store. It is the same at each start with this store, and in copies
    /// of the store. Without a store, it is different at each start.
    pub engine_id: [u8; 16],
    /// The engine's name.
    pub engine_name: String,
    /// The engine's release.
    pub engine_version: String,
    /// The account under which the session runs; empty if the engine knows the client by its user id
    /// only.
    pub account: String,
    /// The role of the account; empty without one.
    pub role: String,
    /// The negotiated version of the protocol.
    pub version: u8,
    /// The features that both ends support.
    pub features: Features,
    /// Maximum number of items that the engine allows per session.
    pub items_max: u32,
    /// Initial write credit: the maximum number of writes in flight.
    pub writes_max: u32,
    /// Initial write credit in bytes: the maximum size of the values in flight.
    pub write_bytes_max: u32,
    /// Interval between keep-alive frames.
    pub keepalive: Duration,
    /// Time without any data after which the connection is considered dead.
    pub deadline: Duration,
    /// The time at which the session began.
    pub since: Tick,
    /// True if other machines can read and change what the connection transfers, or take the place of the
    /// engine, because it leads to another machine without encryption. Tell the user, or connect with
    /// encryption: join the engine with `trunkline join`, and connect to the URL of the context.
    pub is_exposed: bool,
}

/// Counts over all connections of a client so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ConnectionCounters {
    /// Connections on which the engine sent WELCOME.
    pub connections: u64,
    /// Update records received.
    pub records: u64,
    /// Records received for subscriptions or items that the client had already ended.
    pub skipped: u64,
    /// Records received with updates that the item already had.
    pub repeated: u64,
    /// Keep-alive frames whose running digest differed from that of the received records (B-10).
    pub diverged: u64,
    /// Items that differed from what the engine had sent, and were repaired (B-10).
    pub repaired: u64,
    /// Frames of kinds that this version does not know.
    pub unknown_frames: u64,
}

impl ConnectionState {
    /// Returns true if the connection is up.
    pub fn is_connected(&self) -> bool {
        matches!(self, ConnectionState::Connected(_))
    }

    /// Returns the reason why the connection is down; `None` while it is up, and before the first
    /// failure.
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
