//! Endpoints with journals, over TCP: they restart and the stream continues, or the ends that
//! cannot continue get an error.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod disks;
mod lives;
mod pair;
mod restarts;
