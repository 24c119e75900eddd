//! The limit for cells: a sequence lock alone.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// A sequence lock of `N` words.
#[derive(Debug)]
pub struct Seqlock<const N: usize> {
    sequence: AtomicU64,
    words: [AtomicU64; N],
}

impl<const N: usize> Seqlock<N> {
    pub fn new() -> Self {
        Self {
            sequence: AtomicU64::new(0),
            words: [const { AtomicU64::new(0) }; N],
        }
    }

    /// Writes. The caller must be the only writer.
    #[inline]
    pub fn write(&self, words: &[u64; N]) {
        let sequence = self.sequence.load(Ordering::Relaxed);
        self.sequence.store(sequence + 1, Ordering::Relaxed);
        self.fill(sequence, words);
    }

    /// Writes; waits for other writers.
    #[inline]
    pub fn lock_and_write(&self, words: &[u64; N]) {
        loop {
            let sequence = self.sequence.load(Ordering::Relaxed);
            let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
            let is_mine = sequence.is_multiple_of(2)
                && self
                    .sequence
                    .compare_exchange_weak(sequence, sequence + 1, acquire, relaxed)
                    .is_ok();
            if is_mine {
                return self.fill(sequence, words);
            }
            spin_loop();
        }
    }

    #[inline]
    fn fill(&self, sequence: u64, words: &[u64; N]) {
        fence(Ordering::Release);
        for (target, word) in self.words.iter().zip(words) {
            target.store(*word, Ordering::Relaxed);
        }
        self.sequence.store(sequence + 2, Ordering::Release);
    }

    /// Reads; waits for a writer.
    #[inline]
    pub fn read(&self, words: &mut [u64; N]) {
        loop {
            let sequence = self.sequence.load(Ordering::Acquire);
            if sequence.is_multiple_of(2) {
                for (target, word) in words.iter_mut().zip(&self.words) {
                    *target = word.load(Ordering::Relaxed);
                }
                fence(Ordering::Acquire);
                if self.sequence.load(Ordering::Relaxed) == sequence {
                    return;
                }
            }
            spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_writing_modes_are_read_back() {
        let sut = Seqlock::<2>::new();
        let mut words = [0; 2];
        sut.write(&[1, 2]);
        sut.read(&mut words);
        assert_eq!(words, [1, 2]);
        sut.lock_and_write(&[3, 4]);
        sut.read(&mut words);
        assert_eq!(words, [3, 4]);
    }
}
