//! Helpers for properties of subscriptions and variables.

use std::time::Duration;

use trunkline_types::{Contract, DataType, Position, Properties};

use super::EPOCH;

/// Time for which writes wait for full `all` subscriptions.
pub const STALL: Duration = Duration::from_millis(500);

/// Returns the contract `all` with a bound on elements only.
pub fn all(elements: u32) -> Contract {
    Contract::All {
        elements,
        bytes: u32::MAX,
    }
}

/// Returns the properties of a number whose writers wait for [`STALL`].
pub fn stalling() -> Properties {
    let mut properties = Properties::new(DataType::F64);
    properties.stall = STALL;
    properties
}

/// Returns the position of the update with this sequence.
pub fn at(sequence: u64) -> Position {
    Position {
        epoch: EPOCH,
        sequence,
    }
}
