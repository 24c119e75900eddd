//! The mark set.
#![cfg(not(loom))]
// Test helpers may panic.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;

use proptest::prelude::*;
use trunkline_ring::{Cursor, IndexTooLarge, MarkSet, Taken};

fn set_for(indices: &[u32]) -> MarkSet {
    let set = MarkSet::new();
    for index in indices {
        set.ensure(*index).unwrap();
    }
    set
}

fn take(set: &MarkSet, cursor: &mut Cursor, limit: usize) -> (Vec<u32>, bool) {
    let mut indices = Vec::new();
    let Taken { count, more } = set.take(cursor, limit, &mut |index| indices.push(index));
    assert_eq!(count, indices.len());
    (indices, more)
}

fn take_all(set: &MarkSet) -> Vec<u32> {
    take(set, &mut Cursor::default(), usize::MAX).0
}

#[test]
fn only_the_mark_that_finds_the_whole_set_empty_asks_for_a_wake_up() {
    let indices = [0, 1, 64, 4_095, 4_096, 300_000, MarkSet::INDEX_MAX];
    let set = set_for(&indices);
    for round in 0..3 {
        assert!(set.is_empty());
        for (number, index) in indices.iter().enumerate() {
            assert_eq!(
                set.mark(*index),
                number == 0,
                "round {round}, index {index}"
            );
            assert!(!set.mark(*index));
        }
        assert!(!set.is_empty());
        assert_eq!(take_all(&set), indices);
    }
}

#[test]
fn index_marked_repeatedly_is_in_the_set_once() {
    let set = set_for(&[5]);
    for _ in 0..10 {
        set.mark(5);
    }
    assert_eq!(take_all(&set), [5]);
    assert_eq!(take_all(&set), []);
}

#[test]
fn limit_leaves_the_rest_marked_and_reports_it() {
    let indices = [3, 70, 5_000, 70_000, 1_000_000];
    let set = set_for(&indices);
    for index in indices {
        set.mark(index);
    }
    let mut cursor = Cursor::default();
    assert_eq!(take(&set, &mut cursor, 0), (vec![], true));
    assert_eq!(take(&set, &mut cursor, 2), (vec![3, 70], true));
    assert!(!set.is_empty());
    assert!(
        !set.mark(4),
        "the caller of `take` has been told to come again"
    );
    assert_eq!(
        take(&set, &mut cursor, 3),
        (vec![5_000, 70_000, 1_000_000], true)
    );
    assert_eq!(take(&set, &mut cursor, 3), (vec![4], false));
    assert!(set.is_empty());
    assert!(set.mark(4));
}

#[test]
fn repeatedly_marked_index_does_not_starve_the_others() {
    for busy in [0, 63, 64, 4_096] {
        let others = [1, 65, 4_097, 262_144, MarkSet::INDEX_MAX];
        let set = set_for(&others);
        set.ensure(busy).unwrap();
        for index in others {
            set.mark(index);
        }
        let mut cursor = Cursor::default();
        let mut waiting = BTreeSet::from(others);
        // One index at a time, with the busy one marked before each: two rounds reach all indices.
        for _ in 0..2 * (others.len() + 1) {
            set.mark(busy);
            let (indices, _) = take(&set, &mut cursor, 1);
            waiting.remove(&indices[0]);
        }
        assert!(waiting.is_empty(), "{waiting:?} starved by {busy}");
    }
}

#[test]
fn mark_set_during_a_drain_is_delivered_or_requests_another_drain() {
    let set = set_for(&[10, 20]);
    set.mark(10);
    set.mark(20);
    let mut asked = false;
    let mut delivered = Vec::new();
    let taken = set.take(&mut Cursor::default(), usize::MAX, &mut |index| {
        delivered.push(index);
        if delivered.len() <= 2 {
            // Behind the drain: 10 again, and a chunk it has not come to: 20 is still ahead.
            asked |= set.mark(10);
        }
    });
    assert!(!taken.more);
    assert_eq!(delivered, [10, 20]);
    assert!(asked);
    assert_eq!(take_all(&set), [10]);
}

#[test]
fn unmarked_index_is_not_delivered() {
    let set = set_for(&[1, 2]);
    set.mark(1);
    set.mark(2);
    assert!(set.unmark(1));
    assert!(!set.unmark(1));
    assert!(
        !set.unmark(1_000_000),
        "nothing is marked where there is no memory"
    );
    assert_eq!(take_all(&set), [2]);
}

#[test]
fn set_emptied_by_unmarking_may_look_non_empty_until_drained() {
    let set = set_for(&[9]);
    set.mark(9);
    set.unmark(9);
    assert_eq!(take_all(&set), []);
    assert!(set.is_empty());
    assert!(set.mark(9));
}

#[test]
fn marks_not_handed_out_survive_a_panic() {
    let indices: Vec<u32> = (0..200).map(|number| number * 37).collect();
    let set = set_for(&indices);
    for index in &indices {
        set.mark(*index);
    }
    let mut delivered = Vec::new();
    let mut cursor = Cursor::default();
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = set.take(&mut cursor, usize::MAX, &mut |index| {
            delivered.push(index);
            assert!(delivered.len() < 50, "planned");
        });
    }));
    assert!(outcome.is_err());
    delivered.extend(take(&set, &mut cursor, usize::MAX).0);
    assert_eq!(delivered, indices);
}

#[test]
fn dropped_drain_returns_the_undelivered_updates() {
    let set = set_for(&[0, 100, 200_000]);
    for index in [0, 100, 200_000] {
        set.mark(index);
    }
    let mut cursor = Cursor::default();
    let mut drain = set.drain(&mut cursor);
    assert_eq!(drain.next(), Some(0));
    assert!(drain.has_more());
    drop(drain);
    assert_eq!(set.drain(&mut cursor).collect::<Vec<_>>(), [100, 200_000]);
    assert!(!set.drain(&mut cursor).has_more());
}

#[test]
fn index_beyond_the_last_is_refused() {
    let set = MarkSet::new();
    assert_eq!(MarkSet::INDEX_MAX, 2_097_151);
    assert_eq!(set.ensure(MarkSet::INDEX_MAX), Ok(()));
    let index = MarkSet::INDEX_MAX + 1;
    let error = set.ensure(index).unwrap_err();
    assert_eq!(error, IndexTooLarge { index });
    assert_eq!(
        error.to_string(),
        "index 2097152 is above the maximum, 2097151; use a lower one"
    );
    assert!(set.ensure(u32::MAX).is_err());
}

#[test]
#[should_panic(expected = "index 7 is marked before `ensure(7)`: call that first")]
fn mark_without_memory_is_a_mistake() {
    MarkSet::new().mark(7);
}

#[test]
#[should_panic(expected = "index 4294967295 is marked before")]
fn mark_beyond_the_last_is_a_mistake() {
    MarkSet::default().mark(u32::MAX);
}

#[derive(Debug, Clone)]
enum Step {
    Mark(u32),
    Unmark(u32),
    Take(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Few indices, so that steps meet; at the edges of words, chunks and groups.
    let index = || {
        prop_oneof![
            0_u32..4,
            60_u32..68,
            4_090_u32..4_100,
            262_140_u32..262_150,
            MarkSet::INDEX_MAX - 3..=MarkSet::INDEX_MAX,
        ]
    };
    let step = prop_oneof![
        6 => index().prop_map(Step::Mark),
        1 => index().prop_map(Step::Unmark),
        2 => (0_usize..8).prop_map(Step::Take),
        1 => Just(Step::Take(usize::MAX)),
    ];
    prop::collection::vec(step, 0..200)
}

proptest! {
    #[test]
    fn set_is_a_set_drained_round_and_round(steps in steps()) {
        let set = MarkSet::new();
        let mut model = BTreeSet::new();
        let mut cursor = Cursor::default();
        let mut next = 0;
        // True if a drain must follow: a mark has requested it, or a take has returned `more`.
        let mut is_drain_due = false;
        for step in steps {
            match step {
                Step::Mark(index) => {
                    set.ensure(index).unwrap();
                    let asks = set.mark(index);
                    prop_assert!(!(asks && is_drain_due), "one wake-up is enough");
                    is_drain_due |= asks;
                    model.insert(index);
                }
                Step::Unmark(index) => prop_assert_eq!(set.unmark(index), model.remove(&index)),
                Step::Take(limit) => {
                    let (indices, more) = take(&set, &mut cursor, limit);
                    let around = model.range(next..).chain(model.range(..next));
                    let expected: Vec<u32> = around.copied().take(limit).collect();
                    prop_assert_eq!(&indices, &expected);
                    for index in indices {
                        model.remove(&index);
                        next = if index == MarkSet::INDEX_MAX { 0 } else { index + 1 };
                    }
                    is_drain_due = more;
                }
            }
            prop_assert!(is_drain_due || model.is_empty(), "marks nobody will come for");
            prop_assert!(!set.is_empty() || model.is_empty());
        }
    }
}

#[test]
fn no_mark_and_no_wake_up_is_lost_between_threads() {
    const MARKERS: usize = 3;
    const MARKS: u64 = 60_000;
    // Spread over words, chunks and groups, and few enough to be marked while they are drained.
    let indices: Vec<u32> = (0..97).map(|number| number * 21_007).collect();
    let set = Arc::new(set_for(&indices));
    let values: Arc<Vec<AtomicU64>> = Arc::new(indices.iter().map(|_| AtomicU64::new(0)).collect());
    let is_woken = Arc::new(AtomicBool::new(false));
    let at_work = Arc::new(AtomicUsize::new(MARKERS));

    let markers: Vec<_> = (0..MARKERS)
        .map(|marker| {
            let (set, values) = (Arc::clone(&set), Arc::clone(&values));
            let (is_woken, at_work) = (Arc::clone(&is_woken), Arc::clone(&at_work));
            let indices = indices.clone();
            thread::spawn(move || {
                for number in 0..MARKS {
                    let which = (number as usize * (marker + 2)) % indices.len();
                    values[which].fetch_add(1, Ordering::Relaxed);
                    if set.mark(indices[which]) {
                        is_woken.store(true, Ordering::Release);
                    }
                }
                at_work.fetch_sub(1, Ordering::Release);
            })
        })
        .collect();

    let mut cursor = Cursor::default();
    let mut seen = vec![0; indices.len()];
    loop {
        let is_over = at_work.load(Ordering::Acquire) == 0;
        if !is_woken.swap(false, Ordering::AcqRel) {
            if is_over {
                break;
            }
            thread::yield_now();
            continue;
        }
        // Drains only if it was woken, or if `more` was returned.
        while {
            let each = &mut |index: u32| {
                let which = index as usize / 21_007;
                // A mark publishes the writes before it.
                seen[which] = values[which].load(Ordering::Relaxed);
            };
            set.take(&mut cursor, 10, each).more
        } {}
    }
    for marker in markers {
        marker.join().unwrap();
    }
    for (seen, value) in seen.iter().zip(&*values) {
        assert_eq!(
            *seen,
            value.load(Ordering::Relaxed),
            "the last mark was lost"
        );
    }
    assert!(set.is_empty());
}
