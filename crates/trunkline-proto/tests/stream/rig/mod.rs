//! The rig: a writer and a reader with rings, and a network between them.

mod ends;
mod net;

use std::time::Duration;

use trunkline_proto::Disconnect;
use trunkline_proto::stream::{Link, LinkOptions, Role};
use trunkline_types::{DataType, Tick};

pub use ends::{End, ReaderEnd, WriterEnd, varying};
pub use net::Net;

/// Bytes of an element of one size.
pub const SIZE: u64 = 8;

pub const WRITER: &str = "tl://localhost/writer";
pub const READER: &str = "tl://localhost/reader";

/// A writer and a reader of elements of 8 bytes, and the network between them.
pub struct World {
    pub now: Tick,
    pub writer: WriterEnd,
    pub reader: ReaderEnd,
    pub net: Net,
    /// The writer dials.
    pub writer_dials: bool,
}

pub fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Options of a writer and of a reader that name each other.
pub fn options(writer: u64, reader: u64, writer_dials: bool) -> (LinkOptions, LinkOptions) {
    let mut w = LinkOptions::fixed(WRITER, DataType::F64, SIZE as u32, writer);
    let mut r = LinkOptions::fixed(READER, DataType::F64, SIZE as u32, reader);
    w.incarnation.0[0] = 1;
    r.incarnation.0[0] = 2;
    let active = if writer_dials { &mut w } else { &mut r };
    active.role = Role::Active;
    active.peer_url = if writer_dials { READER } else { WRITER }.to_owned();
    (w, r)
}

/// Stores the data about the peer that a journal keeps.
pub fn keep_pair<H>(options: &mut LinkOptions, link: &Link<H>) {
    options.pair = link.pair().copied();
    options.peer_lineage = options.pair.map(|pair| pair.lineage);
}

impl World {
    /// Buffers of these numbers of elements. Nothing is connected yet.
    pub fn new(writer: u64, reader: u64, writer_dials: bool) -> Self {
        let (w, r) = options(writer, reader, writer_dials);
        Self::with(w, r)
    }

    pub fn with(writer: LinkOptions, reader: LinkOptions) -> Self {
        let now = Tick::from_nanos(1);
        Self {
            now,
            writer_dials: writer.role == Role::Active,
            writer: WriterEnd::new(writer, now),
            reader: ReaderEnd::new(reader, now),
            net: Net::default(),
        }
    }

    /// Connected, with the handshake finished.
    pub fn connected(writer: u64, reader: u64, writer_dials: bool) -> Self {
        let mut world = Self::new(writer, reader, writer_dials);
        world.run(ms(10));
        assert!(world.writer.link.is_connected() && world.reader.link.is_connected());
        world
    }

    fn ends(&mut self) -> (&mut dyn End, &mut dyn End, &mut Net) {
        if self.writer_dials {
            (&mut self.writer, &mut self.reader, &mut self.net)
        } else {
            (&mut self.reader, &mut self.writer, &mut self.net)
        }
    }

    /// Returns true if the dialled end has a peer.
    pub fn passive_is_connected(&self) -> bool {
        match self.writer_dials {
            true => self.reader.link.is_connected(),
            false => self.writer.link.is_connected(),
        }
    }

    /// Both ends process what is due, and send their output; nothing is delivered.
    pub fn pump(&mut self) {
        let now = self.now;
        let (active, passive, net) = self.ends();
        if net.can_dial && active.poll_dial().is_some_and(|at| at <= now) {
            let id = net.dial();
            active.dialled(now, id);
        } else if net.refuses && active.poll_dial().is_some_and(|at| at <= now) {
            active.dial_failed(now, Disconnect::PeerClosed);
        }
        pump(active, true, now, net);
        pump(passive, false, now, net);
    }

    /// Only the reader processes what is due.
    pub fn pump_reader(&mut self) {
        let is_active = !self.writer_dials;
        pump(&mut self.reader, is_active, self.now, &mut self.net);
    }

    /// Delivers everything that has passed through the network by now.
    pub fn deliver(&mut self) {
        let now = self.now;
        let (active, passive, net) = self.ends();
        while let Some((id, is_active, arrival)) = net.next_arrival(now) {
            let end: &mut dyn End = if is_active { active } else { passive };
            match arrival {
                Some(bytes) if is_active => end.input(now, id, &bytes),
                Some(bytes) => {
                    if let Some((hello, rest)) = net.take_hello(id, &bytes) {
                        match hello.map(|hello| end.hello(now, id, &hello)) {
                            Some(Ok(replaced)) => {
                                replaced
                                    .into_iter()
                                    .for_each(|old| net.close(old, false, now));
                                end.input(now, id, &rest);
                            }
                            Some(Err(refused)) => net.send(id, false, refused, now),
                            None => end.input(now, id, &rest),
                        }
                    }
                }
                None => end.disconnected(now, id, Disconnect::PeerClosed),
            }
        }
    }

    /// Lets this much time pass.
    pub fn run(&mut self, time: Duration) {
        let end = self.now.saturating_add(time);
        for _ in 0..50_000 {
            self.pump();
            self.deliver();
            self.pump();
            let now = self.now;
            let (active, passive, net) = self.ends();
            let dial = active.poll_dial().filter(|_| net.can_dial || net.refuses);
            let due = [
                active.poll_timeout(),
                passive.poll_timeout(),
                dial,
                net.next_at(),
            ];
            let next = due.into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= end) else {
                self.now = end;
                return;
            };
            self.now = next.max(now);
        }
        let now = self.now;
        let (active, passive, net) = self.ends();
        let due = [active.poll_timeout(), passive.poll_timeout()];
        let (dial, next) = (active.poll_dial(), net.next_at());
        panic!(
            "no rest at {:?}: timeouts {due:?}, dial {dial:?}, arrival {next:?}",
            now
        );
    }

    /// Both ends learn at once that the connection is gone, and neither can dial until
    /// [`heal`](Self::heal). Data in transit is lost.
    pub fn cut(&mut self) {
        self.net.can_dial = false;
        for id in self.net.lose_all() {
            let now = self.now;
            self.writer.disconnected(now, id, Disconnect::PeerClosed);
            self.reader.disconnected(now, id, Disconnect::PeerClosed);
        }
    }

    /// Like [`cut`](Self::cut), and each dial fails at once until [`heal`](Self::heal).
    pub fn cut_and_refuse(&mut self) {
        self.cut();
        self.net.refuses = true;
    }

    pub fn heal(&mut self) {
        self.net.can_dial = true;
        self.net.refuses = false;
    }

    /// Writes the next `count` elements if there is room for all of them.
    pub fn write(&mut self, count: u64) -> bool {
        self.writer.write(count)
    }

    /// Reads `count` elements if there are that many.
    pub fn read(&mut self, count: u64) -> bool {
        self.reader.read(count)
    }

    /// Elements in the writer's and in the reader's buffer.
    pub fn fills(&self) -> (u64, u64) {
        (self.writer.fill(), self.reader.fill())
    }

    /// Elements that the writer may send yet.
    pub fn may_send(&self) -> u64 {
        (self.writer.link.credit() - self.writer.link.handed()) / SIZE
    }
}

fn pump(end: &mut dyn End, is_active: bool, now: Tick, net: &mut Net) {
    if end.poll_timeout().is_some_and(|at| at <= now) {
        end.handle_timeout(now);
    }
    send(end, is_active, now, net);
}

fn send(end: &mut dyn End, is_active: bool, now: Tick, net: &mut Net) {
    let Some(id) = end.connection() else { return };
    loop {
        let bytes = end.output(now);
        if bytes.is_empty() {
            break;
        }
        net.send(id, is_active, bytes, now);
    }
    if let Some(cause) = end.wants_close() {
        net.close(id, is_active, now);
        end.disconnected(now, id, cause);
    }
}
