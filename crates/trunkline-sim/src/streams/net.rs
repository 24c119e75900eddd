//! Simulates the connections between the two machines. Each connection has two directions, and a holder at
//! each end.

use trunkline_proto::Endpoint;
use trunkline_stream::directory::DirectorySession;
use trunkline_stream::sim::Bell;
use trunkline_types::{Tick, Timestamp};

use crate::link::{Direction, End, Way};
use crate::rng::Rng;

/// Maximum number of first bytes of a connection that are stored for a replay.
const OPENING_BYTES: usize = 2048;

/// Maximum number of bytes that a directory may store for one connection: the output, with one answer of a
/// full page, and the input of one read.
const DIRECTORY_BYTES_MAX: usize = 96 << 10;
/// Maximum number of output bytes of a session that wait because the network has no room.
const OUTPUT_BYTES_MAX: usize = 64 << 10;

/// The object at one end of a connection.
pub enum Holder {
    /// A stream endpoint, identified by its side and its number.
    Slot(usize, u64),
    /// A session of the directory of the machine to which the connection was made.
    Session(Box<Hosted>),
    /// No object: the connection is being handed over from the directory to an endpoint.
    HandingOver,
    /// No object: this end of the connection is closed.
    Closed,
}

/// A session of a directory.
pub struct Hosted {
    pub session: DirectorySession,
    pub bell: Bell,
    /// Output that has not been sent.
    pub out: Vec<u8>,
    /// Time of the session's next timeout.
    pub due: Option<Tick>,
}

/// A connection. Direction 0 and end 0 belong to the side that has initiated the connection.
pub struct Conn {
    /// The side to which the connection was made.
    pub to: usize,
    pub directions: [Direction; 2],
    pub ways: [Way; 2],
    pub holders: [Holder; 2],
    /// The first bytes that the initiating side has sent.
    pub opening: Vec<u8>,
    /// Time at which bytes last arrived at each end.
    pub last_input_at: [Tick; 2],
    /// Number of pieces that remain to be altered, by direction.
    pub alters: [u32; 2],
    /// True if the connection was created by a fault and has no endpoint at end 0.
    pub is_replay: bool,
    /// Requests that a hostile peer has not sent.
    pub pending_requests: Vec<u8>,
    /// Number of bytes that the directory stored for this connection at its last turn.
    pub directory_bytes: usize,
}

impl Conn {
    pub fn new(to: usize, way: Way, now: Tick, from: Holder, session: Holder) -> Self {
        Self {
            to,
            directions: Default::default(),
            ways: [way; 2],
            holders: [from, session],
            opening: Vec::new(),
            last_input_at: [now; 2],
            alters: [0; 2],
            is_replay: false,
            pending_requests: Vec::new(),
            directory_bytes: 0,
        }
    }

    /// Sends as many bytes from an end as there is room for, and returns their number.
    pub fn send(&mut self, end: usize, now: Tick, bytes: &[u8], rng: &mut Rng) -> usize {
        let count = bytes.len().min(self.directions[end].room());
        let bytes = &bytes[..count];
        if end == 0 && self.opening.len() < OPENING_BYTES {
            let kept = count.min(OPENING_BYTES - self.opening.len());
            self.opening.extend_from_slice(&bytes[..kept]);
        }
        if matches!(self.holders[1 - end], Holder::Closed) {
            // The other end is closed, so the bytes are discarded.
            return count;
        }
        let way = self.ways[end];
        // Alter a random piece, because the first bytes are frame headers.
        if self.alters[end] > 0 && count > 0 && rng.chance(0.5) {
            self.alters[end] -= 1;
            let mut altered = bytes.to_vec();
            let at = rng.index(count);
            altered[at] ^= 1 << rng.below(8);
            self.directions[end].send(now, &altered, &way, rng);
        } else {
            self.directions[end].send(now, bytes, &way, rng);
        }
        count
    }

    /// Closes an end.
    pub fn finish(&mut self, end: usize, now: Tick, how: End) {
        self.holders[end] = Holder::Closed;
        let way = self.ways[end];
        self.directions[end].finish(now, how, &way);
    }

    /// Returns the time at which the next bytes or the end of the connection arrive at an end.
    pub fn next_arrival(&self, end: usize) -> Option<Tick> {
        let from = 1 - end;
        self.directions[from].next_arrival(&self.ways[from])
    }

    /// Returns true if the directory stores more bytes for this connection than permitted.
    pub fn exceeds_directory_limit(&self) -> bool {
        self.directory_bytes > DIRECTORY_BYTES_MAX
    }

    pub fn is_over(&self) -> bool {
        let gone = |holder: &Holder| matches!(holder, Holder::Closed);
        self.holders.iter().all(gone)
    }

    /// Runs a turn of the directory's session at end 1. If the connection must be handed over to an
    /// endpoint, returns the number under which the directory knows the endpoint.
    pub fn turn_session(&mut self, now: Tick, read_max: usize, rng: &mut Rng) -> Option<u64> {
        let pending_requests = std::mem::take(&mut self.pending_requests);
        let sent = self.send(0, now, &pending_requests, rng);
        self.pending_requests = pending_requests[sent..].to_vec();
        let way = self.ways[0];
        let Holder::Session(hosted) = &mut self.holders[1] else {
            return None;
        };
        let mut bytes = Vec::new();
        if hosted.session.wants_input() {
            self.directions[0].read(now, read_max.max(64), &way, &mut bytes);
        }
        let wall = Timestamp::UNIX_EPOCH;
        if !bytes.is_empty() {
            self.last_input_at[1] = now;
            hosted.session.handle_input(now, wall, &bytes);
        }
        if hosted.session.poll_timeout().is_some_and(|at| at <= now) {
            hosted.session.handle_timeout(now, wall);
        }
        hosted.bell.take();
        let mut more = true;
        while more && hosted.out.len() < OUTPUT_BYTES_MAX {
            let budget = OUTPUT_BYTES_MAX - hosted.out.len();
            more = hosted
                .session
                .poll_output(now, wall, budget, &mut hosted.out);
        }
        hosted.due = hosted.session.poll_timeout();
        let out = std::mem::take(&mut hosted.out);
        self.directory_bytes = hosted.session.unsent() + hosted.session.buffered_bytes();
        let (handover, closing) = (
            hosted.session.wants_handover(),
            hosted.session.wants_close(),
        );
        let has_ended = self.directions[0].ended(now, &way).is_some();
        let sent = self.send(1, now, &out, rng);
        if let Holder::Session(hosted) = &mut self.holders[1] {
            hosted.out = out[sent..].to_vec();
        }
        if let Some(number) = handover {
            if let Holder::Session(mut hosted) =
                std::mem::replace(&mut self.holders[1], Holder::HandingOver)
            {
                hosted
                    .session
                    .handle_disconnected(now, trunkline_proto::Disconnect::ClosedLocally);
            }
            return Some(number);
        }
        if closing.is_some() || has_ended {
            if let Holder::Session(hosted) = &mut self.holders[1] {
                let cause = trunkline_proto::Disconnect::PeerClosed;
                hosted.session.handle_disconnected(now, cause);
            }
            self.finish(1, now, End::Fin);
            if self.is_replay {
                self.holders[0] = Holder::Closed;
            }
        }
        None
    }
}
