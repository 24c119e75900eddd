//! Interleavings of markers and a drainer: no mark and no wake-up is lost.
//!
//! Under loom a chunk has two words, and there are two groups of chunks; the levels are the same.
//!
//! loom runs read-modify-writes of different words in one order for all threads. So it judges that
//! marks and values arrive, but not the acquire half of `set_bit` and the release half of
//! `take_bits`, which keep those words in order on machines that have no such one order; the
//! comments there argue it.
#![cfg(loom)]
// Test helpers may panic.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use loom::model::Builder;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use loom::thread;
use trunkline_ring::{Cursor, MarkSet};

/// Preemptions that the models of two markers and a drainer go through: all of three.
const PREEMPTIONS_MAX: usize = 3;

/// A set, the consumers to wake, and a value per index that its mark represents.
struct Rig {
    set: MarkSet,
    is_woken: AtomicBool,
    indices: Vec<u32>,
    values: Vec<AtomicU64>,
}

impl Rig {
    fn new(indices: &[u32]) -> Arc<Self> {
        let set = MarkSet::new();
        for index in indices {
            set.ensure(*index).unwrap();
        }
        Arc::new(Self {
            set,
            is_woken: AtomicBool::new(false),
            indices: indices.to_vec(),
            values: indices.iter().map(|_| AtomicU64::new(0)).collect(),
        })
    }

    /// A swap and not a store: loom lets a swap elsewhere read the value before a concurrent store
    /// and still be ordered after it, which no machine does.
    fn wake(&self) {
        self.is_woken.swap(true, Ordering::AcqRel);
    }

    /// Changes a value and marks its index; wakes the drainer if it is this marker's to do.
    fn change(&self, which: usize) {
        self.values[which].fetch_add(1, Ordering::Relaxed);
        if self.set.mark(self.indices[which]) {
            self.wake();
        }
    }

    /// Drains once if woken; returns false when there was nothing to come for.
    fn drain_if_woken(&self, cursor: &mut Cursor, limit: usize, seen: &mut [u64]) -> bool {
        if !self.is_woken.swap(false, Ordering::AcqRel) {
            return false;
        }
        let taken = self.set.take(cursor, limit, &mut |index| {
            let which = self
                .indices
                .iter()
                .position(|i| *i == index)
                .expect("was marked");
            seen[which] = self.values[which].load(Ordering::Relaxed);
        });
        if taken.more {
            self.wake();
        }
        true
    }

    /// Runs after all threads: drains as long as it is requested, and checks that this was enough.
    fn check_nothing_is_lost(&self, cursor: &mut Cursor, limit: usize, seen: &mut [u64]) {
        while self.drain_if_woken(cursor, limit, seen) {}
        for (seen, value) in seen.iter().zip(&self.values) {
            assert_eq!(
                *seen,
                value.load(Ordering::Relaxed),
                "a mark or a wake-up was lost"
            );
        }
        assert!(self.set.is_empty());
    }
}

/// Two markers change the values at `changes`, while a drainer comes twice if it is woken.
fn check(indices: &'static [u32], changes: [&'static [usize]; 2], limit: usize) {
    let mut builder = Builder::new();
    // Without a bound the largest of them take minutes.
    builder.preemption_bound = Some(PREEMPTIONS_MAX);
    builder.check(move || {
        let rig = Rig::new(indices);
        let marker = thread::spawn({
            let rig = Arc::clone(&rig);
            move || changes[0].iter().for_each(|which| rig.change(*which))
        });
        let drainer = thread::spawn({
            let rig = Arc::clone(&rig);
            move || {
                let mut cursor = Cursor::default();
                let mut seen = vec![0; rig.indices.len()];
                for _ in 0..2 {
                    rig.drain_if_woken(&mut cursor, limit, &mut seen);
                }
                (cursor, seen)
            }
        });
        changes[1].iter().for_each(|which| rig.change(*which));
        marker.join().unwrap();
        let (mut cursor, mut seen) = drainer.join().unwrap();
        rig.check_nothing_is_lost(&mut cursor, limit, &mut seen);
    });
}

#[test]
fn marks_of_one_index() {
    check(&[5], [&[0], &[0]], usize::MAX);
}

#[test]
fn marks_in_one_word() {
    check(&[5, 6], [&[0], &[1]], usize::MAX);
}

#[test]
fn marks_in_two_words_of_a_chunk() {
    check(&[5, 70], [&[0], &[1]], usize::MAX);
}

#[test]
fn marks_in_two_chunks() {
    check(&[5, 130], [&[0], &[1]], usize::MAX);
}

#[test]
fn marks_in_two_groups() {
    check(&[5, 8_200], [&[0], &[1]], usize::MAX);
}

#[test]
fn index_marked_again_while_it_is_drained() {
    check(&[5, 6], [&[0, 0], &[1]], usize::MAX);
}

#[test]
fn marks_left_by_a_limit() {
    check(&[5, 6], [&[0], &[1]], 1);
}

#[test]
fn marks_left_by_a_limit_in_another_chunk() {
    check(&[5, 130], [&[0], &[1]], 1);
}

/// The drain begins in the middle of a word whose beginning is marked too.
#[test]
fn marks_before_and_after_the_cursor() {
    loom::model(|| {
        let rig = Rig::new(&[5, 6]);
        let mut cursor = Cursor::default();
        let mut seen = vec![0; 2];
        rig.change(0);
        rig.drain_if_woken(&mut cursor, usize::MAX, &mut seen);
        let marker = thread::spawn({
            let rig = Arc::clone(&rig);
            move || [1, 0].iter().for_each(|which| rig.change(*which))
        });
        for _ in 0..2 {
            rig.drain_if_woken(&mut cursor, usize::MAX, &mut seen);
        }
        marker.join().unwrap();
        rig.check_nothing_is_lost(&mut cursor, usize::MAX, &mut seen);
    });
}

#[test]
fn index_unmarked_while_it_is_drained_is_delivered_or_not() {
    loom::model(|| {
        let rig = Rig::new(&[5, 6]);
        rig.change(0);
        rig.change(1);
        let drainer = thread::spawn({
            let rig = Arc::clone(&rig);
            move || {
                let mut seen = vec![0; 2];
                rig.drain_if_woken(&mut Cursor::default(), usize::MAX, &mut seen);
                seen
            }
        });
        let was_marked = rig.set.unmark(5);
        let seen = drainer.join().unwrap();
        assert_eq!(seen, [u64::from(!was_marked), 1]);
    });
}

/// Another marker may be interrupted at any step in the same word: a mark set before a drain is
/// found by it.
#[test]
fn mark_is_found_by_the_next_drain_despite_interrupted_markers() {
    loom::model(|| {
        let rig = Rig::new(&[5, 6]);
        let marker = thread::spawn({
            let rig = Arc::clone(&rig);
            move || {
                rig.set.mark(5);
            }
        });
        rig.set.mark(6);
        let mut seen = Vec::new();
        let taken = rig
            .set
            .take(&mut Cursor::default(), usize::MAX, &mut |index| {
                seen.push(index)
            });
        assert!(seen.contains(&6) && !taken.more);
        marker.join().unwrap();
    });
}
