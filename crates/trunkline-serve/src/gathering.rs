//! Implements throughput mode: sessions gather their output, and a flush makes all of them send it.

use std::collections::BTreeMap;

use trunkline_engine::{SessionInfo, Wake};
use trunkline_proto::{Gather, ThroughputMode};
use trunkline_types::Tick;

use crate::sync::{Arc, AtomicU64, Mutex, Ordering, lock};

/// Passes flushes to all sessions of an engine that are in throughput mode.
///
/// A flush is counted before the sessions are woken, so every session sees the new count after it
/// wakes. No other lock is taken while `members` is locked. The lock is held only to list the wakes,
/// and when a session joins or leaves.
#[derive(Debug, Default)]
pub struct FlushBroadcast {
    count: AtomicU64,
    members: Mutex<Members>,
}

#[derive(Debug, Default)]
struct Members {
    next: u64,
    wakes: BTreeMap<u64, SharedWake>,
}

/// The gather buffer of a session. Dropping it removes the session from the engine's flushes.
#[derive(Debug)]
pub(crate) struct Gathering {
    pub(crate) gather: Gather,
    flushes: Arc<FlushBroadcast>,
    /// Key of the session in `Members::wakes`.
    member: u64,
    /// Number of flushes that this session has noticed.
    seen_count: u64,
}

impl FlushBroadcast {
    /// Makes every session in throughput mode send its gathered output.
    pub fn flush(&self) {
        self.count.fetch_add(1, Ordering::AcqRel);
        let wakes: Vec<SharedWake> = lock(&self.members).wakes.values().cloned().collect();
        for wake in wakes {
            wake.wake();
        }
    }

    fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }
}

impl Gathering {
    pub(crate) fn new(
        terms: ThroughputMode,
        flushes: Arc<FlushBroadcast>,
        wake: SharedWake,
    ) -> Self {
        let seen_count = flushes.count();
        let member = {
            let mut members = lock(&flushes.members);
            members.next += 1;
            let member = members.next;
            members.wakes.insert(member, wake);
            member
        };
        Self {
            gather: Gather::new(terms),
            flushes,
            member,
            seen_count,
        }
    }

    pub(crate) fn poll_timeout(&self) -> Option<Tick> {
        self.gather.poll_timeout()
    }

    /// Returns true if the gathered data must be sent with the next output, because its time is over.
    pub(crate) fn expire(&mut self, now: Tick) -> bool {
        self.gather.expire(now)
    }

    /// Returns true if there was a flush since the last call.
    pub(crate) fn take_flush(&mut self) -> bool {
        let count = self.flushes.count();
        std::mem::replace(&mut self.seen_count, count) != count
    }
}

impl Drop for Gathering {
    fn drop(&mut self) {
        lock(&self.flushes.members).wakes.remove(&self.member);
    }
}

/// A wake shared by a session's consumer and its gather buffer.
#[derive(Clone)]
pub(crate) struct SharedWake(pub(crate) Arc<dyn Wake>);

impl std::fmt::Debug for SharedWake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SharedWake")
    }
}

impl Wake for SharedWake {
    fn wake(&self) {
        self.0.wake();
    }

    fn send(&self) {
        self.0.send();
    }

    fn session_info(&self) -> SessionInfo {
        self.0.session_info()
    }
}
