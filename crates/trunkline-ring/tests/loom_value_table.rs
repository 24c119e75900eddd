//! Interleavings of stores and reads of the table of last values: every one with no more than two
//! preemptions.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p trunkline-ring --release --test 'loom_*'`.
#![cfg(loom)]
// Test helpers may panic.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use trunkline_ring::{TableEntry, TableValue, value_table};

fn value(number: u64) -> TableEntry {
    TableEntry::Value(TableValue {
        sequence: number,
        source_timestamp: number as i64,
        engine_timestamp: number as i64,
        quality: number as u32,
        writer: number as u32,
        value: [number; 3],
        length: 8,
    })
}

fn bounded() -> loom::model::Builder {
    let mut builder = loom::model::Builder::new();
    // A store writes seven words: without a bound this runs for hours, with a bound of 3 for
    // minutes.
    builder.preemption_bound = Some(2);
    builder
}

#[test]
fn reader_sees_whole_values_in_order_within_two_preemptions() {
    bounded().check(|| {
        let (writer, reader) = value_table(2);
        let reads = thread::spawn(move || {
            let mut before = 0;
            for _ in 0..2 {
                match reader.read(1, 0) {
                    None => assert_eq!(before, 0, "a stored value disappeared"),
                    Some(TableEntry::Value(read)) => {
                        assert_eq!(TableEntry::Value(read), value(read.sequence), "torn");
                        assert!(read.sequence >= before, "the sequence decreased");
                        before = read.sequence;
                    }
                    other => panic!("{other:?} was never stored"),
                }
            }
        });
        for number in 1..=3 {
            writer.store(1, 0, &value(number));
        }
        reads.join().unwrap();
    });
}

#[test]
fn finished_table_has_no_value_for_a_reader_that_saw_a_newer_one() {
    bounded().check(|| {
        let (writer, reader) = value_table(2);
        writer.store(1, 0, &value(1));
        // The newest value, once the table has ended.
        let elsewhere = Arc::new(AtomicU64::new(0));
        let newest = elsewhere.clone();
        let reads = thread::spawn(move || {
            let has_newer = newest.load(Ordering::Acquire) == 2;
            let entry = reader.read(1, 0);
            assert!(
                !has_newer || entry.is_none(),
                "an older value than one that this thread has seen"
            );
        });
        writer.finish();
        elsewhere.store(2, Ordering::Release);
        reads.join().unwrap();
    });
}
