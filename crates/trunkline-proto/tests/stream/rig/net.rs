//! Connections: two queues of bytes each, with the time of their arrival.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use trunkline_proto::frame::Frame;
use trunkline_proto::message::stream::StreamHello;
use trunkline_types::Tick;

/// Bytes, or the end of them.
type Arrival = Option<Vec<u8>>;

/// One connection.
#[derive(Default)]
pub struct Connection {
    /// To the end that dialled, and to the other.
    to: [VecDeque<(Tick, Arrival)>; 2],
    /// True for an end that still exists.
    is_open: [bool; 2],
    /// True for an end that receives nothing.
    is_deaf: [bool; 2],
    /// Bytes received before the hello was complete; `None` once it was.
    hello: Option<Vec<u8>>,
    delay: Duration,
}

/// The network.
pub struct Net {
    connections: BTreeMap<u64, Connection>,
    last: u64,
    pub can_dial: bool,
    /// While dials are impossible, each one fails at once; otherwise it waits until that is over.
    pub refuses: bool,
    /// Transit time of bytes on connections dialled from now on.
    pub delay: Duration,
    /// Longest piece that bytes arrive in.
    pub piece: usize,
    /// Bytes come also to an end that has closed, as if its driver had not learned of that.
    pub is_leaky: bool,
    /// Invalid hellos close the connection; otherwise they are a mistake of a test.
    pub is_forgiving: bool,
    /// Pieces sent to the end that dialled, and to the other.
    sent: [u64; 2],
}

impl Default for Net {
    fn default() -> Self {
        Self {
            connections: BTreeMap::new(),
            last: 0,
            can_dial: true,
            refuses: false,
            delay: Duration::from_micros(100),
            piece: usize::MAX,
            is_leaky: false,
            is_forgiving: false,
            sent: [0; 2],
        }
    }
}

fn index(is_active: bool) -> usize {
    usize::from(!is_active)
}

impl Net {
    pub fn dial(&mut self) -> u64 {
        self.last += 1;
        let connection = Connection {
            is_open: [true, true],
            hello: Some(Vec::new()),
            delay: self.delay,
            ..Connection::default()
        };
        self.connections.insert(self.last, connection);
        self.last
    }

    /// The end that dialled, or the other, sends.
    pub fn send(&mut self, id: u64, from_active: bool, bytes: Vec<u8>, now: Tick) {
        let piece = self.piece;
        self.sent[index(!from_active)] += 1;
        if let Some(connection) = self.connections.get_mut(&id) {
            let at = now.saturating_add(connection.delay);
            if connection.is_deaf[index(!from_active)] {
                return;
            }
            for piece in bytes.chunks(piece) {
                let queue = &mut connection.to[index(!from_active)];
                queue.push_back((at, Some(piece.to_vec())));
            }
        }
    }

    /// An end closes: the other learns it after the data sent before.
    pub fn close(&mut self, id: u64, by_active: bool, now: Tick) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.is_open[index(by_active)] = false;
            let at = now.saturating_add(connection.delay);
            if !connection.is_deaf[index(!by_active)] {
                connection.to[index(!by_active)].push_back((at, None));
            }
        }
    }

    /// The next arrival, at the end that dialled or the other, if it has arrived by now. Bytes for
    /// an end that has closed are lost.
    pub fn next_arrival(&mut self, now: Tick) -> Option<(u64, bool, Arrival)> {
        for (id, connection) in &mut self.connections {
            for is_active in [true, false] {
                let queue = &mut connection.to[index(is_active)];
                if queue.front().is_some_and(|(at, _)| *at <= now) {
                    let (_, arrival) = queue.pop_front()?;
                    if !connection.is_open[index(is_active)] && !self.is_leaky {
                        return self.next_arrival(now);
                    }
                    return Some((*id, is_active, arrival));
                }
            }
        }
        None
    }

    /// Number of sends to the end that dialled, or to the other.
    pub fn frames_to(&self, active: bool) -> u64 {
        self.sent[index(active)]
    }

    pub fn next_at(&self) -> Option<Tick> {
        let queues = self.connections.values().flat_map(|c| &c.to);
        queues.filter_map(|q| q.front()).map(|(at, _)| *at).min()
    }

    /// Bytes for the dialled end: the hello once it is complete, and the bytes after it; `None` for
    /// the hello if it was complete before.
    pub fn take_hello(&mut self, id: u64, bytes: &[u8]) -> Option<(Option<StreamHello>, Vec<u8>)> {
        let connection = self.connections.get_mut(&id)?;
        let Some(hello) = &mut connection.hello else {
            return Some((None, bytes.to_vec()));
        };
        hello.extend_from_slice(bytes);
        let mut rest = hello.as_slice();
        let frame = match Frame::take_from(&mut rest) {
            Ok(frame) => frame?,
            Err(_) if self.is_forgiving => return None,
            Err(error) => panic!("{error}"),
        };
        let decoded = match StreamHello::decode(&frame) {
            Ok(decoded) => decoded,
            Err(_) if self.is_forgiving => return None,
            Err(error) => panic!("{error}"),
        };
        let rest = rest.to_vec();
        connection.hello = None;
        Some((Some(decoded), rest))
    }

    /// Drops every connection and the data in transit.
    pub fn lose_all(&mut self) -> Vec<u64> {
        let ids = self.connections.keys().copied().collect();
        self.connections.clear();
        ids
    }

    /// The end that dialled, or the other, silently stops receiving on the existing connections.
    pub fn half_open(&mut self, deaf_is_active: bool) {
        for connection in self.connections.values_mut() {
            connection.to[index(deaf_is_active)].clear();
            connection.is_deaf[index(deaf_is_active)] = true;
        }
    }

    /// The existing connections silently stall in both directions.
    pub fn freeze(&mut self) {
        for connection in self.connections.values_mut() {
            connection.to = Default::default();
            connection.is_deaf = [true, true];
        }
    }

    /// Delays data in transit to an end.
    pub fn hold_up(&mut self, to_active: bool, time: Duration) {
        for connection in self.connections.values_mut() {
            connection.delay += time;
            for (at, _) in &mut connection.to[index(to_active)] {
                *at = at.saturating_add(time);
            }
        }
    }

    /// Changes one byte in transit to an end.
    pub fn alter(&mut self, to_active: bool, from_end: usize) {
        for connection in self.connections.values_mut() {
            let queue = &mut connection.to[index(to_active)];
            if let Some((_, Some(bytes))) = queue.back_mut() {
                let at = bytes.len().saturating_sub(1 + from_end);
                bytes[at] ^= 0x40;
            }
        }
    }

    /// Drops the data in transit to an end, except for the first `pieces`.
    pub fn lose_all_behind(&mut self, to_active: bool, pieces: usize) {
        for connection in self.connections.values_mut() {
            connection.to[index(to_active)].truncate(pieces);
        }
    }
}
