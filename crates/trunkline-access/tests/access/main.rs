//! Tests of the public interface: which callers may do what, and why.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

mod explanations;
mod model;
mod notation;
mod objects;
mod policies;
mod reference;
mod roles;
mod sharing;
mod truth_table;
