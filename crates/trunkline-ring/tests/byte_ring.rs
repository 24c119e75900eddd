//! The byte ring, and its behaviour with an untrusted peer.
#![cfg(not(loom))]
// Test helpers may panic.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use proptest::prelude::*;
use trunkline_ring::{ByteConsumer, ByteProducer, Corrupt, RingHeader, RingMemory, byte_ring};

const CAPACITY: usize = 64;
const WORDS: usize = size_of::<RingHeader>() / 8;

#[test]
fn bytes_arrive_in_order_across_the_end_of_the_ring() {
    let (mut producer, mut consumer) = byte_ring(8);
    let mut sent = (0..=255_u8).cycle();
    let mut expected = (0..=255_u8).cycle();
    for length in (1..=8).cycle().take(1000) {
        let bytes: Vec<u8> = sent.by_ref().take(length).collect();
        assert_eq!(producer.push(&bytes).unwrap().count, length);
        let mut popped = [0; 16];
        let count = consumer.pop(&mut popped).unwrap().count;
        assert_eq!(count, length);
        assert!(
            popped[..count]
                .iter()
                .eq(expected.by_ref().take(count).collect::<Vec<_>>().iter())
        );
    }
    assert!(consumer.is_empty());
}

#[test]
fn a_full_ring_takes_what_fits() {
    let (mut producer, mut consumer) = byte_ring(8);
    assert_eq!(producer.push(&[1; 20]).unwrap().count, 8);
    assert_eq!(producer.push(&[1]).unwrap().count, 0);
    assert!(producer.wait_for_room().unwrap());
    let mut bytes = [0; 3];
    let moved = consumer.pop(&mut bytes).unwrap();
    assert!((moved.count, moved.wake) == (3, true), "{moved:?}");
    assert!(!producer.wait_for_room().unwrap());
    assert_eq!(producer.push(&[2; 20]).unwrap().count, 3);
}

#[test]
fn only_the_waiting_end_is_woken_and_only_once() {
    let (mut producer, mut consumer) = byte_ring(8);
    assert!(!producer.push(&[1]).unwrap().wake, "nobody waits");
    assert_eq!(consumer.pop(&mut [0; 8]).unwrap().count, 1);
    assert!(consumer.wait_for_bytes().unwrap());
    assert!(producer.push(&[2]).unwrap().wake);
    assert!(!producer.push(&[3]).unwrap().wake);
    assert!(!consumer.wait_for_bytes().unwrap(), "there are bytes");
}

#[test]
fn two_threads_move_a_million_bytes() {
    const BYTES: usize = 1_000_000;
    let (mut producer, mut consumer) = byte_ring(256);
    let producing = thread::spawn(move || {
        let bytes: Vec<u8> = (0..BYTES).map(|n| (n % 251) as u8).collect();
        let mut sent = 0;
        while sent < BYTES {
            sent += producer.push(&bytes[sent..]).unwrap().count;
        }
    });
    let mut received = 0;
    let mut bytes = [0; 100];
    while received < BYTES {
        let count = consumer.pop(&mut bytes).unwrap().count;
        for (offset, byte) in bytes[..count].iter().enumerate() {
            assert_eq!(*byte, ((received + offset) % 251) as u8);
        }
        received += count;
    }
    producing.join().unwrap();
}

/// Memory in which any content can be written.
struct Open {
    words: Box<[AtomicU64]>,
}

impl Open {
    fn new() -> Arc<Self> {
        // Aligned by hand: the header wants 128 bytes.
        let words = (0..WORDS + CAPACITY / 8 + 16).map(|_| AtomicU64::new(0));
        Arc::new(Self {
            words: words.collect(),
        })
    }

    fn first(&self) -> usize {
        self.words.as_ptr().align_offset(128)
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        &self.words[self.first() + at]
    }

    fn memory(self: &Arc<Self>) -> RingMemory {
        let words = &self.words[self.first()..];
        let header = NonNull::from(words).cast();
        let bytes = NonNull::from(&words[WORDS..]).cast();
        // SAFETY: inside the allocation that the owner keeps, aligned, apart; the words are only
        // used as atomics, and the bytes only by the ends.
        unsafe { RingMemory::from_raw(header, bytes, CAPACITY, self.clone()) }
    }

    fn ends(self: &Arc<Self>) -> (ByteProducer, ByteConsumer) {
        (self.memory().producer(), self.memory().consumer())
    }
}

/// A position of the other end, from plausible to nonsense.
fn position() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..200_u64,
        any::<u64>(),
        Just(u64::MAX),
        (0..100_u64).prop_map(|n| u64::MAX - n)
    ]
}

proptest! {
    #[test]
    fn corrupted_headers_are_detected_or_harmless(
        steps in prop::collection::vec((0..6_u8, 0..WORDS, position(), 0..100_usize), 1..60),
    ) {
        let memory = Open::new();
        let (mut producer, mut consumer) = memory.ends();
        let mut buffer = [0; 100];
        for (what, word, value, length) in steps {
            // Any answer is allowed, as long as no more is moved than exists.
            match what {
                0 | 1 => memory.word(word).store(value, Ordering::Relaxed),
                2 => if let Ok(moved) = producer.push(&buffer[..length]) {
                    prop_assert!(moved.count <= length.min(CAPACITY));
                },
                3 => if let Ok(moved) = consumer.pop(&mut buffer[..length]) {
                    prop_assert!(moved.count <= length.min(CAPACITY));
                },
                4 => { let _ = producer.wait_for_room(); },
                _ => { let _ = (consumer.wait_for_bytes(), consumer.is_empty()); },
            }
        }
    }

    #[test]
    fn a_position_beyond_the_ring_is_found(beyond in CAPACITY as u64 + 1..) {
        let memory = Open::new();
        let (mut producer, mut consumer) = memory.ends();
        let [tail, head] = [0, 16].map(|at| memory.word(at));
        tail.store(beyond, Ordering::Relaxed);
        prop_assert_eq!(consumer.pop(&mut [0; 8]), Err(Corrupt));
        prop_assert!(!consumer.is_empty(), "so that somebody looks");
        producer.push(&[0; CAPACITY]).unwrap();
        head.store(beyond, Ordering::Relaxed);
        prop_assert_eq!(producer.push(&[0]), Err(Corrupt));
        prop_assert_eq!(producer.wait_for_room(), Err(Corrupt));
    }
}

#[test]
fn position_never_decreases() {
    let memory = Open::new();
    let (mut producer, mut consumer) = memory.ends();
    let [tail, head] = [0, 16].map(|at| memory.word(at));
    producer.push(&[0; 20]).unwrap();
    assert_eq!(consumer.pop(&mut [0; 8]).unwrap().count, 8);
    tail.store(19, Ordering::Relaxed);
    assert_eq!(consumer.pop(&mut [0; 20]), Err(Corrupt));
    producer.push(&[0; 52]).unwrap();
    head.store(7, Ordering::Relaxed);
    assert!(producer.push(&[0; 40]).is_err());
}
