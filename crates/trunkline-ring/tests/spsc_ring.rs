//! The ring between two threads.
#![cfg(not(loom))]
// What a test calls may panic as the test may.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::VecDeque;
use std::thread;

use proptest::prelude::*;
use trunkline_ring::{Empty, Full, SpscRing};

#[test]
fn ring_takes_exactly_its_capacity() {
    for capacity in [1, 2, 3, 7, 64] {
        let (mut producer, mut consumer) = SpscRing::new(capacity);
        for round in 0..3 {
            assert_eq!((producer.free(), consumer.len()), (capacity, 0));
            for number in 0..capacity {
                assert_eq!(producer.push(number * round), Ok(()));
            }
            assert_eq!(producer.push(0), Err(Full));
            assert_eq!((producer.free(), consumer.len()), (0, capacity));
            for number in 0..capacity {
                assert_eq!(consumer.pop(), Ok(number * round));
            }
            assert_eq!(consumer.pop(), Err(Empty));
        }
        assert_eq!(
            (producer.capacity(), consumer.capacity()),
            (capacity, capacity)
        );
    }
}

#[test]
fn end_learns_that_the_other_is_gone() {
    let (mut producer, mut consumer) = SpscRing::new(2);
    assert!(!producer.is_abandoned() && !consumer.is_abandoned());
    producer.push(1).unwrap();
    drop(producer);
    assert!(consumer.is_abandoned());
    assert_eq!(consumer.pop(), Ok(1), "what was pushed is there still");

    let (producer, consumer) = SpscRing::<u8>::new(1);
    drop(consumer);
    assert!(producer.is_abandoned());
}

#[test]
#[should_panic(expected = "give it a capacity of 1 or more")]
fn ring_without_room_is_refused() {
    let _ = SpscRing::<u64>::new(0);
}

#[derive(Debug, Clone)]
enum Step {
    Push,
    PushSlice(usize),
    Pop,
    PopSlice(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        Just(Step::Push),
        (0_usize..30).prop_map(Step::PushSlice),
        Just(Step::Pop),
        (0_usize..30).prop_map(Step::PopSlice),
    ]
}

proptest! {
    #[test]
    fn ring_is_a_bounded_queue(
        capacity in 1_usize..20,
        steps in prop::collection::vec(step(), 0..200),
    ) {
        let (mut producer, mut consumer) = SpscRing::new(capacity);
        let mut model = VecDeque::new();
        let mut numbers = 1_u64..;
        for step in steps {
            let room = capacity - model.len();
            match step {
                Step::Push => {
                    let number = numbers.next().unwrap();
                    prop_assert_eq!(producer.push(number).is_ok(), room > 0);
                    model.extend((room > 0).then_some(number));
                }
                Step::PushSlice(count) => {
                    let new: Vec<u64> = numbers.by_ref().take(count).collect();
                    prop_assert_eq!(producer.push_slice(&new), count.min(room));
                    model.extend(new.into_iter().take(room));
                }
                Step::Pop => prop_assert_eq!(consumer.pop().ok(), model.pop_front()),
                Step::PopSlice(count) => {
                    let mut values = vec![0; count];
                    let popped = consumer.pop_slice(&mut values);
                    prop_assert_eq!(popped, count.min(model.len()));
                    prop_assert!(model.drain(..popped).eq(values[..popped].iter().copied()));
                    prop_assert!(values[popped..].iter().all(|value| *value == 0));
                }
            }
            prop_assert_eq!(consumer.len(), model.len());
            prop_assert_eq!(consumer.is_empty(), model.is_empty());
            prop_assert_eq!(producer.free(), capacity - model.len());
        }
    }
}

#[test]
fn everything_arrives_in_order_one_by_one_and_in_slices() {
    const ELEMENTS: u64 = 500_000;
    for capacity in [1, 5, 100] {
        let (mut producer, mut consumer) = SpscRing::new(capacity);
        let producing = thread::spawn(move || {
            let mut next = 0;
            while next < ELEMENTS {
                let before = next;
                if next.is_multiple_of(3) {
                    next += u64::from(producer.push(next).is_ok());
                } else {
                    let end = ELEMENTS.min(next + 17);
                    let values: Vec<u64> = (next..end).collect();
                    next += producer.push_slice(&values) as u64;
                }
                if next == before {
                    thread::yield_now();
                }
            }
        });
        let mut next = 0;
        let mut values = [0; 13];
        while next < ELEMENTS {
            let before = next;
            if next.is_multiple_of(5) {
                if let Ok(value) = consumer.pop() {
                    assert_eq!(value, next);
                    next += 1;
                }
            } else {
                let count = consumer.pop_slice(&mut values);
                assert!(
                    (next..)
                        .zip(&values[..count])
                        .all(|(number, value)| number == *value)
                );
                next += count as u64;
            }
            if next == before {
                thread::yield_now();
            }
        }
        producing.join().unwrap();
        assert_eq!(consumer.pop(), Err(Empty));
        assert!(consumer.is_abandoned());
    }
}
