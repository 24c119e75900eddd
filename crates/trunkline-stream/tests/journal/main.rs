//! Tests the journals of a writer and of a reader on a disk that crashes at every possible point. An
//! independent model checks the results.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod boundaries;
mod faults;
mod model;
mod real_files;
mod world;
