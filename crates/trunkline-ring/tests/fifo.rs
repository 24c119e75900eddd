//! The multi-element FIFO, one thread at a time.
#![cfg(not(loom))]
// What a test calls may panic as the test may.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::VecDeque;
use std::sync::Arc;

use proptest::prelude::*;
use trunkline_ring::{Empty, Fifo, FifoReader, Full, TypedFifo, TypedFifoReader};

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
    let mut words = [0; 3];
    assert_eq!(fifo.try_pop_slice(&mut words), 2);
    assert_eq!(words, [2, 3, 0]);
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

/// Behaviour: SP-17, SP-18.
#[test]
fn typed_reader_of_an_empty_fifo_gets_its_own_last_element_or_the_default() {
    let fifo = TypedFifo::new(4);
    let mut one = TypedFifoReader::new(&fifo);
    let mut other = TypedFifoReader::with_default(&fifo, -1.0);
    assert_eq!((one.read(), other.read()), ((0.0, true), (-1.0, true)));
    fifo.try_push(2.5).unwrap();
    assert_eq!(
        (one.read(), one.read(), other.read()),
        ((2.5, false), (2.5, true), (-1.0, true))
    );
    assert!(one.fifo().is_empty());
}

/// Behaviour: SP-19.
#[test]
fn each_element_is_taken_by_one_reader_only() {
    let fifo = Fifo::new(4, 1);
    let mut readers = [FifoReader::new(&fifo), FifoReader::new(&fifo)];
    assert_eq!(fifo.try_push_slice(&[1, 2, 3, 4]), 4);
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
fn failed_pop_leaves_the_callers_words_as_they_are() {
    let fifo = Fifo::new(1, 3);
    let mut words = [1, 2, 3];
    assert_eq!(fifo.try_pop(&mut words), Err(Empty));
    assert_eq!(words, [1, 2, 3]);
}

/// Behaviour: SP-22.
#[test]
#[should_panic(expected = "the slice has 3 words and the element 2")]
fn element_of_another_length_is_not_written() {
    let _ = Fifo::new(4, 2).try_push(&[1, 2, 3]);
}

/// Behaviour: SP-22.
#[test]
#[should_panic(expected = "the slice has 3 words and an element 2: pass a whole number")]
fn half_an_element_is_not_written() {
    let _ = Fifo::new(4, 2).try_push_slice(&[1, 2, 3]);
}

#[test]
#[should_panic(expected = "give it a capacity of 1 or more")]
fn fifo_without_room_is_refused() {
    let _ = Fifo::new(0, 1);
}

#[test]
#[should_panic(expected = "declare 1 word or more")]
fn fifo_of_nothing_is_refused() {
    let _ = Fifo::new(1, 0);
}

#[test]
#[should_panic(expected = "do not fit in memory: declare fewer")]
fn fifo_larger_than_the_address_space_is_refused() {
    let _ = Fifo::new(usize::MAX, usize::MAX);
}

#[test]
fn errors_say_what_to_do() {
    assert!(
        Full.to_string()
            .contains("write again later, make it longer, or overwrite")
    );
    assert!(Empty.to_string().contains("nothing has been written since"));
}

#[test]
fn elements_of_any_size_and_alignment_are_kept() {
    #[derive(Clone, Copy, Debug, PartialEq)]
    #[repr(align(64))]
    struct Aligned(u8);

    fn check<T: Copy + Send + PartialEq + std::fmt::Debug>(element: impl Fn(u8) -> T) {
        let fifo = TypedFifo::new(19);
        for round in 0..5_u8 {
            for number in 0..19 {
                fifo.try_push(element(number ^ round)).unwrap();
            }
            assert_eq!(fifo.try_push(element(0)), Err(Full));
            for number in 0..19 {
                assert_eq!(fifo.try_pop(), Ok(element(number ^ round)));
            }
            assert_eq!(fifo.try_pop(), Err(Empty));
        }
    }

    check(|_| ());
    check(|number| number);
    check(|number| number % 2 == 0);
    check(u16::from);
    check(|number| [number; 3]);
    check(f32::from);
    check(f64::from);
    check(|number| [number; 9]);
    check(|number| (number, u64::from(number)));
    check(u128::from);
    check(|number| [u64::from(number); 7]);
    check(|number| [u64::from(number); 8]);
    check(|number| [u64::from(number); 128]);
    check(Aligned);
}

#[derive(Debug, Clone)]
enum Step {
    Push,
    PushSlice(usize),
    PushOverwriting,
    Pop,
    PopSlice(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        Just(Step::Push),
        (0_usize..40).prop_map(Step::PushSlice),
        Just(Step::PushOverwriting),
        Just(Step::Pop),
        (0_usize..40).prop_map(Step::PopSlice),
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
        let mut element = |_: usize| -> Vec<u64> {
            number += 1;
            (0..width as u64).map(|word| number * 100 + word).collect()
        };
        prop_assert_eq!((fifo.capacity(), fifo.words()), (capacity, width));
        for step in steps {
            match step {
                Step::Push => {
                    let new = element(0);
                    let is_full = model.len() == capacity;
                    prop_assert_eq!(fifo.try_push(&new).is_err(), is_full);
                    if !is_full {
                        model.push_back(new);
                    }
                }
                Step::PushSlice(count) => {
                    let new: Vec<_> = (0..count).map(&mut element).collect();
                    let room = capacity - model.len();
                    prop_assert_eq!(fifo.try_push_slice(&new.concat()), count.min(room));
                    model.extend(new.into_iter().take(room));
                }
                Step::PushOverwriting => {
                    let new = element(0);
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
                Step::PopSlice(count) => {
                    let mut words = vec![0; count * width];
                    let popped = fifo.try_pop_slice(&mut words);
                    prop_assert_eq!(popped, count.min(model.len()));
                    let expected: Vec<_> = model.drain(..popped).flatten().collect();
                    prop_assert_eq!(&words[..popped * width], expected);
                    prop_assert!(words[popped * width..].iter().all(|word| *word == 0));
                }
            }
            prop_assert_eq!(fifo.len(), model.len());
            prop_assert_eq!(fifo.is_empty(), model.is_empty());
            prop_assert_eq!(fifo.overflows(), dropped);
        }
    }

    #[test]
    fn typed_fifo_is_the_same_queue(capacity in 1_usize..34, steps in steps()) {
        let fifo = Fifo::new(capacity, 1);
        let typed = TypedFifo::<u64>::new(capacity);
        let mut number = 0;
        for step in steps {
            number += 1;
            match step {
                Step::Push => prop_assert_eq!(typed.try_push(number), fifo.try_push(&[number])),
                Step::PushSlice(count) => {
                    let new: Vec<u64> = (number..).take(count).collect();
                    prop_assert_eq!(typed.try_push_slice(&new), fifo.try_push_slice(&new));
                }
                Step::PushOverwriting => {
                    let overflow = fifo.push_overwriting(&[number]);
                    prop_assert_eq!(typed.push_overwriting(number), overflow);
                }
                Step::Pop => {
                    let mut word = [0];
                    let popped = fifo.try_pop(&mut word).map(|()| word[0]);
                    prop_assert_eq!(typed.try_pop(), popped);
                }
                Step::PopSlice(count) => {
                    let (mut of_typed, mut words) = (vec![0; count], vec![0; count]);
                    let popped = fifo.try_pop_slice(&mut words);
                    prop_assert_eq!(typed.try_pop_slice(&mut of_typed), popped);
                    prop_assert_eq!(of_typed, words);
                }
            }
            prop_assert_eq!((typed.len(), typed.capacity()), (fifo.len(), capacity));
            let seen = (typed.is_empty(), typed.overflows());
            prop_assert_eq!(seen, (fifo.is_empty(), fifo.overflows()));
        }
    }
}

#[test]
fn element_in_parts_is_one_element_and_is_shown_where_it_lies() {
    // Narrow ones that share a line, and one that has its stamp on a line of its own.
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
fn slot_is_free_again_when_whoever_is_shown_it_panics() {
    let fifo = Fifo::new(1, 1);
    fifo.try_push(&[1]).expect("it has room");
    let panics = || fifo.try_pop_with(|words| assert_ne!(words, [1], "on purpose"));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
    assert_eq!(fifo.try_push(&[2]), Ok(()));
    assert_eq!(fifo.try_pop_with(|words| words[0]), Ok(2));
}
