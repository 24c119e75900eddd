//! The only place that reads the machine's clocks.

use std::sync::LazyLock;
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

/// How old the difference of the two clocks may become before it is measured again: what a step of
/// the system clock may be noticed late by.
const DIFFERENCE_AGE_MAX: Duration = Duration::from_millis(1);

/// Both clocks for the price of one, for whoever asks often: UTC is the monotonic clock and a
/// difference, which is measured once in a millisecond.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Clocks {
    measured: Option<(Tick, i64)>,
}

impl Clocks {
    /// The monotonic clock and UTC.
    pub(crate) fn read(&mut self) -> (Tick, Timestamp) {
        let now = Clock.now();
        let nanos = |tick: Tick| i64::try_from(tick.as_nanos()).unwrap_or(i64::MAX);
        let difference = match self.measured {
            Some((at, difference)) if now.since(at) < DIFFERENCE_AGE_MAX => difference,
            _ => {
                let difference = Clock.wall().as_nanos().saturating_sub(nanos(now));
                self.measured = Some((now, difference));
                difference
            }
        };
        let wall = nanos(now).saturating_add(difference);
        (now, Timestamp::from_nanos(wall))
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
    fn both_clocks_at_once_are_the_two_clocks() {
        let mut sut = Clocks::default();
        for _ in 0..1000 {
            let before = (Clock.now(), Clock.wall());
            let (now, wall) = sut.read();
            let after = Clock.wall();
            assert!(now >= before.0);
            // A step of the system clock between the two would show here, and nowhere else.
            let slack = 20_000_000;
            assert!(wall.as_nanos() >= before.1.as_nanos() - slack);
            assert!(wall.as_nanos() <= after.as_nanos() + slack);
        }
    }

    #[test]
    fn the_wall_clock_is_utc() {
        assert!(Clock::new().wall().is_plausible());
    }
}
