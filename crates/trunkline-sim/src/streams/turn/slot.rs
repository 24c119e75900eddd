//! Defines the world's state of a stream endpoint.

use std::sync::Arc;
use std::time::Duration;

use trunkline_stream::journal::SyncJob;
use trunkline_stream::sim::SimEndpoint;
use trunkline_types::Tick;

use crate::streams::net::{Conn, Holder};

/// A stream endpoint, and the state of its driver.
pub struct Slot {
    pub number: u64,
    pub end: Arc<dyn SimEndpoint>,
    /// Number of the current connection.
    pub conn: Option<u64>,
    /// Time at which the current attempt to connect ends.
    pub dial: Option<Tick>,
    /// Output that has not been sent completely.
    pub(super) out: Vec<u8>,
    /// Number of bytes of `out` that have been sent.
    pub(super) sent: usize,
    /// True if output waits because the network has no room.
    pub(super) is_blocked: bool,
    /// Time at which a connection that is being closed ends at the latest.
    pub(super) close_by: Option<Tick>,
    /// The current sync of the journal, and the time at which it ends.
    pub sync: Option<(Tick, SyncJob)>,
    /// Time at which the endpoint needs its next turn.
    pub due: Option<Tick>,
    /// Scheduling delay of the next turn.
    pub turn_delay: Duration,
    /// Time at which the endpoint was last connected, and its number of lost connections at that time.
    pub last_connected: (Tick, u64),
    /// Time at which the current connection was established.
    pub connected_at: Tick,
}

impl Slot {
    pub fn new(number: u64, end: Arc<dyn SimEndpoint>, now: Tick) -> Self {
        Self {
            number,
            end,
            conn: None,
            dial: None,
            out: Vec::new(),
            sent: 0,
            is_blocked: false,
            close_by: None,
            sync: None,
            due: Some(now),
            turn_delay: Duration::ZERO,
            last_connected: (now, 0),
            connected_at: now,
        }
    }

    /// Returns the time of the endpoint's next turn, which includes arrivals from the network.
    pub fn next(&self, conn: Option<&Conn>) -> Option<Tick> {
        let sync = self.sync.as_ref().map(|(at, _)| *at);
        let mut next = [self.due, self.dial, sync, self.close_by]
            .into_iter()
            .flatten()
            .min();
        if let Some(conn) = conn
            && let Some(at) = self.conn_end(conn)
        {
            if let Some(arrives) = conn.next_arrival(at) {
                next = Some(next.map_or(arrives, |next| next.min(arrives)));
            }
            if self.is_blocked && conn.directions[at].room() > 0 {
                next = Some(Tick::ZERO);
            }
        }
        next
    }

    pub(super) fn conn_end(&self, conn: &Conn) -> Option<usize> {
        let is_own = |holder: &Holder| matches!(holder, Holder::Slot(_, n) if *n == self.number);
        conn.holders.iter().position(is_own)
    }

    pub(super) fn forget_output(&mut self) {
        self.out.clear();
        self.sent = 0;
        self.is_blocked = false;
        self.close_by = None;
    }
}
