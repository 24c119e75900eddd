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
    fn the_wall_clock_is_utc() {
        assert!(Clock::new().wall().is_plausible());
    }
}
