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
    /// Whether either end is still there.
    is_open: [bool; 2],
    /// Whether an end hears nothing any more.
    is_deaf: [bool; 2],
    /// What came before the hello was whole; `None` once it was.
    hello: Option<Vec<u8>>,
    delay: Duration,
}

/// The network.
pub struct Net {
    connections: BTreeMap<u64, Connection>,
    last: u64,
    pub can_dial: bool,
    /// While nobody can dial, each dial fails at once; otherwise it waits until that is over.
    pub refuses: bool,
    /// How long bytes of connections dialled from now on are on their way.
    pub delay: Duration,
    /// Longest piece that bytes arrive in.
    pub piece: usize,
    /// Bytes come also to an end that has closed, as if its driver had not heard of that.
    pub is_leaky: bool,
    /// What is no hello closes the connection; otherwise it is a mistake of a test.
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

    /// An end closes: the other learns it behind what was sent.
    pub fn close(&mut self, id: u64, by_active: bool, now: Tick) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.is_open[index(by_active)] = false;
            let at = now.saturating_add(connection.delay);
            if !connection.is_deaf[index(!by_active)] {
                connection.to[index(!by_active)].push_back((at, None));
            }
        }
    }

    /// What arrives next, at the end that dialled or the other, if it is there by now. Bytes for an
    /// end that has closed are lost.
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

    /// How often something was sent to the end that dialled, or to the other.
    pub fn frames_to(&self, active: bool) -> u64 {
        self.sent[index(active)]
    }

    pub fn next_at(&self) -> Option<Tick> {
        let queues = self.connections.values().flat_map(|c| &c.to);
        queues.filter_map(|q| q.front()).map(|(at, _)| *at).min()
    }

    /// Bytes for the end that was dialled: the hello when it is whole with these, and what is
    /// behind it; `None` for the hello when it was before.
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

    /// Every connection is gone, and what was on its way.
    pub fn lose_all(&mut self) -> Vec<u64> {
        let ids = self.connections.keys().copied().collect();
        self.connections.clear();
        ids
    }

    /// The end that dialled, or the other, does not hear any more of connections there are, and
    /// does not know.
    pub fn half_open(&mut self, deaf_is_active: bool) {
        for connection in self.connections.values_mut() {
            connection.to[index(deaf_is_active)].clear();
            connection.is_deaf[index(deaf_is_active)] = true;
        }
    }

    /// Nothing goes through the connections there are, in either direction, and nobody is told.
    pub fn freeze(&mut self) {
        for connection in self.connections.values_mut() {
            connection.to = Default::default();
            connection.is_deaf = [true, true];
        }
    }

    /// What is on its way to an end is held up for longer.
    pub fn hold_up(&mut self, to_active: bool, time: Duration) {
        for connection in self.connections.values_mut() {
            connection.delay += time;
            for (at, _) in &mut connection.to[index(to_active)] {
                *at = at.saturating_add(time);
            }
        }
    }

    /// Changes one byte on its way to an end.
    pub fn alter(&mut self, to_active: bool, from_end: usize) {
        for connection in self.connections.values_mut() {
            let queue = &mut connection.to[index(to_active)];
            if let Some((_, Some(bytes))) = queue.back_mut() {
                let at = bytes.len().saturating_sub(1 + from_end);
                bytes[at] ^= 0x40;
            }
        }
    }

    /// Of what is on its way to an end only so many pieces come.
    pub fn lose_all_behind(&mut self, to_active: bool, pieces: usize) {
        for connection in self.connections.values_mut() {
            connection.to[index(to_active)].truncate(pieces);
        }
    }
}
