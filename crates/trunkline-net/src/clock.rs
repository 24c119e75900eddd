//! The only place that reads the machine's clocks.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use trunkline_types::time::duration_nanos;
use trunkline_types::{Tick, Timestamp};

/// The machine's two clocks: a monotonic one for measuring time, UTC for stamping data.
///
/// All clocks of a process have the same origin, so ticks of any two of them compare.
#[derive(Clone, Copy, Default, Debug)]
pub struct Clock;

/// Tick 0. A second before the first use, so that "an interval ago" does not end at the origin.
static ORIGIN: LazyLock<Instant> = LazyLock::new(|| {
    #[allow(
        clippy::disallowed_methods,
        reason = "this module is where clocks are read"
    )]
    let now = Instant::now();
    now.checked_sub(Duration::from_secs(1)).unwrap_or(now)
});

/// How long the difference between the two clocks is believed. So long a step of the system clock
/// may go unnoticed by [`Clock::moment`]; what the system clock is slewed by meanwhile, at most
/// 500 ppm, is half a microsecond.
const OFFSET_NANOS_MAX: u64 = 1_000_000;
/// A look at both clocks took so short a time that nothing came between.
const LOOK_NANOS_MAX: u64 = 2_000;
const LOOKS_MAX: usize = 8;

/// UTC minus the monotonic clock, in nanoseconds, and the tick until which that is believed. Two
/// words that are renewed one after the other: whoever sees a new time with the old difference
/// believes that for one more interval.
static OFFSET: AtomicI64 = AtomicI64::new(0);
static OFFSET_UNTIL: AtomicU64 = AtomicU64::new(0);

impl Clock {
    /// The machine's clocks.
    pub const fn new() -> Self {
        Self
    }

    /// The monotonic clock. Never goes backwards, and is not moved by steps of the system clock.
    pub fn now(&self) -> Tick {
        #[allow(
            clippy::disallowed_methods,
            reason = "this module is where clocks are read"
        )]
        let now = Instant::now();
        Tick::from_nanos(duration_nanos(now.saturating_duration_since(*ORIGIN)))
    }

    /// Both clocks for the price of one: UTC is reckoned from the monotonic clock and the
    /// difference of the two, which is at most a millisecond old. Everything that an engine stamps
    /// is stamped with this: what is reckoned and what is read differ by some nanoseconds, and a
    /// stamp of the one behind a stamp of the other could seem older.
    #[inline]
    pub fn moment(&self) -> (Tick, Timestamp) {
        let now = self.now();
        if now.as_nanos() >= OFFSET_UNTIL.load(Ordering::Relaxed) {
            return self.look_at_both();
        }
        let offset = OFFSET.load(Ordering::Relaxed);
        (now, reckoned(now, offset))
    }

    /// Looks at both clocks, again when the thread was interrupted in between: who compares them
    /// would take a pause for a step of the system clock.
    #[cold]
    fn look_at_both(&self) -> (Tick, Timestamp) {
        let mut best = self.look();
        for _ in 1..LOOKS_MAX {
            if best.took <= LOOK_NANOS_MAX {
                break;
            }
            let look = self.look();
            if look.took < best.took {
                best = look;
            }
        }
        let (nanos, took) = (best.now.as_nanos(), best.took as i64);
        let seen = best.wall.as_nanos().saturating_sub(nanos as i64);
        let known = OFFSET.load(Ordering::Relaxed);
        // What is known may well be right, by what the two looks are exact to: UTC does not go back.
        let is_known = (-took..=LOOK_NANOS_MAX as i64).contains(&known.saturating_sub(seen));
        let offset = if is_known { known } else { seen };
        if best.took > LOOK_NANOS_MAX {
            // Not to be kept, but as good as two separate looks.
            return (best.now, reckoned(best.now, offset));
        }
        let until = nanos.saturating_add(OFFSET_NANOS_MAX);
        // Who has looked meanwhile was later.
        let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        let renewed = OFFSET.compare_exchange(known, offset, success, failure);
        let offset = renewed.map_or_else(|later| later, |_| offset);
        OFFSET_UNTIL.store(until, Ordering::Relaxed);
        (best.now, reckoned(best.now, offset))
    }

    fn look(&self) -> Look {
        let (now, wall, after) = (self.now(), self.wall(), self.now());
        let took = after.since(now).as_nanos() as u64;
        Look { now, wall, took }
    }

    /// UTC. May step in either direction when somebody sets the system clock.
    pub fn wall(&self) -> Timestamp {
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

/// The two clocks, one read after the other.
struct Look {
    now: Tick,
    wall: Timestamp,
    /// Nanoseconds within which both were read.
    took: u64,
}

fn reckoned(now: Tick, offset: i64) -> Timestamp {
    Timestamp::from_nanos((now.as_nanos() as i64).saturating_add(offset))
}

/// Nanoseconds, at most `i64::MAX` (292 years).
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
    fn both_clocks_at_once_say_what_they_say_alone() {
        let clock = Clock::new();
        for _ in 0..10_000 {
            let before = clock.now();
            let (now, wall) = clock.moment();
            let after = clock.now();
            assert!((before..=after).contains(&now));
            assert!(wall.is_plausible());
        }
    }

    /// But for somebody who sets the system clock, which nobody does meanwhile: the stamps of a
    /// thread never go back, over many looks at the system clock.
    #[test]
    fn what_is_stamped_later_is_not_older() {
        let clock = Clock::new();
        let (start, mut newest) = clock.moment();
        loop {
            let (now, wall) = clock.moment();
            assert!(wall >= newest, "{wall:?} behind {newest:?}");
            newest = wall;
            if now.since(start) > Duration::from_millis(50) {
                break;
            }
        }
    }

    #[test]
    fn the_wall_clock_is_utc() {
        assert!(Clock::new().wall().is_plausible());
    }
}
