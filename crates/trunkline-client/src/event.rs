//! Events of a subscription.

use std::sync::Arc;

use trunkline_proto::message::ended::EndReason;
use trunkline_proto::{Disconnect, Fault};
use trunkline_types::{Position, Reading};

/// An event of a subscription. Events arrive in the order in which they occurred.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// The connection is up. Later readings are from this session. If the connection is up already
    /// when a subscription is created, this is its first event.
    Connected {
        /// The session number that the engine has assigned.
        session: u64,
        /// The engine's epoch.
        epoch: u64,
        /// Identifies the engine's store, as `Session::engine_id` does.
        engine_id: [u8; 16],
    },
    /// The connection is down. Values that the program has may become stale from now on.
    Disconnected {
        /// The reason for the disconnection.
        cause: Arc<Disconnect>,
        /// True if the client reconnects automatically.
        reconnecting: bool,
    },
    /// A reading of an item has arrived.
    Reading {
        /// Index of the item, in the order in which the names were given.
        item: u32,
        /// The reading with its sample, position and losses.
        reading: Reading,
    },
    /// The item could not be subscribed. The client retries if a retry may succeed.
    ItemError {
        /// Index of the item.
        item: u32,
        /// The reason why the item is not subscribed.
        fault: Fault,
    },
    /// The engine has ended the item.
    Ended {
        /// Index of the item.
        item: u32,
        /// The reason why the item has ended.
        reason: EndReason,
        /// Position of the last update that arrived; `None` if none arrived.
        last: Option<Position>,
        /// Number of later updates that were not delivered; `None` if only the next reading will
        /// report it. `lost` of the next reading includes these updates, so a program must not add
        /// the two numbers.
        lost: Option<u64>,
        /// The reason as a sentence for the user.
        sentence: Arc<str>,
    },
}
