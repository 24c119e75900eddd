//! The send half of a session: its endpoint, and what that sends through.
//!
//! ```text
//!   connection thread  locks it for a turn: input, what is due, output
//!   a thread that has changed something for the session
//!                      tries it, and sends what there is; where that is not all there is to do, or
//!                      somebody has it, the connection thread is told as if nobody had tried
//! ```
//!
//! What is to be sent is marked in the endpoint's reach before, so whoever gets the lock next finds
//! it. Lock order: the lock is taken while no lock of a variable or a feed is held; a writer that
//! holds it waits for nothing but locks that are held for a moment, and those who hold these never
//! wait for an outlet.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use trunkline_proto::{Disconnect, Endpoint};
use trunkline_types::{Tick, Timestamp};

use crate::outgoing::{Flush, Outgoing};

/// A connection on which something was sent this recently is its own thread's, which gathers: so a
/// writer in a hurry does not make a packet of every update.
const QUIET: Duration = Duration::from_micros(20);

/// So long it stays its thread's after an update that came sooner. Whoever writes that fast goes on
/// doing so, and a thread that is kept awake costs less than one that is woken behind every send.
const BURST: Duration = Duration::from_millis(10);

/// Bytes that a writer sends at once. The rest is the connection thread's.
const WRITER_QUANTUM: usize = 32 << 10;

pub(super) struct Outlet {
    pub(super) endpoint: Box<dyn Endpoint>,
    pub(super) outgoing: Outgoing,
    /// Updates came too fast for writers to send them: until then they do not try again.
    burst_until: Tick,
    /// Why the transport took nothing more from a writer.
    failed: Option<Disconnect>,
    /// The endpoint panicked on a writer's thread: nobody asks it anything more, and what it has
    /// half written stays here.
    panicked: bool,
    /// What the connection thread has seen to.
    seen: Seen,
    /// The latest time that the endpoint was told: two threads read their clocks before they have
    /// the lock.
    latest: Tick,
}

/// What the connection thread acts by without the lock.
#[derive(Clone, Copy, Default)]
pub(super) struct Seen {
    /// The endpoint takes input.
    pub(super) wants_input: bool,
    /// The transport had no room.
    pub(super) is_blocked: bool,
    /// When the session has its next turn, if nothing happens.
    pub(super) deadline: Option<Tick>,
}

impl Outlet {
    pub(super) fn new(endpoint: Box<dyn Endpoint>, outgoing: Outgoing) -> Self {
        Self {
            endpoint,
            outgoing,
            burst_until: Tick::ZERO,
            failed: None,
            panicked: false,
            seen: Seen::default(),
            latest: Tick::ZERO,
        }
    }

    /// The time of a turn: never before one that the endpoint was told already.
    pub(super) fn not_before(&mut self, now: Tick) -> Tick {
        self.latest = self.latest.max(now);
        self.latest
    }

    /// Why a writer could not send, once.
    pub(super) fn take_failure(&mut self) -> Option<Disconnect> {
        self.failed.take()
    }

    /// The endpoint is of no further use: the session ends without it.
    pub(super) fn has_panicked(&self) -> bool {
        self.panicked
    }

    /// The end of the connection thread's turn: what it is to act by from now on.
    pub(super) fn look(&mut self) -> Seen {
        self.seen = Seen {
            wants_input: self.endpoint.wants_input(),
            is_blocked: self.outgoing.is_blocked(),
            deadline: Tick::earliest([self.endpoint.poll_timeout(), self.outgoing.close_by()]),
        };
        self.seen
    }

    /// Sends what there is, by a thread that is not the connection thread. False when that has
    /// something to do as well.
    pub(super) fn send(&mut self, now: Tick, wall: Timestamp) -> bool {
        if now.since(self.outgoing.wrote_at()) < QUIET {
            self.burst_until = now.saturating_add(BURST);
            return false;
        }
        let is_mine = now >= self.burst_until
            && self.failed.is_none()
            && !self.panicked
            && !self.outgoing.is_blocked()
            && self.endpoint.lets_writers_send();
        if !is_mine {
            return false;
        }
        let now = self.not_before(now);
        let Self {
            endpoint, outgoing, ..
        } = self;
        let flush = || outgoing.flush(&mut **endpoint, now, wall, WRITER_QUANTUM, || false);
        // A panic is a defect of one session's endpoint, and none of the writer's.
        match catch_unwind(AssertUnwindSafe(flush)) {
            Ok(Ok(Flush::Done)) => self.is_seen_to(),
            Ok(Ok(Flush::Blocked | Flush::More)) => false,
            Ok(Err(error)) => {
                self.failed = Some(error.into());
                false
            }
            Err(_) => {
                self.panicked = true;
                false
            }
        }
    }

    /// Whether the connection thread may sleep on: it has nothing to do that it does not know of.
    fn is_seen_to(&self) -> bool {
        self.endpoint.wants_close().is_none()
            && self.endpoint.wants_input() == self.seen.wants_input
            && self.has_seen_deadline()
    }

    /// Whether the connection thread comes by itself when the endpoint's next time-out is due.
    pub(super) fn has_seen_deadline(&self) -> bool {
        let Some(due) = self.endpoint.poll_timeout() else {
            return true;
        };
        self.seen.deadline.is_some_and(|seen| seen <= due)
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests;
