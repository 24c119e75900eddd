//! Streams and variables: recorded, and played again.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod descriptions;
mod elements;
mod rig;
mod streams;
mod variables;
