//! Messages and reference page, word for word.
//!
//! After a deliberate change: `UPDATE_GOLDEN=1 cargo test -p trunkline-config --test golden`, then
//! read the difference.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod messages;
mod mistakes;
mod reference;
