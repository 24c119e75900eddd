//! The real-time side allocates nothing and makes no system call.
//!
//! Each operation runs in a child process, on a separate thread, under a seccomp filter that
//! permits only the call that ends the process; any other system call kills it. At the same time
//! another thread works on the other side of the same structure. The allocator counts its calls.
//! Then everything is repeated on a `SCHED_FIFO` thread, if the system permits one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "tests may panic"
)]
#![cfg(all(not(loom), target_os = "linux"))]
// Prints a note if the system refuses a real-time thread. Test helpers may panic.

#[path = "realtime/child.rs"]
mod child;
#[path = "realtime/counting.rs"]
mod counting;
#[path = "realtime/operations.rs"]
mod operations;

use self::child::{Ended, Policy, run_filtered};
use self::operations::operations;

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

fn check_all(policy: Policy) {
    for operation in operations() {
        let name = operation.name;
        match run_filtered(policy, operation) {
            Ended::Clean => {}
            Ended::Refused => {
                println!("{name}: no SCHED_FIFO thread permitted here; ran on a normal one");
            }
            Ended::Allocated => panic!("{name} allocates"),
            Ended::Killed => panic!("{name} makes a system call"),
            Ended::Other(status) => panic!("{name} failed with status {status:#x}"),
        }
    }
}

/// Behaviour: SP-21, SP-22.
#[test]
fn real_time_side_allocates_nothing_and_makes_no_system_call() {
    check_all(Policy::Normal);
}

/// Behaviour: SP-21.
#[test]
fn real_time_side_runs_on_a_sched_fifo_thread() {
    check_all(Policy::Fifo);
}

#[test]
fn filter_detects_a_system_call() {
    // SAFETY: asks for the number of the parent process and touches nothing.
    let ask = || assert!(unsafe { libc::getppid() } >= 0);
    assert_eq!(
        run_filtered(Policy::Normal, operations::alone("getppid", ask)),
        Ended::Killed
    );
}

#[test]
fn counter_detects_an_allocation() {
    // Small enough that the allocator needs no system call.
    let allocate = || drop(std::hint::black_box(Box::new(1_u8)));
    assert_eq!(
        run_filtered(Policy::Normal, operations::alone("box", allocate)),
        Ended::Allocated
    );
}
