//! Programs that poll with a time-out of zero, and programs that work between two readings. Data
//! arrives at every rhythm of calls.
//!
//! Each scenario runs once on a quiet machine and once on one whose processors are all kept busy.
//! `POLLING_RUNS=200` repeats them, and prints the longest time that something was under way.
//! `POLLING_LOAD=quiet` or `busy` runs one of the two.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "tests may panic and print their duration"
)]

mod rig;
mod streams;
mod subscriptions;
