//! The buffer of a stream that several read: each gets everything from its place on, and the
//! producer has room where all have been.
#![cfg(not(loom))]
// Test helpers may panic.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::thread;

use proptest::prelude::*;
use trunkline_ring::{ElementCursor, RingShape, RingStart, element_ring_of_many};

fn bytes(cursor: &mut ElementCursor) -> Vec<u8> {
    let at = cursor.place().position;
    let len = (cursor.written().unwrap() - at) as usize;
    cursor.region_at(at, len).unwrap().concat()
}

/// Behaviour: B-62.
#[test]
fn room_is_what_the_slowest_has_passed() {
    let shape = RingShape::fixed(2, 3).unwrap();
    let (mut producer, sut) = element_ring_of_many(shape, RingStart::default());
    let ((mut one, before), (mut other, others)) = (sut.join(), sut.join());
    assert_eq!((before, others, sut.len()), (0, 1, 2));
    assert!(producer.push(b"aabbcc", 3).unwrap());
    assert_eq!(
        (bytes(&mut one), bytes(&mut other)),
        (b"aabbcc".into(), b"aabbcc".into())
    );
    one.pass(4, 2);
    assert!(!producer.push(b"dd", 1).unwrap());
    other.pass(2, 1);
    assert_eq!(sut.freed().position, 2);
    assert!(producer.push(b"dd", 1).unwrap() && !producer.push(b"ee", 1).unwrap());
    assert_eq!(
        (bytes(&mut one), bytes(&mut other)),
        (b"ccdd".into(), b"bbccdd".into())
    );
    // An element that was passed is no longer accessible, and none is passed twice or before it has
    // arrived.
    assert!(one.region_at(2, 2).is_none() && one.region_at(6, 4).is_none());
    one.pass(2, 1);
    one.pass(100, 50);
    assert_eq!((one.place().position, one.place().elements), (4, 2));
    // A reader that leaves blocks no other.
    drop(other);
    assert_eq!((sut.freed().position, sut.freed().elements), (4, 2));
    assert!(producer.push(b"ee", 1).unwrap());
    // Without a reader everything is kept for the next one.
    drop(one);
    assert!(sut.is_empty() && !producer.push(b"ff", 1).unwrap());
    let (mut next, _) = sut.join();
    assert_eq!(bytes(&mut next), b"ccddee");
}

/// Behaviour: B-62.
#[test]
fn counted_elements_are_released_too() {
    let shape = RingShape::variable(10, 2).unwrap();
    let (mut producer, sut) = element_ring_of_many(shape, RingStart::default());
    let ((mut one, _), (mut other, _)) = (sut.join(), sut.join());
    assert!(producer.push(b"abc", 1).unwrap() && producer.push(b"d", 1).unwrap());
    assert!(!producer.push(b"e", 1).unwrap());
    assert_eq!(
        (one.written().unwrap(), one.written_elements().unwrap()),
        (4, 2)
    );
    one.pass(4, 2);
    assert!(other.written().is_ok() && !producer.push(b"e", 1).unwrap());
    other.pass(3, 1);
    assert!(producer.push(b"e", 1).unwrap() && !producer.push(b"f", 1).unwrap());
}

/// Behaviour: B-62.
#[test]
fn producer_is_notified_of_a_waiting_consumer() {
    let shape = RingShape::fixed(1, 4).unwrap();
    let (mut producer, sut) = element_ring_of_many(shape, RingStart::default());
    let ((mut one, _), (mut other, _)) = (sut.join(), sut.join());
    assert!(!producer.must_wake());
    assert!(one.wait_after(0).unwrap());
    assert!(producer.must_wake() && !producer.must_wake());
    assert!(producer.push(&[1], 1).unwrap());
    assert!(!other.wait_after(0).unwrap(), "there is something");
    assert!(producer.must_wake());
}

proptest! {
    /// Behaviour: B-62.
    #[test]
    fn every_reader_gets_the_same_data_at_any_position_of_the_others(
        steps in prop::collection::vec((0..5_usize, 1..6_usize), 1..200),
    ) {
        let shape = RingShape::fixed(1, 7).unwrap();
        let start = RingStart { position: 5, elements: 5 };
        let (mut producer, sut) = element_ring_of_many(shape, start);
        let mut cursors: Vec<ElementCursor> = Vec::new();
        let (mut written, mut freed) = (5_u64, 5_u64);
        for (what, count) in steps {
            match what {
                0 => {
                    let run: Vec<u8> = (0..count as u64).map(|at| (written + at) as u8).collect();
                    let is_pushed = producer.push(&run, count as u64).unwrap();
                    prop_assert_eq!(is_pushed, written + count as u64 - freed <= 7);
                    if is_pushed {
                        written += count as u64;
                    }
                }
                1 if cursors.len() < 4 => cursors.push(sut.join().0),
                2 if !cursors.is_empty() => {
                    cursors.remove(count % cursors.len());
                }
                _ => {
                    let Some(cursor) = cursors.get_mut(count % 4) else { continue };
                    let at = cursor.place().position;
                    let found = bytes(cursor);
                    let expected: Vec<u8> = (at..written).map(|at| at as u8).collect();
                    prop_assert_eq!(found, expected);
                    let to = (at + count as u64).min(written);
                    cursor.pass(to, to);
                }
            }
            freed = cursors.iter().map(|c| c.place().position).min().unwrap_or(freed);
            prop_assert_eq!(sut.freed().position, freed);
        }
    }
}

/// Behaviour: B-62.
#[test]
fn readers_of_several_threads_each_get_everything() {
    let shape = RingShape::fixed(8, 16).unwrap();
    let (mut producer, sut) = element_ring_of_many(shape, RingStart::default());
    let count = 20_000_u64;
    let reads: Vec<_> = (0..3)
        .map(|_| {
            let (mut cursor, _) = sut.join();
            thread::spawn(move || {
                for next in 0..count {
                    let mut element = [0; 8];
                    while cursor.written().unwrap() <= next * 8 {
                        thread::yield_now();
                    }
                    assert!(cursor.read_at(next * 8, &mut element));
                    assert_eq!(u64::from_le_bytes(element), next);
                    cursor.pass(next * 8 + 8, next + 1);
                }
            })
        })
        .collect();
    for next in 0..count {
        while !producer.push(&next.to_le_bytes(), 1).unwrap() {
            thread::yield_now();
        }
    }
    reads.into_iter().for_each(|read| read.join().unwrap());
}
