//! Short forms of subscription and variable properties.

use std::time::Duration;

use trunkline_types::{Contract, DataType, Position, Properties};

use super::EPOCH;

/// Time for which writes wait for full `all` subscriptions.
pub const STALL: Duration = Duration::from_millis(500);

/// `all`, bounded by elements alone.
pub fn all(elements: u32) -> Contract {
    Contract::All {
        elements,
        bytes: u32::MAX,
    }
}

/// A number whose writes wait for [`STALL`].
pub fn stalling() -> Properties {
    let mut properties = Properties::new(DataType::F64);
    properties.stall = STALL;
    properties
}

/// The position of this update.
pub fn at(sequence: u64) -> Position {
    Position {
        epoch: EPOCH,
        sequence,
    }
}
