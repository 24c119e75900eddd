//! Every interleaving of a producer and two readers of one ring.
//!
//! loom checks the bytes too: it reports who writes what another one reads.
#![cfg(loom)]
// Test helpers may panic.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use loom::thread;
use trunkline_ring::{ElementCursor, RingShape, RingStart, element_ring_of_many};

fn read(cursor: &mut ElementCursor) {
    let at = cursor.place().position;
    let mut element = [0];
    if cursor.written().unwrap() > at {
        assert!(cursor.read_at(at, &mut element));
        assert_eq!(u64::from(element[0]), at + 1);
        cursor.pass(at + 1, at + 1);
    }
}

/// Behaviour: B-62.
#[test]
fn slot_is_not_overwritten_while_a_reader_holds_it() {
    loom::model(|| {
        let shape = RingShape::fixed(1, 1).unwrap();
        let (mut producer, cursors) = element_ring_of_many(shape, RingStart::default());
        let (mut one, _) = cursors.join();
        let (mut other, _) = cursors.join();
        assert!(producer.push(&[1], 1).unwrap());
        let reading = thread::spawn(move || read(&mut one));
        let producing = thread::spawn(move || {
            let _ = producer.push(&[2], 1).unwrap();
        });
        read(&mut other);
        reading.join().unwrap();
        producing.join().unwrap();
    });
}
