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
const LOOKS_MAX: usize = 4;

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
    /// difference of the two, which is at most a millisecond old.
    pub fn moment(&self) -> (Tick, Timestamp) {
        let now = self.now();
        if now.as_nanos() >= OFFSET_UNTIL.load(Ordering::Relaxed) {
            return self.look_at_both();
        }
        let offset = OFFSET.load(Ordering::Relaxed);
        let wall = (now.as_nanos() as i64).saturating_add(offset);
        (now, Timestamp::from_nanos(wall))
    }

    /// Looks at both clocks, again when the thread was interrupted in between.
    #[cold]
    fn look_at_both(&self) -> (Tick, Timestamp) {
        let mut looks = LOOKS_MAX;
        loop {
            looks -= 1;
            let (before, wall, after) = (self.now(), self.wall(), self.now());
            if after.since(before).as_nanos() as u64 <= LOOK_NANOS_MAX {
                let nanos = before.as_nanos();
                let offset = wall.as_nanos().saturating_sub(nanos as i64);
                let known = OFFSET.load(Ordering::Relaxed);
                // Within what a look is exact to, UTC does not go back.
                let is_known = (0..=LOOK_NANOS_MAX as i64).contains(&known.saturating_sub(offset));
                let offset = if is_known { known } else { offset };
                let wall = Timestamp::from_nanos((nanos as i64).saturating_add(offset));
                OFFSET.store(offset, Ordering::Relaxed);
                OFFSET_UNTIL.store(nanos.saturating_add(OFFSET_NANOS_MAX), Ordering::Relaxed);
                return (before, wall);
            }
            if looks == 0 {
                // Not to be kept, but as good as two separate looks.
                return (after, wall);
            }
        }
    }

    /// Both clocks at one moment: what lies between the two readings is short, however the system
    /// schedules this thread. Who compares them would take a pause for a step of the system clock.
    pub fn both(&self) -> (Tick, Timestamp) {
        const TRIES: usize = 8;
        const SHORT: Duration = Duration::from_millis(1);
        let mut read = (self.now(), self.wall());
        for _ in 0..TRIES {
            if self.now().since(read.0) <= SHORT {
                break;
            }
            read = (self.now(), self.wall());
        }
        read
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

    #[test]
    fn the_wall_clock_is_utc() {
        assert!(Clock::new().wall().is_plausible());
    }
}
