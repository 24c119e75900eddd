//! Takes rows from a ring when they are due, for programs that forward the rows.

use std::time::Duration;

use trunkline_ring::{NoRegion, RegionDrain};

use super::error::PlaybackError;
use super::pace::Pacer;

/// Takes rows from a ring when they are due, and counts how often a due row was missing.
///
/// A device plays at its own rate and takes its rows directly from [`RegionDrain`]. This type is
/// for a program that takes the place of a device and plays into a stream or into variables.
#[derive(Debug)]
pub struct PacedDrain {
    drain: RegionDrain,
    pacer: Pacer,
    has_started: bool,
    is_late: bool,
    /// Time at which a due row did not fit in the caller's buffer; `None` if all due rows fit.
    blocked_since: Option<Duration>,
    underruns: u64,
}

impl PacedDrain {
    /// Creates a drain that takes the rows of `drain` when they are due according to `pacer`.
    pub fn new(drain: RegionDrain, pacer: Pacer) -> Self {
        Self {
            drain,
            pacer,
            has_started: false,
            is_late: false,
            blocked_since: None,
            underruns: 0,
        }
    }

    /// Copies the rows that are due at `now` into `bytes`, as many as are available and fit, and
    /// returns their number. Time starts with the first row.
    ///
    /// A due row that is not available is late and delays all later rows by the same time. A due
    /// row that does not fit delays all later rows by the time between this call and the next.
    /// While a caller has no buffer space, it must call this method with empty `bytes`.
    pub fn take(&mut self, now: Duration, bytes: &mut [u8]) -> Result<u64, PlaybackError> {
        let available = self.drain.available().map_err(NoRegion::from)?;
        if available == 0 && !self.has_started {
            return Ok(0);
        }
        self.has_started = true;
        let row_bytes = self.drain.element_bytes();
        let rows_max = (bytes.len() / row_bytes) as u64;
        if let Some(since) = self.blocked_since.take() {
            self.pacer.postpone_by(now.saturating_sub(since));
        }
        if self.is_late && available > 0 {
            self.pacer.postpone_to(now)?;
            self.is_late = false;
        }
        let rows = self.pacer.take(now, available.min(rows_max))?;
        // `rows` is at most the number of rows that fit in `bytes`, so it fits in a `usize`.
        let buffer = bytes
            .get_mut(..rows as usize * row_bytes)
            .unwrap_or_default();
        let taken = self.drain.take(buffer).map_err(NoRegion::from)?;
        if !self.is_late && self.is_due(now)? {
            if rows == rows_max {
                self.blocked_since = Some(now);
            } else if rows == available {
                self.is_late = true;
                self.underruns += 1;
            }
        }
        Ok(taken)
    }

    fn is_due(&mut self, now: Duration) -> Result<bool, PlaybackError> {
        let due = self.pacer.next_due()?;
        Ok(due.is_some_and(|due| due <= now))
    }

    /// Returns the time at which the next row is due; `None` if it is unknown or the row is due
    /// now.
    pub fn next_due(&mut self) -> Result<Option<Duration>, PlaybackError> {
        self.pacer.next_due()
    }

    /// Returns the number of rows taken.
    pub fn taken(&self) -> u64 {
        self.pacer.taken()
    }

    /// Returns true once all rows of the recording were taken.
    pub fn is_over(&self) -> bool {
        self.pacer.is_over()
    }

    /// Returns the number of times that a due row was missing.
    pub fn underruns(&self) -> u64 {
        self.underruns
    }

    /// Returns the delay of the rows relative to their original times.
    pub fn lateness(&self) -> Duration {
        self.pacer.lateness()
    }
}
