//! Tests of threads that stop in the middle of a push or a pop, one claim at a time, and of many
//! laps.

use super::*;

fn push(ring: &SlotRing, value: u64) -> Result<(), Full> {
    ring.try_push(&[value])
}

fn pop(ring: &SlotRing) -> Result<u64, Empty> {
    let mut value = [0];
    ring.try_pop(&mut value).map(|()| value[0])
}

/// Claims a slot, as if the thread then stopped.
fn stop(ring: &SlotRing, side: Side) -> Claimed {
    let end = match side {
        Side::Push => &ring.tail,
        Side::Pop => &ring.head,
    };
    ring.claim(end, side).expect("there is one to claim").0
}

/// Completes a push that was stopped.
fn go_on(ring: &SlotRing, slot: Claimed, value: u64) {
    // SAFETY: the slot was claimed for this push and has not been given to the other side.
    unsafe { ring.memory.write(slot.spot, &[value], &[]) };
    ring.memory.set_stamp(slot.spot, slot.next_stamp);
}

/// Behaviour: SP-13.
#[test]
fn stopped_writer_delays_later_elements_and_blocks_no_thread() {
    let ring = SlotRing::new(4, 1);
    push(&ring, 1).unwrap();
    let stopped = stop(&ring, Side::Push);
    push(&ring, 3).unwrap();
    assert_eq!(pop(&ring), Ok(1));
    assert_eq!(pop(&ring), Err(Empty), "told at once, not made to wait");
    assert_eq!(ring.len(), 2);
    push(&ring, 4).unwrap();
    go_on(&ring, stopped, 2);
    assert_eq!(
        [pop(&ring), pop(&ring), pop(&ring)],
        [Ok(2), Ok(3), Ok(4)],
        "in order"
    );
}

/// Behaviour: SP-13.
#[test]
fn stopped_reader_occupies_one_slot_and_blocks_no_thread() {
    let ring = SlotRing::new(2, 1);
    push(&ring, 1).unwrap();
    push(&ring, 2).unwrap();
    let stopped = stop(&ring, Side::Pop);
    assert_eq!(push(&ring, 3), Err(Full), "told at once, not made to wait");
    assert_eq!(pop(&ring), Ok(2), "the other reader goes on");
    ring.memory.set_stamp(stopped.spot, stopped.next_stamp);
    assert_eq!([push(&ring, 3), push(&ring, 4)], [Ok(()); 2]);
    assert_eq!([pop(&ring), pop(&ring)], [Ok(3), Ok(4)]);
}

/// Behaviour: SP-16.
#[test]
fn overwriting_drops_nothing_for_a_slot_it_cannot_get() {
    let ring = SlotRing::new(3, 1);
    for value in 1..=3 {
        push(&ring, value).unwrap();
    }
    let stopped = stop(&ring, Side::Pop);
    let refused = Overflow {
        stored: false,
        dropped: 1,
    };
    assert_eq!(ring.push_overwriting(&[4], &[]).0, refused);
    assert_eq!((ring.len(), ring.dropped()), (2, 1));
    ring.memory.set_stamp(stopped.spot, stopped.next_stamp);
    assert_eq!(
        ring.push_overwriting(&[5], &[]).0,
        Overflow {
            stored: true,
            dropped: 0
        }
    );
    assert_eq!(
        ring.push_overwriting(&[6], &[]).0,
        Overflow {
            stored: true,
            dropped: 1
        }
    );
    assert_eq!([pop(&ring), pop(&ring), pop(&ring)], [Ok(3), Ok(5), Ok(6)]);
    assert_eq!(ring.dropped(), 2);
}

#[test]
fn stamps_of_one_byte_last_for_any_number_of_laps() {
    for capacity in [1, 2, 7, 9] {
        let ring = SlotRing::new(capacity, 1);
        for value in 0..capacity as u64 * 1_000 {
            assert_eq!(pop(&ring), Err(Empty));
            push(&ring, value).unwrap();
            assert_eq!(pop(&ring), Ok(value));
        }
        for lap in 0..300 {
            for value in 0..capacity as u64 {
                push(&ring, lap + value).unwrap();
            }
            assert_eq!(push(&ring, 0), Err(Full));
            for value in 0..capacity as u64 {
                assert_eq!(pop(&ring), Ok(lap + value));
            }
        }
    }
}
