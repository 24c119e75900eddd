//! Every interleaving of the two ends of a byte ring, and of their sleeps.
//!
//! loom checks the bytes too: it reports two threads that have one byte at the same time.
#![cfg(loom)]
// Test helpers may panic.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use trunkline_ring::byte_ring;

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
fn reader_waiting_for_bytes_is_woken() {
    loom::model(|| {
        let (mut producer, mut consumer) = byte_ring(2);
        let bell = Bell::new();
        let ringing = bell.clone();
        let producing = thread::spawn(move || {
            for byte in [7, 8] {
                let moved = producer.push(&[byte]).unwrap();
                assert_eq!(moved.count, 1);
                if moved.wake {
                    ringing.ring();
                }
            }
        });
        let mut popped = Vec::new();
        while popped.len() < 2 {
            let mut bytes = [0; 2];
            let count = consumer.pop(&mut bytes).unwrap().count;
            popped.extend_from_slice(&bytes[..count]);
            if count == 0 && consumer.wait_for_bytes().unwrap() {
                bell.sleep();
            }
        }
        producing.join().unwrap();
        assert_eq!(popped, [7, 8]);
    });
}

#[test]
fn writer_waiting_for_room_is_woken() {
    loom::model(|| {
        let (mut producer, mut consumer) = byte_ring(1);
        let bell = Bell::new();
        let ringing = bell.clone();
        producer.push(&[7]).unwrap();
        let consuming = thread::spawn(move || {
            let mut byte = [0];
            let moved = consumer.pop(&mut byte).unwrap();
            assert_eq!((moved.count, byte), (1, [7]));
            if moved.wake {
                ringing.ring();
            }
            consumer
        });
        while producer.push(&[8]).unwrap().count == 0 {
            if producer.wait_for_room().unwrap() {
                bell.sleep();
            }
        }
        let mut consumer = consuming.join().unwrap();
        let mut byte = [0];
        assert_eq!(consumer.pop(&mut byte).unwrap().count, 1);
        assert_eq!(byte, [8]);
    });
}
