//! The single-element FIFO: several writers, several readers, no lock.
#![cfg(not(loom))]
// Test helpers may panic.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use proptest::prelude::*;
use trunkline_ring::{CellBusy, Reader, RtCell};

/// Behaviour: SP-15.
#[test]
fn every_reader_gets_the_same_value_until_the_next_write() {
    let cell = Arc::new(RtCell::new(2));
    cell.write(&[1, 2]).unwrap();
    let mut readers = [(); 3].map(|()| Reader::new(Arc::clone(&cell)));
    for _ in 0..3 {
        for reader in &mut readers {
            assert_eq!(reader.read().words, [1, 2]);
        }
    }
    cell.write(&[3, 4]).unwrap();
    for reader in &mut readers {
        let reading = reader.read();
        assert_eq!((reading.words, reading.count), (&[3, 4][..], 2));
    }
}

/// Behaviour: SP-14.
#[test]
fn writes_without_reads_and_reads_without_writes_report_nothing() {
    let cell = RtCell::new(1);
    for count in 1..=100 {
        assert_eq!(cell.write(&[count]), Ok(count));
    }
    for _ in 0..100 {
        let mut word = [0];
        let snapshot = cell.read(&mut word);
        assert!(snapshot.complete);
        assert_eq!((snapshot.count, word), (100, [100]));
    }
}

#[test]
fn unwritten_cell_reads_as_zeros_with_count_0() {
    let cell = RtCell::new(2);
    let mut words = [9; 2];
    let snapshot = cell.read(&mut words);
    assert!(snapshot.complete);
    assert_eq!((snapshot.count, cell.count(), words), (0, 0, [0; 2]));
}

/// Behaviour: SP-22.
#[test]
#[should_panic(expected = "the slice has 2 words, but the declared width is 1")]
fn write_of_the_wrong_length_panics() {
    let _ = RtCell::new(1).write(&[1, 2]);
}

/// Behaviour: SP-22.
#[test]
#[should_panic(expected = "the slice has 0 words, but the declared width is 1")]
fn read_of_the_wrong_length_panics() {
    let _ = RtCell::new(1).read(&mut []);
}

#[test]
fn busy_cell_error_names_a_remedy() {
    let message = CellBusy.to_string();
    assert!(
        message.contains("write again, or let fewer threads write"),
        "{message}"
    );
}

proptest! {
    #[test]
    fn last_write_is_read(values in prop::collection::vec(any::<[u64; 3]>(), 0..20)) {
        let cell = RtCell::new(3);
        let mut expected = [0; 3];
        for (value, count) in values.into_iter().zip(1_u64..) {
            expected = value;
            prop_assert_eq!(cell.write(&value), Ok(count));
        }
        let mut words = [0; 3];
        prop_assert!(cell.read(&mut words).complete);
        prop_assert_eq!(words, expected);
    }
}

/// Value number `sequence` of writer `writer`: 14 words that belong together.
fn value(writer: u64, sequence: u64) -> [u64; 14] {
    std::array::from_fn(|word| match word {
        0 => writer,
        1 => sequence,
        word => writer
            .wrapping_mul(0x9E37_79B9)
            .wrapping_add(sequence * word as u64),
    })
}

/// `writers` threads write `writes` values each, two threads read; returns how often a write found
/// the cell busy.
fn check_many_writers(writers: u64, writes: u64) -> u64 {
    let cell = Arc::new(RtCell::new(14));
    let busy = Arc::new(AtomicU64::new(0));
    let is_over = Arc::new(AtomicBool::new(false));

    let reading: Vec<_> = (0..2)
        .map(|_| {
            let (cell, is_over) = (Arc::clone(&cell), Arc::clone(&is_over));
            thread::spawn(move || {
                let mut last_of_each = vec![0; writers as usize];
                let mut words = [0; 14];
                let mut before = 0;
                while !is_over.load(Ordering::Acquire) {
                    let snapshot = cell.read(&mut words);
                    if !snapshot.complete || snapshot.count == 0 {
                        continue;
                    }
                    let [writer, sequence, ..] = words;
                    assert_eq!(words, value(writer, sequence), "torn");
                    assert!(snapshot.count >= before, "went back");
                    let last = &mut last_of_each[writer as usize];
                    assert!(sequence >= *last, "an older write replaced a newer one");
                    *last = sequence;
                    before = snapshot.count;
                }
            })
        })
        .collect();

    let writing: Vec<_> = (0..writers)
        .map(|writer| {
            let (cell, busy) = (Arc::clone(&cell), Arc::clone(&busy));
            thread::spawn(move || {
                let mut newest = (0, 0);
                for sequence in 1..=writes {
                    let count = loop {
                        match cell.write(&value(writer, sequence)) {
                            Ok(count) => break count,
                            Err(CellBusy) => busy.fetch_add(1, Ordering::Relaxed),
                        };
                        thread::yield_now();
                    };
                    assert!(count > newest.0, "numbers rise");
                    newest = (count, sequence);
                }
                newest
            })
        })
        .collect();

    let newest = writing
        .into_iter()
        .map(|w| w.join().unwrap())
        .collect::<Vec<_>>();
    is_over.store(true, Ordering::Release);
    for reader in reading {
        reader.join().unwrap();
    }

    // Every write took one number, and the one that took the last is the value.
    assert_eq!(cell.count(), writers * writes);
    let (winner, &(_, sequence)) = (0_u64..)
        .zip(&newest)
        .max_by_key(|(_, (count, _))| *count)
        .unwrap();
    let mut words = [0; 14];
    assert!(cell.read(&mut words).complete);
    assert_eq!(words, value(winner, sequence));
    busy.load(Ordering::Relaxed)
}

/// Behaviour: SP-11, SP-12, SP-14.
#[test]
fn three_writers_share_one_cell_and_none_is_refused_torn_or_lost() {
    assert_eq!(check_many_writers(3, 30_000), 0);
}

/// Behaviour: SP-12.
#[test]
fn more_writers_than_slots_tear_and_lose_nothing() {
    check_many_writers(6, 10_000);
}
