//! The multi-element FIFO, one thread at a time.
#![cfg(not(loom))]
// Test helpers may panic.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::VecDeque;
use std::sync::Arc;

use proptest::prelude::*;
use trunkline_ring::{Empty, Fifo, FifoReader, Full};

fn pop<const N: usize>(fifo: &Fifo) -> Option<[u64; N]> {
    let mut element = [0; N];
    fifo.try_pop(&mut element).ok().map(|()| element)
}

/// Behaviour: SP-16.
#[test]
fn overflow_and_underflow_are_reported() {
    let fifo = Fifo::new(2, 1);
    assert_eq!(fifo.try_pop(&mut [0]), Err(Empty));
    fifo.try_push(&[1]).unwrap();
    fifo.try_push(&[2]).unwrap();
    assert_eq!(fifo.try_push(&[3]), Err(Full));
    assert_eq!(
        fifo.overflows(),
        0,
        "a refused element is the caller's still"
    );

    let overflow = fifo.push_overwriting(&[3]);
    assert!(overflow.stored && !overflow.is_none());
    assert_eq!((overflow.dropped, fifo.overflows()), (1, 1));
    assert_eq!(pop(&fifo), Some([2]));
    assert_eq!(pop(&fifo), Some([3]));
    assert_eq!(pop::<1>(&fifo), None);
    assert!(fifo.push_overwriting(&[4]).is_none());
}

/// Behaviour: SP-17, SP-18.
#[test]
fn reader_of_an_empty_fifo_gets_its_own_last_element_or_the_default() {
    let fifo = Arc::new(Fifo::new(4, 2));
    let mut one = FifoReader::new(Arc::clone(&fifo));
    let mut other = FifoReader::with_default(Arc::clone(&fifo), &[7, 7]);
    fifo.try_push(&[1, 2]).unwrap();

    assert_eq!(one.read().words, [1, 2]);
    assert!(one.fifo().is_empty());
    let reading = other.read();
    assert_eq!((reading.words, reading.underflow), (&[7, 7][..], true));

    fifo.try_push(&[3, 4]).unwrap();
    let reading = other.read();
    assert_eq!((reading.words, reading.underflow), (&[3, 4][..], false));
    for _ in 0..2 {
        let reading = one.read();
        assert_eq!((reading.words, reading.underflow), (&[1, 2][..], true));
        let reading = other.read();
        assert_eq!((reading.words, reading.underflow), (&[3, 4][..], true));
    }
}

/// Behaviour: SP-19.
#[test]
fn each_element_is_taken_by_one_reader_only() {
    let fifo = Fifo::new(4, 1);
    let mut readers = [FifoReader::new(&fifo), FifoReader::new(&fifo)];
    for element in 1..=4 {
        fifo.try_push(&[element]).unwrap();
    }
    let mut taken = Vec::new();
    for turn in 0..4 {
        let reading = readers[turn % 2].read();
        assert!(!reading.underflow);
        taken.push(reading.words[0]);
    }
    assert_eq!(taken, [1, 2, 3, 4]);
    assert!(readers.iter_mut().all(|reader| reader.read().underflow));
}

#[test]
fn failed_pop_leaves_the_callers_words_unchanged() {
    let fifo = Fifo::new(1, 3);
    let mut words = [1, 2, 3];
    assert_eq!(fifo.try_pop(&mut words), Err(Empty));
    assert_eq!(words, [1, 2, 3]);
}

/// Behaviour: SP-22.
#[test]
#[should_panic(expected = "the slice has 3 words, but the declared width is 2")]
fn element_of_another_length_is_not_written() {
    let _ = Fifo::new(4, 2).try_push(&[1, 2, 3]);
}

#[test]
#[should_panic(expected = "use a capacity of 1 or more")]
fn fifo_without_room_is_refused() {
    let _ = Fifo::new(0, 1);
}

#[test]
#[should_panic(expected = "use a width of 1 word or more")]
fn fifo_of_nothing_is_refused() {
    let _ = Fifo::new(1, 0);
}

#[test]
#[should_panic(expected = "do not fit in the address space; use fewer")]
fn fifo_larger_than_the_address_space_is_refused() {
    let _ = Fifo::new(usize::MAX, usize::MAX);
}

#[test]
fn errors_name_a_remedy() {
    assert!(
        Full.to_string()
            .contains("write again later, increase its capacity, or overwrite")
    );
    assert!(
        Empty
            .to_string()
            .contains("read again after the next write")
    );
}

#[derive(Debug, Clone)]
enum Step {
    Push,
    PushOverwriting,
    Pop,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        Just(Step::Push),
        Just(Step::PushOverwriting),
        Just(Step::Pop),
    ];
    prop::collection::vec(step, 0..200)
}

proptest! {
    /// Behaviour: SP-16.
    #[test]
    fn fifo_is_a_bounded_queue(capacity in 1_usize..34, width in 1_usize..11, steps in steps()) {
        let fifo = Fifo::new(capacity, width);
        let mut model = VecDeque::new();
        let mut dropped = 0;
        let mut number = 0;
        let mut element = || -> Vec<u64> {
            number += 1;
            (0..width as u64).map(|word| number * 100 + word).collect()
        };
        prop_assert_eq!((fifo.capacity(), fifo.words()), (capacity, width));
        for step in steps {
            match step {
                Step::Push => {
                    let new = element();
                    let is_full = model.len() == capacity;
                    prop_assert_eq!(fifo.try_push(&new).is_err(), is_full);
                    if !is_full {
                        model.push_back(new);
                    }
                }
                Step::PushOverwriting => {
                    let new = element();
                    let is_full = model.len() == capacity;
                    let overflow = fifo.push_overwriting(&new);
                    prop_assert!(overflow.stored);
                    prop_assert_eq!(overflow.dropped, u64::from(is_full));
                    dropped += overflow.dropped;
                    if is_full {
                        model.pop_front();
                    }
                    model.push_back(new);
                }
                Step::Pop => {
                    let mut words = vec![0; width];
                    let popped = fifo.try_pop(&mut words).ok().map(|()| words);
                    prop_assert_eq!(popped, model.pop_front());
                }
            }
            prop_assert_eq!(fifo.len(), model.len());
            prop_assert_eq!(fifo.is_empty(), model.is_empty());
            prop_assert_eq!(fifo.overflows(), dropped);
        }
    }
}

#[test]
fn element_written_in_parts_is_one_element_and_is_read_in_place() {
    // Narrow ones that share a line, and one with its stamp on a separate line.
    for width in [1, 2, 3, 64, 65, 129] {
        let fifo = Fifo::new(3, width);
        let mut place_before = None;
        for lap in 0..10_u64 {
            let element: Vec<u64> = (lap..lap + width as u64).collect();
            let (first, rest) = element.split_at(lap as usize % (width + 1));
            let place = fifo.try_push_parts(first, rest).expect("it has room");
            assert!(place_before < Some(place), "places grow");
            place_before = Some(place);
            if lap > 0 {
                let shown = fifo.try_pop_with(<[u64]>::to_vec).expect("it is there");
                assert_eq!(shown, (lap - 1..lap - 1 + width as u64).collect::<Vec<_>>());
            }
        }
    }
}

#[test]
fn slot_is_released_when_its_reader_panics() {
    let fifo = Fifo::new(1, 1);
    fifo.try_push(&[1]).expect("it has room");
    let panics = || fifo.try_pop_with(|words| assert_ne!(words, [1], "on purpose"));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
    assert_eq!(fifo.try_push(&[2]), Ok(()));
    assert_eq!(fifo.try_pop_with(|words| words[0]), Ok(2));
}
