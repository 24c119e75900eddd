//! Takes rows from a ring when they are due, for programs that forward them.

use std::time::Duration;

use trunkline_ring::{NoRegion, RegionDrain};

use super::error::PlaybackError;
use super::pace::Pacer;

/// Takes rows from a ring when they are due, and counts how often a due row was missing.
///
/// A device plays at its own rate and takes its rows from [`RegionDrain`] itself. This type is for
/// a program that plays in place of a device, into a stream or into variables.
#[derive(Debug)]
pub struct PacedDrain {
    drain: RegionDrain,
    pacer: Pacer,
    has_started: bool,
    is_late: bool,
    /// When the caller first had no room for the row that is due.
    held_since: Option<Duration>,
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
            held_since: None,
            underruns: 0,
        }
    }

    /// Copies the rows that are due at `now` into `bytes`, as many as are available and fit, and
    /// returns their number. Time starts with the first row. A due row that is not available is
    /// late, and delays all later rows by the same time. A due row that does not fit delays them by
    /// the time between this call and the next. A caller that waits for room must report this by
    /// calling the method with empty `bytes`.
    pub fn take(&mut self, now: Duration, bytes: &mut [u8]) -> Result<u64, PlaybackError> {
        let available = self.drain.available().map_err(NoRegion::from)?;
        if available == 0 && !self.has_started {
            return Ok(0);
        }
        self.has_started = true;
        let row_bytes = self.drain.element_bytes();
        let rows_max = (bytes.len() / row_bytes) as u64;
        if let Some(since) = self.held_since.take() {
            self.pacer.postpone_by(now.saturating_sub(since));
        }
        if self.is_late && available > 0 {
            self.pacer.postpone_to(now)?;
            self.is_late = false;
        }
        let rows = self.pacer.take(now, available.min(rows_max))?;
        // At most the number of rows that fit in `bytes`.
        let buffer = bytes
            .get_mut(..rows as usize * row_bytes)
            .unwrap_or_default();
        let taken = self.drain.take(buffer).map_err(NoRegion::from)?;
        if !self.is_late && self.is_due(now)? {
            if rows == rows_max {
                self.held_since = Some(now);
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

    /// Returns when the next row is due; `None` if this is unknown or the row is due now.
    pub fn next_due(&mut self) -> Result<Option<Duration>, PlaybackError> {
        self.pacer.next_due()
    }

    pub fn taken(&self) -> u64 {
        self.pacer.taken()
    }

    /// Returns true once all rows of the recording were taken.
    pub fn is_over(&self) -> bool {
        self.pacer.is_over()
    }

    /// Returns how many times a due row was missing.
    pub fn underruns(&self) -> u64 {
        self.underruns
    }

    /// Returns the delay of the rows relative to their original times.
    pub fn lateness(&self) -> Duration {
        self.pacer.lateness()
    }
}
