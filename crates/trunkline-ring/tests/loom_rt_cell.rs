//! Interleavings of writers and readers of the single-element FIFO.
//!
//! A bounded model explores every interleaving with up to that many preemptions, which finds almost
//! all bugs; without the bound it would run for hours.
#![cfg(loom)]
// Test helpers may panic.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use loom::model::Builder;
use loom::sync::Arc;
use loom::thread;
use trunkline_ring::RtCell;

fn model(preemptions_max: usize, run: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions_max);
    builder.check(run);
}

/// Writes a value that identifies its writer and whose words make a torn read visible. Returns its
/// count.
fn write(cell: &RtCell, value: u64) -> (u64, u64) {
    let count = cell
        .write(&[value, value * 10])
        .expect("three writers find a slot");
    (count, value)
}

fn read(cell: &RtCell) -> (u64, u64) {
    let mut words = [0; 2];
    let snapshot = cell.read(&mut words);
    assert!(
        snapshot.complete,
        "so few writes cannot overtake a reader eight times"
    );
    assert_eq!(words[1], words[0] * 10, "torn");
    (snapshot.count, words[0])
}

/// Behaviour: SP-12, SP-14.
#[test]
fn two_writers_lose_nothing_and_the_newest_wins() {
    model(3, || {
        let cell = Arc::new(RtCell::new(2));
        let writer = thread::spawn({
            let cell = Arc::clone(&cell);
            move || [write(&cell, 7), write(&cell, 6)]
        });
        let mine = [write(&cell, 8), write(&cell, 9)];
        let others = writer.join().unwrap();

        let mut written = [mine, others].concat();
        written.sort();
        let counts: Vec<u64> = written.iter().map(|(count, _)| *count).collect();
        assert_eq!(counts, [1, 2, 3, 4], "every write has its number");
        assert!(mine[0].0 < mine[1].0, "counts follow program order");
        assert!(others[0].0 < others[1].0, "counts follow program order");
        assert_eq!(read(&cell), written[3], "the newest claimed write wins");
    });
}

/// Behaviour: SP-12, SP-13.
#[test]
fn reader_concurrent_with_two_writers_sees_written_values_in_order() {
    model(3, || {
        let cell = Arc::new(RtCell::new(2));
        let writer = thread::spawn({
            let cell = Arc::clone(&cell);
            move || write(&cell, 7)
        });
        let reader = thread::spawn({
            let cell = Arc::clone(&cell);
            move || [read(&cell), read(&cell)]
        });
        let mine = write(&cell, 8);
        let written = [mine, writer.join().unwrap()];
        let [before, after] = reader.join().unwrap();
        assert!(before.0 <= after.0, "went back");
        for reading in [before, after] {
            assert!(
                reading == (0, 0) || written.contains(&reading),
                "a value that was never written"
            );
        }
    });
}

/// Slots are reused only from the fourth write on; this is where a reader can be overtaken.
///
/// Behaviour: SP-13.
#[test]
fn reader_of_a_reused_slot_sees_whole_values() {
    model(3, || {
        let cell = Arc::new(RtCell::new(2));
        write(&cell, 1);
        let reader = thread::spawn({
            let cell = Arc::clone(&cell);
            move || read(&cell)
        });
        for value in 2..=6 {
            assert_eq!(write(&cell, value), (value, value));
        }
        let (count, value) = reader.join().unwrap();
        assert_eq!(count, value);
        assert_eq!(read(&cell), (6, 6));
    });
}

/// Behaviour: SP-12.
#[test]
fn three_concurrent_writers_each_get_a_slot_and_the_newest_wins() {
    model(2, || {
        let cell = Arc::new(RtCell::new(2));
        let writers = [2, 3].map(|value| {
            let cell = Arc::clone(&cell);
            thread::spawn(move || write(&cell, value))
        });
        let mut written = vec![write(&cell, 1)];
        written.extend(writers.map(|writer| writer.join().unwrap()));
        written.sort();
        assert_eq!(read(&cell), written[2]);
    });
}

/// A slot passes from one writer to another: no store of the first writer becomes visible late.
///
/// Behaviour: SP-12.
#[test]
fn slots_pass_between_writers_without_tearing() {
    model(2, || {
        let cell = Arc::new(RtCell::new(2));
        let writer = thread::spawn({
            let cell = Arc::clone(&cell);
            move || [1, 2, 3].map(|value| write(&cell, value))
        });
        let mine = [4, 5, 6].map(|value| write(&cell, value));
        let mut written = [mine, writer.join().unwrap()].concat();
        written.sort();
        assert!(
            (1..)
                .zip(&written)
                .all(|(number, (count, _))| number == *count)
        );
        assert_eq!(read(&cell), written[5]);
    });
}
