//! The journals of a writer and of a reader, on a disk that crashes wherever it can, judged by a
//! checker that knows nothing of how they work.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod boundaries;
mod faults;
mod model;
mod real_files;
mod world;
