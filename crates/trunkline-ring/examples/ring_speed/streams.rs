//! The buffer of a stream against `rtrb`: one producer, one consumer, doubles.

use std::hint::black_box;

use trunkline_ring::{
    ElementConsumer, ElementProducer, RingShape, RingStart, SpscRing, element_ring,
};

use crate::fifos::transfer;
use crate::{Group, nanoseconds_per_call};

/// What a stream's buffer holds unless its user says otherwise.
const CAPACITY: usize = 4096;

pub(crate) fn run() {
    alone(20_000_000);
    one_by_one(3_000_000);
    in_calls::<100>(20_000_000);
    in_calls::<1000>(50_000_000);
}

fn ring() -> (ElementProducer, ElementConsumer) {
    let shape = RingShape::fixed(8, CAPACITY);
    shape.map_or_else(
        || std::process::exit(1),
        |shape| element_ring(shape, RingStart::default()),
    )
}

fn checked(number: u64, value: f64) -> usize {
    assert!(
        black_box(value) == number as f64,
        "{number} came out as {value}"
    );
    1
}

/// One thread puts a double in and takes it out: what the calls themselves cost.
fn alone(elements: u64) {
    let (mut into, mut out_of) = rtrb::RingBuffer::new(CAPACITY);
    let (mut producer, mut consumer) = SpscRing::new(CAPACITY);
    let (mut writer, mut reader) = ring();
    Group::new("stream buffer, a double in and out, one thread", "double")
        .with("rtrb", move || {
            nanoseconds_per_call(elements, |number| {
                let pushed = into.push(number as f64).is_ok();
                assert!(pushed && black_box(out_of.pop()).is_ok());
            })
        })
        .with("SpscRing", move || {
            nanoseconds_per_call(elements, |number| {
                let pushed = producer.push(number as f64).is_ok();
                assert!(pushed && black_box(consumer.pop()).is_ok());
            })
        })
        .with("element ring", move || {
            nanoseconds_per_call(elements, |number| {
                let bytes = (number as f64).to_ne_bytes();
                let mut out = [0; 8];
                let pushed = writer.push(&bytes, 1) == Ok(true);
                assert!(pushed && reader.pull(&mut out, 1) == Ok(true));
                black_box(f64::from_ne_bytes(out));
            })
        })
        .run();
}

fn one_by_one(elements: u64) {
    Group::new(
        format!("stream buffer of {CAPACITY} doubles, one per call"),
        "double",
    )
    .with("rtrb", move || {
        let (mut producer, mut consumer) = rtrb::RingBuffer::new(CAPACITY);
        transfer(
            elements,
            move |number| usize::from(producer.push(number as f64).is_ok()),
            move |number| consumer.pop().map_or(0, |value| checked(number, value)),
        )
    })
    .with("SpscRing", move || {
        let (mut producer, mut consumer) = SpscRing::new(CAPACITY);
        transfer(
            elements,
            move |number| usize::from(producer.push(number as f64).is_ok()),
            move |number| consumer.pop().map_or(0, |value| checked(number, value)),
        )
    })
    .with("element ring", move || {
        let (mut producer, mut consumer) = ring();
        transfer(
            elements,
            move |number| {
                let bytes = (number as f64).to_ne_bytes();
                usize::from(producer.push(&bytes, 1) == Ok(true))
            },
            move |number| {
                let mut bytes = [0; 8];
                match consumer.pull(&mut bytes, 1) {
                    Ok(true) => checked(number, f64::from_ne_bytes(bytes)),
                    _ => 0,
                }
            },
        )
    })
    .run();
}

/// `N` doubles per call, copied in and out.
fn in_calls<const N: usize>(elements: u64) {
    let block: [f64; N] = std::array::from_fn(|index| index as f64);
    Group::new(
        format!("stream buffer of {CAPACITY} doubles, {N} per call"),
        "double",
    )
    .with("rtrb, chunks", move || {
        let (mut producer, mut consumer) = rtrb::RingBuffer::new(CAPACITY);
        let mut out = [0.0; N];
        transfer(
            elements,
            move |_| producer.push_entire_slice(&block).map_or(0, |()| N),
            move |_| {
                let count = consumer.pop_entire_slice(&mut out).map_or(0, |()| N);
                black_box(&out);
                count
            },
        )
    })
    .with("element ring, copied", move || {
        let (mut producer, mut consumer) = ring();
        let bytes: Vec<u8> = block.iter().flat_map(|value| value.to_ne_bytes()).collect();
        let mut out = vec![0; 8 * N];
        transfer(
            elements,
            move |_| {
                if producer.push(&bytes, N as u64) == Ok(true) {
                    N
                } else {
                    0
                }
            },
            move |_| {
                let done = consumer.pull(&mut out, N as u64) == Ok(true);
                black_box(&out);
                if done { N } else { 0 }
            },
        )
    })
    .with("element ring, taken in place", move || {
        let (mut producer, mut consumer) = ring();
        let bytes: Vec<u8> = block.iter().flat_map(|value| value.to_ne_bytes()).collect();
        transfer(
            elements,
            move |_| {
                if producer.push(&bytes, N as u64) == Ok(true) {
                    N
                } else {
                    0
                }
            },
            move |_| {
                if consumer.has(8 * N as u64, N as u64) != Ok(true) {
                    return 0;
                }
                let last = consumer.read() + 8 * (N as u64 - 1);
                black_box(consumer.region_at(last, 8));
                consumer.release(8 * N as u64, N as u64);
                N
            },
        )
    })
    .run();
}
