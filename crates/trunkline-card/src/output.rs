//! Simulates an output device that plays the rows of a ring.

use std::time::Duration;

use trunkline_ring::{NoRegion, RegionDrain};

use crate::content::{SAMPLE_BYTES, WrongSample, check_samples};
use crate::device::rows_in;

/// Maximum number of rows read from the ring at a time.
const ROWS_READ_MAX: u64 = 4096;

/// A device that plays a ring at its own rate and checks every sample. It has no clock and no
/// thread: [`run_until`](Self::run_until) plays the rows that are due.
///
/// The device never waits. A row that is not available when it is due counts as missed, and is played
/// at the time of a later row.
#[derive(Debug)]
pub struct SimOutput {
    drain: RegionDrain,
    device: u16,
    rate: u64,
    started_at: Option<Duration>,
    /// Number of rows that have become due.
    due: u64,
    played: u64,
    rows: Vec<u8>,
}

/// The error after which a device stops playing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OutputError {
    /// A sample differs from the sample that the device acquired.
    #[error(transparent)]
    Wrong(#[from] WrongSample),
    /// The positions in the ring are invalid.
    #[error(transparent)]
    Ring(#[from] NoRegion),
}

impl SimOutput {
    /// Creates a device that plays the samples of device `device`, starting with the first sample, at
    /// `rate` rows per second. With rate 0, it plays rows as soon as they are available and never
    /// misses a row.
    #[must_use]
    pub fn new(drain: RegionDrain, device: u16, rate: u64) -> Self {
        // `ROWS_READ_MAX` fits in a `usize`.
        let rows = vec![0; drain.element_bytes() * ROWS_READ_MAX as usize];
        Self {
            drain,
            device,
            rate,
            started_at: None,
            due: 0,
            played: 0,
            rows,
        }
    }

    /// Plays the rows due by `now`, the time since an arbitrary moment; the first call starts the
    /// device. Returns the number of rows played.
    ///
    /// # Errors
    /// [`OutputError`] if a sample is wrong or the positions in the ring are invalid.
    pub fn run_until(&mut self, now: Duration) -> Result<u64, OutputError> {
        let before = self.played;
        let elapsed = now.saturating_sub(*self.started_at.get_or_insert(now));
        let row_bytes = self.drain.element_bytes();
        let due = match self.rate {
            0 => u64::MAX,
            rate => rows_in(elapsed, rate),
        };
        while self.due < due {
            let available = self.drain.available().map_err(NoRegion::from)?;
            let count = match self.rate {
                0 => available.min(ROWS_READ_MAX),
                _ => (due - self.due).min(ROWS_READ_MAX),
            };
            // `count` is at most the number of rows that the buffer holds.
            let buffer = self.rows.get_mut(..count as usize * row_bytes);
            let buffer = buffer.unwrap_or_default();
            let read = self.drain.take(buffer).map_err(NoRegion::from)?;
            let number = self.played * (row_bytes / SAMPLE_BYTES) as u64;
            let samples = buffer.get(..read as usize * row_bytes).unwrap_or_default();
            check_samples(self.device, number, samples)?;
            self.played += read;
            self.due += count;
            if count == 0 {
                break;
            }
        }
        Ok(self.played - before)
    }

    /// Returns the number of rows played.
    #[must_use]
    pub fn played(&self) -> u64 {
        self.played
    }

    /// Returns the number of rows that were not available when they were due.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.drain.missed()
    }

    /// Returns the number of underruns. All rows that are missed in succession count as one underrun.
    #[must_use]
    pub fn underruns(&self) -> u64 {
        self.drain.underruns()
    }
}
