//! The send half of a session: its endpoint and the transport's send half.
//!
//! The connection thread locks it for a turn: input, timers, output. A thread that has changed
//! something for the session tries the lock and sends what is there. If the lock is taken, or more
//! than sending is due, it notifies the connection thread instead.
//!
//! Data to be sent is marked for the endpoint first, so the next thread with the lock finds it. Lock
//! order: a thread takes this lock only while it holds no lock of a variable or a feed. A
//! writer that holds it waits only for locks that are held briefly, and threads that hold those
//! never wait for an outlet.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use trunkline_proto::{Disconnect, Endpoint};
use trunkline_types::{Tick, Timestamp};

use crate::outgoing::{Flush, Outgoing};

/// For this long after a send, only the connection thread sends, and it gathers updates. A writer
/// in a hurry therefore does not make a packet of every update.
const QUIET: Duration = Duration::from_micros(20);

/// After an update within `QUIET`, only the connection thread sends for this long. A fast writer
/// usually continues at its rate, and a thread kept awake costs less than one woken behind every
/// send.
const BURST: Duration = Duration::from_millis(10);

/// Maximum number of bytes that a writer sends at once. The connection thread sends the rest.
const WRITER_QUANTUM: usize = 32 << 10;

pub(super) struct Outlet {
    pub(super) endpoint: Box<dyn Endpoint>,
    pub(super) outgoing: Outgoing,
    /// Updates came too fast for writers to send them: until this time writers do not try again.
    burst_until: Tick,
    /// The error with which the transport failed on a writer's thread.
    failed: Option<Disconnect>,
    /// The endpoint panicked on a writer's thread. It is not called any more, and its half-written
    /// output is not sent.
    panicked: bool,
    /// State recorded at the end of the connection thread's last turn.
    seen: Seen,
    /// The latest time passed to the endpoint. It is needed because two threads read their clocks
    /// before they have the lock.
    latest: Tick,
}

/// State that the connection thread acts on without the lock.
#[derive(Clone, Copy, Default)]
pub(super) struct Seen {
    /// The endpoint takes input.
    pub(super) wants_input: bool,
    /// The transport had no room.
    pub(super) is_blocked: bool,
    /// Time of the session's next turn if nothing happens before.
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

    /// Returns the time of a turn, which never precedes one already passed to the endpoint.
    pub(super) fn not_before(&mut self, now: Tick) -> Tick {
        self.latest = self.latest.max(now);
        self.latest
    }

    /// Takes the error with which a writer's send failed.
    pub(super) fn take_failure(&mut self) -> Option<Disconnect> {
        self.failed.take()
    }

    /// Returns true if the endpoint has panicked: the session then ends without it.
    pub(super) fn has_panicked(&self) -> bool {
        self.panicked
    }

    /// Records the state at the end of the connection thread's turn, on which the thread acts until
    /// the next one.
    pub(super) fn check(&mut self) -> Seen {
        self.seen = Seen {
            wants_input: self.endpoint.wants_input(),
            is_blocked: self.outgoing.is_blocked(),
            deadline: Tick::earliest([self.endpoint.poll_timeout(), self.outgoing.close_by()]),
        };
        self.seen
    }

    /// Sends pending output on a thread other than the connection thread. Returns false if the
    /// connection thread has work to do as well.
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
        // A panic is a defect of one session's endpoint, not of the writer.
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

    /// Returns true if the connection thread may sleep on, because it knows of all its work.
    fn is_seen_to(&self) -> bool {
        self.endpoint.wants_close().is_none()
            && self.endpoint.wants_input() == self.seen.wants_input
            && self.has_seen_deadline()
    }

    /// Returns true if the connection thread wakes by itself before the endpoint's next time-out is
    /// due.
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
