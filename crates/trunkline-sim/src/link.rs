//! Simulates the network. A connection is two queues of bytes that can be delayed, slowed, stopped or
//! cut.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::time::Duration;

use trunkline_proto::{Disconnect, Endpoint};
use trunkline_types::{Moment, Tick};

use crate::rng::Rng;

/// Maximum number of bytes in each direction of a connection that were sent and not read.
pub const CAPACITY: usize = 64 << 10;
/// Maximum number of outputs that are polled in one turn.
const OUTPUTS: usize = 16;

/// How a direction of a connection ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The sender closes the connection. All bytes sent before are delivered.
    Fin,
    /// The connection is reset. Unread bytes are lost.
    Reset,
}

/// The current network properties of a direction.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// Time from sending to arrival.
    pub delay: Duration,
    /// Maximum random addition to the delay.
    pub jitter: Duration,
    /// Bytes per second; 0: no limit.
    pub rate: u64,
    /// Maximum length of a piece in which bytes arrive.
    pub piece_max: usize,
    /// No bytes arrive before this time.
    pub silent_until: Tick,
}

impl Way {
    /// Returns the properties of a connection within one machine.
    pub fn perfect() -> Self {
        Self {
            delay: Duration::from_micros(50),
            jitter: Duration::ZERO,
            rate: 0,
            piece_max: CAPACITY,
            silent_until: Tick::ZERO,
        }
    }
}

/// One direction of a connection.
#[derive(Debug, Default)]
pub struct Direction {
    /// Pieces in flight or unread, each with the time of arrival.
    pieces: VecDeque<(Tick, Vec<u8>)>,
    /// Time at which the end of the direction arrives, and the kind of end.
    end: Option<(Tick, End)>,
    /// Bytes that wait for their turn on a shared line.
    queued: VecDeque<u8>,
    /// Number of bytes in flight, unread or queued.
    bytes: usize,
    /// Time at which the last piece arrives.
    last_arrival: Tick,
    /// Time at which the data sent so far has left, given the rate limit.
    busy_until: Tick,
    /// True if the sender had to stop because there was no room.
    pub was_full: bool,
}

impl Direction {
    /// Returns the number of bytes that can be sent now.
    pub fn room(&self) -> usize {
        CAPACITY.saturating_sub(self.bytes)
    }

    /// Returns the number of bytes in flight, unread or queued.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Sends bytes. Does nothing if the direction is closed.
    pub fn send(&mut self, now: Tick, mut bytes: &[u8], way: &Way, rng: &mut Rng) {
        if self.end.is_some() {
            return;
        }
        while !bytes.is_empty() {
            let cut = rng.range(1, way.piece_max as u64) as usize;
            let cut = match way.piece_max >= CAPACITY {
                true => bytes.len(),
                false => cut.min(bytes.len()),
            };
            let (piece, rest) = bytes.split_at(cut);
            bytes = rest;
            let mut sent_at = now;
            if let Some(nanos) = (piece.len() as u64 * 1_000_000_000).checked_div(way.rate) {
                self.busy_until = self.busy_until.max(now);
                self.busy_until = self.busy_until.saturating_add(Duration::from_nanos(nanos));
                sent_at = self.busy_until;
            }
            let jitter = rng.below(way.jitter.as_nanos() as u64 + 1);
            let arrives = sent_at.saturating_add(way.delay + Duration::from_nanos(jitter));
            self.last_arrival = self.last_arrival.max(arrives);
            self.bytes += piece.len();
            self.pieces.push_back((self.last_arrival, piece.to_vec()));
        }
    }

    /// Queues bytes for a shared line, until [`send_queued`](Self::send_queued) sends them.
    pub fn queue(&mut self, bytes: &[u8]) {
        self.queued.extend(bytes);
        self.bytes += bytes.len();
    }

    /// Moves up to `max` of the waiting bytes onto the shared line, and returns their number.
    pub fn send_queued(&mut self, now: Tick, max: usize, way: &Way, rng: &mut Rng) -> usize {
        let count = self.queued.len().min(max);
        let bytes: Vec<u8> = self.queued.drain(..count).collect();
        self.bytes -= count;
        self.send(now, &bytes, way, rng);
        count
    }

    /// Returns true if bytes wait for the shared line.
    pub fn has_queued(&self) -> bool {
        !self.queued.is_empty()
    }

    /// Closes the direction. Bytes sent before are delivered first.
    pub fn finish(&mut self, now: Tick, end: End, way: &Way) {
        if self.end.is_none() {
            self.last_arrival = self.last_arrival.max(now.saturating_add(way.delay));
            self.end = Some((self.last_arrival, end));
        }
    }

    /// Breaks the connection. Only the first `kept` unread bytes arrive.
    pub fn cut(&mut self, now: Tick, mut kept: usize, end: End) {
        for (_, piece) in &mut self.pieces {
            piece.truncate(kept);
            kept -= piece.len();
        }
        self.pieces.retain(|(_, piece)| !piece.is_empty());
        self.bytes = self.pieces.iter().map(|(_, piece)| piece.len()).sum();
        let last = self.pieces.back().map_or(now, |(arrives, _)| *arrives);
        self.end = Some((last.max(now), end));
    }

    /// Returns the time at which the next bytes or the end arrive.
    pub fn next_arrival(&self, way: &Way) -> Option<Tick> {
        let first = self.pieces.front().map(|(arrives, _)| *arrives);
        let reset = self.end.filter(|(_, end)| *end == End::Reset);
        let end = match first {
            Some(_) => reset.map(|(at, _)| at),
            None => self.end.map(|(at, _)| at),
        };
        let due = [first, end].into_iter().flatten().min()?;
        Some(due.max(way.silent_until))
    }

    /// Takes up to `max` bytes that have arrived.
    pub fn read(&mut self, now: Tick, max: usize, way: &Way, out: &mut Vec<u8>) {
        if now < way.silent_until {
            return;
        }
        if let Some((at, End::Reset)) = self.end
            && at <= now
        {
            self.pieces.clear();
            self.bytes = 0;
            return;
        }
        while out.len() < max {
            let Some((arrives, piece)) = self.pieces.front_mut() else {
                return;
            };
            if *arrives > now {
                return;
            }
            let count = piece.len().min(max - out.len());
            out.extend(piece.drain(..count));
            self.bytes -= count;
            if piece.is_empty() {
                self.pieces.pop_front();
            }
        }
    }

    /// Makes everything in flight arrive at `latest` or earlier, after the line has become fast again.
    pub fn deliver_by(&mut self, latest: Tick) {
        for (arrives, _) in &mut self.pieces {
            *arrives = (*arrives).min(latest);
        }
        if let Some((at, _)) = &mut self.end {
            *at = (*at).min(latest);
        }
        self.last_arrival = self.last_arrival.min(latest);
        self.busy_until = self.busy_until.min(latest);
    }

    /// Returns the end of the direction, or `None` until all bytes before it were read.
    pub fn ended(&self, now: Tick, way: &Way) -> Option<End> {
        let (at, end) = self.end?;
        let is_drained = self.pieces.is_empty() || end == End::Reset;
        (is_drained && at <= now && now >= way.silent_until).then_some(end)
    }
}

/// Returns the cause of a disconnection, as the receiver of an end sees it.
pub(crate) fn ended(end: End) -> Disconnect {
    match end {
        End::Fin => Disconnect::PeerClosed,
        End::Reset => io(ErrorKind::ConnectionReset),
    }
}

/// Returns how an endpoint that disconnects because of `cause` ends the direction to its peer. `gone` is
/// the end that the endpoint has received, if any.
pub(crate) fn last_word(gone: Option<End>, cause: &Disconnect) -> End {
    match (gone, cause) {
        (Some(End::Reset), _) | (_, Disconnect::Dead { .. }) => End::Reset,
        _ => End::Fin,
    }
}

/// Returns the error of an attempt to connect to a machine without an engine.
pub(crate) fn refusal() -> Disconnect {
    io(ErrorKind::ConnectionRefused)
}

pub(crate) fn io(kind: ErrorKind) -> Disconnect {
    Disconnect::Io {
        kind,
        text: kind.to_string(),
    }
}

/// Polls the output of an endpoint, and passes the output to `send`. Returns true if the endpoint has
/// more output and there is room for it.
pub(crate) fn transmit(
    end: &mut dyn Endpoint,
    to: &mut Direction,
    Moment { now, wall }: Moment,
    mut send: impl FnMut(&mut Direction, &[u8]),
) -> bool {
    for _ in 0..OUTPUTS {
        let room = to.room();
        if room == 0 {
            to.was_full = true;
            return false;
        }
        let mut out = Vec::new();
        let more = end.poll_output(now, wall, room, &mut out);
        send(to, &out);
        if !more {
            return false;
        }
    }
    true
}
