//! A device that is played to.

use std::time::Duration;

use trunkline_ring::{NoRegion, RegionDrain};

use super::content::{SAMPLE_BYTES, WrongSample, check_samples};
use super::device::rows_in;

/// Rows that it takes at a time.
const TAKEN_MAX: u64 = 4096;

/// A device that plays a ring at its own rate and looks at every sample. It has no clock and no
/// thread: it plays what is due when it is [run](Self::run_until).
///
/// It never waits: a row that is not there when its time comes is counted as missed, and the one
/// that should have been played is played in the time of a later one.
#[derive(Debug)]
pub struct SimOutput {
    drain: RegionDrain,
    device: u16,
    rate: u64,
    began: Option<Duration>,
    /// Rows whose time has come.
    due: u64,
    played: u64,
    rows: Vec<u8>,
}

/// Why a device plays no further.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// What it has got is not what was acquired.
    #[error(transparent)]
    Wrong(#[from] WrongSample),
    /// The ring cannot be believed.
    #[error(transparent)]
    Ring(#[from] NoRegion),
}

impl SimOutput {
    /// Plays what device `device` has acquired, from its first sample on, `rate` rows per second;
    /// with 0 whatever is there, so that nothing is ever missed.
    #[must_use]
    pub fn new(drain: RegionDrain, device: u16, rate: u64) -> Self {
        // Within memory that is there.
        let rows = vec![0; drain.element_bytes() * TAKEN_MAX as usize];
        Self {
            drain,
            device,
            rate,
            began: None,
            due: 0,
            played: 0,
            rows,
        }
    }

    /// Plays what is due by `now`, counted from any moment; the first call starts the device.
    /// Returns how many rows it has played.
    ///
    /// # Errors
    /// [`OutputError`].
    pub fn run_until(&mut self, now: Duration) -> Result<u64, OutputError> {
        let before = self.played;
        let elapsed = now.saturating_sub(*self.began.get_or_insert(now));
        let row_bytes = self.drain.element_bytes();
        let due = match self.rate {
            0 => u64::MAX,
            rate => rows_in(elapsed, rate),
        };
        while self.due < due {
            let there = self.drain.available().map_err(NoRegion::from)?;
            let wanted = match self.rate {
                0 => there.min(TAKEN_MAX),
                _ => (due - self.due).min(TAKEN_MAX),
            };
            // At most as many rows as there is memory for.
            let room = self.rows.get_mut(..wanted as usize * row_bytes);
            let room = room.unwrap_or_default();
            let taken = self.drain.take(room).map_err(NoRegion::from)?;
            let number = self.played * (row_bytes / SAMPLE_BYTES) as u64;
            let samples = room.get(..taken as usize * row_bytes).unwrap_or_default();
            check_samples(self.device, number, samples)?;
            self.played += taken;
            self.due += wanted;
            if wanted == 0 {
                break;
            }
        }
        Ok(self.played - before)
    }

    /// Rows that were played.
    #[must_use]
    pub fn played(&self) -> u64 {
        self.played
    }

    /// Rows that were not there when their time came.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.drain.missed()
    }

    /// How often rows began to be missing.
    #[must_use]
    pub fn underruns(&self) -> u64 {
        self.drain.underruns()
    }
}
