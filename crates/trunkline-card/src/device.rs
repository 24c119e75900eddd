//! Simulates one device of the card, in simulated time.

use std::io;
use std::time::Duration;

use trunkline_ring::{NoRegion, RegionFiller};

use crate::content::{SAMPLE_BYTES, fill_samples};

/// Configures a [`SimDevice`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceOptions {
    /// The device's number, which is part of every sample.
    pub device: u16,
    /// Rows per second; 0 means as fast as the ring accepts rows, so that no rows are lost.
    pub rate: u64,
    /// Rows per transfer. As with a DMA engine, a transfer is written or lost as a whole.
    pub transfer_rows: u64,
    /// Rows, including lost ones, after which the device ends; `None` means that it never ends.
    pub rows_max: Option<u64>,
}

impl DeviceOptions {
    /// Creates options for device `device`, which never ends.
    #[must_use]
    pub fn new(device: u16, rate: u64, transfer_rows: u64) -> Self {
        Self {
            device,
            rate,
            transfer_rows,
            rows_max: None,
        }
    }
}

/// Counters of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeviceCounts {
    /// Rows acquired, including lost ones.
    pub acquired: u64,
    /// Rows lost because the ring was full when they arrived.
    pub lost: u64,
    /// Number of overflows. All rows that are lost in succession count as one overflow.
    pub overflows: u64,
    /// True once the device has acquired `rows_max` rows.
    pub is_over: bool,
}

/// A device that fills a ring like a DMA engine. It has no clock and no thread:
/// [`run_until`](Self::run_until) acquires the rows that are due.
///
/// The device never waits for the reader and never overwrites lent regions. Rows that arrive while the
/// ring is full are lost and counted.
#[derive(Debug)]
pub struct SimDevice {
    filler: RegionFiller,
    options: DeviceOptions,
    samples_per_row: u64,
    acquired: u64,
    started_at: Option<Duration>,
}

impl SimDevice {
    /// Creates a device that fills the ring of `filler`, whose elements are rows of samples.
    ///
    /// # Errors
    /// `InvalidInput`: a row is not a whole number of samples, or the ring is not a whole number of
    /// transfers.
    pub fn new(filler: RegionFiller, options: DeviceOptions) -> io::Result<Self> {
        let invalid = |text: String| Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        let (row_bytes, capacity) = (filler.element_bytes(), filler.capacity());
        if !row_bytes.is_multiple_of(SAMPLE_BYTES) {
            return invalid(format!(
                "the ring's row size of {row_bytes} bytes is not a multiple of the sample size of \
                 {SAMPLE_BYTES} bytes; choose a multiple"
            ));
        }
        let rows = options.transfer_rows;
        if rows == 0 || !capacity.is_multiple_of(rows) {
            return invalid(format!(
                "the ring's capacity of {capacity} rows is not a multiple of transfer_rows ({rows}); \
                 choose a divisor"
            ));
        }
        Ok(Self {
            filler,
            options,
            samples_per_row: (row_bytes / SAMPLE_BYTES) as u64,
            acquired: 0,
            started_at: None,
        })
    }

    /// Acquires the rows due by `now`, the time since an arbitrary moment; the first call starts
    /// the device. Returns the number of rows written to the ring.
    ///
    /// # Errors
    /// [`NoRegion::Corrupt`]: the reader of the ring has written invalid positions.
    pub fn run_until(&mut self, now: Duration) -> Result<u64, NoRegion> {
        let before = self.filler.written();
        let elapsed = now.saturating_sub(*self.started_at.get_or_insert(now));
        let rows_due = match self.options.rate {
            0 => u64::MAX,
            rate => rows_in(elapsed, rate),
        };
        loop {
            let rows = self.next_rows();
            if rows == 0 || rows_due - self.acquired < rows {
                break;
            }
            let has_space = self.filler.room()? >= rows;
            if !has_space && self.options.rate == 0 {
                break;
            }
            match has_space {
                true => self.transfer(rows)?,
                false => self.filler.lose(rows),
            }
            self.acquired += rows;
        }
        Ok(self.filler.written() - before)
    }

    /// Returns the number of rows of the next transfer; 0 once the device has ended. The last
    /// transfer of a device may be short.
    fn next_rows(&self) -> u64 {
        let rows_max = self.options.rows_max.unwrap_or(u64::MAX);
        self.options.transfer_rows.min(rows_max - self.acquired)
    }

    fn transfer(&mut self, rows: u64) -> Result<(), NoRegion> {
        let number = self.acquired * self.samples_per_row;
        fill_samples(self.options.device, number, self.filler.next(rows)?);
        self.filler.commit(rows);
        Ok(())
    }

    /// Returns the time of the next transfer on the clock of [`run_until`](Self::run_until), or
    /// `None` if it does not depend on time or the device has ended.
    #[must_use]
    pub fn next_due(&self) -> Option<Duration> {
        let next = self.next_rows();
        if next == 0 {
            return None;
        }
        let rows = self.acquired + next;
        let nanoseconds = (u128::from(rows) * 1_000_000_000)
            .checked_div(u128::from(self.options.rate))
            .and_then(|nanoseconds| u64::try_from(nanoseconds).ok())?;
        // Round up, so that the transfer is due at the returned time.
        let delay = Duration::from_nanos(nanoseconds.saturating_add(1));
        Some(self.started_at.unwrap_or_default().saturating_add(delay))
    }

    /// Returns the device's counters.
    #[must_use]
    pub fn counts(&self) -> DeviceCounts {
        DeviceCounts {
            acquired: self.acquired,
            lost: self.filler.lost(),
            overflows: self.filler.overflows(),
            is_over: self
                .options
                .rows_max
                .is_some_and(|rows| self.acquired >= rows),
        }
    }

    /// Returns true if the reader waits for the rows that were just written and must be woken.
    #[must_use]
    pub(crate) fn must_wake(&mut self) -> bool {
        self.filler.must_wake()
    }
}

/// Returns the number of whole rows that arrive in `time`.
pub(crate) fn rows_in(time: Duration, rate: u64) -> u64 {
    let rows = time.as_nanos() * u128::from(rate) / 1_000_000_000;
    u64::try_from(rows).unwrap_or(u64::MAX)
}
