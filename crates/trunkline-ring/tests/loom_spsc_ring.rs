//! Every interleaving of the two ends of a ring.
//!
//! loom checks the elements too: it reports two threads that have one slot at the same time.
#![cfg(loom)]
// What a test calls may panic as the test may.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use loom::thread;
use trunkline_ring::SpscRing;

#[test]
fn elements_arrive_in_order() {
    for capacity in [1, 2] {
        loom::model(move || {
            let (mut producer, mut consumer) = SpscRing::new(capacity);
            let producing = thread::spawn(move || {
                (1..=3_u64)
                    .filter(|value| producer.push(*value).is_ok())
                    .collect::<Vec<_>>()
            });
            let mut popped = Vec::new();
            for _ in 0..3 {
                popped.extend(consumer.pop());
            }
            let pushed = producing.join().unwrap();
            popped.extend(std::iter::from_fn(|| consumer.pop().ok()));
            assert_eq!(popped, pushed);
        });
    }
}

#[test]
fn slices_arrive_in_order_and_across_the_end_of_the_ring() {
    loom::model(|| {
        let (mut producer, mut consumer) = SpscRing::new(3);
        let producing = thread::spawn(move || {
            let first = producer.push_slice(&[1_u64, 2]);
            let second = producer.push_slice(&[3, 4]);
            (first, second)
        });
        let mut values = [0; 2];
        let mut popped = Vec::new();
        for _ in 0..2 {
            let count = consumer.pop_slice(&mut values);
            popped.extend_from_slice(&values[..count]);
        }
        let (first, second) = producing.join().unwrap();
        popped.extend(std::iter::from_fn(|| consumer.pop().ok()));
        assert_eq!(first, 2);
        assert_eq!(popped, [1, 2, 3, 4][..first + second]);
    });
}

#[test]
fn consumer_that_finds_the_producer_gone_finds_all_it_pushed() {
    loom::model(|| {
        let (mut producer, mut consumer) = SpscRing::new(2);
        let producing = thread::spawn(move || {
            producer.push(7_u64).unwrap();
        });
        if consumer.is_abandoned() {
            assert_eq!(consumer.pop(), Ok(7));
        }
        producing.join().unwrap();
    });
}
