//! The last-value cell: one writer at a time, any number of readers.
#![cfg(not(loom))]
// Test helpers may panic.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;
use std::thread;

use proptest::prelude::*;
use trunkline_ring::{LastValue, Reader};

#[test]
fn tag_never_changes() {
    let cell = LastValue::with_tag(2, u64::MAX);
    assert_eq!(LastValue::new(2).tag(), 0);
    for count in 1..=3 {
        assert_eq!(cell.publish(&[count, count]), count);
        assert_eq!((cell.tag(), cell.words()), (u64::MAX, 2));
        assert_eq!(cell.read_words(), Some((count, [count, count])));
    }
}

#[test]
fn cell_occupies_three_words() {
    assert!(size_of::<LastValue>() <= 24);
}

#[test]
fn unwritten_cell_reads_as_zeros_with_count_0() {
    let cell = LastValue::new(3);
    let mut words = [9; 3];
    let snapshot = cell.read(&mut words);
    assert!(snapshot.complete);
    assert_eq!((snapshot.count, cell.count(), words), (0, 0, [0; 3]));
}

#[test]
fn writes_are_numbered_from_1() {
    let cell = LastValue::new(1);
    for count in 1..=5 {
        assert_eq!(cell.publish(&[count * 10]), count);
        assert_eq!(cell.count(), count);
    }
}

/// Behaviour: SP-22.
#[test]
#[should_panic(
    expected = "the slice has 2 words, but the declared width is 3; pass a slice of that"
)]
fn write_of_the_wrong_length_panics() {
    LastValue::new(3).publish(&[1, 2]);
}

/// Behaviour: SP-22.
#[test]
#[should_panic(expected = "the slice has 4 words, but the declared width is 3")]
fn read_of_the_wrong_length_panics() {
    let _ = LastValue::new(3).read(&mut [0; 4]);
}

#[test]
fn value_without_words_acts_as_a_counter() {
    let cell = LastValue::new(0);
    cell.publish(&[]);
    assert_eq!(cell.read(&mut []).count, 1);
}

#[test]
fn reader_keeps_its_reading_until_a_newer_one_exists() {
    let cell = Arc::new(LastValue::new(2));
    cell.publish(&[1, 2]);
    let mut sut = Reader::new(Arc::clone(&cell));
    for _ in 0..2 {
        let reading = sut.read();
        assert_eq!(
            (reading.words, reading.count, reading.stale_read),
            (&[1, 2][..], 1, false)
        );
    }
    cell.publish(&[3, 4]);
    assert_eq!(sut.read().words, [3, 4]);
    assert_eq!(sut.cell().count(), 2);
}

proptest! {
    #[test]
    fn last_write_is_read(
        width in 0_usize..20,
        seeds in prop::collection::vec(any::<u64>(), 0..20),
    ) {
        let cell = LastValue::new(width);
        let mut expected = vec![0; width];
        for (seed, count) in seeds.into_iter().zip(1_u64..) {
            expected = (0..width as u64).map(|word| seed.wrapping_mul(word + 1)).collect();
            prop_assert_eq!(cell.publish(&expected), count);
            let mut words = vec![0; width];
            prop_assert_eq!(cell.read(&mut words).count, count);
            prop_assert_eq!(&words, &expected);
        }
        let mut words = vec![0; width];
        prop_assert!(cell.read(&mut words).complete);
        prop_assert_eq!(words, expected);
    }
}

/// Behaviour: SP-13.
#[test]
fn concurrent_readers_see_whole_values_in_order() {
    const WRITES: u64 = 100_000;
    const WIDTH: usize = 16;
    let value = |count: u64| std::array::from_fn::<u64, WIDTH, _>(|word| count ^ word as u64);

    let cell = Arc::new(LastValue::new(WIDTH));
    cell.publish(&value(1));
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let mut reader = Reader::new(Arc::clone(&cell));
            thread::spawn(move || {
                let mut before = 0;
                while before < WRITES {
                    let reading = reader.read();
                    assert_eq!(reading.words, value(reading.count), "torn");
                    assert!(reading.count >= before, "the count decreased");
                    before = reading.count;
                }
            })
        })
        .collect();
    for count in 2..=WRITES {
        cell.publish(&value(count));
    }
    for reader in readers {
        reader.join().unwrap();
    }
}

#[test]
fn writers_under_a_lock_share_one_sequence() {
    const WRITES: u64 = 20_000;
    let cell = Arc::new(std::sync::Mutex::new(LastValue::new(4)));
    let writers: Vec<_> = (0..2)
        .map(|_| {
            let cell = Arc::clone(&cell);
            thread::spawn(move || {
                for _ in 0..WRITES {
                    let cell = cell.lock().unwrap();
                    let next = cell.count() + 1;
                    assert_eq!(cell.publish(&[next; 4]), next);
                }
            })
        })
        .collect();
    for writer in writers {
        writer.join().unwrap();
    }
    let mut words = [0; 4];
    let snapshot = cell.lock().unwrap().read(&mut words);
    assert_eq!((snapshot.count, words), (2 * WRITES, [2 * WRITES; 4]));
}
