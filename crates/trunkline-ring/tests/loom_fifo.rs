//! Interleavings of writers and readers of the multi-element FIFO.
//!
//! loom checks the elements too: it reports two threads that have one slot at the same time. The
//! models with three threads explore every interleaving with a limited number of preemptions, which
//! finds almost all bugs; the others explore every interleaving.
#![cfg(loom)]
// Test helpers may panic.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use loom::model::Builder;
use loom::sync::Arc;
use loom::thread;
use trunkline_ring::Fifo;

fn model(preemptions_max: usize, run: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions_max);
    builder.check(run);
}

fn pop(fifo: &Fifo) -> Option<u64> {
    let mut word = [0];
    fifo.try_pop(&mut word).ok().map(|()| word[0])
}

fn drain(fifo: &Fifo) -> impl Iterator<Item = u64> {
    std::iter::from_fn(|| pop(fifo))
}

/// Behaviour: SP-12, SP-13, SP-19.
#[test]
fn two_writers_and_a_reader_lose_and_duplicate_nothing() {
    for capacity in [1, 2] {
        model(3, move || {
            let fifo = Arc::new(Fifo::new(capacity, 1));
            let writer = thread::spawn({
                let fifo = Arc::clone(&fifo);
                move || fifo.try_push(&[1]).is_ok()
            });
            let reader = thread::spawn({
                let fifo = Arc::clone(&fifo);
                move || [pop(&fifo), pop(&fifo)]
            });
            let mut pushed = Vec::new();
            pushed.extend(fifo.try_push(&[2]).is_ok().then_some(2));
            pushed.extend(fifo.try_push(&[3]).is_ok().then_some(3));
            pushed.extend(writer.join().unwrap().then_some(1));

            let mut popped: Vec<u64> = reader.join().unwrap().into_iter().flatten().collect();
            popped.extend(drain(&fifo));
            let own: Vec<_> = popped.iter().filter(|value| **value > 1).collect();
            assert!(own.is_sorted(), "a writer's elements stay in order");
            popped.sort_unstable();
            pushed.sort_unstable();
            assert_eq!(popped, pushed);
        });
    }
}

/// Behaviour: SP-12, SP-19.
#[test]
fn two_readers_never_get_the_same_element() {
    loom::model(|| {
        let fifo = Arc::new(Fifo::new(2, 1));
        fifo.try_push(&[1]).unwrap();
        let readers = [(); 2].map(|()| {
            let fifo = Arc::clone(&fifo);
            thread::spawn(move || pop(&fifo))
        });
        fifo.try_push(&[2]).unwrap();
        let mut popped: Vec<u64> = readers
            .into_iter()
            .filter_map(|reader| reader.join().unwrap())
            .collect();
        popped.extend(drain(&fifo));
        popped.sort_unstable();
        assert_eq!(popped, [1, 2]);
    });
}

/// A slot goes through several laps, between a writer and a reader that run at will.
#[test]
fn slots_are_reused_every_lap() {
    loom::model(|| {
        let fifo = Arc::new(Fifo::new(1, 2));
        let writer = thread::spawn({
            let fifo = Arc::clone(&fifo);
            move || {
                (1..=3)
                    .filter(|value| fifo.try_push(&[*value; 2]).is_ok())
                    .collect::<Vec<_>>()
            }
        });
        let mut popped = Vec::new();
        let mut words = [0; 2];
        for _ in 0..3 {
            if fifo.try_pop(&mut words).is_ok() {
                assert_eq!(words[0], words[1], "torn");
                popped.push(words[0]);
            }
        }
        let pushed = writer.join().unwrap();
        while fifo.try_pop(&mut words).is_ok() {
            popped.push(words[0]);
        }
        assert_eq!(popped, pushed);
    });
}

/// An element in two parts is one element, and an element that is read in place belongs to the
/// reader until it has finished.
#[test]
fn elements_in_two_parts_are_shown_whole() {
    model(3, || {
        let fifo = Arc::new(Fifo::new(1, 2));
        let writer = thread::spawn({
            let fifo = Arc::clone(&fifo);
            move || {
                let places = [1, 2].map(|value| fifo.push_parts_overwriting(&[value], &[value]));
                assert!(places[0].1 < places[1].1, "places grow");
                places[0].0.dropped + places[1].0.dropped
            }
        });
        let show = |words: &[u64]| {
            assert_eq!(words[0], words[1], "torn");
            words[0]
        };
        let mut shown: Vec<u64> = fifo.try_pop_with(show).into_iter().collect();
        let dropped = writer.join().unwrap();
        shown.extend(std::iter::from_fn(|| fifo.try_pop_with(show).ok()));
        assert!(shown.is_sorted());
        assert_eq!(shown.len() as u64 + dropped, 2);
    });
}

/// Behaviour: SP-16.
#[test]
fn overwriting_drops_are_counted_exactly() {
    for capacity in [1, 2] {
        model(2, move || {
            let fifo = Arc::new(Fifo::new(capacity, 1));
            let writer = thread::spawn({
                let fifo = Arc::clone(&fifo);
                move || fifo.push_overwriting(&[1]).dropped + fifo.push_overwriting(&[2]).dropped
            });
            let reader = thread::spawn({
                let fifo = Arc::clone(&fifo);
                move || pop(&fifo)
            });
            let mut reported = fifo.push_overwriting(&[3]).dropped;
            reported += writer.join().unwrap();
            let mut popped: Vec<u64> = reader.join().unwrap().into_iter().collect();
            popped.extend(drain(&fifo));
            popped.sort_unstable();
            popped.dedup();
            assert_eq!(popped.len() as u64 + reported, 3);
            assert_eq!(fifo.overflows(), reported);
        });
    }
}
