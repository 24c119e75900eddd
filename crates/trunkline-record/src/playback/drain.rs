//! Rows out of a ring when they are due, for programs that play them somewhere.

use std::time::Duration;

use trunkline_ring::{NoRegion, RegionDrain};

use super::error::PlaybackError;
use super::pace::Pacer;

/// Takes rows out of a ring when they are due, and counts how often one was not there.
///
/// A device plays at its own rate and takes its rows from [`RegionDrain`] itself; this is for a
/// program in its place: one that plays into a stream, or into variables.
#[derive(Debug)]
pub struct PacedDrain {
    drain: RegionDrain,
    pacer: Pacer,
    has_begun: bool,
    is_late: bool,
    /// Since when a row that is due has no room.
    held_since: Option<Duration>,
    underruns: u64,
}

impl PacedDrain {
    /// Takes the rows of `drain` as `pacer` says.
    #[must_use]
    pub fn new(drain: RegionDrain, pacer: Pacer) -> Self {
        Self {
            drain,
            pacer,
            has_begun: false,
            is_late: false,
            held_since: None,
            underruns: 0,
        }
    }

    /// Copies rows that are due at `now` into `bytes`, as many as there are and as fit; how many.
    /// Time begins with the first row. One that is due and not there is late, and all behind it are
    /// later by as much. So is one that has no room, from this call to the next: whoever waits for
    /// room says so by calls with no `bytes`.
    ///
    /// # Errors
    /// [`PlaybackError`].
    pub fn take(&mut self, now: Duration, bytes: &mut [u8]) -> Result<u64, PlaybackError> {
        let there = self.drain.available().map_err(NoRegion::from)?;
        if there == 0 && !self.has_begun {
            return Ok(0);
        }
        self.has_begun = true;
        let row_bytes = self.drain.element_bytes();
        let room = (bytes.len() / row_bytes) as u64;
        if let Some(since) = self.held_since.take() {
            self.pacer.hold(now.saturating_sub(since));
        }
        if self.is_late && there > 0 {
            self.pacer.late(now)?;
            self.is_late = false;
        }
        let rows = self.pacer.take(now, there.min(room))?;
        // Within `bytes`.
        let part = bytes
            .get_mut(..rows as usize * row_bytes)
            .unwrap_or_default();
        let taken = self.drain.take(part).map_err(NoRegion::from)?;
        if !self.is_late && self.is_due(now)? {
            if rows == room {
                self.held_since = Some(now);
            } else if rows == there {
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

    /// When the next row is due; none where that is not known, or now.
    ///
    /// # Errors
    /// [`PlaybackError`].
    pub fn next_due(&mut self) -> Result<Option<Duration>, PlaybackError> {
        self.pacer.next_due()
    }

    /// Rows that were taken.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.pacer.taken()
    }

    /// Whether all rows of the recording were.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.pacer.is_over()
    }

    /// How often a row was due and not there.
    #[must_use]
    pub fn underruns(&self) -> u64 {
        self.underruns
    }

    /// By how much the rows are later than they should be.
    #[must_use]
    pub fn lateness(&self) -> Duration {
        self.pacer.lateness()
    }
}
