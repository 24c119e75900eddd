//! The buffer of a stream: in place and copied, in mirrored and in plain memory, and its behaviour
//! with an untrusted peer.
#![cfg(not(loom))]
// Test helpers may panic.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use proptest::prelude::*;
use trunkline_ring::{
    Corrupt, ElementConsumer, ElementHeader, ElementMemory, ElementProducer, RingShape, RingStart,
    SharedFills, element_ring,
};

const WORDS: usize = size_of::<ElementHeader>() / 8;
const WRITTEN: usize = 0;
const READ: usize = 16;

/// Memory in which any content can be written, with 64 bytes for elements.
struct Open {
    words: Box<[AtomicU64]>,
}

impl Open {
    fn new() -> Arc<Self> {
        // Aligned by hand: the header wants 128 bytes.
        let words = (0..WORDS + 8 + 16).map(|_| AtomicU64::new(0));
        Arc::new(Self {
            words: words.collect(),
        })
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        &self.words[self.words.as_ptr().align_offset(128) + at]
    }

    fn memory(self: &Arc<Self>, shape: RingShape) -> ElementMemory {
        let header = NonNull::from(self.word(0)).cast();
        let bytes = NonNull::from(self.word(WORDS)).cast();
        // SAFETY: inside the allocation that the owner keeps, aligned, apart, written once; the
        // header's words are only used as atomics, and the bytes only by the ends.
        unsafe { ElementMemory::from_raw(header, bytes, 64, false, shape, self.clone()) }
    }

    fn ends(self: &Arc<Self>, shape: RingShape) -> (ElementProducer, ElementConsumer) {
        (self.memory(shape).producer(), self.memory(shape).consumer())
    }
}

fn ring(shape: Option<RingShape>) -> (ElementProducer, ElementConsumer) {
    element_ring(shape.unwrap(), RingStart::default())
}

fn joined(pieces: [&[u8]; 2]) -> Vec<u8> {
    pieces.concat()
}

#[test]
fn a_push_is_all_or_nothing() {
    let (mut producer, mut consumer) = ring(RingShape::fixed(2, 4));
    assert!(producer.push(&[1; 6], 3).unwrap());
    assert!(!producer.push(&[2; 4], 2).unwrap(), "one is free");
    assert_eq!(producer.room().unwrap(), (2, 1));
    assert!(!consumer.pull(&mut [0; 8], 4).unwrap(), "three are there");
    assert_eq!(consumer.available().unwrap(), (6, 3));
    assert!(consumer.pull(&mut [0; 6], 3).unwrap());
    assert!(producer.push(&[2; 8], 4).unwrap());
    assert_eq!(producer.written_elements(), 7);
    assert_eq!(consumer.read_elements(), 3);
}

#[test]
fn capacity_is_in_elements_regardless_of_the_memory() {
    let memory = Open::new();
    let (mut producer, mut consumer) = memory.ends(RingShape::fixed(8, 5).unwrap());
    assert!(producer.push(&[1; 40], 5).unwrap());
    assert!(
        !producer.push(&[1; 8], 1).unwrap(),
        "though 24 bytes are free"
    );
    // Around the end of the 64 bytes, where an element is split in two.
    for round in 0..100_u8 {
        assert!(consumer.pull(&mut [0; 8], 1).unwrap());
        assert!(producer.push(&[round; 8], 1).unwrap());
    }
    assert!(consumer.has(40, 5).unwrap());
    let at = consumer.read_position();
    let rest = joined(consumer.region_at(at, 40).unwrap());
    let expected: Vec<u8> = (95..100).flat_map(|n| [n; 8]).collect();
    assert_eq!(rest, expected);
}

#[test]
fn variable_size_elements_are_bounded_in_number_and_bytes() {
    let (mut producer, mut consumer) = ring(RingShape::variable(10, 3));
    assert!(producer.push(&[1; 8], 1).unwrap());
    assert!(!producer.push(&[2; 3], 1).unwrap(), "too many bytes");
    assert!(producer.push(&[], 1).unwrap() && producer.push(&[3], 1).unwrap());
    assert!(!producer.push(&[], 1).unwrap(), "too many elements");
    assert_eq!(producer.room().unwrap(), (1, 0));
    assert_eq!(consumer.available().unwrap(), (9, 3));
    assert!(consumer.pull(&mut [0; 8], 1).unwrap());
    assert_eq!(producer.read_elements().unwrap(), 1);
    assert!(producer.push(&[4], 1).unwrap());
}

#[test]
fn frame_is_received_in_place_before_it_is_committed() {
    let (mut producer, mut consumer) = ring(RingShape::fixed(1, 8));
    assert!(producer.push(&[0; 6], 6).unwrap());
    assert!(consumer.pull(&mut [0; 6], 6).unwrap());
    assert!(producer.has_room(8, 8).unwrap());
    let [first, rest] = producer.free_at(7, 5).unwrap();
    assert_eq!((first.len(), rest.len()), (1, 4), "over the ring's end");
    first.fill(1);
    rest.fill(2);
    assert!(producer.free_at(7, 8).is_none(), "14 is the end");
    assert!(producer.free_at(5, 1).is_none(), "5 is given away");
    assert!(producer.write_at(6, &[9]));
    assert!(!consumer.has(1, 1).unwrap(), "nothing was given away");
    producer.commit(6, 6);
    assert!(consumer.has(6, 6).unwrap());
    assert_eq!(
        joined(consumer.region_at(6, 6).unwrap()),
        [9, 1, 2, 2, 2, 2]
    );
    assert!(consumer.region_at(6, 7).is_none());
    consumer.release(2, 2);
    assert!(consumer.region_at(7, 1).is_none(), "given back");
    assert_eq!(producer.read_position().unwrap(), 8);
}

#[test]
fn elements_are_aligned() {
    let (mut producer, _consumer) = ring(RingShape::fixed(16, 3));
    let [first, _] = producer.free_at(16, 16).unwrap();
    assert!(first.as_ptr().cast::<u128>().is_aligned());
}

#[test]
fn ring_continues_where_an_earlier_one_ended() {
    let start = RingStart {
        position: 1003,
        elements: 77,
    };
    let shape = RingShape::variable(10, 4).unwrap();
    let (mut producer, mut consumer) = element_ring(shape, start);
    assert!(producer.push(&[1, 2, 3], 2).unwrap());
    assert_eq!(producer.written_elements(), 79);
    assert_eq!(consumer.available().unwrap(), (3, 2));
    assert_eq!(joined(consumer.region_at(1003, 3).unwrap()), [1, 2, 3]);
    consumer.release(3, 2);
    assert_eq!(producer.read_elements().unwrap(), 79);
}

#[test]
fn only_the_waiting_end_is_woken_and_only_once() {
    let (mut producer, mut consumer) = ring(RingShape::fixed(1, 2));
    assert!(producer.push(&[1], 1).unwrap());
    assert!(!producer.must_wake(), "nobody waits");
    assert!(!consumer.wait_for(1, 1).unwrap(), "one is there");
    assert!(consumer.wait_for(2, 2).unwrap());
    assert!(producer.push(&[2], 1).unwrap());
    assert!(producer.must_wake());
    assert!(!producer.must_wake());
    assert!(producer.wait_for_room(1, 1).unwrap());
    consumer.release(1, 1);
    assert!(consumer.must_wake());
}

#[test]
#[should_panic(expected = "less room")]
fn committing_more_than_fits_panics() {
    ring(RingShape::fixed(1, 2)).0.commit(3, 3);
}

#[test]
fn shapes_without_capacity_are_invalid() {
    assert_eq!(RingShape::fixed(0, 5), None);
    assert_eq!(RingShape::fixed(5, 0), None);
    assert_eq!(RingShape::fixed(usize::MAX, 2), None);
    assert_eq!(RingShape::variable(0, 1), None);
    assert_eq!(RingShape::variable(1, 0), None);
}

#[test]
fn one_ring_is_both_buffers() {
    let fills = SharedFills {
        writer: 5,
        reader: 5,
    };
    assert_eq!(fills.capacity(), 10);
    // (written, read), and the content of the writer's and the reader's buffer.
    for (written, read, writer, reader) in [
        (0, 0, 0, 0),
        (3, 0, 0, 3),
        (7, 0, 2, 5),
        (10, 0, 5, 5),
        (10, 2, 3, 5),
        (10, 7, 0, 3),
    ] {
        let found = (
            fills.in_writer(written, read),
            fills.in_reader(written, read),
        );
        assert_eq!(found, (writer, reader), "{written} written, {read} read");
    }
}

#[test]
fn two_threads_move_elements_one_by_one() {
    const ELEMENTS: u64 = 100_000;
    let (mut producer, mut consumer) = ring(RingShape::fixed(8, 37));
    let producing = thread::spawn(move || {
        for number in 0..ELEMENTS {
            while !producer.push(&number.to_le_bytes(), 1).unwrap() {
                std::hint::spin_loop();
            }
        }
    });
    let mut element = [0; 8];
    for number in 0..ELEMENTS {
        while !consumer.pull(&mut element, 1).unwrap() {
            std::hint::spin_loop();
        }
        assert_eq!(u64::from_le_bytes(element), number);
    }
    producing.join().unwrap();
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

fn shape() -> impl Strategy<Value = RingShape> {
    prop_oneof![
        (1..9_usize, 1..7_usize).prop_map(|(bytes, count)| RingShape::fixed(bytes, count)),
        (1..60_usize, 1..7_usize).prop_map(|(bytes, count)| RingShape::variable(bytes, count)),
    ]
    .prop_map(Option::unwrap)
}

proptest! {
    /// Against a queue of elements, each a vector.
    #[test]
    fn elements_are_read_as_they_were_written(
        shape in shape(),
        start in (0..1000_u64, 0..1000_u64),
        steps in prop::collection::vec((0..4_u8, 0..12_usize), 1..120),
    ) {
        // A start between two elements of one size would be no start.
        let size = shape.element_bytes().unwrap_or(1) as u64;
        let start = RingStart { position: start.0 * size, elements: start.1 };
        let (mut producer, mut consumer) = element_ring(shape, start);
        let mut model: VecDeque<Vec<u8>> = VecDeque::new();
        let mut next = 0_u8;
        for (what, length) in steps {
            let length = shape.element_bytes().unwrap_or(length);
            let held: usize = model.iter().map(Vec::len).sum();
            let fits = held + length <= shape.bytes_max()
                && model.len() < shape.capacity() as usize;
            match what {
                0 | 1 => {
                    let bytes: Vec<u8> = std::iter::repeat_with(|| {
                        next = next.wrapping_add(1);
                        next
                    })
                    .take(length)
                    .collect();
                    let done = if what == 0 {
                        producer.push(&bytes, 1).unwrap()
                    } else if producer.has_room(length as u64, 1).unwrap() {
                        let [first, rest] = producer.free_at(producer.written(), length).unwrap();
                        let (a, b) = bytes.split_at(first.len());
                        first.copy_from_slice(a);
                        rest.copy_from_slice(b);
                        producer.commit(length as u64, 1);
                        true
                    } else {
                        false
                    };
                    prop_assert_eq!(done, fits);
                    if done { model.push_back(bytes); }
                }
                _ => {
                    let Some(expected) = model.front() else {
                        prop_assert_eq!(consumer.available(), Ok((0, 0)));
                        continue;
                    };
                    let length = expected.len();
                    prop_assert!(consumer.has(length as u64, 1).unwrap());
                    let mut bytes = vec![0; length];
                    if what == 2 {
                        prop_assert!(consumer.pull(&mut bytes, 1).unwrap());
                    } else {
                        let from = consumer.read_position();
                        bytes = joined(consumer.region_at(from, length).unwrap());
                        consumer.release(length as u64, 1);
                    }
                    prop_assert_eq!(&bytes, expected);
                    model.pop_front();
                }
            }
            let held: usize = model.iter().map(Vec::len).sum();
            prop_assert_eq!(consumer.available(), Ok((held as u64, model.len() as u64)));
            let free = shape.bytes_max() as u64 - held as u64;
            prop_assert_eq!(producer.room().unwrap().0, free);
        }
    }

    #[test]
    fn corrupted_headers_are_detected_or_harmless(
        shape in shape(),
        steps in prop::collection::vec((0..8_u8, 0..WORDS, position(), 0..100_usize), 1..60),
    ) {
        let memory = Open::new();
        let (mut producer, mut consumer) = memory.ends(shape);
        let mut buffer = [0; 100];
        for (what, word, value, length) in steps {
            // Whatever they answer, they answer, and stay inside the memory.
            match what {
                0 | 1 => memory.word(word).store(value, Ordering::Relaxed),
                2 => if producer.push(&buffer[..length], 1) == Ok(true) {
                    prop_assert!(length <= shape.bytes_max());
                },
                3 => if consumer.pull(&mut buffer[..length], 1) == Ok(true) {
                    prop_assert!(length <= shape.bytes_max());
                },
                4 => { let _ = (producer.room(), producer.wait_for_room(1, 1)); },
                5 => if let Some(pieces) = producer.free_at(value, length) {
                    pieces.into_iter().for_each(|piece| piece.fill(7));
                },
                6 => if let Some(pieces) = consumer.region_at(value, length) {
                    prop_assert_eq!(joined(pieces).len(), length);
                },
                _ => { let _ = (consumer.available(), consumer.wait_for(1, 1)); },
            }
        }
    }

    #[test]
    fn shared_ring_holds_as_much_as_two_buffers(
        writer in 1..9_u64,
        reader in 1..9_u64,
        steps in prop::collection::vec((any::<bool>(), 1..9_u64), 1..60),
    ) {
        let fills = SharedFills { writer, reader };
        // Two buffers, from the first into the second until that is full.
        let (mut first, mut second) = (0, 0);
        let (mut written, mut read) = (0, 0);
        for (write, count) in steps {
            if write && count <= writer && written - read + count <= fills.capacity() {
                prop_assert!(count <= writer - first, "what fits into both fits into the first");
                first += count;
                written += count;
            } else if !write && count <= second {
                second -= count;
                read += count;
            }
            let moved = first.min(reader - second);
            first -= moved;
            second += moved;
            prop_assert_eq!(fills.in_writer(written, read), first);
            prop_assert_eq!(fills.in_reader(written, read), second);
        }
    }
}

#[test]
fn a_position_that_cannot_be_true_is_found() {
    let shape = RingShape::fixed(1, 20).unwrap();
    let memory = Open::new();
    let (mut producer, mut consumer) = memory.ends(shape);
    memory.word(WRITTEN).store(21, Ordering::Relaxed);
    assert_eq!(consumer.has(1, 1), Err(Corrupt), "more than fits");
    assert!(producer.push(&[0; 20], 20).unwrap());
    assert!(consumer.pull(&mut [0; 8], 8).unwrap());
    memory.word(WRITTEN).store(19, Ordering::Relaxed);
    assert_eq!(consumer.has(20, 20), Err(Corrupt), "taken back");
    assert_eq!(producer.read_position(), Ok(8));
    for nonsense in [7, 21, u64::MAX] {
        memory.word(READ).store(nonsense, Ordering::Relaxed);
        assert_eq!(producer.push(&[0; 9], 9), Err(Corrupt), "{nonsense}");
        assert_eq!(producer.wait_for_room(9, 9), Err(Corrupt), "{nonsense}");
    }
}

#[test]
fn a_count_that_cannot_be_true_is_found() {
    let shape = RingShape::variable(20, 4).unwrap();
    let memory = Open::new();
    let (mut producer, mut consumer) = memory.ends(shape);
    assert!(producer.push(&[0; 4], 2).unwrap());
    for nonsense in [5, u64::MAX] {
        memory.word(WRITTEN + 1).store(nonsense, Ordering::Relaxed);
        assert_eq!(consumer.available(), Err(Corrupt), "{nonsense}");
    }
    for nonsense in [3, u64::MAX] {
        memory.word(READ + 1).store(nonsense, Ordering::Relaxed);
        assert_eq!(producer.push(&[0; 4], 3), Err(Corrupt), "{nonsense}");
    }
}

#[test]
fn impossible_count_is_detected_by_each_of_several_readers() {
    let shape = RingShape::variable(20, 4).unwrap();
    let memory = Open::new();
    let mut producer = memory.memory(shape).producer();
    let sut = memory.memory(shape).cursors();
    let ((mut one, _), (mut other, _)) = (sut.join(), sut.join());
    assert!(producer.push(&[0; 8], 4).unwrap());
    assert_eq!(one.written_elements(), Ok(4));
    one.pass(2, 1);
    let count = memory.word(WRITTEN + 1);
    for nonsense in [6, u64::MAX] {
        count.store(nonsense, Ordering::Relaxed);
        assert_eq!(one.written_elements(), Err(Corrupt), "{nonsense}");
        assert_eq!(other.written(), Err(Corrupt), "{nonsense}");
    }
    // Nothing of it was kept: one of four elements was taken by the first reader.
    count.store(5, Ordering::Relaxed);
    assert_eq!(one.written_elements(), Ok(5));
    assert_eq!(other.written_elements(), Err(Corrupt));
}

#[test]
fn an_observer_finds_more_in_the_ring_than_fits() {
    for (shape, word, most) in [
        (RingShape::fixed(2, 10), WRITTEN, 20),
        (RingShape::variable(20, 4), WRITTEN, 20),
        (RingShape::variable(20, 4), WRITTEN + 1, 4),
    ] {
        let shape = shape.unwrap();
        let memory = Open::new();
        for behind in [0, 3] {
            let mut sut = memory.memory(shape).observer();
            memory.word(word + READ).store(behind, Ordering::Relaxed);
            memory.word(WRITTEN).store(most + behind, Ordering::Relaxed);
            memory.word(word).store(most + behind, Ordering::Relaxed);
            assert!(sut.positions().is_ok(), "{shape:?} is full");
            for nonsense in [most + behind + 1, u64::MAX] {
                memory.word(word).store(nonsense, Ordering::Relaxed);
                assert_eq!(sut.positions(), Err(Corrupt), "{shape:?}: {nonsense}");
            }
        }
    }
}
