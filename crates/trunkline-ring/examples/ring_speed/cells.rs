//! Cells against seqlock and mutex.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use trunkline_ring::{LastValue, RtCell, TypedCell};

use crate::seqlock::Seqlock;
use crate::{Group, nanoseconds_per_call};

pub(crate) fn run() {
    alone::<1>(20_000_000);
    alone::<4>(20_000_000);
    alone::<128>(1_000_000);
    while_written::<1>(5_000_000);
    while_written::<128>(300_000);
}

/// One thread reads, or writes.
fn alone<const N: usize>(calls: u64) {
    let words = |number: u64| [number; N];
    let seqlock = black_box(Box::leak(Box::new(Seqlock::new())) as &Seqlock<N>);
    let last = black_box(Box::leak(Box::new(LastValue::new(N))) as &LastValue);
    let cell = black_box(Box::leak(Box::new(RtCell::new(N))) as &RtCell);
    let typed = black_box(Box::leak(Box::new(TypedCell::new([0_u64; N]))) as &TypedCell<[u64; N]>);
    let mutex = black_box(Box::leak(Box::new(Mutex::new([0_u64; N]))) as &Mutex<[u64; N]>);

    Group::new(format!("read {N} words, one thread"), "read")
        .with("bare seqlock", move || {
            let mut out = [0; N];
            nanoseconds_per_call(calls, |_| {
                seqlock.read(&mut out);
                black_box(&out);
            })
        })
        .with("LastValue", move || {
            let mut out = [0; N];
            nanoseconds_per_call(calls, |_| {
                assert!(last.read(&mut out).complete);
                black_box(&out);
            })
        })
        .with("RtCell", move || {
            let mut out = [0; N];
            nanoseconds_per_call(calls, |_| {
                assert!(cell.read(&mut out).complete);
                black_box(&out);
            })
        })
        .with("TypedCell", move || {
            nanoseconds_per_call(calls, |_| {
                black_box(&typed.read());
            })
        })
        .with("mutex", move || {
            nanoseconds_per_call(calls, |_| {
                black_box(mutex.lock().map_or([0; N], |words| *words));
            })
        })
        .run();

    Group::new(format!("write {N} words, the only writer"), "write")
        .with("bare seqlock, one writer", move || {
            nanoseconds_per_call(calls, |number| seqlock.write(&words(number)))
        })
        .with("LastValue", move || {
            nanoseconds_per_call(calls, |number| {
                last.publish(&words(number));
            })
        })
        .run();

    Group::new(format!("write {N} words, one of several writers"), "write")
        .with("bare seqlock, writers locked", move || {
            nanoseconds_per_call(calls, |number| seqlock.lock_and_write(&words(number)))
        })
        .with("RtCell", move || {
            nanoseconds_per_call(calls, |number| {
                let _ = black_box(cell.write(&words(number)));
            })
        })
        .with("TypedCell", move || {
            nanoseconds_per_call(calls, |number| {
                let _ = black_box(typed.write(words(number)));
            })
        })
        .with("mutex", move || {
            nanoseconds_per_call(calls, |number| {
                if let Ok(mut target) = mutex.lock() {
                    *target = words(number);
                }
            })
        })
        .run();
}

/// One thread reads while another writes without a pause.
fn while_written<const N: usize>(calls: u64) {
    let words = |number: u64| [number; N];
    Group::new(
        format!("read {N} words while another thread writes"),
        "read",
    )
    .with("bare seqlock, writers locked", move || {
        beside_a_writer(
            Seqlock::<N>::new(),
            move |seqlock, number| seqlock.lock_and_write(&words(number)),
            |seqlock| {
                let mut out = [0; N];
                nanoseconds_per_call(calls, |_| {
                    seqlock.read(&mut out);
                    black_box(&out);
                })
            },
        )
    })
    .with("LastValue", move || {
        beside_a_writer(
            LastValue::new(N),
            move |cell, number| {
                cell.publish(&words(number));
            },
            |cell| {
                let mut out = [0; N];
                nanoseconds_per_call(calls, |_| {
                    let _ = black_box(cell.read(&mut out));
                    black_box(&out);
                })
            },
        )
    })
    .with("RtCell", move || {
        beside_a_writer(
            RtCell::new(N),
            move |cell, number| {
                let _ = black_box(cell.write(&words(number)));
            },
            |cell| {
                let mut out = [0; N];
                nanoseconds_per_call(calls, |_| {
                    let _ = black_box(cell.read(&mut out));
                    black_box(&out);
                })
            },
        )
    })
    .with("mutex", move || {
        beside_a_writer(
            Mutex::new([0; N]),
            move |cell: &Mutex<[u64; N]>, number| {
                if let Ok(mut target) = cell.lock() {
                    *target = words(number);
                }
            },
            |cell| {
                nanoseconds_per_call(calls, |_| {
                    black_box(cell.lock().map_or([0; N], |words| *words));
                })
            },
        )
    })
    .run();
}

fn beside_a_writer<C: Send + Sync + 'static>(
    cell: C,
    write: impl Fn(&C, u64) + Send + 'static,
    read: impl FnOnce(&C) -> f64,
) -> f64 {
    let shared = Arc::new((cell, AtomicBool::new(false)));
    let writer = std::thread::spawn({
        let shared = Arc::clone(&shared);
        move || {
            let mut number = 0;
            while !shared.1.load(Ordering::Relaxed) {
                number += 1;
                write(&shared.0, number);
            }
        }
    });
    let time = read(&shared.0);
    shared.1.store(true, Ordering::Relaxed);
    let _ = writer.join();
    time
}
