//! Reads the monotonic clock, which timeouts use.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Returns the time since an arbitrary point in the past. All processes on this machine share that
/// point.
pub(crate) fn monotonic() -> Duration {
    Duration::try_from(clock_gettime(ClockId::Monotonic)).unwrap_or_default()
}
