//! The data behind a link's lock: the endpoint and its current transport.

use std::os::fd::OwnedFd;
use std::time::Duration;

use trunkline_proto::{DirectBytes, Disconnect, Endpoint};
use trunkline_types::{Tick, Timestamp};

use crate::outgoing::{Flush, Outgoing};
use crate::spin::Spin;
use crate::transport::Interest;
use crate::transport::shm::TableAnswer;
use crate::transport::{Peer, ReceiveHalf, SHARED_MEMORY, Source, Transport, TransportUsed};

/// Maximum number of bytes of one read. It also bounds the time that other threads wait for the
/// lock.
const READ_BYTES: usize = 64 << 10;

/// The same for endpoints that provide the memory for most bytes. What is read without asking them
/// must be copied.
const READ_BYTES_DIRECT: usize = 4 << 10;

/// Maximum number of bytes received in one turn directly into the endpoint's memory. Then other
/// threads may have the lock.
const DIRECT_MAX: usize = 1 << 20;

/// Number of memory polls between two clock readings.
const GLANCES: usize = 16;

pub(super) struct Connection<E> {
    pub(super) endpoint: E,
    /// The wake-up conditions of the driving thread, while it sleeps.
    pub(super) sleeping: Option<Sleeping>,
    /// The time at which the background thread wakes by itself from a sleep that a waiter has
    /// muted.
    pub(super) background_until: Option<Tick>,
    spin: Duration,
    wire: Option<Wire>,
    wires: u64,
}

struct Wire {
    /// Sequence number of this transport among the connection's.
    number: u64,
    peer: Peer,
    source: Source,
    outgoing: Outgoing,
    /// The reason why sending failed. Data that arrived before may contain a better reason, so the
    /// input is read to its end before the endpoint learns of it.
    broken: Option<Disconnect>,
    /// `None` while the driving thread has it, during its turn.
    incoming: Option<Incoming>,
}

/// The receive half, and bytes that were read but not yet handed to the endpoint.
pub(super) struct Incoming {
    wire: u64,
    /// The endpoint provides the memory for received bytes, so reads happen under the lock.
    is_direct: bool,
    half: Box<dyn ReceiveHalf>,
    source: Source,
    buffer: Box<[u8]>,
    filled: usize,
    ready: bool,
    ended: Option<Disconnect>,
    spin: Spin,
}

#[derive(Clone, Copy)]
pub(super) struct Sleeping {
    /// `None` while offline.
    pub(super) interest: Option<Interest>,
    pub(super) until: Option<Tick>,
}

pub(super) struct Plan {
    pub(super) source: Source,
    pub(super) interest: Interest,
    /// There is work already, so do not sleep.
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

    /// Replaces the current transport without informing the endpoint, which already knows. Data
    /// queued on the old transport is still sent.
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

    /// Closes the transport without informing the endpoint, which has panicked.
    pub(super) fn abandon(&mut self) {
        self.wire = None;
    }

    /// Returns the wake-up conditions of the next sleep, or `None` while there is nothing to drive.
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

    /// Returns the table of the other end's last values, if it has a place for `index`.
    pub(super) fn table(&self, index: u32, now: Tick) -> TableAnswer {
        match &self.wire {
            Some(wire) => wire.source.table(index, now),
            None => TableAnswer::None,
        }
    }

    /// Prepares the source for the sleep of the driving thread. Returns true if there is work
    /// first.
    pub(super) fn arm(&mut self) -> bool {
        let wanted = self.endpoint.wants_input();
        let incoming = self.wire.as_mut().and_then(|wire| wire.incoming.as_mut());
        wanted && incoming.is_some_and(Incoming::arm)
    }

    pub(super) fn take_incoming(&mut self) -> Option<Incoming> {
        self.wire.as_mut()?.incoming.take()
    }

    /// Handles the input of one turn. Returns true if the endpoint received something.
    pub(super) fn take_in(&mut self, mut incoming: Incoming, now: Tick, wall: Timestamp) -> bool {
        // Another transport may have replaced the one that this was read from.
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
        // The endpoint's own reason is the most informative one, then the first failure.
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

    /// Runs the endpoint's time-out if it is due. Returns true if it was.
    pub(super) fn run_timeout(&mut self, now: Tick, wall: Timestamp) -> bool {
        let due = self.endpoint.poll_timeout().is_some_and(|at| at <= now);
        if due {
            self.endpoint.handle_timeout(now, wall);
        }
        due
    }

    /// Sends the endpoint's output, and closes the transport if the endpoint wants that. Returns
    /// true if it was closed.
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

    pub(super) fn close_by(&self) -> Option<Tick> {
        self.wire.as_ref()?.outgoing.close_by()
    }

    /// Returns true if all output of the endpoint so far is in the transport, or there is no
    /// transport.
    pub(super) fn is_flushed(&self) -> bool {
        self.wire.as_ref().is_none_or(|wire| !wire.is_blocked())
    }

    /// Returns true if the driving thread's sleep would miss something wanted now; `due` is the
    /// earliest time at which something is due.
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
    /// Returns true if nothing can be sent before the transport has room again.
    fn is_blocked(&self) -> bool {
        self.outgoing.is_blocked() && self.broken.is_none()
    }
}

impl Incoming {
    pub(super) fn set_ready(&mut self) {
        self.source.acknowledge();
        self.half.acknowledge(false);
        self.ready = true;
    }

    /// Prepares for a sleep. Returns true if there is something to read already.
    pub(super) fn arm(&mut self) -> bool {
        self.ready |= self.half.arm();
        self.ready
    }

    /// Polls for input for a short time before sleeping. Returns true if there was some.
    pub(super) fn spin(&mut self, longest: Option<Duration>) -> bool {
        let mut spin = std::mem::replace(&mut self.spin, Spin::new(Duration::ZERO));
        let found = spin.run(longest, || {
            // Polling memory is cheaper than reading the clock.
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

    /// Returns true if there is input, as far as that is visible without a system call.
    pub(super) fn glance(&mut self) -> bool {
        self.ready |= self.half.glance() == Some(true);
        self.ready
    }

    pub(super) fn waited(&mut self, waited: Duration) {
        self.spin.waited(waited);
    }

    /// Reads once, unless earlier input is still there or the endpoint must provide the memory.
    pub(super) fn fill(&mut self) {
        if !self.is_direct {
            self.read();
        }
    }

    fn may_read(&self) -> bool {
        self.ready && self.filled == 0 && self.ended.is_none()
    }

    /// Reads once into the endpoint's memory and the excess into the buffer. Returns the number of
    /// bytes in the endpoint's memory.
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
