//! Defines the times of two clocks that must never be mixed: UTC for timestamps, and a monotonic clock
//! for the measurement of time.

use std::fmt;
use std::time::Duration;

/// A point on the monotonic clock of one process, in nanoseconds since an arbitrary origin.
///
/// Timers, periods, ages and deadlines use this clock, so a step of the system clock does not affect
/// them.
/// A tick has no meaning in another process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Tick(u64);

impl Tick {
    pub const ZERO: Tick = Tick(0);
    /// The last tick, which no clock reaches; as a deadline, it means "never".
    pub const MAX: Tick = Tick(u64::MAX);

    /// Creates the tick `nanos` nanoseconds after the origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Returns the number of nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns this tick moved forward; returns [`Tick::MAX`] instead of overflowing.
    #[must_use]
    pub const fn saturating_add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration_nanos(duration)))
    }

    /// Returns the earliest of several times; `None` if all are `None` or [`Tick::MAX`].
    #[inline]
    pub fn earliest<const N: usize>(times: [Option<Tick>; N]) -> Option<Tick> {
        let times = times.map(|time| time.unwrap_or(Tick::MAX));
        let earliest = times.into_iter().fold(Tick::MAX, Tick::min);
        (earliest < Tick::MAX).then_some(earliest)
    }

    /// Returns the time since `earlier`; zero if `earlier` is later.
    pub const fn since(self, earlier: Tick) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Debug for Tick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tick({} ns)", self.0)
    }
}

/// A moment, as shown by both clocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moment {
    /// Time of the monotonic clock.
    pub now: Tick,
    /// Time in UTC.
    pub wall: Timestamp,
}

/// Converts a duration to nanoseconds, at most `u64::MAX` (584 years).
pub const fn duration_nanos(duration: Duration) -> u64 {
    let nanos = duration.as_nanos();
    if nanos > u64::MAX as u128 {
        u64::MAX
    } else {
        nanos as u64
    }
}

/// Nanoseconds since 1970-01-01T00:00:00 UTC, without leap seconds. The range covers the years 1677
/// to 2262.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// 1970-01-01T00:00:00Z, which is also the time of an unset clock: see
    /// [`Timestamp::is_plausible`].
    pub const UNIX_EPOCH: Timestamp = Timestamp(0);
    /// The earliest time accepted from a set clock: 2000-01-01T00:00:00Z.
    pub const PLAUSIBLE_MIN: Timestamp = Timestamp(946_684_800_000_000_000);

    /// Creates the time `nanos` nanoseconds after 1970-01-01T00:00:00Z (before it if negative).
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// Returns the number of nanoseconds since 1970-01-01T00:00:00Z.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// Returns false for times before 2000: devices whose clock was never set report 1970, 1980 or
    /// 1904.
    pub const fn is_plausible(self) -> bool {
        self.0 >= Self::PLAUSIBLE_MIN.0
    }

    /// Returns this time moved by `nanos`; returns the end of the range instead of overflowing.
    #[must_use]
    pub const fn saturating_add_nanos(self, nanos: i64) -> Self {
        Self(self.0.saturating_add(nanos))
    }

    /// Returns the number of nanoseconds from `earlier` to this time; negative if `earlier` is
    /// later.
    pub const fn nanos_since(self, earlier: Timestamp) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests;
