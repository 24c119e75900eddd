//! FIFOs against `rtrb` and crossbeam's `ArrayQueue`: one producer, one consumer, 100 elements.

use std::hint::{black_box, spin_loop};
use std::sync::Arc;
use std::time::Instant;

use crossbeam_queue::ArrayQueue;
use trunkline_ring::{Fifo, SpscRing, TypedFifo};

use crate::Group;

const CAPACITY: usize = 100;
const SLICE: usize = 100;

pub(crate) fn run() {
    one_by_one::<1>(2_000_000);
    one_by_one::<128>(300_000);
    one_by_one::<1024>(40_000);
    in_slices(10_000_000);
}

/// Elements of `N` doubles, one per call.
fn one_by_one<const N: usize>(elements: u64) {
    let element = |number: u64| [number as f64; N];
    Group::new(
        format!("FIFO of {CAPACITY} elements of {N} doubles, one per call"),
        "element",
    )
    .with("rtrb", move || {
        let (mut producer, mut consumer) = rtrb::RingBuffer::new(CAPACITY);
        transfer(
            elements,
            move |number| usize::from(producer.push(element(number)).is_ok()),
            move |number| match consumer.pop() {
                Ok(value) => checked(number, &value),
                Err(_) => 0,
            },
        )
    })
    .with("SpscRing", move || {
        let (mut producer, mut consumer) = SpscRing::new(CAPACITY);
        transfer(
            elements,
            move |number| usize::from(producer.push(element(number)).is_ok()),
            move |number| match consumer.pop() {
                Ok(value) => checked(number, &value),
                Err(_) => 0,
            },
        )
    })
    .with("Fifo", move || {
        let fifo = Arc::new(Fifo::new(CAPACITY, N));
        let reader = Arc::clone(&fifo);
        let mut out = [0; N];
        transfer(
            elements,
            move |number| usize::from(fifo.try_push(&[(number as f64).to_bits(); N]).is_ok()),
            move |number| match reader.try_pop(&mut out) {
                Ok(()) => checked(number, &out.map(f64::from_bits)),
                Err(_) => 0,
            },
        )
    })
    .with("ArrayQueue", move || {
        let queue = Arc::new(ArrayQueue::new(CAPACITY));
        let reader = Arc::clone(&queue);
        transfer(
            elements,
            move |number| usize::from(queue.push(element(number)).is_ok()),
            move |number| match reader.pop() {
                Some(value) => checked(number, &value),
                None => 0,
            },
        )
    })
    .run();
}

/// Doubles, up to a hundred per call.
fn in_slices(elements: u64) {
    let slice: [f64; SLICE] = std::array::from_fn(|index| index as f64);
    Group::new(
        format!("FIFO of {CAPACITY} doubles, up to {SLICE} per call"),
        "double",
    )
    .with("rtrb, one per call", move || {
        let (mut producer, mut consumer) = rtrb::RingBuffer::new(CAPACITY);
        transfer(
            elements / 5,
            move |number| usize::from(producer.push(number as f64).is_ok()),
            move |_| usize::from(consumer.pop().is_ok()),
        )
    })
    .with("rtrb, chunks", move || {
        let (mut producer, mut consumer) = rtrb::RingBuffer::new(CAPACITY);
        let mut out = [0.0; SLICE];
        transfer(
            elements,
            move |_| {
                let count = producer.slots().min(SLICE);
                producer
                    .push_entire_slice(&slice[..count])
                    .map_or(0, |()| count)
            },
            move |_| {
                let count = consumer.slots().min(SLICE);
                consumer
                    .pop_entire_slice(&mut out[..count])
                    .map_or(0, |()| count)
            },
        )
    })
    .with("SpscRing, slices", move || {
        let (mut producer, mut consumer) = SpscRing::new(CAPACITY);
        let mut out = [0.0; SLICE];
        transfer(
            elements,
            move |_| producer.push_slice(&slice),
            move |_| consumer.pop_slice(&mut out),
        )
    })
    .with("TypedFifo, slices", move || {
        let fifo = Arc::new(TypedFifo::new(CAPACITY));
        let reader = Arc::clone(&fifo);
        let mut out = [0.0; SLICE];
        transfer(
            elements,
            move |_| fifo.try_push_slice(&slice),
            move |_| reader.try_pop_slice(&mut out),
        )
    })
    .run();
}

/// 1 for an element that comes in its turn.
fn checked(number: u64, element: &[f64]) -> usize {
    let element = black_box(element);
    assert!(
        element[0] == number as f64,
        "element {number} came out as {}",
        element[0]
    );
    1
}

/// Nanoseconds per element from the first push to the last pop. Both closures are given the number
/// of the next element and return how many they have moved.
pub(crate) fn transfer(
    elements: u64,
    mut push: impl FnMut(u64) -> usize + Send + 'static,
    mut pop: impl FnMut(u64) -> usize,
) -> f64 {
    let start = Instant::now();
    let producer = std::thread::spawn(move || repeat(elements, &mut push));
    // The producer may push a slice beyond the last element; it stays in the ring.
    repeat(elements, &mut pop);
    let elapsed = start.elapsed().as_nanos() as f64;
    let _ = producer.join();
    elapsed / elements as f64
}

fn repeat(elements: u64, step: &mut impl FnMut(u64) -> usize) {
    let mut done = 0;
    while done < elements {
        match step(done) {
            0 => spin_loop(),
            count => done += count as u64,
        }
    }
}
