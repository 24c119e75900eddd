//! The multi-element FIFO between threads: nothing torn, lost or duplicated, and each writer's
//! elements in its order.
#![cfg(not(loom))]
// Test helpers may panic.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use trunkline_ring::Fifo;

const WRITERS: u64 = 2;
const READERS: u64 = 2;
const WIDTH: usize = 5;

/// Element number `sequence` of a writer: words that belong together.
fn element(writer: u64, sequence: u64) -> [u64; WIDTH] {
    [writer, sequence, !writer, !sequence, writer ^ sequence << 8]
}

/// The elements that the readers have taken, per reader, in order.
struct Taken(Vec<Vec<[u64; WIDTH]>>);

impl Taken {
    /// Checks what holds of every FIFO, and returns the sequences taken of each writer, sorted.
    fn check(self) -> Vec<Vec<u64>> {
        let mut of_writers = vec![Vec::new(); WRITERS as usize];
        for of_reader in self.0 {
            let mut last_of_each = [None; WRITERS as usize];
            for taken in of_reader {
                let [writer, sequence, ..] = taken;
                assert_eq!(taken, element(writer, sequence), "torn");
                let last = &mut last_of_each[writer as usize];
                assert!(
                    last.is_none_or(|last| last < sequence),
                    "out of order, or doubled"
                );
                *last = Some(sequence);
                of_writers[writer as usize].push(sequence);
            }
        }
        for sequences in &mut of_writers {
            sequences.sort_unstable();
            let count = sequences.len();
            sequences.dedup();
            assert_eq!(sequences.len(), count, "two readers got the same element");
        }
        of_writers
    }
}

/// Runs writers and readers on one FIFO until `expected()` elements have been taken.
fn exchange(
    write: impl Fn(u64) + Clone + Send + 'static,
    read: impl Fn(&mut Vec<[u64; WIDTH]>) -> usize + Clone + Send + 'static,
    is_over: impl Fn(u64) -> bool + Clone + Send + 'static,
) -> Taken {
    let taken = Arc::new(AtomicU64::new(0));
    let readers: Vec<_> = (0..READERS)
        .map(|_| {
            let (read, is_over, total) = (read.clone(), is_over.clone(), Arc::clone(&taken));
            thread::spawn(move || {
                let mut taken = Vec::new();
                while !is_over(total.load(Ordering::Acquire)) {
                    match read(&mut taken) {
                        0 => thread::yield_now(),
                        count => {
                            total.fetch_add(count as u64, Ordering::AcqRel);
                        }
                    }
                }
                taken
            })
        })
        .collect();
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let write = write.clone();
            thread::spawn(move || write(writer))
        })
        .collect();
    for writer in writers {
        writer.join().unwrap();
    }
    Taken(
        readers
            .into_iter()
            .map(|reader| reader.join().unwrap())
            .collect(),
    )
}

fn read_one(fifo: &Fifo, taken: &mut Vec<[u64; WIDTH]>) -> usize {
    let mut words = [0; WIDTH];
    match fifo.try_pop(&mut words) {
        Ok(()) => {
            taken.push(words);
            1
        }
        Err(_) => 0,
    }
}

/// Behaviour: SP-11, SP-12, SP-19.
#[test]
fn concurrent_writers_and_readers_lose_and_duplicate_nothing() {
    const ELEMENTS: u64 = 30_000;
    for capacity in [1, 3, 64] {
        let fifo = Arc::new(Fifo::new(capacity, WIDTH));
        let writing = Arc::clone(&fifo);
        let taken = exchange(
            move |writer| {
                for sequence in 0..ELEMENTS {
                    while writing.try_push(&element(writer, sequence)).is_err() {
                        thread::yield_now();
                    }
                }
            },
            move |taken| read_one(&fifo, taken),
            |taken| taken == WRITERS * ELEMENTS,
        );
        for sequences in taken.check() {
            assert!(sequences.into_iter().eq(0..ELEMENTS), "lost");
        }
    }
}

/// Behaviour: SP-12, SP-16.
#[test]
fn every_element_is_taken_or_counted_as_dropped() {
    const ELEMENTS: u64 = 30_000;
    for capacity in [1, 2, 50] {
        let fifo = Arc::new(Fifo::new(capacity, WIDTH));
        let reported = Arc::new(AtomicU64::new(0));
        let (writing, reporting) = (Arc::clone(&fifo), Arc::clone(&reported));
        let (reading, counting) = (Arc::clone(&fifo), Arc::clone(&fifo));
        let taken = exchange(
            move |writer| {
                for sequence in 0..ELEMENTS {
                    let overflow = writing.push_overwriting(&element(writer, sequence));
                    assert!(overflow.stored || overflow.dropped > 0);
                    reporting.fetch_add(overflow.dropped, Ordering::Relaxed);
                }
            },
            move |taken| read_one(&reading, taken),
            move |taken| taken + counting.overflows() == WRITERS * ELEMENTS,
        );
        let of_writers = taken.check();
        let taken: usize = of_writers.iter().map(Vec::len).sum();
        assert_eq!(taken as u64 + fifo.overflows(), WRITERS * ELEMENTS);
        assert_eq!(reported.load(Ordering::Relaxed), fifo.overflows());
        assert!(fifo.is_empty());
    }
}
