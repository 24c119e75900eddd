//! Lets a program that has caught up with its peer fall behind a little before it polls again.
//!
//! Both ends of a ring in memory read each other's position. A program that takes each element as
//! soon as it arrives fetches the cache line of the position from the other processor once per
//! element, and both processors spend their time transferring it (30 to 100 ns per transfer). A
//! program that pauses for a moment gets many elements per transfer.
//!
//! The program pauses only while elements keep arriving almost without a wait, and only while
//! pausing helps. A program that waits for answers finds nothing in its first polls, or gets no
//! more elements however long it pauses, so its waits are not prolonged.

/// Number of polls that hardly count as a wait: about 100 ns in total.
const LOOKS: u32 = 16;

/// Number of polls of an end that would spin anyway: about half a microsecond, in which a spinning
/// peer answers. Reading the clock takes as long as several polls.
const LOOKS_SPINNING: u32 = 128;

/// Number of elements per transfer at which the pause is long enough.
const ENOUGH: u64 = 64;

/// Longest pause, in spin-loop hints: below a microsecond.
const PAUSES_MAX: u32 = 16;

/// Number of consecutive longest pauses without benefit after which pausing stops.
const FUTILE_MAX: u32 = 4;

/// Number of waits without a pause before pausing is tried again.
const REST: u32 = 1000;

/// Decides how long to pause before the next poll.
#[derive(Debug)]
pub(crate) struct CatchUpBackoff {
    looks: u32,
    /// Length of the pause before the next poll, in spin-loop hints.
    pauses: u32,
    /// Length of the pause at the previous wait.
    last: u32,
    /// Position at the previous wait, in elements.
    before: u64,
    /// Number of elements that arrived the last time there was no pause.
    without: u64,
    /// Consecutive longest pauses without benefit.
    futile: u32,
    /// Number of waits left before pausing is tried again.
    rest: u32,
}

impl CatchUpBackoff {
    /// `spins`: the end spins for a while before it sleeps.
    pub(crate) fn new(spins: bool) -> Self {
        Self {
            looks: if spins { LOOKS_SPINNING } else { LOOKS },
            pauses: 0,
            last: 0,
            before: 0,
            without: 0,
            futile: 0,
            rest: 0,
        }
    }

    /// Called when the program has reached `position`, in elements, and would have to wait. Returns
    /// true if `has` becomes true so soon that a wait is not needed.
    pub(crate) fn run(&mut self, position: u64, mut has: impl FnMut() -> bool) -> bool {
        let came = position.wrapping_sub(self.before);
        self.before = position;
        self.judge(came);
        self.last = self.pauses;
        for _ in 0..self.pauses {
            std::hint::spin_loop();
        }
        let is_there = (0..self.looks).any(|_| has());
        self.pauses = match is_there {
            _ if self.rest > 0 => 0,
            false => 0,
            true if came < ENOUGH => (self.pauses * 2).clamp(1, PAUSES_MAX),
            true => self.pauses,
        };
        is_there
    }

    /// Adjusts the state to the number of elements that arrived since the previous wait.
    fn judge(&mut self, came: u64) {
        self.rest = self.rest.saturating_sub(1);
        match self.last {
            0 => self.without = came.min(ENOUGH),
            PAUSES_MAX if came < ENOUGH / 2 && came < self.without * 2 => self.futile += 1,
            _ => self.futile = 0,
        }
        if self.futile == FUTILE_MAX {
            (self.futile, self.pauses, self.rest) = (0, 0, REST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pause_grows_while_little_data_is_found() {
        let mut backoff = CatchUpBackoff::new(false);
        for (position, pauses) in [(1, 1), (2, 2), (3, 4), (4, 8), (5, 16), (9, 16)] {
            assert!(backoff.run(position, || true));
            assert_eq!(backoff.pauses, pauses);
        }
        assert!(backoff.run(9 + ENOUGH, || true), "enough came");
        assert_eq!(backoff.pauses, 16, "so it is left as it is");
    }

    #[test]
    fn no_pause_after_an_empty_poll() {
        for (spins, looks_max) in [(false, LOOKS), (true, LOOKS_SPINNING)] {
            let mut backoff = CatchUpBackoff::new(spins);
            assert!(backoff.run(1, || true));
            assert!(!backoff.run(2, || false), "nothing at the first looks");
            assert_eq!(backoff.pauses, 0);
            let mut looks = 0;
            assert!(backoff.run(3, || {
                looks += 1;
                looks == looks_max
            }));
        }
    }

    #[test]
    fn pausing_stops_when_it_brings_no_benefit() {
        let mut backoff = CatchUpBackoff::new(true);
        let mut position = 0;
        let mut step = || {
            position += 3;
            assert!(backoff.run(position, || true));
            backoff.pauses
        };
        let found: Vec<u32> = (0..10).map(|_| step()).collect();
        assert_eq!(
            found,
            [1, 2, 4, 8, 16, 16, 16, 16, 16, 0],
            "3 came each time"
        );
        for wait in 1..REST {
            assert_eq!(step(), 0, "{wait}");
        }
        assert_eq!(step(), 1, "it is tried again");
    }
}
