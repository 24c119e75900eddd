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
mod driving;
mod idle;
mod inner;
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
use trunkline_proto::stream::{Link, Place, StreamFault};
use trunkline_proto::{FaultCode, FrameBuffer, FrameKind, FrameLimits, VersionRange};
use trunkline_ring::RingStart;
use trunkline_types::Tick;

pub(crate) use asking::Target;
pub(crate) use bell::{Bell, Bells};
pub(crate) use idle::{Idle, Writing};
pub(crate) use inner::{Inner, Rest};
pub(crate) use lane::{KeepFrom, LaneEnd, place_behind};
pub(crate) use reader::ReaderEnd;
pub(crate) use reader_store::ReaderStore;
pub(crate) use writer::WriterEnd;
pub(crate) use writer_store::WriterStore;

use asking::Asking;

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
