//! Compares the wall clock with monotonic time, to detect, count and mark its steps (B-42).
//!
//! No wait depends on the wall clock, and updates are ordered by sequence, so a step neither stalls
//! nor reorders anything. But timestamps from before and after a step cannot be compared. For
//! [`CLOCK_SETTLING`] after a step, the engine therefore marks its own timestamps as coming from a
//! free-running clock.

use std::time::Duration;

use trunkline_types::{Clock, ClockSync, Quality, Tick, Timestamp};

use super::EngineCore;
use crate::sync::{AtomicU32, Mutex, Ordering};

/// Minimum divergence of wall clock and monotonic time between two polls that counts as a step: far
/// more than slewing causes, and far less than setting a clock.
pub const CLOCK_STEP_MIN: Duration = Duration::from_millis(100);
/// Time after a step during which the engine's own timestamps are marked.
pub const CLOCK_SETTLING: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClockSteps {
    pub count: u64,
    /// Size of the last step in ns, positive if forward.
    pub last_nanos: i64,
}

#[derive(Debug, Default)]
pub(crate) struct WallClock {
    /// 1 while the last step is recent.
    unsettled: AtomicU32,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    last: Option<(Tick, Timestamp)>,
    settled_at: Option<Tick>,
    stepped_at: Option<Tick>,
    steps: ClockSteps,
}

impl WallClock {
    /// Marks a timestamp of the engine if the clock is unsettled. Relaxed: the flag orders no other
    /// data.
    #[inline]
    pub(crate) fn mark(&self, quality: &mut Quality) {
        if self.unsettled.load(Ordering::Relaxed) != 0 && quality.clock() == Clock::Engine {
            *quality = quality.with_clock(Clock::Engine, ClockSync::Free);
        }
    }

    /// Returns the age of data that the engine stamped with `stamp` and that did not exist yet at
    /// `checked`. The stamp may date from before or after a step of the wall clock.
    pub(crate) fn age(
        &self,
        stamp: Timestamp,
        now: Tick,
        wall: Timestamp,
        checked: Tick,
    ) -> Duration {
        let longest = now.since(checked);
        let by_clock = wall.nanos_since(stamp);
        let unadjusted = Duration::from_nanos(by_clock.max(0) as u64).min(longest);
        let state = self.state.lock();
        if state.stepped_at.is_none_or(|at| at < checked) {
            return unadjusted;
        }
        let before = by_clock.saturating_sub(state.steps.last_nanos);
        let possible = [by_clock, before].into_iter().filter_map(|nanos| {
            let age = Duration::from_nanos(u64::try_from(nanos).ok()?);
            (age <= longest).then_some(age)
        });
        // Prefers an age that is too high over one that is too low.
        possible.max().unwrap_or(unadjusted)
    }

    /// Checks whether the clock was set since the last call.
    pub(crate) fn check(&self, now: Tick, wall: Timestamp) {
        let mut state = self.state.lock();
        if let Some((then, before)) = state.last.filter(|(then, _)| *then <= now) {
            let passed = i64::try_from(now.since(then).as_nanos()).unwrap_or(i64::MAX);
            let step = wall.nanos_since(before).saturating_sub(passed);
            if step.unsigned_abs() >= CLOCK_STEP_MIN.as_nanos() as u64 {
                state.steps.count += 1;
                state.steps.last_nanos = step;
                state.stepped_at = Some(now);
                state.settled_at = Some(now.saturating_add(CLOCK_SETTLING));
                self.unsettled.store(1, Ordering::Relaxed);
            }
        }
        state.last = Some((now, wall));
        if state.settled_at.is_some_and(|due| due <= now) {
            state.settled_at = None;
            self.unsettled.store(0, Ordering::Relaxed);
        }
    }
}

impl EngineCore {
    /// Returns true if the engine's own timestamps are not marked, because there was no recent
    /// step.
    #[inline]
    pub fn is_clock_settled(&self) -> bool {
        self.wall_clock.unsettled.load(Ordering::Relaxed) == 0
    }

    /// Returns the wall clock steps detected by [`Engine::poll`](crate::Engine::poll): divergences
    /// of 100 ms or more between two calls.
    pub fn clock_steps(&self) -> ClockSteps {
        self.wall_clock.state.lock().steps
    }
}
