//! The monotonic clock that bounds waits.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Returns the time since an arbitrary point in the past, the same for all processes of this
/// machine.
pub(crate) fn monotonic() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanoseconds = u32::try_from(now.tv_nsec).unwrap_or(0);
    Duration::new(seconds, nanoseconds)
}
