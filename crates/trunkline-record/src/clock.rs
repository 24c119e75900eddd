//! The monotonic clock, used for timeouts.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Returns the time since an arbitrary point in the past, the same for all processes of this
/// machine.
pub(crate) fn monotonic() -> Duration {
    Duration::try_from(clock_gettime(ClockId::Monotonic)).unwrap_or_default()
}
