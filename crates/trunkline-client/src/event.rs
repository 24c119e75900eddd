//! Events of a subscription.

use std::sync::Arc;

use trunkline_proto::message::ended::EndReason;
use trunkline_proto::{Disconnect, Fault};
use trunkline_types::{Position, Reading};

/// An event of a subscription. Events are delivered in the order in which they occurred.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// The connection is up. Later readings belong to this session. If the connection is already up
    /// when a subscription is made, this is its first event.
    Connected {
        /// The session's number, assigned by the engine.
        session: u64,
        /// The engine's epoch.
        epoch: u64,
        /// Identifies the engine's store; same as `Session::engine_id`.
        engine_id: [u8; 16],
    },
    /// The connection is down. Known values may be stale from now on.
    Disconnected {
        /// The reason.
        cause: Arc<Disconnect>,
        /// True if the client reconnects automatically.
        reconnecting: bool,
    },
    /// A reading of an item.
    Reading {
        /// Index of the item, in the order in which the names were given.
        item: u32,
        /// The reading of the item.
        reading: Reading,
    },
    /// The item could not be subscribed. The client retries if that can help.
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
        /// Position of the last update that arrived; `None` if none arrived.
        last: Option<Position>,
        /// Number of later updates that were not delivered; `None` if that is known only with the
        /// next reading. `lost` of the next reading includes these updates, so do not add the two
        /// numbers.
        lost: Option<u64>,
        /// The reason as a sentence for people.
        sentence: Arc<str>,
    },
}
