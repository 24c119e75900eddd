//! The first access costs as much as later ones: all memory is mapped at creation.
//!
//! A separate test binary, because a fork in the same process would make its pages fault again.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]
#![cfg(all(not(loom), target_os = "linux"))]

#[path = "realtime/counting.rs"]
mod counting;

use trunkline_ring::{Fifo, RtCell};

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

/// Page faults of this thread so far.
fn page_faults() -> i64 {
    // SAFETY: `getrusage` fills the structure; all zeros is a valid initial value.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage), 0);
        usage.ru_minflt + usage.ru_majflt
    }
}

/// 16 MiB are 4,096 pages; faults on first access would exceed the limit.
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
