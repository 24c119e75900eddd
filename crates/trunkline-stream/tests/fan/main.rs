//! Tests endpoints with several peers over real sockets.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod gathering;
mod leaving;
mod losing;
#[allow(dead_code, reason = "each test program uses its own part")]
#[path = "../endpoints/proxy.rs"]
mod proxy;
#[allow(dead_code, reason = "each test program uses its own part")]
#[path = "../endpoints/rig.rs"]
mod rig;
mod several;
mod spreading;

/// Ends are connected over TCP.
const NEAR: bool = false;
