//! Samples, and readings: a sample as a reader gets it.

use std::time::Duration;

use crate::{Quality, Timestamp, Value};

/// One value with its timestamps and quality.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample {
    /// The value, in engineering units.
    pub value: Value,
    /// When it was measured, by the clock that `quality` names.
    pub source_timestamp: Timestamp,
    /// When the engine accepted it, by the engine's wall clock.
    pub engine_timestamp: Timestamp,
    /// How far it can be trusted.
    pub quality: Quality,
}

/// Where an update stands in the life of its variable: equal positions are the same update.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Position {
    /// The engine start; compared for equality only.
    pub epoch: u64,
    /// 1 for the first update within the epoch; 0 means nothing was written yet.
    pub sequence: u64,
}

/// Updates that a reader did not get between two of its readings, by where they went.
///
/// `coalesced` is not loss: it is what a `latest` or `sampled` contract asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lost {
    /// Merged into a newer value, as the contract says.
    pub coalesced: u64,
    /// Dropped by a full bounded buffer (`last:n` oldest, `first:n` newest).
    pub queue: u64,
    /// Dropped because an `all` subscription overran its bound.
    pub overrun: u64,
    /// Written while the connection was down.
    pub disconnect: u64,
    /// An unknown number was lost: the engine was restarted in between.
    pub unknown: bool,
}

impl Lost {
    /// Nothing lost, nothing coalesced.
    pub const NONE: Lost = Lost {
        coalesced: 0,
        queue: 0,
        overrun: 0,
        disconnect: 0,
        unknown: false,
    };

    /// Updates lost against the contract, `None` when their number cannot be known.
    pub fn count(&self) -> Option<u64> {
        let known = self
            .queue
            .saturating_add(self.overrun)
            .saturating_add(self.disconnect);
        (!self.unknown).then_some(known)
    }

    /// Whether the contract was kept: nothing was lost (coalescing aside).
    pub fn is_none(&self) -> bool {
        self.count() == Some(0)
    }

    /// The sum of two, cause by cause.
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
    /// Value, timestamps, quality.
    pub sample: Sample,
    /// The update's number within its engine's life.
    pub position: Position,
    /// What this reader missed between its previous reading and this one.
    pub lost: Lost,
    /// Set when the value may no longer be the current one: the connection is down or the value is
    /// older than the variable's `max_age`. How old it is.
    pub stale: Option<Duration>,
    /// The reader wrote this update itself.
    pub own: bool,
}

impl Reading {
    /// Whether the variable has a value. Where it has none yet, `sample.value` is the default of
    /// its
    /// type, which nobody wrote and no device delivered; the quality says why.
    pub fn has_value(&self) -> bool {
        self.position.sequence > 0 && self.sample.quality.has_value()
    }
}
