//! The real rig: engines, clients and streams as processes with real sockets, and real faults
//! between them.
//!
//! ```text
//!   engine    `trunkline serve` in a process: stopped, killed, started again; starved of
//!             descriptors, set into a network namespace, given another clock
//!   crowd     thousands of production clients (`ClientCore`) on one thread, some of which stop
//!             reading
//!   proxy     between client and engine: delay, silence in one or both directions, cut at a byte,
//!             half-close, reset
//!   streams   the ends of streams as processes, which make their elements from the index and check
//!             them; plan: faults at bytes that were drawn before
//!   view      one subscription as a program sees it: every gap in it has to be explained
//!   figures   what was measured, printed, and kept where `make rig` says
//! ```
//!
//! As part of the ordinary tests each check is short, and no time is asserted, except for a
//! generous cut-off. `make rig` runs the long versions one by one and writes their figures to
//! docs/reference/rig.md.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "tests may panic and print what they measured"
)]

mod chaos;
mod clocks;
mod closes;
mod crowd;
mod descriptors;
mod engine;
mod fans;
mod figures;
mod floods;
mod idle_memory;
mod joins;
mod kills;
mod late_writes;
mod limits;
mod links;
mod netns;
mod outages;
mod plan;
#[path = "../black_box/rig.rs"]
#[allow(dead_code, reason = "the black-box tests use all of it")]
mod process;
mod proxy;
mod raw;
mod slow_consumers;
mod soak;
mod storms;
mod streams;
mod throughput;
mod view;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use trunkline_net::Clock;

/// Long enough for any machine; only a check that hangs ever waits for it.
pub const CUT_OFF: Duration = Duration::from_secs(120);

/// One check at a time: they measure the machine.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The duration of a fault. Only time has to pass.
pub fn last(duration: Duration) {
    let clock = Clock::new();
    let end = clock.now().saturating_add(duration);
    while clock.now() < end {
        std::thread::park_timeout(end.since(clock.now()));
    }
}

/// Looks repeatedly until there is an answer, for at most the cut-off.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let clock = Clock::new();
    let end = clock.now().saturating_add(CUT_OFF);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(clock.now() < end, "{what}: not within {CUT_OFF:?}");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}
