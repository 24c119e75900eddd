//! How a program that has caught up with the other one lets it get ahead again.
//!
//! Both ends of a ring in memory look at each other's position. A program that takes elements one
//! by one as soon as they are there takes the line of the position from the other processor for
//! each of them, and both spend their time on handing it to and fro (30 to 100 ns a time). One that
//! leaves the other alone for a moment then has many elements for one line.
//!
//! It does so only while elements keep coming without a wait worth the name, and while it helps.
//! Who waits for answers finds nothing at the first looks, or has no more of them however long it
//! waits, and is not made to wait longer.

/// Looks at the ring that are hardly a wait: some 100 ns together.
const LOOKS: u32 = 16;

/// Looks of an end that would spin anyhow: about half a microsecond, in which one answers that
/// looks too. A look at the clock takes as long as several of these.
const LOOKS_SPINNING: u32 = 128;

/// Elements for one handing over that are enough.
const ENOUGH: u64 = 64;

/// Pauses of the processor at most: below a microsecond.
const PAUSES_MAX: u32 = 16;

/// Longest pauses in a row that brought no more than none did, until they are given up.
const FUTILE_MAX: u32 = 4;

/// Waits without a pause before they are tried again.
const REST: u32 = 1000;

/// How long to leave the other program alone.
#[derive(Debug)]
pub(crate) struct Linger {
    looks: u32,
    /// Pauses of the processor before the next look.
    pauses: u32,
    /// Those before the look at the wait before this one.
    last: u32,
    /// Elements before that wait.
    before: u64,
    /// Elements that came last where there was no pause.
    without: u64,
    /// Longest pauses that were of no use, in a row.
    futile: u32,
    /// Waits before it is tried again.
    rest: u32,
}

impl Linger {
    /// `spins`: an end that looks for a while before it sleeps.
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

    /// This program has come to `position`, in elements, and has to wait: true when `has` has
    /// become true so soon that it need not.
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

    /// Between the wait before and this one so many elements came.
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
    fn who_finds_little_at_once_leaves_more_and_more_time() {
        let mut linger = Linger::new(false);
        for (position, pauses) in [(1, 1), (2, 2), (3, 4), (4, 8), (5, 16), (9, 16)] {
            assert!(linger.run(position, || true));
            assert_eq!(linger.pauses, pauses);
        }
        assert!(linger.run(9 + ENOUGH, || true), "enough came");
        assert_eq!(linger.pauses, 16, "so it is left as it is");
    }

    #[test]
    fn who_finds_nothing_soon_is_not_made_to_wait() {
        for (spins, looks_max) in [(false, LOOKS), (true, LOOKS_SPINNING)] {
            let mut linger = Linger::new(spins);
            assert!(linger.run(1, || true));
            assert!(!linger.run(2, || false), "nothing at the first looks");
            assert_eq!(linger.pauses, 0);
            let mut looks = 0;
            assert!(linger.run(3, || {
                looks += 1;
                looks == looks_max
            }));
        }
    }

    #[test]
    fn who_has_no_more_however_long_it_waits_waits_no_more() {
        let mut linger = Linger::new(true);
        let mut position = 0;
        let mut step = || {
            position += 3;
            assert!(linger.run(position, || true));
            linger.pauses
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
