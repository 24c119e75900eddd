//! Lets a program that has caught up with its peer pause briefly before it polls again.
//!
//! Both ends of a ring in memory read each other's position. A program that takes each element as
//! soon as it arrives fetches the cache line of the position from the other processor once per
//! element, and both processors spend their time transferring it (30 to 100 ns per transfer). A
//! program that pauses for a moment gets many elements per transfer.
//!
//! The program pauses only while elements keep arriving almost without a wait, and only while
//! pausing helps. A program that waits for answers finds nothing in its first polls, or gets no
//! more elements however long it pauses, so its waits are not prolonged.

/// Number of polls before a wait: about 100 ns in total.
const POLLS: u32 = 16;

/// Number of polls before a wait that begins with spinning: about half a microsecond, within which a
/// spinning peer answers. The polls are counted because reading the clock takes as long as several
/// polls.
const POLLS_SPINNING: u32 = 128;

/// Number of elements per transfer at which the pause is long enough.
const BATCH_ENOUGH: u64 = 64;

/// Longest pause, in spin-loop hints: below a microsecond.
const PAUSES_MAX: u32 = 16;

/// Number of consecutive longest pauses without benefit after which pausing stops.
const FUTILE_PAUSES_MAX: u32 = 4;

/// Number of waits without a pause before pausing is tried again.
const WAITS_BEFORE_RETRY: u32 = 1000;

/// Decides how long to pause before the next poll.
#[derive(Debug)]
pub(crate) struct CatchUpBackoff {
    /// Number of polls before a wait.
    polls: u32,
    /// Length of the pause before the next poll, in spin-loop hints.
    pauses: u32,
    /// Length of the pause at the previous wait, in spin-loop hints.
    last_pauses: u32,
    /// Position at the previous wait, in elements.
    last_position: u64,
    /// Number of elements that arrived the last time there was no pause.
    arrived_without_pause: u64,
    /// Number of consecutive longest pauses without benefit.
    futile_pauses: u32,
    /// Number of waits left before pausing is tried again.
    waits_before_retry: u32,
}

impl CatchUpBackoff {
    /// `spins` is true if the endpoint spins for a while before it sleeps.
    pub(crate) fn new(spins: bool) -> Self {
        Self {
            polls: if spins { POLLS_SPINNING } else { POLLS },
            pauses: 0,
            last_pauses: 0,
            last_position: 0,
            arrived_without_pause: 0,
            futile_pauses: 0,
            waits_before_retry: 0,
        }
    }

    /// Called when the program has reached `position`, in elements, and would have to wait. Returns
    /// true if `has` becomes true so soon that no wait is needed.
    pub(crate) fn run(&mut self, position: u64, mut has: impl FnMut() -> bool) -> bool {
        let arrived = position.wrapping_sub(self.last_position);
        self.last_position = position;
        self.adjust(arrived);
        self.last_pauses = self.pauses;
        for _ in 0..self.pauses {
            std::hint::spin_loop();
        }
        let has_arrived = (0..self.polls).any(|_| has());
        self.pauses = match has_arrived {
            _ if self.waits_before_retry > 0 => 0,
            false => 0,
            true if arrived < BATCH_ENOUGH => (self.pauses * 2).clamp(1, PAUSES_MAX),
            true => self.pauses,
        };
        has_arrived
    }

    /// Adjusts the state to the number of elements that arrived since the previous wait.
    fn adjust(&mut self, arrived: u64) {
        self.waits_before_retry = self.waits_before_retry.saturating_sub(1);
        match self.last_pauses {
            0 => self.arrived_without_pause = arrived.min(BATCH_ENOUGH),
            PAUSES_MAX
                if arrived < BATCH_ENOUGH / 2 && arrived < self.arrived_without_pause * 2 =>
            {
                self.futile_pauses += 1
            }
            _ => self.futile_pauses = 0,
        }
        if self.futile_pauses == FUTILE_PAUSES_MAX {
            (self.futile_pauses, self.pauses, self.waits_before_retry) = (0, 0, WAITS_BEFORE_RETRY);
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
        assert!(backoff.run(9 + BATCH_ENOUGH, || true), "enough arrived");
        assert_eq!(backoff.pauses, 16, "the pause does not change");
    }

    #[test]
    fn no_pause_after_an_empty_poll() {
        for (spins, polls_max) in [(false, POLLS), (true, POLLS_SPINNING)] {
            let mut backoff = CatchUpBackoff::new(spins);
            assert!(backoff.run(1, || true));
            assert!(!backoff.run(2, || false), "the first polls find nothing");
            assert_eq!(backoff.pauses, 0);
            let mut polls = 0;
            assert!(backoff.run(3, || {
                polls += 1;
                polls == polls_max
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
        let pauses: Vec<u32> = (0..10).map(|_| step()).collect();
        assert_eq!(
            pauses,
            [1, 2, 4, 8, 16, 16, 16, 16, 16, 0],
            "3 arrived each time"
        );
        for wait in 1..WAITS_BEFORE_RETRY {
            assert_eq!(step(), 0, "{wait}");
        }
        assert_eq!(step(), 1, "pausing is tried again");
    }
}
