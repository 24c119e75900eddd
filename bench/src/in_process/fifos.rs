//! T2: a FIFO of 100 elements between a producing and a consuming thread, each on its own CPU.
//!
//! Both threads spin, and nothing is lost: a producer that finds the FIFO full retries.

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Instant;

use crossbeam_queue::ArrayQueue;
use trunkline::types::{ArrayType, DataType, ElementType, Properties, Scope, Timestamp};
use trunkline::{Engine, types};
use trunkline_engine::realtime::{RtRead, RtWrite};
use trunkline_ring::Fifo;

use super::values::{NAME, host};
use super::{CAPACITY, Cell, Contender, Timed};
use crate::Outcome;
use crate::placement::{End, pin};

/// Doubles of one element.
pub const PAYLOADS: [usize; 3] = [1, 128, 1024];
/// Unsuccessful polls after which a thread yields, for machines where both share a CPU.
const PATIENCE: u32 = 10_000;

/// Returns the systems of a payload.
pub(super) fn cell(payload: usize) -> Outcome<Cell> {
    let contenders = match payload {
        1 => contenders::<1>()?,
        128 => contenders::<128>()?,
        _ => contenders::<1024>()?,
    };
    Ok(Cell {
        case: format!("op=fifo doubles={payload}"),
        waiting: "spinning",
        contenders,
    })
}

fn contenders<const N: usize>() -> Outcome<Vec<Contender>> {
    let engine = variable::<N>()?;
    Ok(vec![
        Contender::new("rtrb", |count| {
            let (mut producer, mut consumer) = rtrb::RingBuffer::new(CAPACITY);
            transfer::<N>(
                count,
                move |element| producer.push(*element).is_ok(),
                move |number| Some(is_right(number, &consumer.pop().ok()?)),
            )
        }),
        Contender::new("rtrb-chunks", |count| {
            let (mut producer, mut consumer) = rtrb::RingBuffer::new(CAPACITY * N);
            let mut out = [0.0; N];
            transfer::<N>(
                count,
                move |element| producer.push_entire_slice(element).is_ok(),
                move |number| {
                    consumer.pop_entire_slice(&mut out).ok()?;
                    Some(is_right(number, &out))
                },
            )
        }),
        Contender::new("array-queue", |count| {
            let queue = Arc::new(ArrayQueue::new(CAPACITY));
            let reader = Arc::clone(&queue);
            transfer::<N>(
                count,
                move |element| queue.push(*element).is_ok(),
                move |number| Some(is_right(number, &reader.pop()?)),
            )
        }),
        Contender::new("channel", |count| {
            let (sender, receiver) = crossbeam_channel::bounded(CAPACITY);
            transfer::<N>(
                count,
                move |element| sender.try_send(*element).is_ok(),
                move |number| Some(is_right(number, &receiver.try_recv().ok()?)),
            )
        }),
        Contender::new("fifo", |count| {
            let fifo = Arc::new(Fifo::new(CAPACITY, N));
            let reader = Arc::clone(&fifo);
            let mut out = [0; N];
            transfer::<N>(
                count,
                move |element| fifo.try_push(&element.map(f64::to_bits)).is_ok(),
                move |number| {
                    reader.try_pop(&mut out).ok()?;
                    Some(is_right(number, &out.map(f64::from_bits)))
                },
            )
        }),
        Contender::new("rt-variable", move |count| {
            through_variable::<N>(&engine, count)
        }),
    ])
}

/// An engine with a single-process variable that has a FIFO.
fn variable<const N: usize>() -> Outcome<Engine> {
    let data_type = match N {
        1 => DataType::F64,
        _ => DataType::Array(Arc::new(ArrayType {
            element: ElementType::F64,
            shape: vec![Some(N as u32)],
        })),
    };
    host(Properties {
        scope: Scope::Process,
        timestamps: false,
        fifo: types::Fifo::Multi {
            capacity: CAPACITY as u32,
            length: N as u32,
        },
        ..Properties::new(data_type)
    })
}

/// Uses the real-time ends of a variable. A full FIFO discards its oldest element (SP-18), so the
/// producer waits for the consumer's count, which it reads only when the FIFO may be full.
fn through_variable<const N: usize>(engine: &Engine, count: u64) -> Timed {
    let (Ok(mut writer), Ok(mut reader)) = (engine.rt_writer(NAME), engine.rt_reader(NAME)) else {
        return Timed {
            elapsed: std::time::Duration::MAX,
            wrong: count,
        };
    };
    // An earlier round may have used the same FIFO; it is empty again.
    let overflows = reader.overflows();
    let taken = Arc::new(AtomicU64::new(0));
    let published = Arc::clone(&taken);
    let (mut written, mut taken_seen) = (0, 0);
    let mut timed = transfer::<N>(
        count,
        move |element| {
            if written - taken_seen == CAPACITY as u64 {
                taken_seen = taken.load(Ordering::Acquire);
                if written - taken_seen == CAPACITY as u64 {
                    return false;
                }
            }
            written += 1;
            writer.write_slice(element, Timestamp::UNIX_EPOCH) == RtWrite::Written
        },
        |number| {
            let reading = reader.read_slice::<f64>();
            if reading.status == RtRead::Underflow {
                return None;
            }
            published.store(number + 1, Ordering::Release);
            let element: Result<&[f64; N], _> = reading.value.try_into();
            Some(element.is_ok_and(|element| is_right(number, element)))
        },
    );
    timed.wrong += reader.overflows() - overflows;
    timed
}

/// Returns true if this is the element `number`: its first and last double are its number.
#[inline]
fn is_right<const N: usize>(number: u64, element: &[f64; N]) -> bool {
    let element = black_box(element);
    element[0] == number as f64 && element[N - 1] == number as f64
}

/// Measures from the first push to the last pop. `push` returns true if it has added an element.
/// `pop` receives the number of the next element, and returns whether it was that one, or `None` if
/// the FIFO was empty.
fn transfer<const N: usize>(
    count: u64,
    mut push: impl FnMut(&[f64; N]) -> bool + Send + 'static,
    mut pop: impl FnMut(u64) -> Option<bool>,
) -> Timed {
    let ready = Arc::new(Barrier::new(2));
    let started = Arc::clone(&ready);
    let producer = thread::spawn(move || {
        // If this fails, the threads share a CPU.
        let _ = pin(End::Far);
        let mut element = [0.5; N];
        started.wait();
        for number in 0..count {
            element[0] = number as f64;
            element[N - 1] = number as f64;
            persist(|| push(black_box(&element)).then_some(()));
        }
    });
    ready.wait();
    let start = Instant::now();
    let mut wrong = 0;
    for number in 0..count {
        wrong += u64::from(!persist(|| pop(number)));
    }
    let elapsed = start.elapsed();
    wrong += u64::from(producer.join().is_err());
    Timed { elapsed, wrong }
}

/// Repeats a step until it succeeds.
fn persist<T>(mut step: impl FnMut() -> Option<T>) -> T {
    let mut fruitless = 0_u32;
    loop {
        if let Some(done) = step() {
            return done;
        }
        fruitless = fruitless.wrapping_add(1);
        if fruitless.is_multiple_of(PATIENCE) {
            thread::yield_now();
        } else {
            spin_loop();
        }
    }
}
