//! Combines the protocol's state machine of an endpoint with the inner end of the endpoint's ring.
//!
//! ```text
//!            program                                     program
//!               | push                                      ^ pull
//!               v                                           |
//!          [ ring ] inner end: consumer      inner end: producer [ ring ]
//!               |                                           ^
//!          WriterLink -- heads, and bytes from the ring --> ReaderLink
//! ```
//!
//! The program's end of the ring is not part of the endpoint, because the program uses it without the
//! link's lock. The endpoint finds new data by polling the ring, so the program only has to signal
//! when to poll.

mod bell;
mod driving;
mod idle;
#[cfg(test)]
mod journal_tests;
mod lane;
mod one_ring;
mod peer_lookup;
mod reader;
mod reader_store;
mod role;
mod sharing;
pub(crate) mod syncing;
mod writer;
mod writer_store;

use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use trunkline_net::StreamMemory;
use trunkline_net::passing::Descriptors;
use trunkline_proto::message::closing::Refused;
use trunkline_proto::message::stream::control::encode_refused;
use trunkline_proto::message::stream::directory::{Identity, Ticket};
use trunkline_proto::message::stream::seal::is_frame_intact;
use trunkline_proto::message::stream::{StreamEnd, StreamHello};
use trunkline_proto::stream::{ByteRange, Link, StreamFault};
use trunkline_proto::{
    Channel, EndKeys, FaultCode, FrameBuffer, FrameKind, FrameLimits, VersionRange,
};
use trunkline_ring::RingStart;
use trunkline_types::{StreamUrl, Tick};

pub(crate) use bell::{Bell, BellLink};
pub(crate) use idle::{Idle, WriteLock};
pub(crate) use lane::{KeepFrom, LaneEnd, boundary_at_or_after};
pub(crate) use peer_lookup::{Login, Target};
pub(crate) use reader::ReaderEnd;
pub(crate) use reader_store::ReaderStore;
pub(crate) use role::{EndpointRole, StopPolling};
pub(crate) use writer::WriterEnd;
pub(crate) use writer_store::WriterStore;

use peer_lookup::PeerLookup;

/// Longest time that bytes wait for more data to fill a packet (NS-85).
pub(crate) const GATHER_TIME: Duration = Duration::from_millis(1);

/// Number of bytes that are sent at once, without waiting for more.
pub(crate) const GATHER_BYTES: u64 = 32 << 10;

/// Time for which the endpoint polls the ring every [`GATHER_TIME`] after it last sent data. After that,
/// the program must announce its writes, and the next write is sent at once.
const ACTIVE_TIME: Duration = Duration::from_millis(20);

/// Decodes the first frame of a connecting peer, and removes it from `bytes`.
pub(crate) fn read_hello(now: Tick, bytes: &mut &[u8]) -> Result<StreamHello, Refused> {
    let mut frames = FrameBuffer::new(FrameLimits::default());
    let hello = match frames.next_frame(now, bytes) {
        Ok(Some(frame)) if frame.kind() == Some(FrameKind::StreamHello) => {
            let hello = StreamHello::decode(&frame).ok();
            hello.filter(|_| is_frame_intact(&frame))
        }
        _ => None,
    };
    let malformed = |sentence: &str| Refused {
        code: FaultCode::Malformed,
        versions: VersionRange::OURS,
        retry_after: None,
        sentence: sentence.to_owned(),
    };
    let hello = hello.ok_or_else(|| {
        malformed("the first frame to an endpoint of a stream must be a valid S_HELLO")
    })?;
    // The names are shown to users, and written into files.
    let StreamEnd { url, peer_url, .. } = &hello.end;
    if !is_canonical(url) || !(peer_url.is_empty() || is_canonical(peer_url)) {
        return Err(malformed(
            "the names in S_HELLO must be URLs of streams in canonical form",
        ));
    }
    Ok(hello)
}

fn is_canonical(url: &str) -> bool {
    StreamUrl::parse(url).is_ok_and(|parsed| parsed.to_string() == url)
}

/// An endpoint of a stream. The network link calls it as an
/// [`Endpoint`](trunkline_proto::Endpoint).
pub(crate) struct StreamEndpoint<S: EndpointRole> {
    pub(crate) link: Link<S::LinkRole>,
    pub(crate) inner: S,
    /// Number of the current connection, counted from 1; 0 before the first one.
    transport: u64,
    /// The peer to look up, for an endpoint that dials.
    target: Option<Target>,
    lookup: Option<PeerLookup>,
    /// Set once the endpoint may dial, after the attempt to register its name.
    may_dial: bool,
    /// The security of the current connection, for an endpoint that dials.
    channel: Channel,
    /// The keys with which the current connection continues, for the driver.
    end_keys: Option<EndKeys>,
    /// The ticket with which the peer arrived; `None` if this endpoint dialled.
    ticket: Option<Ticket>,
    /// The reason why the last dialling endpoint was refused while this endpoint had no peer.
    mismatch: Option<StreamFault>,
    /// Bytes of the ring that follow the last output, and how many of them have been sent.
    region: Option<(ByteRange, u64)>,
    /// Output was appended that may not have been sent yet.
    is_sending: bool,
    /// Time until which new data waits for more data; `None` if the endpoint does not poll the ring.
    gather_until: Option<Tick>,
    /// Time at which bytes of the ring were last passed to the transport.
    last_data_at: Tick,
    /// The endpoint does not poll the ring at all: the program announces every write.
    program_announces_writes: bool,
    /// Time of the next idle check of the ring's memory.
    idle_at: Option<Tick>,
    /// Receives the file of a shared ring, for an endpoint that dials.
    descriptors: Option<Descriptors>,
    /// This endpoint dialled the current connection.
    has_dialled: bool,
    /// Set when a ring could not be mapped, or must not be shared.
    cannot_share: bool,
    /// The memory of the endpoint's own ring, until the start of the stream is known.
    initial_memory: Option<Arc<StreamMemory>>,
    /// Position at which the program's end of the ring starts.
    start: RingStart,
    /// Set once the stream is over; the program reads it without the lock.
    over: Arc<OnceLock<()>>,
}

impl<S: EndpointRole> StreamEndpoint<S> {
    pub(crate) fn new(
        link: Link<S::LinkRole>,
        inner: S,
        target: Option<Target>,
        memory: Option<Arc<StreamMemory>>,
        descriptors: Option<Descriptors>,
    ) -> Self {
        Self {
            initial_memory: memory,
            start: RingStart::default(),
            descriptors,
            has_dialled: false,
            cannot_share: false,
            link,
            inner,
            transport: 0,
            target,
            lookup: None,
            channel: Channel::default(),
            end_keys: None,
            ticket: None,
            may_dial: false,
            mismatch: None,
            region: None,
            is_sending: false,
            gather_until: None,
            last_data_at: Tick::ZERO,
            program_announces_writes: false,
            idle_at: None,
            over: Arc::default(),
        }
    }

    /// Returns a cell that is set once the stream is over.
    pub(crate) fn over(&self) -> Arc<OnceLock<()>> {
        self.over.clone()
    }

    fn note_over(&mut self) {
        if self.link.is_over() && self.over.set(()).is_ok() {
            self.inner.handle_over(&mut self.link);
        }
    }

    /// Allows dialling; called after the attempt to register the name.
    pub(crate) fn start_dialling(&mut self) {
        self.may_dial = true;
    }

    /// Returns the reason why the two endpoints cannot connect until one of them is changed (NS-16).
    pub(crate) fn mismatch(&self) -> Option<&StreamFault> {
        self.link.fault().or(self.mismatch.as_ref())
    }

    /// Remembers the ticket with which the current peer arrived.
    pub(crate) fn set_ticket(&mut self, ticket: Ticket) {
        self.ticket = Some(ticket);
    }

    /// Returns the ticket with which the current peer arrived, while its connection exists.
    pub(crate) fn ticket(&self) -> Option<Ticket> {
        self.ticket.filter(|_| self.link.connection().is_some())
    }

    /// Returns the ticket with which the current peer arrived, until the stream is over. The peer may be
    /// disconnected.
    pub(crate) fn ticket_of_place(&self) -> Option<Ticket> {
        self.ticket.filter(|_| !self.link.is_over())
    }

    /// Ends the stream with the peer that arrived with this ticket, so that its place is free.
    pub(crate) fn exclude(&mut self, ticket: &Ticket) {
        if self.ticket_of_place() == Some(*ticket) {
            self.link.fail(StreamFault::PeerExcluded);
            self.note_over();
        }
    }

    /// Ends the current connection if the peer arrived with this ticket.
    pub(crate) fn revoke(&mut self, ticket: &Ticket) {
        if self.ticket == Some(*ticket) {
            let sentence = "the rights of the account that opened this connection have changed";
            self.link.reject_peer(FaultCode::RightsChanged, sentence);
        }
    }

    /// Polls the ring, and sends everything in it without waiting for more.
    pub(crate) fn poll_ring(&mut self) {
        if let Err(corrupt) = self.inner.poll_ring(&mut self.link) {
            self.give_up(corrupt);
        }
    }

    /// Wakes the peer's program if both programs share a ring. Returns true if they share one.
    pub(crate) fn ring_bell(&mut self) -> bool {
        let is_shared = self.inner.shared().is_some();
        if is_shared {
            self.link.ring_bell();
        }
        is_shared
    }

    /// Admits a connecting peer. `bytes` has been read from the transport and begins with S_HELLO.
    /// `is_local` is true if the transport is a Unix socket; `identity` is who has opened it. Returns the first output and the
    /// descriptor to send with it, if any.
    ///
    /// # Errors
    /// Contains the answer to send before that transport is closed. The existing connection is kept.
    pub(crate) fn admit(
        &mut self,
        now: Tick,
        bytes: &[u8],
        is_local: bool,
        identity: &Identity,
    ) -> Result<Option<(Vec<u8>, OwnedFd)>, Vec<u8>> {
        let mut rest = bytes;
        let mut new_ring = None;
        let admitted = read_hello(now, &mut rest).and_then(|hello| {
            self.poll_ring();
            new_ring = self.prepare_sharing(&hello, is_local);
            let number = self.transport.wrapping_add(1);
            self.link.handle_hello_of(now, number, &hello, identity)
        });
        match admitted {
            Ok(_) => {
                self.transport = self.transport.wrapping_add(1);
                self.has_dialled = false;
                // A pending lookup by this endpoint used the transport that is being replaced.
                self.lookup = None;
                self.forget_output();
                self.begin();
                let (shared, file) = new_ring.unzip();
                self.begin_sharing(shared);
                self.inner.apply_progress(&mut self.link);
                // The first output consists only of the answer to S_HELLO.
                let first = file.map(|file| {
                    let mut answer = Vec::new();
                    self.link.poll_output(now, &self.inner, &mut answer);
                    (answer, file)
                });
                self.handle_stream_bytes(now, rest);
                Ok(first)
            }
            Err(refused) => {
                let mut answer = Vec::new();
                encode_refused(&refused, &mut answer);
                let Refused { code, sentence, .. } = refused;
                let is_mismatch =
                    matches!(code, FaultCode::StreamType | FaultCode::StreamDirection);
                if is_mismatch && self.link.peer().is_none() {
                    self.mismatch = Some(StreamFault::Refused { code, sentence });
                }
                self.note_over();
                Err(answer)
            }
        }
    }

    /// Returns the position at which the program's end of the ring starts.
    pub(crate) fn start(&self) -> RingStart {
        self.start
    }

    /// Moves the start of the ring to the start of the stream when the two endpoints have connected
    /// for the first time. The stream does not start at position 0 if the other endpoint continues
    /// it after an earlier peer.
    fn begin(&mut self) {
        if !self.link.is_connected() {
            return;
        }
        let Some(memory) = self.initial_memory.take() else {
            return;
        };
        self.start = S::start(&self.link);
        if self.start != RingStart::default() {
            let (start, ring_memory) = (self.start, memory.element_memory());
            ring_memory.starting_at(start).initialise();
            self.inner.take_over(&memory, start, start);
        }
    }

    fn forget_output(&mut self) {
        self.inner.end_sending();
        self.region = None;
        self.is_sending = false;
    }

    /// Handles bytes of the stream's own connection: frames, and data for the ring.
    fn handle_stream_bytes(&mut self, now: Tick, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let consumed = self.link.handle_control(now, self.transport, rest);
            self.begin();
            rest = rest.get(consumed..).unwrap_or_default();
            let Some(place) = S::payload_place(&self.link) else {
                if consumed == 0 {
                    break;
                }
                continue;
            };
            let space = self.inner.space(place);
            let count = space.len().min(rest.len());
            if count == 0 {
                break;
            }
            let (payload, remaining) = rest.split_at(count);
            space[..count].copy_from_slice(payload);
            rest = remaining;
            self.handle_payload(now, place, count);
        }
        self.follow_sharing();
        self.inner.apply_progress(&mut self.link);
        self.note_over();
    }

    /// Releases memory after a period without traffic.
    fn check_idle(&mut self, now: Tick) {
        if !self.inner.releases_idle_memory() || self.idle_at.is_some_and(|at| now < at) {
            return;
        }
        if self.idle_at.is_some() {
            self.inner.release_idle_memory(&self.link);
        }
        self.idle_at = Some(idle::next_check(now));
    }

    fn handle_payload(&mut self, now: Tick, place: ByteRange, count: usize) {
        let transport = self.transport;
        self.inner
            .handle_payload(&mut self.link, now, transport, place, count as u64);
    }
}
