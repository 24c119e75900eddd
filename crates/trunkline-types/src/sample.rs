//! Samples, and readings: samples as a reader gets them.

use std::time::Duration;

use crate::{Quality, Timestamp, Value};

/// One value with its timestamps and quality.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample {
    /// The value, in engineering units.
    pub value: Value,
    /// Time of the measurement, by the clock that `quality` names.
    pub source_timestamp: Timestamp,
    /// Time at which the engine accepted the value, by the engine's wall clock.
    pub engine_timestamp: Timestamp,
    /// The quality of the value: level, reason and clock.
    pub quality: Quality,
}

/// The place of an update in the history of its variable; equal positions are the same update.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Position {
    /// The engine start to which the sequence belongs; compared for equality only.
    pub epoch: u64,
    /// 1 for the first update within the epoch; 0 if nothing was written yet.
    pub sequence: u64,
}

/// Updates that a reader did not get between two of its readings, by cause.
///
/// `coalesced` is not a loss: a `latest` or `sampled` contract asks for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lost {
    /// Replaced by a newer value, as the contract allows.
    pub coalesced: u64,
    /// Dropped because a bounded buffer was full (`last:n` oldest, `first:n` newest).
    pub queue: u64,
    /// Dropped because an `all` subscription overran its bound.
    pub overrun: u64,
    /// Written while the connection was down.
    pub disconnect: u64,
    /// True if an unknown number was lost because the engine was restarted in between.
    pub unknown: bool,
}

impl Lost {
    /// No losses and nothing coalesced.
    pub const NONE: Lost = Lost {
        coalesced: 0,
        queue: 0,
        overrun: 0,
        disconnect: 0,
        unknown: false,
    };

    /// Updates lost against the contract; `None` if their number cannot be known.
    pub fn count(&self) -> Option<u64> {
        let known = self
            .queue
            .saturating_add(self.overrun)
            .saturating_add(self.disconnect);
        (!self.unknown).then_some(known)
    }

    /// Returns true if the contract was kept: nothing was lost, apart from coalescing.
    pub fn is_none(&self) -> bool {
        self.count() == Some(0)
    }

    /// Adds the counts of both, cause by cause.
    #[must_use]
    pub fn plus(self, other: Lost) -> Lost {
        Lost {
            coalesced: self.coalesced.saturating_add(other.coalesced),
            queue: self.queue.saturating_add(other.queue),
            overrun: self.overrun.saturating_add(other.overrun),
            disconnect: self.disconnect.saturating_add(other.disconnect),
            unknown: self.unknown || other.unknown,
        }
    }
}

/// A sample as a reader gets it.
#[derive(Clone, PartialEq, Debug)]
pub struct Reading {
    pub sample: Sample,
    /// The epoch and sequence of the update.
    pub position: Position,
    /// The updates that this reader missed between its previous reading and this one.
    pub lost: Lost,
    /// Age of the value, if it may no longer be the current one because the connection is down or
    /// the value is older than the variable's `max_age`; otherwise `None`.
    pub stale: Option<Duration>,
    /// True if the reader wrote this update itself.
    pub own: bool,
}

impl Reading {
    /// Returns true if the variable has a value. Without one, `sample.value` is the default of its
    /// type, which was neither written nor delivered by a device; the quality tells why.
    pub fn has_value(&self) -> bool {
        self.position.sequence > 0 && self.sample.quality.has_value()
    }
}
