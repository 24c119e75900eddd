//! An end of a process, as the world sees it.

use std::sync::Arc;
use std::time::Duration;

use trunkline_stream::journal::SyncJob;
use trunkline_stream::sim::SimEndpoint;
use trunkline_types::Tick;

use crate::streams::net::{Conn, Holder};

/// An end of a process, and its transport.
pub struct Slot {
    pub number: u64,
    pub end: Arc<dyn SimEndpoint>,
    pub conn: Option<u64>,
    /// Time at which the current dial ends.
    pub dial: Option<Tick>,
    pub(super) out: Vec<u8>,
    pub(super) sent: usize,
    pub(super) is_blocked: bool,
    pub(super) close_by: Option<Tick>,
    pub sync: Option<(Tick, SyncJob)>,
    /// Time at which the end wants its next turn.
    pub due: Option<Tick>,
    /// Delay of its turns.
    pub turn_delay: Duration,
    /// Time at which it was last connected, and the number of lost connections at that time.
    pub last_connected: (Tick, u64),
    /// Time at which this connection was established.
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

    /// Returns the time at which the end has something to do, including arrivals from the network.
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
