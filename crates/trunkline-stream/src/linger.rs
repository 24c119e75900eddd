//! How a program that has caught up with the other one lets it get ahead again.
//!
//! Both ends of a ring in memory look at each other's position. A program that takes elements one
//! by one as soon as they are there takes the line of the position from the other processor for
//! each of them, and both spend their time on handing it to and fro (30 to 100 ns a time). One that
//! leaves the other alone for a moment then has many elements for one line.
//!
//! It does so only while elements keep coming without a wait worth the name. Who waits for answers
//! finds nothing at the first looks, and is not made to wait longer.

/// Looks at the ring that are no wait: less than 100 ns together.
const LOOKS: u32 = 16;

/// Elements for one handing over that are enough.
const ENOUGH: u64 = 64;

/// Pauses of the processor at most: below a microsecond.
const PAUSES_MAX: u32 = 16;

/// How long to leave the other program alone.
#[derive(Debug, Default)]
pub(crate) struct Linger {
    /// Pauses of the processor before the next look.
    pauses: u32,
    /// Elements before the wait there was before this one.
    before: u64,
}

impl Linger {
    /// This program has come to `position`, in elements, and has to wait: true when `has` has
    /// become true so soon that it need not.
    pub(crate) fn run(&mut self, position: u64, mut has: impl FnMut() -> bool) -> bool {
        let came = position.wrapping_sub(self.before);
        self.before = position;
        for _ in 0..self.pauses {
            std::hint::spin_loop();
        }
        let is_there = (0..LOOKS).any(|_| has());
        self.pauses = match is_there {
            false => 0,
            true if came < ENOUGH => (self.pauses * 2).clamp(1, PAUSES_MAX),
            true => self.pauses,
        };
        is_there
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_finds_little_at_once_leaves_more_and_more_time() {
        let mut linger = Linger::default();
        for (position, pauses) in [(1, 1), (2, 2), (3, 4), (4, 8), (5, 16), (6, 16)] {
            assert!(linger.run(position, || true));
            assert_eq!(linger.pauses, pauses);
        }
        assert!(linger.run(6 + ENOUGH, || true), "enough came");
        assert_eq!(linger.pauses, 16, "so it is left as it is");
    }

    #[test]
    fn who_waits_for_answers_is_not_made_to_wait() {
        let mut linger = Linger::default();
        assert!(linger.run(1, || true));
        assert!(!linger.run(2, || false), "nothing at the first looks");
        assert_eq!(linger.pauses, 0);
        let mut looks = 0;
        assert!(linger.run(3, || {
            looks += 1;
            looks == LOOKS
        }));
    }
}
