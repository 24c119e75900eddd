//! The wall clock, held against monotonic time: a step of it is noticed, counted and marked (B-42).
//!
//! Nothing here waits by the wall clock, and updates are ordered by their numbers: a step stalls
//! and reorders nothing. But what it stamped shortly before and after cannot be compared, so for
//! [`CLOCK_SETTLING`] after a step the engine says of its own stamps that the clock ran free.

use std::time::Duration;

use trunkline_types::{Clock, ClockSync, Quality, Tick, Timestamp};

use crate::engine::Engine;
use crate::sync::{AtomicU32, Mutex, Ordering};

/// How far wall clock and monotonic time may part between two polls before it is a step: far more
/// than a clock that is slewed, far less than one that is set.
pub const CLOCK_STEP_MIN: Duration = Duration::from_millis(100);
/// For how long after a step the engine's own stamps are marked.
pub const CLOCK_SETTLING: Duration = Duration::from_secs(60);

/// The steps of the wall clock since the engine started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClockSteps {
    /// How many there were.
    pub count: u64,
    /// By how many nanoseconds the last one went forward.
    pub last_nanos: i64,
}

/// The wall clock as it was seen last.
#[derive(Debug, Default)]
pub(crate) struct WallClock {
    /// 1: it was set a short while ago.
    unsettled: AtomicU32,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    last: Option<(Tick, Timestamp)>,
    settled_at: Option<Tick>,
    /// When the last step was noticed.
    stepped_at: Option<Tick>,
    steps: ClockSteps,
}

impl WallClock {
    /// What the engine's own stamps are marked with now. Relaxed: it stands alone.
    #[inline]
    pub(crate) fn mark(&self, quality: &mut Quality) {
        if self.unsettled.load(Ordering::Relaxed) != 0 && quality.clock() == Clock::Engine {
            *quality = quality.with_clock(Clock::Engine, ClockSync::Free);
        }
    }

    /// How long ago something came that the engine stamped so, and that was not there at `looked`:
    /// by the wall clock as it is, or as it was before it was set meanwhile.
    pub(crate) fn age(
        &self,
        stamp: Timestamp,
        now: Tick,
        wall: Timestamp,
        looked: Tick,
    ) -> Duration {
        let longest = now.since(looked);
        let by_clock = wall.nanos_since(stamp);
        let as_it_is = Duration::from_nanos(by_clock.max(0) as u64).min(longest);
        let state = self.state.lock();
        if state.stepped_at.is_none_or(|at| at < looked) {
            return as_it_is;
        }
        let before = by_clock.saturating_sub(state.steps.last_nanos);
        let possible = [by_clock, before].into_iter().filter_map(|nanos| {
            let age = Duration::from_nanos(u64::try_from(nanos).ok()?);
            (age <= longest).then_some(age)
        });
        // Rather too old than too young.
        possible.max().unwrap_or(as_it_is)
    }

    fn look(&self, now: Tick, wall: Timestamp) {
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

impl Engine {
    /// Notices whether the wall clock was set since this was last called.
    pub(crate) fn watch_clock(&self, now: Tick, wall: Timestamp) {
        self.wall_clock().look(now, wall);
    }

    /// Whether the engine's own stamps are marked with nothing: the wall clock was not set a short
    /// while ago.
    #[inline]
    pub fn is_clock_settled(&self) -> bool {
        self.wall_clock().unsettled.load(Ordering::Relaxed) == 0
    }

    /// The steps of the wall clock that [`Engine::poll`] has noticed: by 100 ms or more between two
    /// calls.
    pub fn clock_steps(&self) -> ClockSteps {
        self.wall_clock().state.lock().steps
    }
}
