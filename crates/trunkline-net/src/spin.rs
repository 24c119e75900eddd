//! Adaptive spin before sleep: a thread that waits looks again and again for a while before it goes
//! to sleep, as long as that pays.
//!
//! Waking a thread on an idle processor costs more than most round trips (20 to 50 us on a virtual
//! machine), so whoever expects an answer within that time is served better by looking for it. What
//! that burns is bounded in four ways: by the limit that the program set; by halving the time after
//! each spin that found nothing, until a sleep turns out so short that a spin would have paid; by
//! the number of threads of this process that spin at once; and by resting for a second when the
//! system takes the processor away from a spinning thread, because somebody else needs it.

use std::cell::Cell;
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use trunkline_types::Tick;

use crate::Clock;
use crate::sync::{Ordering, ProcessWide};

/// How long a thread spins at most before it sleeps, unless the program says otherwise.
pub const SPIN_DEFAULT: Duration = Duration::from_micros(50);

/// A spin shorter than this is none.
const SPIN_MIN: Duration = Duration::from_micros(2);

/// What waking up takes, about: a sleep that was longer than the limit by no more than this would
/// have been spared by spinning.
const WAKE_UP: Duration = Duration::from_micros(20);

/// How often a spinning thread looks whether the processor was taken away from it.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// How often in that time it may have been.
const TAKEN_AWAY_MAX: u64 = 4;

/// How long it does not spin then.
const REST: Duration = Duration::from_secs(1);

/// Threads of this process that spin now.
static SPINNING: ProcessWide = ProcessWide::new(0);

/// How long one place of waiting spins.
#[derive(Debug)]
pub(crate) struct Spin {
    limit: Duration,
    budget: Duration,
}

impl Spin {
    /// Spins `limit` at most; never when that is zero.
    pub(crate) fn new(limit: Duration) -> Self {
        Self {
            limit,
            budget: limit,
        }
    }

    /// Calls `look` until it is true (true), or the time or `longest` is over (false).
    pub(crate) fn run(&mut self, longest: Option<Duration>, look: impl FnMut() -> bool) -> bool {
        if self.budget < SPIN_MIN {
            return false;
        }
        let Some(_turn) = Turn::take() else {
            return false;
        };
        let clock = Clock::new();
        let start = clock.now();
        if is_resting(start) {
            return false;
        }
        let budget = longest.map_or(self.budget, |longest| longest.min(self.budget));
        let found = spin_until(start.saturating_add(budget), clock, look);
        if found {
            self.budget = (self.budget * 2).min(self.limit);
        } else if budget == self.budget {
            self.budget /= 2;
        }
        found
    }

    /// A wait has ended that took so long in all, spin and sleep.
    pub(crate) fn waited(&mut self, waited: Duration) {
        if waited < self.limit + WAKE_UP {
            self.budget = self.limit;
        }
    }

    /// True while waits are worth measuring for [`waited`](Self::waited).
    pub(crate) fn is_on(&self) -> bool {
        !self.limit.is_zero()
    }
}

fn spin_until(end: Tick, clock: Clock, mut look: impl FnMut() -> bool) -> bool {
    loop {
        if look() {
            return true;
        }
        if clock.now() >= end {
            return false;
        }
        std::hint::spin_loop();
    }
}

/// How many threads of this process may spin at a time: half the processors, so that those who are
/// waited for have some to run on.
///
/// To ask the system takes file descriptors for a moment. Who is short of them asks before.
pub(crate) fn most_at_once() -> usize {
    static MOST: OnceLock<usize> = OnceLock::new();
    *MOST
        .get_or_init(|| thread::available_parallelism().map_or(1, |count| (count.get() / 2).max(1)))
}

/// The right of one thread to spin.
struct Turn;

impl Turn {
    fn take() -> Option<Self> {
        // Relaxed: the number is all there is.
        let before = SPINNING.fetch_add(1, Ordering::Relaxed);
        let turn = Self;
        (before < most_at_once()).then_some(turn)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        SPINNING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a thread knows of how often the processor was taken away from it.
#[derive(Clone, Copy, Default)]
struct TakenAway {
    looked: Option<(Tick, u64)>,
    rests_until: Tick,
}

impl TakenAway {
    /// Takes a new count in; true while the thread is to rest.
    fn look(&mut self, now: Tick, count: impl FnOnce() -> u64) -> bool {
        if now < self.rests_until {
            return true;
        }
        if let Some((at, _)) = self.looked
            && now.since(at) < LOOK_INTERVAL
        {
            return false;
        }
        let count = count();
        // Over a longer time than the interval more may have come together; that is fine.
        let (at, before) = self.looked.replace((now, count)).unwrap_or((now, count));
        let intervals = (now.since(at).as_nanos() / LOOK_INTERVAL.as_nanos()).max(1) as u64;
        let rest = count.saturating_sub(before) >= TAKEN_AWAY_MAX.saturating_mul(intervals);
        if rest {
            self.rests_until = now.saturating_add(REST);
        }
        rest
    }
}

fn is_resting(now: Tick) -> bool {
    thread_local! {
        static TAKEN_AWAY: Cell<TakenAway> = Cell::new(TakenAway::default());
    }
    TAKEN_AWAY.with(|cell| {
        let mut taken_away = cell.get();
        let resting = taken_away.look(now, involuntary_switches);
        cell.set(taken_away);
        resting
    })
}

/// How often the system has taken the processor away from this thread.
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "the system has no safe form of this question")]
fn involuntary_switches() -> u64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to a whole `rusage` of this frame, which the call fills, or leaves at
    // zero when it fails; every bit pattern of it is a value.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init()
    };
    u64::try_from(usage.ru_nivcsw).unwrap_or(0)
}

#[cfg(not(target_os = "linux"))]
fn involuntary_switches() -> u64 {
    0
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_micros(40);

    #[test]
    fn a_spin_that_does_not_pay_is_halved_until_there_is_none() {
        let mut sut = Spin::new(LIMIT);
        let mut spins = 0;
        while sut.budget >= SPIN_MIN {
            let before = sut.budget;
            assert!(!sut.run(None, || false));
            // It may have been another test's turn.
            spins += u32::from(sut.budget < before);
        }
        assert_eq!(spins, 5);
        assert!(!sut.run(None, || panic!("it does not even look")));
    }

    #[test]
    fn a_short_wait_brings_the_whole_spin_back_and_a_long_one_does_not() {
        let mut sut = Spin::new(LIMIT);
        sut.budget = Duration::ZERO;
        sut.waited(LIMIT + WAKE_UP);
        assert_eq!(sut.budget, Duration::ZERO);
        sut.waited(LIMIT);
        assert_eq!(sut.budget, LIMIT);
    }

    #[test]
    fn zero_switches_it_off_for_good() {
        let mut sut = Spin::new(Duration::ZERO);
        assert!(!sut.is_on());
        sut.waited(Duration::ZERO);
        assert!(!sut.run(None, || panic!("it does not even look")));
    }

    #[test]
    fn a_thread_that_loses_its_processor_rests_for_a_second() {
        let at = |millis: u64| Tick::from_nanos(1_000_000_000 + millis * 1_000_000);
        let mut sut = TakenAway::default();
        assert!(!sut.look(at(0), || 100), "what was before does not count");
        assert!(!sut.look(at(10), || panic!("it has just looked")));
        assert!(!sut.look(at(20), || 100 + TAKEN_AWAY_MAX - 1));
        assert!(sut.look(at(40), || 100 + 2 * TAKEN_AWAY_MAX));
        assert!(sut.look(at(1039), || panic!("it rests")));
        assert!(!sut.look(at(1040), || 100 + 2 * TAKEN_AWAY_MAX));
        assert!(
            !sut.look(at(11_040), || 200),
            "a few in ten seconds are nothing"
        );
    }

    #[test]
    fn the_system_counts_switches() {
        // Only that it can be asked.
        assert!(involuntary_switches() < u64::MAX);
    }

    #[test]
    fn few_threads_spin_at_once() {
        let max = most_at_once();
        let turns: Vec<_> = (0..=max).map(|_| Turn::take()).collect();
        assert!(turns.last().is_some_and(Option::is_none));
        drop(turns);
    }
}
