//! The only place that reads the machine's clocks.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use trunkline_types::{Tick, Timestamp};

/// The machine's two clocks: a monotonic one for measuring time, UTC for timestamps.
///
/// All clocks of a process have the same origin, so their ticks are comparable.
#[derive(Clone, Copy, Default, Debug)]
pub struct Clock;

/// Tick 0. It lies one second before the first use, so that a time shortly before the first use is
/// still a valid tick.
static ORIGIN: LazyLock<Instant> = LazyLock::new(|| {
    #[allow(
        clippy::disallowed_methods,
        reason = "this module is where clocks are read"
    )]
    let now = Instant::now();
    now.checked_sub(Duration::from_secs(1)).unwrap_or(now)
});

/// Maximum age of a reused offset between the two clocks. A step of the system clock may remain
/// unnoticed for this long.
const OFFSET_NANOS_MAX: u64 = 1_000_000;
/// Maximum duration of a reading of both clocks that was not interrupted.
const READING_NANOS_MAX: u64 = 2_000;
/// If the best of several readings took longer than this, the thread was interrupted each time.
const INTERRUPTED_NANOS: u64 = 100_000;
const READINGS_MAX: usize = 8;

/// UTC minus the monotonic clock, in nanoseconds, and the tick until which it is valid. The two
/// words are stored one after the other: a thread that sees the new tick with the old offset uses
/// the old offset for one more interval.
static OFFSET: AtomicI64 = AtomicI64::new(0);
static OFFSET_UNTIL: AtomicU64 = AtomicU64::new(0);

impl Clock {
    pub const fn new() -> Self {
        Self
    }

    /// Reads the monotonic clock. It never goes backwards, and steps of the system clock do not
    /// move it.
    pub fn now(&self) -> Tick {
        Tick::from_nanos(nanos(ORIGIN.elapsed()) as u64)
    }

    /// Reads both clocks at the cost of reading one: UTC is computed from the monotonic clock and
    /// the offset between the two, which is at most a millisecond old.
    #[inline]
    pub fn moment(&self) -> (Tick, Timestamp) {
        let now = self.now();
        if now.as_nanos() >= OFFSET_UNTIL.load(Ordering::Relaxed) {
            return self.read_both();
        }
        (now, utc_at(now, OFFSET.load(Ordering::Relaxed)))
    }

    /// Returns UTC, as [`moment`](Self::moment) does. It may step in either direction when the
    /// system clock is set, and it may go back by a few microseconds if the system slews the two
    /// clocks at different rates, which Linux does not do.
    ///
    /// This is the only source of UTC. Computed and directly read times differ by a few
    /// nanoseconds. If both were used, a later timestamp from one source could be older than an
    /// earlier timestamp from the other.
    #[inline]
    pub fn wall(&self) -> Timestamp {
        self.moment().1
    }

    /// Reads both clocks, and reads them again if the thread was interrupted in between. Otherwise
    /// a comparison of the two would mistake the pause for a step of the system clock.
    #[cold]
    fn read_both(&self) -> (Tick, Timestamp) {
        let old_offset = OFFSET.load(Ordering::Relaxed);
        let mut best = self.read_once();
        for _ in 1..READINGS_MAX {
            if best.took <= READING_NANOS_MAX {
                break;
            }
            let reading = self.read_once();
            if reading.took < best.took {
                best = reading;
            }
        }
        let nanos = best.now.as_nanos();
        let measured = best.utc.as_nanos().saturating_sub(nanos as i64);
        // Keep the old offset if it agrees with the measured one within their precision, so that
        // UTC does not go back.
        let tolerance = best.took.max(READING_NANOS_MAX) as i64;
        let is_unchanged = (-tolerance..=tolerance).contains(&old_offset.saturating_sub(measured));
        let mut offset = if is_unchanged { old_offset } else { measured };
        if best.took <= INTERRUPTED_NANOS {
            let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
            match OFFSET.compare_exchange(old_offset, offset, success, failure) {
                Ok(_) => {
                    let until = nanos.saturating_add(OFFSET_NANOS_MAX);
                    OFFSET_UNTIL.store(until, Ordering::Relaxed);
                }
                // Another thread has updated the offset meanwhile.
                Err(later) => offset = later,
            }
        }
        (best.now, utc_at(best.now, offset))
    }

    fn read_once(&self) -> Reading {
        let (now, utc, after) = (self.now(), self.system_utc(), self.now());
        let took = after.since(now).as_nanos() as u64;
        Reading { now, utc, took }
    }

    fn system_utc(&self) -> Timestamp {
        #[allow(
            clippy::disallowed_methods,
            reason = "this module is where clocks are read"
        )]
        let now = SystemTime::now();
        match now.duration_since(UNIX_EPOCH) {
            Ok(after) => Timestamp::from_nanos(nanos(after)),
            Err(before) => Timestamp::from_nanos(nanos(before.duration()).saturating_neg()),
        }
    }
}

/// A reading of the two clocks, one after the other.
struct Reading {
    now: Tick,
    utc: Timestamp,
    /// Nanoseconds that the reading took.
    took: u64,
}

fn utc_at(now: Tick, offset: i64) -> Timestamp {
    Timestamp::from_nanos((now.as_nanos() as i64).saturating_add(offset))
}

/// Converts to nanoseconds, at most `i64::MAX` (292 years).
fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;

    #[test]
    fn ticks_of_two_clocks_compare_and_never_go_backwards() {
        let first = Clock::new().now();
        let second = Clock::new().now();
        assert!(second >= first);
    }

    #[test]
    fn reading_both_clocks_at_once_matches_single_readings() {
        let clock = Clock::new();
        for _ in 0..10_000 {
            let before = clock.now();
            let (now, wall) = clock.moment();
            let after = clock.now();
            assert!((before..=after).contains(&now));
            assert!(wall.is_plausible());
        }
    }

    /// Covers many readings of the system clock and both ways to read UTC. Nothing sets the system
    /// clock during the test.
    #[test]
    fn later_stamps_are_not_older() {
        let clock = Clock::new();
        let (start, mut newest) = clock.moment();
        loop {
            let (now, one) = clock.moment();
            for stamp in [one, clock.wall()] {
                assert!(stamp >= newest, "{stamp:?} behind {newest:?}");
                newest = stamp;
            }
            if now.since(start) > Duration::from_millis(50) {
                break;
            }
        }
    }

    #[test]
    fn utc_matches_the_system_clock_within_its_precision() {
        let clock = Clock::new();
        let (before, wall, after) = (clock.system_utc(), clock.wall(), clock.system_utc());
        let slack = OFFSET_NANOS_MAX as i64;
        assert!(wall.nanos_since(before) >= -slack && after.nanos_since(wall) >= -slack);
    }

    #[test]
    fn the_wall_clock_is_utc() {
        assert!(Clock::new().wall().is_plausible());
    }
}
