//! Every interleaving of the two ends of a stream's buffer, and of their sleeps.
//!
//! loom checks the bytes too: it reports two threads that have one byte at the same time.
#![cfg(loom)]
// Test helpers may panic.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use trunkline_ring::{RingShape, RingStart, element_ring};

/// The event that an end sleeps on; a bell that is never rung is a deadlock, which loom reports.
#[derive(Clone)]
struct Bell(Arc<(Mutex<bool>, Condvar)>);

impl Bell {
    fn new() -> Self {
        Self(Arc::new((Mutex::new(false), Condvar::new())))
    }

    fn ring(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_one();
    }

    fn sleep(&self) {
        let mut rung = self.0.0.lock().unwrap();
        while !*rung {
            rung = self.0.1.wait(rung).unwrap();
        }
        *rung = false;
    }
}

#[test]
fn elements_arrive_in_order_and_whole() {
    loom::model(|| {
        let shape = RingShape::fixed(2, 2).unwrap();
        let (mut producer, mut consumer) = element_ring(shape, RingStart::default());
        let producing = thread::spawn(move || {
            (1..=3_u8)
                .filter(|n| producer.push(&[*n, *n], 1).unwrap())
                .collect::<Vec<_>>()
        });
        let mut pulled = Vec::new();
        let mut element = [0; 2];
        for _ in 0..2 {
            if consumer.pull(&mut element, 1).unwrap() {
                assert_eq!(element[0], element[1]);
                pulled.push(element[0]);
            }
        }
        let pushed = producing.join().unwrap();
        while consumer.pull(&mut element, 1).unwrap() {
            pulled.push(element[0]);
        }
        assert_eq!(pulled, pushed);
    });
}

#[test]
fn data_written_in_place_is_visible_only_after_commit() {
    loom::model(|| {
        let shape = RingShape::fixed(1, 2).unwrap();
        let (mut producer, mut consumer) = element_ring(shape, RingStart::default());
        let producing = thread::spawn(move || {
            // Out of order, as a frame whose check comes last.
            assert!(producer.write_at(1, &[8]) && producer.write_at(0, &[7]));
            producer.commit(2, 2);
        });
        let mut bytes = [0; 2];
        if consumer.has(1, 1).unwrap() {
            assert!(consumer.read_at(0, &mut bytes));
            assert_eq!(bytes, [7, 8]);
            consumer.release(2, 2);
        }
        producing.join().unwrap();
    });
}

#[test]
fn counted_elements_have_arrived() {
    loom::model(|| {
        let shape = RingShape::variable(4, 2).unwrap();
        let (mut producer, mut consumer) = element_ring(shape, RingStart::default());
        let producing = thread::spawn(move || {
            let pushed = [1, 2, 1].map(|len| producer.push(&[9; 2][..len], 1).unwrap());
            assert_eq!(pushed[..2], [true, true]);
        });
        let (bytes, elements) = consumer.available().unwrap();
        let needed = [0, 1, 3][elements as usize];
        assert!(bytes >= needed, "{elements} elements in {bytes} bytes");
        if elements > 0 {
            assert!(consumer.pull(&mut [0], 1).unwrap());
        }
        producing.join().unwrap();
    });
}

#[test]
fn reader_waiting_for_elements_is_woken() {
    loom::model(|| {
        let shape = RingShape::fixed(1, 2).unwrap();
        let (mut producer, mut consumer) = element_ring(shape, RingStart::default());
        let bell = Bell::new();
        let ringing = bell.clone();
        let producing = thread::spawn(move || {
            for byte in [7, 8] {
                assert!(producer.push(&[byte], 1).unwrap());
                if producer.must_wake() {
                    ringing.ring();
                }
            }
        });
        let mut both = [0; 2];
        while !consumer.pull(&mut both, 2).unwrap() {
            if consumer.wait_for(2, 2).unwrap() {
                bell.sleep();
            }
        }
        producing.join().unwrap();
        assert_eq!(both, [7, 8]);
    });
}

#[test]
fn writer_waiting_for_room_is_woken() {
    loom::model(|| {
        let shape = RingShape::fixed(1, 1).unwrap();
        let (mut producer, mut consumer) = element_ring(shape, RingStart::default());
        let bell = Bell::new();
        let ringing = bell.clone();
        assert!(producer.push(&[7], 1).unwrap());
        let consuming = thread::spawn(move || {
            let mut byte = [0];
            assert!(consumer.pull(&mut byte, 1).unwrap());
            assert_eq!(byte, [7]);
            if consumer.must_wake() {
                ringing.ring();
            }
            consumer
        });
        while !producer.push(&[8], 1).unwrap() {
            if producer.wait_for_room(1, 1).unwrap() {
                bell.sleep();
            }
        }
        let mut byte = [0];
        assert!(consuming.join().unwrap().pull(&mut byte, 1).unwrap());
        assert_eq!(byte, [8]);
    });
}
