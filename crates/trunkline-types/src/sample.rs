//! Defines samples, and readings, which are samples as a reader receives them.

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
    /// 1 for the first update within the epoch; 0 if the variable has not been written yet.
    pub sequence: u64,
}

/// Numbers of updates that a reader missed between two of its readings, by cause.
///
/// `coalesced` is not a loss, because a `latest` or `sampled` contract requests it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lost {
    /// Number of updates replaced by a newer value, as the contract allows.
    pub coalesced: u64,
    /// Number of updates dropped because a bounded buffer was full (`last:n` drops the oldest,
    /// `first:n` the newest).
    pub queue: u64,
    /// Number of updates dropped because an `all` subscription exceeded its bound.
    pub overrun: u64,
    /// Number of updates lost because they were written while the connection was down.
    pub disconnect: u64,
    /// True if an unknown number of updates was lost, because the engine was restarted in the meantime.
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

    /// Returns the number of updates lost in violation of the contract; `None` if it is unknown.
    pub fn count(&self) -> Option<u64> {
        let known = self
            .queue
            .saturating_add(self.overrun)
            .saturating_add(self.disconnect);
        (!self.unknown).then_some(known)
    }

    /// Returns true if the contract was met: nothing was lost, apart from coalescing.
    pub fn nothing_lost(&self) -> bool {
        self.count() == Some(0)
    }

    /// Returns the sum of both counts for each cause.
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

/// A sample as a reader receives it.
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
    /// Returns true if the variable has a value. Without a value, `sample.value` is the default
    /// value of its type, which was neither written nor delivered by a device; the quality explains
    /// why.
    pub fn has_value(&self) -> bool {
        self.position.sequence > 0 && self.sample.quality.has_value()
    }
}
