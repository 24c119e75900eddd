//! One device of the card, in whatever time it is given.

use std::io;
use std::time::Duration;

use trunkline_ring::{NoRegion, RegionFiller};

use super::content::{SAMPLE_BYTES, fill_samples};

/// What a device does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceOptions {
    /// Its number, which is in every sample.
    pub device: u16,
    /// Rows per second; 0: as fast as there is room, which loses nothing.
    pub rate: u64,
    /// Rows that come at a time, as a DMA engine transfers them: all of them, or all are lost.
    pub transfer_rows: u64,
    /// It ends after so many rows, lost ones too; none: it goes on.
    pub rows_max: Option<u64>,
}

impl DeviceOptions {
    /// Device `device`, which never ends.
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

/// How far a device is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct DeviceCounts {
    /// Rows that were acquired, with those lost.
    pub acquired: u64,
    /// Rows that had no room when they came.
    pub lost: u64,
    /// How often rows began to be lost: the device's overflow flag, counted.
    pub overflows: u64,
    /// It has acquired all it was to.
    pub is_over: bool,
}

/// A device that fills a ring as a DMA engine does. It has no clock and no thread: it acquires what
/// is due when it is [run](Self::run_until).
///
/// It never waits for who records and never writes over what is lent: what comes when the ring is
/// full is lost, and the overflow counter goes up.
#[derive(Debug)]
pub struct SimDevice {
    filler: RegionFiller,
    options: DeviceOptions,
    samples_per_row: u64,
    acquired: u64,
    began: Option<Duration>,
}

impl SimDevice {
    /// A device that fills the ring of `filler`, whose elements are rows of samples.
    ///
    /// # Errors
    /// `InvalidInput`: rows are not whole samples, or the ring is not whole transfers.
    pub fn new(filler: RegionFiller, options: DeviceOptions) -> io::Result<Self> {
        let invalid = |text: String| Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        let (row_bytes, capacity) = (filler.element_bytes(), filler.capacity());
        if !row_bytes.is_multiple_of(SAMPLE_BYTES) {
            return invalid(format!(
                "a row of {row_bytes} bytes is not whole samples of {SAMPLE_BYTES}; make the ring \
                 for rows that are"
            ));
        }
        let rows = options.transfer_rows;
        if rows == 0 || !capacity.is_multiple_of(rows) {
            return invalid(format!(
                "a ring of {capacity} rows is not whole transfers of {rows}; take a number that \
                 divides it"
            ));
        }
        Ok(Self {
            filler,
            options,
            samples_per_row: (row_bytes / SAMPLE_BYTES) as u64,
            acquired: 0,
            began: None,
        })
    }

    /// Acquires what has come by `now`, counted from any moment; the first call starts the device.
    /// Returns how many rows went into the ring.
    ///
    /// # Errors
    /// [`NoRegion::Corrupt`]: the other end has written positions that cannot be true.
    pub fn run_until(&mut self, now: Duration) -> Result<u64, NoRegion> {
        let before = self.filler.written();
        let elapsed = now.saturating_sub(*self.began.get_or_insert(now));
        let transfer = self.options.transfer_rows;
        let most = self.options.rows_max.unwrap_or(u64::MAX);
        let due = match self.options.rate {
            0 => u64::MAX,
            rate => rows_in(elapsed, rate),
        };
        while self.acquired < most {
            // The last transfer of a device that ends is a short one.
            let rows = transfer.min(most - self.acquired);
            if due - self.acquired < rows {
                break;
            }
            let has_room = self.filler.room()? >= rows;
            if !has_room && self.options.rate == 0 {
                break;
            }
            match has_room {
                true => self.transfer(rows)?,
                false => self.filler.lose(rows),
            }
            self.acquired += rows;
        }
        Ok(self.filler.written() - before)
    }

    fn transfer(&mut self, rows: u64) -> Result<(), NoRegion> {
        let number = self.acquired * self.samples_per_row;
        fill_samples(self.options.device, number, self.filler.next(rows)?);
        self.filler.commit(rows);
        Ok(())
    }

    /// When the next transfer is there, as [`run_until`](Self::run_until) counts time. None where
    /// it does not depend on time.
    #[must_use]
    pub fn next_due(&self) -> Option<Duration> {
        let rows = self.acquired + self.options.transfer_rows;
        let nanoseconds = (u128::from(rows) * 1_000_000_000)
            .checked_div(u128::from(self.options.rate))
            .and_then(|nanoseconds| u64::try_from(nanoseconds).ok())?;
        // Rounded up: it is there then.
        let after = Duration::from_nanos(nanoseconds.saturating_add(1));
        Some(self.began.unwrap_or_default().saturating_add(after))
    }

    /// How far it is.
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

    /// Who records waits for what was put in and is to be woken.
    #[must_use]
    pub(super) fn must_wake(&mut self) -> bool {
        self.filler.must_wake()
    }
}

/// Whole rows that come in a time.
pub(super) fn rows_in(time: Duration, rate: u64) -> u64 {
    let rows = time.as_nanos() * u128::from(rate) / 1_000_000_000;
    u64::try_from(rows).unwrap_or(u64::MAX)
}
