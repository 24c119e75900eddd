//! Tests endpoints with journals over TCP. After a restart, the stream continues, or the endpoints that
//! cannot continue get an error.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod disks;
mod lives;
mod pair;
mod restarts;
