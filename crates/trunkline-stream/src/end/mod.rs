//! One end of a stream as a link drives it: its state machine, and the inner end of its ring.
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
//! The program's end of the ring is not here: it is used without the link's lock. Whatever is due
//! is found by looking at the ring, so the program has to tell nothing but that it is time to look.

mod asking;
mod bell;
mod idle;
#[cfg(test)]
mod journal_tests;
mod lane;
mod one_ring;
mod reader;
mod reader_store;
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
use trunkline_proto::message::stream::StreamHello;
use trunkline_proto::message::stream::control::encode_refused;
use trunkline_proto::message::stream::seal::is_frame_intact;
use trunkline_proto::stream::{Half, Link, Place, RingBytes, StreamFault};
use trunkline_proto::{
    DirectBytes, Disconnect, Endpoint, FaultCode, FrameBuffer, FrameKind, FrameLimits, VersionRange,
};
use trunkline_ring::{Corrupt, RingStart};
use trunkline_types::{Tick, Timestamp};

pub(crate) use asking::Target;
pub(crate) use bell::{Bell, Bells};
pub(crate) use idle::{Idle, Writing};
pub(crate) use lane::{KeepFrom, LaneEnd, place_behind};
pub(crate) use reader::ReaderEnd;
pub(crate) use reader_store::ReaderStore;
pub(crate) use writer::WriterEnd;
pub(crate) use writer_store::WriterStore;

use asking::{Asking, Heard};
use one_ring::SharedRing;

/// How long bytes may wait for more of them, so that they fill a packet (NS-85).
pub(crate) const GATHER: Duration = Duration::from_millis(1);

/// So many are sent without waiting for more.
pub(crate) const GATHER_BYTES: u64 = 32 << 10;

/// For so long after the last bytes somebody looks for more at every [`GATHER`]. After that the
/// program has to say that it has written: what it writes then goes out at once.
const ACTIVE: Duration = Duration::from_millis(20);

/// One end of a stream.
pub(crate) struct End<S: Inner> {
    pub(crate) link: Link<S::Half>,
    pub(crate) inner: S,
    /// Of the transport there is; transports are counted.
    transport: u64,
    /// Whom an end that dials asks for.
    target: Option<Target>,
    asking: Option<Asking>,
    /// Whether it has its name, without which it is not to be met.
    may_dial: bool,
    /// Why one that came before there was a peer does not fit.
    misfit: Option<StreamFault>,
    /// Bytes of the ring that follow the output that was appended last, and how many are sent.
    region: Option<(Place, u64)>,
    /// Something was appended that is not known to be sent.
    is_sending: bool,
    /// Until then what was written waits for more; `None`: nobody looks for it.
    gather_until: Option<Tick>,
    /// When bytes of the ring were handed out last.
    handed_at: Tick,
    /// Nobody looks at all: the program says of each write that it has written.
    is_told: bool,
    /// When it is to be looked whether the ring's memory is needed.
    idle_at: Option<Tick>,
    /// Where the file of a ring would come, for an end that dials.
    descriptors: Option<Descriptors>,
    /// The present connection was dialled from here.
    dials: bool,
    /// A ring could not be mapped.
    cannot_share: bool,
    /// The memory of the end's own ring, until it is known where the stream begins.
    unbegun: Option<Arc<StreamMemory>>,
    /// Where it began.
    start: RingStart,
    /// Set once the stream is over: for the program, which asks without the lock.
    over: Arc<OnceLock<()>>,
}

/// The inner end of a ring, and what it has to do with the state machine.
pub(crate) trait Inner: RingBytes + Send {
    /// Which end.
    type Half: Half + Send;

    /// Tells the link how far the program is, and where both ends use one ring, the other one.
    ///
    /// # Errors
    /// [`Corrupt`]: the other end's program has written what cannot be true.
    fn look(&mut self, link: &mut Link<Self::Half>) -> Result<(), Corrupt>;

    /// The ring that both ends use.
    fn shared(&self) -> Option<&SharedRing>;

    /// The same, to be changed.
    fn shared_mut(&mut self) -> &mut Option<SharedRing>;

    /// Where a stream begins whose two ends have just met.
    fn start(link: &Link<Self::Half>) -> RingStart;

    /// From now on this is the inner end of that ring, of which so much is written and read.
    fn take_over(&mut self, memory: &Arc<StreamMemory>, written: RingStart, read: RingStart);

    /// Does in the ring what the link has found out.
    fn settle(&mut self, link: &mut Link<Self::Half>);

    /// Where received bytes belong.
    fn wanted(link: &Link<Self::Half>) -> Option<Place>;

    /// The ring's memory at a place that [`wanted`](Self::wanted) named.
    fn space(&mut self, place: Place) -> &mut [u8];

    /// So many bytes of that place are there.
    fn handle_payload(
        &mut self,
        link: &mut Link<Self::Half>,
        now: Tick,
        transport: u64,
        place: Place,
        count: u64,
    );

    /// Bytes that the program has written and the link was not told of, or as many as there can be
    /// where it is to be told at once of anything.
    fn unseen(&mut self, link: &Link<Self::Half>) -> u64;

    /// The link has asked for that place to be sent next, or for nothing more for now.
    fn begin_sending(&mut self, link: &Link<Self::Half>, place: Option<Place>) {
        let _ = (link, place);
    }

    /// What was to be sent is, or never will be.
    fn end_sending(&mut self) {}

    /// Bytes of the place that is being sent.
    fn sending_bytes(&self, position: u64, len: u64) -> &[u8] {
        let [piece, _] = self.bytes(position, len);
        piece
    }

    /// The stream is over.
    fn handle_over(&mut self, link: &mut Link<Self::Half>) {
        let _ = link;
    }

    /// Nobody will look at the ring any more: the program is to say when it writes again.
    fn rest(&mut self, link: &Link<Self::Half>) -> Rest;

    /// Whether memory of the ring that nobody needs is given back.
    fn gives_back(&self) -> bool;

    /// Gives it back, where nothing was moved since the last time this was called.
    fn give_back(&mut self, link: &Link<Self::Half>);
}

/// Whether an end may stop looking at its ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rest {
    /// There is something by now.
    Found,
    /// The program was told just now. It may have written at this very moment without seeing that,
    /// so a last look is due a while later.
    Told,
    /// Yes.
    Yes,
}

impl<S: Inner> End<S> {
    pub(crate) fn new(
        link: Link<S::Half>,
        inner: S,
        target: Option<Target>,
        memory: Option<Arc<StreamMemory>>,
        descriptors: Option<Descriptors>,
    ) -> Self {
        Self {
            unbegun: memory,
            start: RingStart::default(),
            descriptors,
            dials: false,
            cannot_share: false,
            link,
            inner,
            transport: 0,
            target,
            asking: None,
            may_dial: false,
            misfit: None,
            region: None,
            is_sending: false,
            gather_until: None,
            handed_at: Tick::ZERO,
            is_told: false,
            idle_at: None,
            over: Arc::default(),
        }
    }

    /// Has a value once the stream is over.
    pub(crate) fn over(&self) -> Arc<OnceLock<()>> {
        self.over.clone()
    }

    fn note_over(&mut self) {
        if self.link.is_over() && self.over.set(()).is_ok() {
            self.inner.handle_over(&mut self.link);
        }
    }

    /// The end has its name, as far as it can have one.
    pub(crate) fn start_dialling(&mut self) {
        self.may_dial = true;
    }

    /// Why there is no peer, and will be none while both ends are as they are (NS-16).
    pub(crate) fn misfit(&self) -> Option<&StreamFault> {
        self.link.fault().or(self.misfit.as_ref())
    }

    /// Looks at the ring: whatever is there is sent without waiting for more.
    pub(crate) fn look(&mut self) {
        if let Err(corrupt) = self.inner.look(&mut self.link) {
            self.give_up(corrupt);
        }
    }

    /// Wakes the other end's program, where both use one ring (true).
    pub(crate) fn ring_bell(&mut self) -> bool {
        let is_shared = self.inner.shared().is_some();
        if is_shared {
            self.link.ring_bell();
        }
        is_shared
    }

    /// Somebody has come: `bytes` is what was read of the transport, S_HELLO first. `is_local`: it
    /// is a Unix socket. Returns what goes out first with a descriptor beside it.
    ///
    /// # Errors
    /// What to answer before that transport is closed; the one there was goes on.
    pub(crate) fn admit(
        &mut self,
        now: Tick,
        bytes: &[u8],
        is_local: bool,
    ) -> Result<Option<(Vec<u8>, OwnedFd)>, Vec<u8>> {
        let mut rest = bytes;
        let mut frames = FrameBuffer::new(FrameLimits::default());
        let hello = match frames.next_frame(now, &mut rest) {
            Ok(Some(frame)) if frame.kind() == Some(FrameKind::StreamHello) => {
                let hello = StreamHello::decode(&frame).ok();
                hello.filter(|_| is_frame_intact(&frame))
            }
            _ => None,
        };
        let mut fresh = None;
        let admitted = match &hello {
            None => Err(Refused {
                code: FaultCode::Malformed,
                versions: VersionRange::OURS,
                retry_after: None,
                sentence: "the first frame to an endpoint of a stream is S_HELLO".to_owned(),
            }),
            Some(hello) => {
                self.look();
                fresh = self.prepare_sharing(hello, is_local);
                let number = self.transport.wrapping_add(1);
                self.link.handle_hello(now, number, hello)
            }
        };
        match admitted {
            Ok(_) => {
                self.transport = self.transport.wrapping_add(1);
                self.dials = false;
                // Its own question, if there is one, went over the transport that is replaced.
                self.asking = None;
                self.forget_output();
                self.begin();
                let (shared, file) = fresh.unzip();
                self.begin_sharing(shared);
                self.inner.settle(&mut self.link);
                // The answer, alone: nothing else is due yet.
                let first = file.map(|file| {
                    let mut answer = Vec::new();
                    self.link.poll_output(now, &self.inner, &mut answer);
                    (answer, file)
                });
                self.take_in(now, rest);
                Ok(first)
            }
            Err(refused) => {
                let mut answer = Vec::new();
                encode_refused(&refused, &mut answer);
                let Refused { code, sentence, .. } = refused;
                let is_misfit = matches!(code, FaultCode::StreamType | FaultCode::StreamDirection);
                if is_misfit && self.link.peer().is_none() {
                    self.misfit = Some(StreamFault::Refused { code, sentence });
                }
                self.note_over();
                Err(answer)
            }
        }
    }

    /// Where the program's end of the ring is to begin.
    pub(crate) fn start(&self) -> RingStart {
        self.start
    }

    /// The two ends have met for the first time: the ring begins where the stream does, which is
    /// not at 0 where the other end goes on after another one of this kind.
    fn begin(&mut self) {
        if !self.link.is_connected() {
            return;
        }
        let Some(memory) = self.unbegun.take() else {
            return;
        };
        self.start = S::start(&self.link);
        if self.start != RingStart::default() {
            let (start, of_ring) = (self.start, memory.element_memory());
            of_ring.starting_at(start).initialise();
            self.inner.take_over(&memory, start, start);
        }
    }

    fn forget_output(&mut self) {
        self.inner.end_sending();
        self.region = None;
        self.is_sending = false;
    }

    /// Bytes of the stream's own connection: frames, and what belongs in the ring.
    fn take_in(&mut self, now: Tick, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let taken = self.link.handle_control(now, self.transport, rest);
            self.begin();
            rest = rest.get(taken..).unwrap_or_default();
            let Some(place) = S::wanted(&self.link) else {
                if taken == 0 {
                    break;
                }
                continue;
            };
            let space = self.inner.space(place);
            let count = space.len().min(rest.len());
            if count == 0 {
                break;
            }
            let (now_here, later) = rest.split_at(count);
            space[..count].copy_from_slice(now_here);
            rest = later;
            self.handle_payload(now, place, count);
        }
        self.follow_sharing();
        self.inner.settle(&mut self.link);
        self.note_over();
    }

    /// Where nothing was moved for a while, memory is given back.
    fn look_for_idleness(&mut self, now: Tick) {
        if !self.inner.gives_back() || self.idle_at.is_some_and(|at| now < at) {
            return;
        }
        if self.idle_at.is_some() {
            self.inner.give_back(&self.link);
        }
        self.idle_at = Some(idle::next(now));
    }

    fn handle_payload(&mut self, now: Tick, place: Place, count: usize) {
        let transport = self.transport;
        self.inner
            .handle_payload(&mut self.link, now, transport, place, count as u64);
    }
}

impl<S: Inner> Endpoint for End<S> {
    fn handle_connected(&mut self, now: Tick, _: Timestamp) {
        self.transport = self.transport.wrapping_add(1);
        self.dials = true;
        self.forget_output();
        // An end without a target is only dialled.
        self.asking = self
            .target
            .as_ref()
            .map(|target| Asking::begin(target, now));
    }

    fn handle_input(&mut self, now: Tick, _: Timestamp, bytes: &[u8]) {
        let mut rest = bytes;
        if let Some(asking) = &mut self.asking {
            match asking.handle_input(now, &mut rest) {
                Heard::Nothing => return,
                Heard::Ticket(ticket) => {
                    self.asking = None;
                    self.look();
                    self.offer_sharing();
                    let transport = self.transport;
                    self.link.handle_dialled(now, transport, Some(ticket));
                }
                Heard::Refused(refused) => {
                    self.link.handle_lookup_refused(now, &refused);
                    self.note_over();
                    return;
                }
            }
        }
        // What the other end acknowledges lies in a ring that both use.
        self.look();
        self.take_in(now, rest);
    }

    fn poll_output(&mut self, now: Tick, _: Timestamp, _: usize, out: &mut Vec<u8>) -> bool {
        if let Some(asking) = &mut self.asking {
            asking.poll_output(out);
            return false;
        }
        if std::mem::take(&mut self.is_sending) {
            self.inner.end_sending();
            self.region = None;
            self.link.handle_sent(self.transport);
        }
        let before = out.len();
        loop {
            let is_due = self.gather_until.is_none_or(|until| until <= now);
            if is_due || self.inner.unseen(&self.link) >= GATHER_BYTES {
                self.look();
            }
            let place = self.link.poll_output(now, &self.inner, out);
            self.inner.begin_sending(&self.link, place);
            self.inner.settle(&mut self.link);
            if place.is_some() {
                self.handed_at = now;
                self.gather_until = (!self.is_told).then(|| now.saturating_add(GATHER));
            }
            self.region = place.map(|place| (place, 0));
            self.is_sending = out.len() > before;
            if self.is_sending {
                return true;
            }
            if !is_due {
                return false;
            }
            let is_active = now < self.handed_at.saturating_add(ACTIVE);
            let rest = match is_active {
                true if self.is_told => Rest::Yes,
                true => Rest::Told,
                false => self.inner.rest(&self.link),
            };
            self.gather_until = (rest == Rest::Told).then(|| now.saturating_add(GATHER));
            if rest != Rest::Found {
                return false;
            }
        }
    }

    fn poll_timeout(&self) -> Option<Tick> {
        if let Some(asking) = &self.asking {
            // The wait for a peer that was here goes on.
            let asking = Some(asking.poll_timeout());
            return asking.into_iter().chain(self.link.poll_timeout()).min();
        }
        // While the transport takes nothing, what would hand out more waits for that.
        let (link, gather) = match self.is_sending {
            true => (self.link.poll_timeout_while_sending(), None),
            false => (self.link.poll_timeout(), self.gather_until),
        };
        let gather = gather.filter(|_| self.link.is_connected());
        [link, gather, self.idle_at].into_iter().flatten().min()
    }

    fn handle_timeout(&mut self, now: Tick, _: Timestamp) {
        if let Some(asking) = &mut self.asking {
            asking.handle_timeout(now);
        }
        self.link.handle_timeout(now);
        self.note_over();
        self.look_for_idleness(now);
    }

    fn handle_disconnected(&mut self, now: Tick, cause: Disconnect) {
        self.forget_output();
        match self.asking.take() {
            Some(asking) if !asking.is_refused() => self.link.handle_dial_failed(now, cause),
            Some(_) => {}
            None if self.link.connection().is_none() => {
                self.link.handle_dial_failed(now, cause);
            }
            None => self.link.handle_disconnected(now, self.transport, cause),
        }
        self.note_over();
    }

    fn wants_close(&self) -> Option<Disconnect> {
        match &self.asking {
            // Nobody is asked for who would come too late.
            Some(asking) => {
                let is_late = self.link.is_over().then_some(Disconnect::Local);
                asking.wants_close().or(is_late)
            }
            None => self.link.wants_close().cloned(),
        }
    }

    fn poll_dial(&self) -> Option<Tick> {
        self.link.poll_dial().filter(|_| self.may_dial)
    }

    fn direct(&mut self) -> Option<&mut dyn DirectBytes> {
        Some(self)
    }
}

impl<S: Inner> DirectBytes for End<S> {
    fn region(&mut self) -> &[u8] {
        let Some((place, sent)) = self.region else {
            return &[];
        };
        let left = place.len.saturating_sub(sent);
        if left == 0 {
            return &[];
        }
        self.inner
            .sending_bytes(place.position.saturating_add(sent), left)
    }

    fn handle_sent(&mut self, _: Tick, count: usize) {
        if let Some((_, sent)) = &mut self.region {
            *sent = sent.saturating_add(count as u64);
        }
    }

    fn space(&mut self) -> &mut [u8] {
        match S::wanted(&self.link) {
            Some(place) if self.asking.is_none() => self.inner.space(place),
            _ => &mut [],
        }
    }

    fn handle_received(&mut self, now: Tick, count: usize) {
        if let Some(place) = S::wanted(&self.link) {
            self.handle_payload(now, place, count);
            self.inner.settle(&mut self.link);
        }
    }
}
