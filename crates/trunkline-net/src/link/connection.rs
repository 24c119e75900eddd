//! What a link's lock guards: the endpoint and the transport it has at the moment.

use std::os::fd::OwnedFd;
use std::time::Duration;

use trunkline_proto::{DirectBytes, Disconnect, Endpoint};
use trunkline_types::{Tick, Timestamp};

use crate::outgoing::{Flush, Outgoing};
use crate::shm::TableAnswer;
use crate::sleeper::Interest;
use crate::spin::Spin;
use crate::transport::{Peer, ReceiveHalf, SHARED_MEMORY, Source, Transport, TransportUsed};

/// Taken from the transport at once; also how long other threads may wait for the lock.
const READ_BYTES: usize = 64 << 10;

/// The same where the endpoint says where most bytes belong: what is read without asking it is
/// copied.
const READ_BYTES_DIRECT: usize = 4 << 10;

/// Received in one turn straight to where it belongs: then others may have the lock.
const DIRECT_MAX: usize = 1 << 20;

/// Looks at memory between two looks at the clock.
const GLANCES: usize = 16;

pub(super) struct Connection<E> {
    pub(super) endpoint: E,
    /// What the thread that drives sleeps for, while it does.
    pub(super) sleeping: Option<Sleeping>,
    /// When the background thread gets up by itself from the sleep that a waiter has muted.
    pub(super) background_until: Option<Tick>,
    spin: Duration,
    wire: Option<Wire>,
    /// Transports so far.
    wires: u64,
}

struct Wire {
    /// Which of the connection's transports it is.
    number: u64,
    peer: Peer,
    source: Source,
    outgoing: Outgoing,
    /// Why nothing can be sent any more. What arrived before may say more, so the end of the input
    /// is read before the endpoint is told.
    broken: Option<Disconnect>,
    /// With the thread that drives during its turn.
    incoming: Option<Incoming>,
}

/// The receive half, and what was read from it and not taken in yet.
pub(super) struct Incoming {
    /// Which of the connection's transports it is of.
    wire: u64,
    /// The endpoint says where bytes belong: they are read with it at hand.
    is_direct: bool,
    half: Box<dyn ReceiveHalf>,
    source: Source,
    buffer: Box<[u8]>,
    filled: usize,
    /// A read may find something.
    ready: bool,
    ended: Option<Disconnect>,
    spin: Spin,
}

/// What the thread that drives sleeps for.
#[derive(Clone, Copy)]
pub(super) struct Sleeping {
    /// `None` while offline.
    pub(super) interest: Option<Interest>,
    pub(super) until: Option<Tick>,
}

/// What to sleep for before the next turn.
pub(super) struct Plan {
    pub(super) source: Source,
    pub(super) interest: Interest,
    /// There is something to do already.
    pub(super) at_once: bool,
}

impl<E: Endpoint> Connection<E> {
    pub(super) fn new(endpoint: E, spin: Duration) -> Self {
        Self {
            endpoint,
            sleeping: None,
            background_until: None,
            spin,
            wire: None,
            wires: 0,
        }
    }

    pub(super) fn is_connected(&self) -> bool {
        self.wire.is_some()
    }

    pub(super) fn peer(&self) -> Option<Peer> {
        self.wire.as_ref().map(|wire| wire.peer)
    }

    pub(super) fn connect(&mut self, transport: Transport, now: Tick, wall: Timestamp) {
        self.install(transport);
        self.endpoint.handle_connected(now, wall);
    }

    /// This transport takes the place of the one that there is, without a word to the endpoint,
    /// which knows. What was said over the other one before is still sent.
    pub(super) fn install(&mut self, transport: Transport) {
        if let Some(mut old) = self.wire.take() {
            old.outgoing.finish();
        }
        let Transport {
            source,
            receive,
            send,
            peer,
        } = transport;
        self.wires += 1;
        let is_direct = self.endpoint.direct().is_some();
        let bytes = match is_direct {
            true => READ_BYTES_DIRECT,
            false => READ_BYTES,
        };
        let incoming = Incoming {
            wire: self.wires,
            is_direct,
            half: receive,
            source: source.clone(),
            buffer: vec![0; bytes].into_boxed_slice(),
            filled: 0,
            ready: false,
            ended: None,
            spin: Spin::new(self.spin),
        };
        let outgoing = Outgoing::new(send);
        self.wire = Some(Wire {
            number: self.wires,
            peer,
            source,
            outgoing,
            broken: None,
            incoming: Some(incoming),
        });
    }

    /// Sends a frame with a descriptor beside it.
    pub(super) fn pass(&mut self, frame: Vec<u8>, file: OwnedFd) {
        if let Some(wire) = &mut self.wire {
            wire.outgoing.pass(frame, file);
        }
    }

    pub(super) fn disconnect(&mut self, now: Tick, cause: Disconnect) {
        if let Some(mut wire) = self.wire.take() {
            match cause {
                Disconnect::Dead { .. } => wire.outgoing.abort(),
                _ => wire.outgoing.finish(),
            }
            self.endpoint.handle_disconnected(now, cause);
        }
    }

    /// Closes the transport without a word to the endpoint, which has panicked.
    pub(super) fn abandon(&mut self) {
        self.wire = None;
    }

    /// What a driver is to sleep for; `None` while there is nothing to drive.
    pub(super) fn plan(&self) -> Option<Plan> {
        let wire = self.wire.as_ref()?;
        let incoming = wire.incoming.as_ref()?;
        let wanted = self.endpoint.wants_input();
        let found = incoming.ready || incoming.filled > 0;
        let interest = Interest {
            read: wanted,
            write: wire.is_blocked(),
        };
        Some(Plan {
            source: wire.source.clone(),
            interest,
            at_once: wanted && found,
        })
    }

    /// What the transport is made of, and why of nothing better.
    pub(super) fn transport(&self) -> Option<TransportUsed> {
        let wire = self.wire.as_ref()?;
        let name = match wire.source.is_shared() {
            true => SHARED_MEMORY,
            false => wire.peer.transport_name(),
        };
        Some(TransportUsed {
            name,
            why_not_shared_memory: wire.source.why_not_shared().map(str::to_owned),
        })
    }

    /// Last values of the other end, with a place for `index`.
    pub(super) fn table(&self, index: u32, now: Tick) -> TableAnswer {
        match &self.wire {
            Some(wire) => wire.source.table(index, now),
            None => TableAnswer::None,
        }
    }

    /// The thread that has the receive half's wire sleeps on, or is about to; true when there is
    /// something to do first.
    pub(super) fn arm(&mut self) -> bool {
        let wanted = self.endpoint.wants_input();
        let incoming = self.wire.as_mut().and_then(|wire| wire.incoming.as_mut());
        wanted && incoming.is_some_and(Incoming::arm)
    }

    pub(super) fn take_incoming(&mut self) -> Option<Incoming> {
        self.wire.as_mut()?.incoming.take()
    }

    /// The input of one turn; true when the endpoint took something in.
    pub(super) fn take_in(&mut self, mut incoming: Incoming, now: Tick, wall: Timestamp) -> bool {
        // Another transport may have taken the place of the one that it was read from.
        let Some(wire) = self.wire.as_mut().filter(|w| w.number == incoming.wire) else {
            return false;
        };
        let mut taken = false;
        let mut read = 0;
        loop {
            let bytes = &incoming.buffer[..incoming.filled];
            if !bytes.is_empty() && self.endpoint.wants_input() {
                self.endpoint.handle_input(now, wall, bytes);
                incoming.filled = 0;
                taken = true;
            }
            if !incoming.may_read() || read >= DIRECT_MAX || !self.endpoint.wants_input() {
                break;
            }
            let Some(direct) = self.endpoint.direct() else {
                break;
            };
            let count = incoming.fill_direct(direct, now);
            read += count;
            taken |= count > 0;
        }
        if incoming.filled > 0 || incoming.ended.is_none() {
            wire.incoming = Some(incoming);
            return taken;
        }
        // The endpoint's own reason says most, what failed first comes next.
        let reasons = [
            self.endpoint.wants_close(),
            wire.broken.take(),
            incoming.ended.take(),
        ];
        let cause = reasons
            .into_iter()
            .flatten()
            .next()
            .unwrap_or(Disconnect::PeerClosed);
        self.disconnect(now, cause);
        true
    }

    /// Tells the endpoint when its time has come; true when it had.
    pub(super) fn run_timeout(&mut self, now: Tick, wall: Timestamp) -> bool {
        let due = self.endpoint.poll_timeout().is_some_and(|at| at <= now);
        if due {
            self.endpoint.handle_timeout(now, wall);
        }
        due
    }

    /// Sends what the endpoint has, and closes the transport when it wants that; true when it is
    /// gone.
    pub(super) fn send(&mut self, now: Tick, wall: Timestamp) -> bool {
        let Some(wire) = &mut self.wire else {
            return false;
        };
        let mut flush = Flush::Done;
        if wire.broken.is_none() {
            let outgoing = &mut wire.outgoing;
            match outgoing.flush(&mut self.endpoint, now, wall, usize::MAX, || false) {
                Ok(reached) => flush = reached,
                Err(error) => wire.broken = Some(error.into()),
            }
        }
        match self.endpoint.wants_close() {
            Some(cause) if wire.outgoing.may_close(&cause, flush, now) => {
                self.disconnect(now, cause);
                true
            }
            _ => false,
        }
    }

    /// When the transport has taken too long to close; `None` while it is to stay.
    pub(super) fn close_by(&self) -> Option<Tick> {
        self.wire.as_ref()?.outgoing.close_by()
    }

    /// Everything handed to the endpoint so far is in the transport, or there is none.
    pub(super) fn is_flushed(&self) -> bool {
        self.wire.as_ref().is_none_or(|wire| !wire.is_blocked())
    }

    /// True when the thread that drives sleeps past what is wanted now, `due` the earliest time of
    /// it.
    pub(super) fn oversleeps(&self, due: Option<Tick>) -> bool {
        let Some(sleeping) = self.sleeping else {
            return false;
        };
        let late = due.is_some_and(|due| sleeping.until.is_none_or(|until| due < until));
        let deaf = match (&self.wire, sleeping.interest) {
            (Some(wire), Some(interest)) => {
                (self.endpoint.wants_input() && !interest.read)
                    || (wire.is_blocked() && !interest.write)
            }
            (wire, interest) => wire.is_some() != interest.is_some(),
        };
        late || deaf
    }
}

impl Wire {
    /// The transport has to say that it has room before anything can be sent.
    fn is_blocked(&self) -> bool {
        self.outgoing.is_blocked() && self.broken.is_none()
    }
}

impl Incoming {
    /// The source said that a read may find something.
    pub(super) fn set_ready(&mut self) {
        self.source.acknowledge();
        self.half.acknowledge(false);
        self.ready = true;
    }

    /// About to sleep; true when there is something by now.
    pub(super) fn arm(&mut self) -> bool {
        self.ready |= self.half.arm();
        self.ready
    }

    /// Reads again and again for a while, without being told that there is something; true when
    /// there was.
    pub(super) fn spin(&mut self, longest: Option<Duration>) -> bool {
        let mut spin = std::mem::replace(&mut self.spin, Spin::new(Duration::ZERO));
        let found = spin.run(longest, || {
            // Looking at memory costs so little that the clock would cost more.
            for _ in 0..GLANCES {
                match self.half.glance() {
                    Some(true) => break,
                    Some(false) => std::hint::spin_loop(),
                    None => break,
                }
            }
            if self.half.glance() == Some(false) {
                return false;
            }
            self.ready = true;
            self.read();
            self.filled > 0 || self.ended.is_some()
        });
        self.spin = spin;
        found
    }

    /// True when there is something, as far as it can be seen without asking the system.
    pub(super) fn glance(&mut self) -> bool {
        self.ready |= self.half.glance() == Some(true);
        self.ready
    }

    /// A wait that spinning did not end has taken so long.
    pub(super) fn waited(&mut self, waited: Duration) {
        self.spin.waited(waited);
    }

    /// Reads once, unless what was read before is still there, or belongs where only the endpoint
    /// knows.
    pub(super) fn fill(&mut self) {
        if !self.is_direct {
            self.read();
        }
    }

    fn may_read(&self) -> bool {
        self.ready && self.filled == 0 && self.ended.is_none()
    }

    /// Reads once to where the endpoint wants it, and what comes behind it as usual; returns how
    /// much went where it wants it.
    fn fill_direct(&mut self, direct: &mut dyn DirectBytes, now: Tick) -> usize {
        let space = direct.space();
        let (room, direct_room) = (space.len() + self.buffer.len(), space.len());
        match self.half.try_read_two(space, &mut self.buffer) {
            Ok(Some(0)) => self.end(Disconnect::PeerClosed),
            Ok(Some(count)) => {
                let received = count.min(direct_room);
                self.filled = count - received;
                self.ready = !self.source.is_drained(count, room);
                if received > 0 {
                    direct.handle_received(now, received);
                }
                return received;
            }
            Ok(None) => self.ready = false,
            Err(error) => self.end(error.into()),
        }
        0
    }

    fn read(&mut self) {
        if !self.may_read() {
            return;
        }
        match self.half.try_read(&mut self.buffer) {
            Ok(Some(0)) => self.end(Disconnect::PeerClosed),
            Ok(Some(count)) => {
                self.filled = count;
                self.ready = !self.source.is_drained(count, self.buffer.len());
            }
            Ok(None) => self.ready = false,
            Err(error) => self.end(error.into()),
        }
    }

    fn end(&mut self, cause: Disconnect) {
        self.ready = false;
        self.ended = Some(cause);
    }
}
