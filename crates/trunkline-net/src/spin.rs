//! Adaptive spinning: a waiting thread polls for a short time before it sleeps, if that is likely
//! to avoid the sleep.
//!
//! Waking a thread on an idle processor takes longer than most round trips (20 to 50 us on a
//! virtual machine), so a thread that expects an answer within that time should poll for it. Four
//! rules bound the cost. The program sets a limit for each spin. The spin time is halved after each
//! spin that found nothing, until a sleep turns out so short that a spin would have avoided it. The
//! number of threads of this process that spin at the same time is limited. If the system takes the
//! processor away from a spinning thread for a fifth of the time, because another program needs it,
//! spinning stops for one second.

use std::cell::Cell;
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use trunkline_types::Tick;

use crate::clock::Clock;
use crate::sync::{Ordering, ProcessWide};

/// Default maximum time that a thread spins before it sleeps.
pub const SPIN_DEFAULT: Duration = Duration::from_micros(50);

/// A spin shorter than this is skipped.
const SPIN_MIN: Duration = Duration::from_micros(2);

/// Approximate time of a wake-up. Spinning would have avoided a sleep that exceeded the limit by at
/// most this time.
const WAKE_UP: Duration = Duration::from_micros(20);

/// Minimum gap between two polls that counts as a loss of the processor. Normally two polls are
/// less than a microsecond apart, or the time it takes to poll all sessions. A gap this long is
/// also longer than a turn of another thread of this program.
const GAP_MIN: Duration = Duration::from_micros(200);

/// Period over which the time that a spinning thread loses in such gaps is summed.
const LOST_WINDOW: Duration = Duration::from_millis(100);

/// Maximum loss in that window. A competing program on the same processor takes half of the window.
const LOST_MAX: Duration = Duration::from_millis(20);

/// Time for which a thread does not spin after the maximum loss.
const PAUSE: Duration = Duration::from_secs(1);

/// Number of threads of this process that spin now.
static SPINNING: ProcessWide = ProcessWide::new(0);

/// The adaptive spin time of one place in the program that waits.
#[derive(Clone, Copy, Debug)]
pub struct Spin {
    limit: Duration,
    budget: Duration,
}

impl Spin {
    /// Creates a spin of at most `limit`; zero disables it.
    pub fn new(limit: Duration) -> Self {
        Self {
            limit,
            budget: limit,
        }
    }

    /// Calls `poll` until it returns true, or until the spin time or `longest` is used up. Returns
    /// true in the first case.
    pub fn run(&mut self, longest: Option<Duration>, poll: impl FnMut() -> bool) -> bool {
        if self.budget < SPIN_MIN {
            return false;
        }
        let Some(_permit) = SpinPermit::take() else {
            return false;
        };
        let clock = Clock::new();
        let start = clock.now();
        if LOST_TIME.get().is_paused(start) {
            return false;
        }
        let budget = longest.map_or(self.budget, |longest| longest.min(self.budget));
        let (found, lost) = spin_until(start, budget, || clock.now(), poll);
        if !lost.is_zero() {
            record_lost(clock.now(), lost);
        }
        if found {
            self.budget = self.budget.saturating_mul(2).min(self.limit);
        } else if budget == self.budget {
            self.budget /= 2;
        }
        found
    }

    /// Records the total duration of a wait, including its spin and its sleep.
    pub fn waited(&mut self, waited: Duration) {
        if waited < self.limit.saturating_add(WAKE_UP) {
            self.budget = self.limit;
        }
    }

    /// Returns true if spinning is enabled; only then are waits worth measuring for
    /// [`waited`](Self::waited).
    pub fn is_on(&self) -> bool {
        !self.limit.is_zero()
    }
}

/// Returns true if `poll` returned true in time, and the time for which the thread did not have the
/// processor.
fn spin_until(
    start: Tick,
    budget: Duration,
    mut now: impl FnMut() -> Tick,
    mut poll: impl FnMut() -> bool,
) -> (bool, Duration) {
    let end = start.saturating_add(budget);
    let (mut before, mut lost) = (start, Duration::ZERO);
    loop {
        let found = poll();
        let after = now();
        let gap = after.since(before);
        if gap >= GAP_MIN {
            lost += gap;
        }
        if found || after >= end {
            return (found, lost);
        }
        before = after;
        std::hint::spin_loop();
    }
}

/// Maximum number of threads of this process that spin at a time: half the processors, so that
/// processors remain for the threads that they wait for.
///
/// The first call briefly uses file descriptors. A process that may run out of them should call it
/// early.
pub(crate) fn spinners_max() -> usize {
    static MAX: OnceLock<usize> = OnceLock::new();
    *MAX.get_or_init(|| thread::available_parallelism().map_or(1, |count| (count.get() / 2).max(1)))
}

/// The right of one thread to spin.
struct SpinPermit;

impl SpinPermit {
    fn take() -> Option<Self> {
        // Relaxed: no other data depends on the number.
        let before = SPINNING.fetch_add(1, Ordering::Relaxed);
        let permit = Self;
        (before < spinners_max()).then_some(permit)
    }
}

impl Drop for SpinPermit {
    fn drop(&mut self) {
        SPINNING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The processor time that a thread has lost while spinning.
#[derive(Clone, Copy, Default)]
struct LostTime {
    /// Start of the current [`LOST_WINDOW`].
    since: Tick,
    lost: Duration,
    paused_until: Tick,
}

impl LostTime {
    fn is_paused(self, now: Tick) -> bool {
        now < self.paused_until
    }

    fn add(&mut self, now: Tick, lost: Duration) {
        if now.since(self.since) > LOST_WINDOW {
            (self.since, self.lost) = (now, Duration::ZERO);
        }
        self.lost += lost;
        if self.lost >= LOST_MAX {
            self.lost = Duration::ZERO;
            self.paused_until = now.saturating_add(PAUSE);
        }
    }
}

thread_local! {
    static LOST_TIME: Cell<LostTime> = Cell::new(LostTime::default());
}

#[cold]
fn record_lost(now: Tick, lost: Duration) {
    let mut lost_time = LOST_TIME.get();
    lost_time.add(now, lost);
    LOST_TIME.set(lost_time);
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_micros(40);

    #[test]
    fn unprofitable_spin_is_halved_down_to_none() {
        let mut sut = Spin::new(LIMIT);
        let mut spins = 0;
        while sut.budget >= SPIN_MIN {
            let before = sut.budget;
            assert!(!sut.run(None, || false));
            // Another test may hold the only permit.
            spins += u32::from(sut.budget < before);
        }
        assert_eq!(spins, 5);
        assert!(!sut.run(None, || panic!("the closure must not be called")));
    }

    #[test]
    fn short_wait_restores_the_full_spin_and_a_long_one_does_not() {
        let mut sut = Spin::new(LIMIT);
        sut.budget = Duration::ZERO;
        sut.waited(LIMIT + WAKE_UP);
        assert_eq!(sut.budget, Duration::ZERO);
        sut.waited(LIMIT);
        assert_eq!(sut.budget, LIMIT);
    }

    #[test]
    fn limit_of_zero_disables_spinning() {
        let mut sut = Spin::new(Duration::ZERO);
        assert!(!sut.is_on());
        sut.waited(Duration::ZERO);
        assert!(!sut.run(None, || panic!("the closure must not be called")));
    }

    fn at(millis: u64) -> Tick {
        Tick::from_nanos(1_000_000_000 + millis * 1_000_000)
    }

    #[test]
    fn preempted_thread_pauses_spinning_for_a_second() {
        let lost = LOST_MAX / 2;
        let mut sut = LostTime::default();
        sut.add(at(0), lost);
        sut.add(at(200), lost);
        assert!(!sut.is_paused(at(200)), "the same loss over a longer time");
        sut.add(at(250), lost);
        assert!(sut.is_paused(at(251)));
        assert!(sut.is_paused(at(1249)));
        assert!(!sut.is_paused(at(1250)));
        sut.add(at(1250), lost);
        assert!(!sut.is_paused(at(1251)), "earlier loss no longer counts");
    }

    #[test]
    fn long_gap_between_checks_counts_as_preemption() {
        // The last poll finds something: the answer arrived while the thread was not running.
        let mut times = [at(1), at(5)].into_iter().chain(std::iter::repeat(at(6)));
        let mut looks = 0;
        let look = || {
            looks += 1;
            looks == 3
        };
        let long = Duration::from_secs(1);
        let (found, lost) = spin_until(at(1), long, || times.next().unwrap_or_default(), look);
        assert!(found);
        assert_eq!(lost, Duration::from_millis(5));
        let mut nanos = at(0).as_nanos();
        let now = || {
            nanos += 1000;
            Tick::from_nanos(nanos)
        };
        assert_eq!(
            spin_until(at(0), LIMIT, now, || false),
            (false, Duration::ZERO)
        );
    }

    #[test]
    fn only_half_the_processors_spin_at_once() {
        let max = spinners_max();
        let permits: Vec<_> = (0..=max).map(|_| SpinPermit::take()).collect();
        assert!(permits.last().is_some_and(Option::is_none));
        drop(permits);
    }
}
