//! Computes the times at which scans are due, at a fixed rate of the monotonic clock.

use std::time::Duration;

use trunkline_types::Tick;
use trunkline_types::time::duration_nanos;

/// A schedule with a fixed rate. Scans are due at `first + n * period`, however long each scan
/// takes.
///
/// A late scan does not shift the following scans. If it is so late that further scans became due
/// in the meantime, it replaces them: they are counted as overruns and never run.
#[derive(Clone, Debug)]
pub struct ScanSchedule {
    period: Duration,
    next: Tick,
    scans: u64,
    overruns: u64,
    last: Duration,
    longest: Duration,
    sum_nanos: u128,
}

/// Delays of scans after the times at which they were due.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Jitter {
    /// Delay of the last scan.
    pub last: Duration,
    /// Largest delay.
    pub max: Duration,
    pub mean: Duration,
}

impl ScanSchedule {
    /// The shortest period. A shorter period is raised to this value.
    pub const PERIOD_MIN: Duration = Duration::from_micros(10);

    /// Returns a schedule whose first scan is due at `first`.
    pub fn new(period: Duration, first: Tick) -> Self {
        Self {
            period: period.max(Self::PERIOD_MIN),
            next: first,
            scans: 0,
            overruns: 0,
            last: Duration::ZERO,
            longest: Duration::ZERO,
            sum_nanos: 0,
        }
    }

    /// Returns the time at which the next scan is due.
    pub fn next_due(&self) -> Tick {
        self.next
    }

    /// Returns true if a scan is due at `now`.
    pub fn is_due(&self, now: Tick) -> bool {
        now >= self.next
    }

    /// Returns the time between scans.
    pub fn period(&self) -> Duration {
        self.period
    }

    /// Records that a scan starts at `now`. Returns the number of further due scans that it
    /// replaces.
    ///
    /// A scan on request, before a scan is due, does not change the time at which the next scan is
    /// due.
    pub fn started(&mut self, now: Tick) -> u64 {
        if now < self.next {
            return 0;
        }
        let late = now.since(self.next);
        self.last = late;
        self.longest = self.longest.max(late);
        self.sum_nanos = self.sum_nanos.saturating_add(late.as_nanos());
        self.scans = self.scans.saturating_add(1);
        let period = duration_nanos(self.period);
        let skipped = duration_nanos(late) / period;
        self.overruns = self.overruns.saturating_add(skipped);
        let advance = Duration::from_nanos(period.saturating_mul(skipped.saturating_add(1)));
        self.next = self.next.saturating_add(advance);
        skipped
    }

    /// Returns the number of scans started so far.
    pub fn scans(&self) -> u64 {
        self.scans
    }

    /// Returns the number of due scans that never ran, because an earlier scan was late or took too
    /// long.
    pub fn overruns(&self) -> u64 {
        self.overruns
    }

    /// Returns the delays of the scans so far.
    pub fn jitter(&self) -> Jitter {
        let mean = self
            .sum_nanos
            .checked_div(u128::from(self.scans))
            .unwrap_or(0);
        let mean = Duration::from_nanos(u64::try_from(mean).unwrap_or(u64::MAX));
        Jitter {
            last: self.last,
            max: self.longest,
            mean,
        }
    }
}
