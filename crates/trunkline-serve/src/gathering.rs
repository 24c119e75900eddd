//! Throughput mode: sessions that gather what they send, and flushes that reach all of them.

use std::collections::BTreeMap;

use trunkline_engine::{Wake, Whose};
use trunkline_proto::message::hello::Hello;
use trunkline_proto::message::single::{decode_empty, encode_empty};
use trunkline_proto::{
    Agreement, Disconnect, Endpoint, Features, Frame, FrameKind, Gather, Throughput,
};
use trunkline_types::{Tick, Timestamp};

use crate::session::Session;
use crate::sync::{Arc, AtomicU64, Mutex, Ordering, lock};
use crate::work::{Progress, Work};

/// The flushes of one engine, seen by every session that gathers.
///
/// A flush is counted before the sessions are woken, so that every session that checks after its
/// wake-up sees it. The lock is a leaf: no other lock is taken under it, and it is held only to
/// list the wakes, to join and to leave.
#[derive(Default)]
pub struct Flushes {
    count: AtomicU64,
    members: Mutex<Members>,
}

#[derive(Default)]
struct Members {
    next: u64,
    wakes: BTreeMap<u64, SharedWake>,
}

/// The gather buffer of a session. It leaves the engine's flushes when it is dropped.
pub(crate) struct Gathering {
    gather: Gather,
    flushes: Arc<Flushes>,
    member: u64,
    /// The number of flushes seen so far.
    seen: u64,
}

impl Flushes {
    /// Has every connection of the engine send what it has gathered, as soon as its thread runs.
    pub fn flush(&self) {
        self.count.fetch_add(1, Ordering::AcqRel);
        let wakes: Vec<SharedWake> = lock(&self.members).wakes.values().cloned().collect();
        for wake in wakes {
            wake.wake();
        }
    }

    fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }
}

impl std::fmt::Debug for Flushes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Flushes")
            .field("count", &self.count())
            .finish_non_exhaustive()
    }
}

impl Gathering {
    fn new(terms: Throughput, flushes: Arc<Flushes>, wake: SharedWake) -> Self {
        let seen = flushes.count();
        let member = {
            let mut members = lock(&flushes.members);
            members.next += 1;
            let member = members.next;
            members.wakes.insert(member, wake);
            member
        };
        Self {
            gather: Gather::new(terms),
            flushes,
            member,
            seen,
        }
    }

    pub(crate) fn poll_timeout(&self) -> Option<Tick> {
        self.gather.poll_timeout()
    }

    /// Returns true if the gathered data has waited long enough and must go with the next output.
    pub(crate) fn expire(&mut self, now: Tick) -> bool {
        self.gather.expire(now)
    }

    /// Returns true if there was a flush since the last call.
    fn take_flush(&mut self) -> bool {
        let count = self.flushes.count();
        std::mem::replace(&mut self.seen, count) != count
    }
}

impl Drop for Gathering {
    fn drop(&mut self) {
        lock(&self.flushes.members).wakes.remove(&self.member);
    }
}

impl std::fmt::Debug for Gathering {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gathering")
            .field("gather", &self.gather)
            .field("seen", &self.seen)
            .finish_non_exhaustive()
    }
}

impl Session {
    /// Starts throughput mode if the client asks for it and it was agreed. Returns the granted
    /// terms.
    pub(crate) fn begin_to_gather(
        &mut self,
        hello: &Hello,
        agreement: &Agreement,
    ) -> Option<Throughput> {
        let asked = hello.throughput?;
        if !agreement.features.contains(Features::THROUGHPUT) {
            return None;
        }
        let terms = asked.within_bounds();
        let flushes = Arc::clone(&self.options.flushes);
        let wake = self.wake.clone();
        self.gathering = Some(Box::new(Gathering::new(terms, flushes, wake)));
        Some(terms)
    }

    /// Same as `poll_output` without a buffer, but through the gather buffer.
    pub(crate) fn gather_output(
        &mut self,
        now: Tick,
        wall: Timestamp,
        budget: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        let Some(mut gathering) = self.gathering.take() else {
            return false;
        };
        let is_flush = gathering.take_flush();
        let produce = |room: usize, out: &mut Vec<u8>| self.poll_output(now, wall, room, out);
        let more = gathering.gather.poll_output(now, budget, out, produce);
        let is_credit = self.unanswered.take_returned(&self.options);
        let is_due = std::mem::take(&mut self.send_gathered) || is_flush || is_credit;
        if is_due || self.is_over() {
            gathering.gather.release(out);
        }
        self.gathering = Some(gathering);
        more
    }

    pub(crate) fn handle_flush(&mut self, frame: &Frame<'_>) -> Result<(), Disconnect> {
        decode_empty(frame)?;
        let request = frame.request();
        self.work.push(Work::Flush { request });
        Ok(())
    }

    /// Answers a flush, once everything before it is carried out. Every connection then sends what
    /// it has gathered.
    pub(crate) fn run_flush(&mut self, request: u32) -> Progress {
        encode_empty(FrameKind::Flushed, request, &mut self.answers.frames);
        self.send_gathered = true;
        self.options.flushes.flush();
        Progress::Done
    }
}

/// A wake shared by a session's consumer and its gather buffer.
#[derive(Clone)]
pub(crate) struct SharedWake(pub(crate) Arc<dyn Wake>);

impl std::fmt::Debug for SharedWake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SharedWake")
    }
}

impl Wake for SharedWake {
    fn wake(&self) {
        self.0.wake();
    }

    fn send(&self) {
        self.0.send();
    }

    fn whose(&self) -> Whose {
        self.0.whose()
    }
}
