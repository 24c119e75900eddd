//! What happens under a subscription.

use std::sync::Arc;

use trunkline_proto::message::ended::EndReason;
use trunkline_proto::{Disconnect, Fault};
use trunkline_types::{Position, Reading};

/// What a subscription delivers, in the order in which it happened.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Event {
    /// The connection is up: readings after this are of this session. The first event of a
    /// subscription that is made while it is.
    Connected {
        /// The session's number at the engine.
        session: u64,
        /// The engine's epoch.
        epoch: u64,
        /// Identifies the engine's store.
        engine_id: [u8; 16],
    },
    /// The connection is down: what is known may be old from here on.
    Disconnected {
        /// Why.
        cause: Arc<Disconnect>,
        /// Whether a new one is made by itself.
        reconnecting: bool,
    },
    /// A reading.
    Reading {
        /// Which item, counted as the names were given.
        item: u32,
        /// The reading.
        reading: Reading,
    },
    /// The item could not be subscribed. It is tried again, where that can help.
    ItemError {
        /// Which item.
        item: u32,
        /// Why.
        fault: Fault,
    },
    /// The engine has ended the item.
    Ended {
        /// Which item.
        item: u32,
        /// Why.
        reason: EndReason,
        /// The last update that arrived; `None` when none did.
        last: Option<Position>,
        /// Updates after it that were not delivered; `None` when that shows only with the next
        /// reading. They are part of that reading's `lost` as well: do not add the two.
        lost: Option<u64>,
        /// Why, for people.
        sentence: Arc<str>,
    },
}
