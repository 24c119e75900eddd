//! Watches the free space on the disk and estimates how long it will last.

use std::time::Duration;

use super::FreeSpaceAlarm;

/// Interval between queries of the file system.
const QUERY_INTERVAL: Duration = Duration::from_secs(1);

/// The state of the free space on the disk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum FreeSpaceState {
    #[default]
    Enough,
    /// The free space is below the alarm threshold.
    Low,
    /// No space is left, and writing has stopped.
    Full,
}

/// The free space on the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FreeSpace {
    pub state: FreeSpaceState,
    /// Number of bytes that can still be written, including reserved space; `None` if the file
    /// system does not report free space.
    pub bytes: Option<u64>,
    /// Time until the disk is full at the recent write rate; `None` if no data is written.
    pub full_in: Option<Duration>,
    /// Number of times that the free space fell below the alarm threshold.
    pub alarms: u64,
}

/// Tracks the free space and the write rate.
#[derive(Debug)]
pub(crate) struct FreeSpaceMonitor {
    alarm: FreeSpaceAlarm,
    free_space: FreeSpace,
    is_full: bool,
    /// Time of the last query, and the number of bytes appended by then.
    last: Option<(Duration, u64)>,
    /// Smoothed write rate, in bytes per second; 0 before the first measurement.
    rate: u64,
}

impl FreeSpaceMonitor {
    pub(crate) fn new(alarm: FreeSpaceAlarm) -> Self {
        Self {
            alarm,
            free_space: FreeSpace::default(),
            is_full: false,
            last: None,
            rate: 0,
        }
    }

    pub(crate) fn free_space(&self) -> FreeSpace {
        self.free_space
    }

    /// Returns true if the next query is due.
    pub(crate) fn is_due(&self, now: Duration) -> bool {
        let due =
            |(last_query, _): (Duration, u64)| now.saturating_sub(last_query) >= QUERY_INTERVAL;
        self.last.is_none_or(due)
    }

    /// Records the result of a query: `bytes` were free after `accepted` bytes had been appended to
    /// the file.
    pub(crate) fn record(&mut self, now: Duration, bytes: Option<u64>, accepted: u64) {
        if let Some((last_query, last_length)) = self.last {
            let nanoseconds = now.saturating_sub(last_query).as_nanos().max(1);
            let written = u128::from(accepted.saturating_sub(last_length));
            let rate = u64::try_from(written * 1_000_000_000 / nanoseconds).unwrap_or(u64::MAX);
            self.rate = match self.rate {
                0 => rate,
                previous => previous / 2 + rate / 2,
            };
        }
        self.last = Some((now, accepted));
        self.free_space.bytes = bytes;
        let full_in = bytes.and_then(|bytes| {
            let milliseconds = (u128::from(bytes) * 1000).checked_div(u128::from(self.rate))?;
            u64::try_from(milliseconds).ok()
        });
        self.free_space.full_in = full_in.map(Duration::from_millis);
        self.update_state();
    }

    /// Records whether the disk is full, that is, whether reserving space failed.
    pub(crate) fn set_full(&mut self, is_full: bool) {
        if self.is_full != is_full {
            self.is_full = is_full;
            self.update_state();
        }
    }

    fn update_state(&mut self) {
        let previous = self.free_space.state;
        // Hysteresis: after an alarm, the space must exceed the threshold by a margin, to avoid
        // repeated alarms.
        let (bytes, time) = match previous {
            FreeSpaceState::Enough => (self.alarm.bytes, self.alarm.time),
            _ => (
                self.alarm.bytes.saturating_add(self.alarm.bytes / 8),
                self.alarm.time.saturating_add(self.alarm.time / 4),
            ),
        };
        let is_low = self.free_space.bytes.is_some_and(|free| free < bytes)
            || self
                .free_space
                .full_in
                .is_some_and(|remaining| remaining < time);
        self.free_space.state = match (self.is_full, is_low) {
            (true, _) => FreeSpaceState::Full,
            (false, true) => FreeSpaceState::Low,
            (false, false) => FreeSpaceState::Enough,
        };
        self.free_space.alarms +=
            u64::from(previous == FreeSpaceState::Enough && self.free_space.state > previous);
    }
}
