//! Every interleaving of a writer and readers of the last-value cell.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p trunkline-ring --release --test 'loom_*'`.
#![cfg(loom)]
// Test helpers may panic.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use loom::sync::{Arc, Mutex};
use loom::thread;
use trunkline_ring::LastValue;

/// Without a bound these run for many minutes. A preemption takes the processor from a thread that
/// could continue; waits and ends are not counted. To tear a value takes two: the reader is stopped
/// between its words, and the writer between its own, or after lapping the reader. With four, both
/// reads of a reader may be hit so in one execution, or the retry of one of them.
const PREEMPTIONS_MAX: usize = 4;

fn check(words: [u64; 2], count: u64) {
    assert_eq!(words, [count, count * 10], "torn");
}

/// Behaviour: SP-13.
#[test]
fn reader_sees_whole_values_in_order() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS_MAX);
    builder.check(|| {
        let cell = Arc::new(LastValue::new(2));
        let reader = thread::spawn({
            let cell = Arc::clone(&cell);
            move || {
                let mut before = 0;
                for _ in 0..2 {
                    let mut words = [0; 2];
                    let snapshot = cell.read(&mut words);
                    // Three writes cannot overtake a reader eight times.
                    assert!(snapshot.complete);
                    assert!(snapshot.count >= before, "went back");
                    check(words, snapshot.count);
                    before = snapshot.count;
                }
            }
        });
        for count in 1..=3 {
            assert_eq!(cell.publish(&[count, count * 10]), count);
        }
        reader.join().unwrap();
        let mut words = [0; 2];
        assert_eq!(cell.read(&mut words).count, 3);
        check(words, 3);
    });
}

#[test]
fn two_readers_see_whole_values() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let cell = Arc::new(LastValue::new(2));
        let readers = [(); 2].map(|()| {
            let cell = Arc::clone(&cell);
            thread::spawn(move || {
                let mut words = [0; 2];
                let snapshot = cell.read(&mut words);
                assert!(snapshot.complete);
                check(words, snapshot.count);
            })
        });
        cell.publish(&[1, 10]);
        cell.publish(&[2, 20]);
        for reader in readers {
            reader.join().unwrap();
        }
    });
}

#[test]
fn writers_under_a_lock_are_one_writer() {
    loom::model(|| {
        let cell = Arc::new((LastValue::new(2), Mutex::new(())));
        let write = |cell: &(LastValue, Mutex<()>)| {
            let _lock = cell.1.lock().unwrap();
            let count = cell.0.count() + 1;
            assert_eq!(cell.0.publish(&[count, count * 10]), count);
        };
        let writer = thread::spawn({
            let cell = Arc::clone(&cell);
            move || write(&cell)
        });
        let reader = thread::spawn({
            let cell = Arc::clone(&cell);
            move || {
                let mut words = [0; 2];
                let snapshot = cell.0.read(&mut words);
                assert!(snapshot.complete);
                check(words, snapshot.count);
            }
        });
        write(&cell);
        writer.join().unwrap();
        reader.join().unwrap();
        assert_eq!(cell.0.count(), 2);
    });
}
