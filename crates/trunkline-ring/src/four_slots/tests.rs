//! Tests of writers that stop in the middle of a write, one claim at a time.

use super::*;

fn read(cell: &FourSlots) -> (u64, [u64; 2]) {
    let mut words = [0; 2];
    let snapshot = cell.read(&mut words);
    assert!(snapshot.complete);
    (snapshot.count, words)
}

/// Behaviour: SP-12, SP-13.
#[test]
fn stopped_writer_blocks_neither_writers_nor_readers() {
    let cell = FourSlots::new(2);
    cell.write_parts(&[1, 1], &[]).unwrap();
    let stopped = cell.claim().unwrap();
    for number in 3..50 {
        assert_eq!(cell.write_parts(&[number; 2], &[]), Ok(number));
        assert_eq!(read(&cell), (number, [number; 2]));
    }
    cell.finish(stopped, &[2, 2], &[]);
    assert_eq!(
        read(&cell),
        (49, [49; 2]),
        "an older write does not replace a newer one"
    );
    assert_eq!(cell.write_parts(&[50; 2], &[]), Ok(50));
    assert_eq!(read(&cell), (50, [50; 2]));
}

/// Behaviour: SP-12.
#[test]
fn newest_claim_wins_in_any_order_of_completion() {
    for order in [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ] {
        let cell = FourSlots::new(2);
        let claims = [(); 3].map(|()| cell.claim().unwrap());
        let mut newest = 0;
        for which in order {
            let claim = claims[which];
            cell.finish(claim, &[claim.number(); 2], &[]);
            newest = claim.number().max(newest);
            assert_eq!(read(&cell), (newest, [newest; 2]));
        }
    }
}

/// Behaviour: SP-13, SP-14.
#[test]
fn fourth_writer_at_once_is_refused_and_readers_keep_the_value() {
    let cell = FourSlots::new(2);
    // Starts with the value in each possible slot.
    for round in 0..8 {
        let before = cell.write_parts(&[round; 2], &[]).unwrap();
        let stopped = [(); 3].map(|()| cell.claim().unwrap());
        assert_eq!(cell.write_parts(&[9; 2], &[]), Err(CellBusy));
        assert_eq!(
            read(&cell),
            (before, [round; 2]),
            "the published slot is nobody's to write"
        );
        let [first, second, third] = stopped;
        cell.finish(second, &[2; 2], &[]);
        let after = cell.write_parts(&[4; 2], &[]).unwrap();
        assert_eq!(after, third.number() + 1, "a refused write took no number");
        cell.finish(first, &[1; 2], &[]);
        cell.finish(third, &[3; 2], &[]);
        assert_eq!(read(&cell), (after, [4; 2]));
    }
}

/// Behaviour: SP-13, SP-14.
#[test]
fn writers_that_stop_before_anything_is_complete_leave_the_initial_value() {
    let cell = FourSlots::new(2);
    let stopped = [(); 3].map(|()| {
        assert_eq!(read(&cell), (0, [0; 2]));
        cell.claim().unwrap()
    });
    assert!(stopped.iter().all(|claim| claim.slot() != 0));
    assert_eq!((read(&cell), cell.count()), ((0, [0; 2]), 0));
    assert_eq!(cell.write_parts(&[9; 2], &[]), Err(CellBusy));
    for claim in stopped {
        // The writer gets to this point before it stops again.
        cell.stamps[claim.slot()].store(claim.0 | BUSY, Ordering::Relaxed);
        assert_eq!(read(&cell), (0, [0; 2]));
    }
    for claim in stopped {
        cell.finish(claim, &[claim.number(); 2], &[]);
        let number = claim.number();
        assert_eq!((read(&cell), cell.count()), ((number, [number; 2]), number));
    }
}

/// Behaviour: SP-13.
#[test]
fn reader_is_overtaken_only_when_its_slot_is_claimed_again() {
    let cell = FourSlots::new(2);
    cell.write_parts(&[1, 1], &[]).unwrap();
    let first = Claim(cell.head.load(Ordering::Acquire));
    let is_intact = |cell: &FourSlots| cell.is_complete(first);
    for number in 2..=4 {
        cell.write_parts(&[number; 2], &[]).unwrap();
        assert!(
            is_intact(&cell),
            "a reader of write 1 is still right after write {number}"
        );
    }
    cell.write_parts(&[5, 5], &[]).unwrap();
    assert!(!is_intact(&cell));
}
