//! Endpoints with journals, over TCP: they end and come back, and the stream goes on, or whoever
//! cannot go on is told.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod disks;
mod lives;
mod pair;
mod restarts;
