//! Events of a subscription.

use std::sync::Arc;

use trunkline_proto::message::ended::EndReason;
use trunkline_proto::{Disconnect, Fault};
use trunkline_types::{Position, Reading};

/// An event of a subscription. Events are delivered in the order in which they occurred.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// The connection is up; readings after this event belong to this session. It is the first
    /// event of a subscription made while the connection is up.
    Connected {
        /// The session's number at the engine.
        session: u64,
        /// The engine's epoch.
        epoch: u64,
        /// Identifies the engine's store, like `Session::engine_id`.
        engine_id: [u8; 16],
    },
    /// The connection is down; known values may be stale from here on.
    Disconnected {
        /// The reason.
        cause: Arc<Disconnect>,
        /// True if the client reconnects on its own.
        reconnecting: bool,
    },
    /// A reading of an item.
    Reading {
        /// Index of the item, in the order in which the names were given.
        item: u32,
        /// The reading of the item.
        reading: Reading,
    },
    /// The item could not be subscribed. The client tries again where that can help.
    ItemError {
        /// Index of the item.
        item: u32,
        /// The reason.
        fault: Fault,
    },
    /// The engine has ended the item.
    Ended {
        /// Index of the item.
        item: u32,
        /// The reason.
        reason: EndReason,
        /// The last update that arrived; `None` if none did.
        last: Option<Position>,
        /// Number of later updates that were not delivered; `None` if only the next reading can
        /// tell. That reading's `lost` includes them as well: do not add the two.
        lost: Option<u64>,
        /// The reason as a sentence for people.
        sentence: Arc<str>,
    },
}
