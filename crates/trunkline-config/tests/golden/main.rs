//! Compares messages and the reference page word for word.
//!
//! After a deliberate change, run `UPDATE_GOLDEN=1 cargo test -p trunkline-config --test golden`, and
//! read the difference.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod messages;
mod mistakes;
mod reference;
