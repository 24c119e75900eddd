//! Adaptive spin before sleep: a thread that waits looks again and again for a while before it goes
//! to sleep, as long as that pays.
//!
//! Waking a thread on an idle processor costs more than most round trips (20 to 50 us on a virtual
//! machine), so whoever expects an answer within that time is served better by looking for it. What
//! that burns is bounded in four ways: by the limit that the program set; by halving the time after
//! each spin that found nothing, until a sleep turns out so short that a spin would have paid; by
//! the number of threads of this process that spin at once; and by resting for a second when the
//! system takes the processor away from a spinning thread for a fifth of the time, because somebody
//! else needs it.

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

/// Between two looks lies less than a microsecond, or a poll of all sessions: longer than this the
/// processor was taken away, and not for a turn of another thread of this program.
const GAP_MIN: Duration = Duration::from_micros(200);

/// For so long is added up what a spinning thread loses in such gaps.
const LOST_WINDOW: Duration = Duration::from_millis(100);

/// What it may lose in that time. Half of it goes to whoever else has work for the same processor.
const LOST_MAX: Duration = Duration::from_millis(20);

/// How long it does not spin then.
const REST: Duration = Duration::from_secs(1);

/// Threads of this process that spin now.
static SPINNING: ProcessWide = ProcessWide::new(0);

/// How long one place of waiting spins.
#[derive(Debug)]
pub struct Spin {
    limit: Duration,
    budget: Duration,
}

impl Spin {
    /// Spins `limit` at most; never when that is zero.
    pub fn new(limit: Duration) -> Self {
        Self {
            limit,
            budget: limit,
        }
    }

    /// Calls `look` until it is true (true), or the time or `longest` is over (false).
    pub fn run(&mut self, longest: Option<Duration>, look: impl FnMut() -> bool) -> bool {
        if self.budget < SPIN_MIN {
            return false;
        }
        let Some(_turn) = Turn::take() else {
            return false;
        };
        let clock = Clock::new();
        let start = clock.now();
        if TAKEN_AWAY.get().is_resting(start) {
            return false;
        }
        let budget = longest.map_or(self.budget, |longest| longest.min(self.budget));
        let (found, lost) = spin_until(start, budget, || clock.now(), look);
        if !lost.is_zero() {
            note_lost(clock.now(), lost);
        }
        if found {
            self.budget = (self.budget * 2).min(self.limit);
        } else if budget == self.budget {
            self.budget /= 2;
        }
        found
    }

    /// A wait has ended that took so long in all, spin and sleep.
    pub fn waited(&mut self, waited: Duration) {
        if waited < self.limit + WAKE_UP {
            self.budget = self.limit;
        }
    }

    /// Whether it spins at all; then waits are worth measuring for [`waited`](Self::waited).
    pub fn is_on(&self) -> bool {
        !self.limit.is_zero()
    }
}

/// Whether `look` was true before the time was over, and how much of it somebody else had the
/// processor.
fn spin_until(
    start: Tick,
    budget: Duration,
    mut now: impl FnMut() -> Tick,
    mut look: impl FnMut() -> bool,
) -> (bool, Duration) {
    let end = start.saturating_add(budget);
    let (mut before, mut lost) = (start, Duration::ZERO);
    loop {
        let found = look();
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

/// What a thread has lost of its processor while it was spinning.
#[derive(Clone, Copy, Default)]
struct TakenAway {
    since: Tick,
    lost: Duration,
    rests_until: Tick,
}

impl TakenAway {
    fn is_resting(self, now: Tick) -> bool {
        now < self.rests_until
    }

    fn add(&mut self, now: Tick, lost: Duration) {
        if now.since(self.since) > LOST_WINDOW {
            (self.since, self.lost) = (now, Duration::ZERO);
        }
        self.lost += lost;
        if self.lost >= LOST_MAX {
            self.lost = Duration::ZERO;
            self.rests_until = now.saturating_add(REST);
        }
    }
}

thread_local! {
    static TAKEN_AWAY: Cell<TakenAway> = Cell::new(TakenAway::default());
}

#[cold]
fn note_lost(now: Tick, lost: Duration) {
    let mut taken_away = TAKEN_AWAY.get();
    taken_away.add(now, lost);
    TAKEN_AWAY.set(taken_away);
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

    fn at(millis: u64) -> Tick {
        Tick::from_nanos(1_000_000_000 + millis * 1_000_000)
    }

    #[test]
    fn a_thread_that_loses_its_processor_rests_for_a_second() {
        let lost = LOST_MAX / 2;
        let mut sut = TakenAway::default();
        sut.add(at(0), lost);
        sut.add(at(200), lost);
        assert!(!sut.is_resting(at(200)), "it is as much, over a long time");
        sut.add(at(250), lost);
        assert!(sut.is_resting(at(251)));
        assert!(sut.is_resting(at(1249)));
        assert!(!sut.is_resting(at(1250)));
        sut.add(at(1250), lost);
        assert!(!sut.is_resting(at(1251)), "what was before counts no more");
    }

    #[test]
    fn what_lies_between_two_looks_was_lost_when_it_was_long() {
        // The last look finds something: what was waited for came while the thread did not run.
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
    fn few_threads_spin_at_once() {
        let max = most_at_once();
        let turns: Vec<_> = (0..=max).map(|_| Turn::take()).collect();
        assert!(turns.last().is_some_and(Option::is_none));
        drop(turns);
    }
}
