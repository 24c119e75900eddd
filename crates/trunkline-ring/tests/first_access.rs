//! The first access costs what later ones cost: all memory is there from the beginning.
//!
//! A test process of its own, because a process that forks beside it would have its pages to fault
//! in again.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test stops at what it did not expect"
)]
#![cfg(all(not(loom), target_os = "linux"))]

#[path = "realtime/counting.rs"]
mod counting;

use trunkline_ring::{Fifo, RtCell};

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

/// Page faults of this thread so far.
fn page_faults() -> i64 {
    // SAFETY: `getrusage` fills the structure it is given, which may be all zero before.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage), 0);
        usage.ru_minflt + usage.ru_majflt
    }
}

/// 16 MiB are 4,096 pages; a first access that paid for them would show.
///
/// Behaviour: SP-20.
#[test]
fn first_access_costs_what_later_ones_cost() {
    const WORDS: usize = 1 << 10;
    const ELEMENTS: usize = 1 << 11;
    const FAULTS_MAX: i64 = 64;

    let element = [1; WORDS];
    let mut out = [0; WORDS];
    let fifo = Fifo::new(ELEMENTS, WORDS);
    let wide = vec![1; WORDS * ELEMENTS / 4];
    let cell = RtCell::new(wide.len());
    let allocations = counting::allocations();

    let before = page_faults();
    for _ in 0..ELEMENTS {
        fifo.try_push(&element).unwrap();
    }
    for _ in 0..ELEMENTS {
        fifo.try_pop(&mut out).unwrap();
    }
    let of_fifo = page_faults() - before;

    let before = page_faults();
    for _ in 0..4 {
        cell.write(&wide).unwrap();
    }
    let of_cell = page_faults() - before;

    assert_eq!(counting::allocations(), allocations);
    assert!(
        of_fifo < FAULTS_MAX,
        "{of_fifo} page faults in the first lap of a FIFO"
    );
    assert!(
        of_cell < FAULTS_MAX,
        "{of_cell} page faults in the first writes of a cell"
    );
}
