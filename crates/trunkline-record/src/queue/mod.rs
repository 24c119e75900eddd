//! The state machine: segments of a file, of which several are written at a time.
//!
//! ```text
//!   append --> body running --> body in the file --> header running --> segment in the file
//!                               (region given back)                     (once all before it are)
//! ```
//!
//! The header is written when the body is in the file, so a segment that can be seen is whole,
//! whatever the order in which writes are done and wherever the program stops.

mod append;
mod ends;
mod progress;
mod slot;
mod steps;

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use trunkline_ring::{ReadRegion, RegionMemory};

pub use self::progress::{Closed, Durability, Progress, Reservation};
use self::slot::Slot;
use crate::backend::{Backend, Span, Token, WhyNot};
use crate::error::Failure;
use crate::staging::Staging;

/// The token of a sync; those of writes are made of numbers that are smaller.
const SYNC: Token = Token(u64::MAX);

/// How a queue writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueOptions {
    /// Segments that may be outstanding. Unless set, 4.
    pub outstanding_max: NonZeroUsize,
    /// How long [`append`](WriteQueue::append) waits when as many are. Unless set, 5 s.
    pub wait: Duration,
    /// Longest header. Memory for it is set aside for each outstanding segment. Unless set, 64 KiB.
    pub header_bytes_max: usize,
    /// Room on the disk that is set aside at a time; 0: none. Unless set, 256 MiB.
    pub reserve_bytes: u64,
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self {
            outstanding_max: const { NonZeroUsize::new(4).unwrap() },
            wait: Duration::from_secs(5),
            header_bytes_max: 64 << 10,
            reserve_bytes: 256 << 20,
        }
    }
}

impl QueueOptions {
    /// Writes that a backend has to run at a time for this.
    #[must_use]
    pub fn writes_max(&self) -> usize {
        // Of a segment, the body and its odd end run at the same time.
        2 * self.outstanding_max.get()
    }
}

/// Writes segments to one file, in the order of the calls, with several writes running.
#[derive(Debug)]
pub struct WriteQueue<B: Backend> {
    // First, because it waits for what is running when it is dropped; then what that is written
    // from.
    backend: B,
    slots: Box<[Slot]>,
    staging: Staging,
    _memories: Vec<Arc<RegionMemory>>,
    not_registered: Option<WhyNot>,
    options: QueueOptions,
    block_bytes: usize,
    /// Numbers of the oldest segment that is outstanding, and of the next.
    oldest: u64,
    next: u64,
    /// Where the next segment will stand.
    position: u64,
    written: u64,
    durable: u64,
    /// What a sync that is running makes durable.
    syncing: Option<u64>,
    failure: Option<Failure>,
    /// A sync has failed: a later one would prove nothing.
    is_sync_failed: bool,
    is_closed: bool,
    /// The first segment that will not be in the file.
    failed_from: u64,
    reserved_to: u64,
    reservation: Reservation,
    /// Regions that the caller wants to have back.
    returned: VecDeque<ReadRegion>,
    bytes_copied: u64,
}

impl<B: Backend> WriteQueue<B> {
    /// A queue for a new file, whose regions come from `memories`.
    pub fn new(mut backend: B, options: QueueOptions, memories: Vec<Arc<RegionMemory>>) -> Self {
        let block_bytes = backend.block_bytes().max(1);
        let places = options.outstanding_max.get();
        // Behind the header the odd end of the region, and what fills up its block.
        let header_bytes = options.header_bytes_max.next_multiple_of(block_bytes);
        let staging = Staging::new(places, header_bytes + 2 * block_bytes);
        let (start, bytes) = staging.span();
        let mut spans = vec![Span { start, bytes }];
        spans.extend(memories.iter().map(|memory| {
            let (start, bytes) = memory.span();
            Span { start, bytes }
        }));
        // SAFETY: this keeps all of it until the backend is dropped, which it is first.
        let not_registered = unsafe { backend.register(&spans) };
        Self {
            not_registered,
            backend,
            slots: (0..places).map(|_| Slot::default()).collect(),
            staging,
            _memories: memories,
            options,
            block_bytes,
            oldest: 0,
            next: 0,
            position: 0,
            written: 0,
            durable: 0,
            syncing: None,
            failure: None,
            is_sync_failed: false,
            is_closed: false,
            failed_from: u64::MAX,
            reserved_to: 0,
            reservation: match options.reserve_bytes {
                0 => Reservation::NotWanted,
                _ => Reservation::Ahead,
            },
            returned: VecDeque::with_capacity(places),
            bytes_copied: 0,
        }
    }

    /// Why the memory is not registered with the kernel, so that each write costs more; none where
    /// it is, or where that is of no use.
    pub fn not_registered(&self) -> Option<&WhyNot> {
        self.not_registered.as_ref()
    }

    /// What it writes with.
    pub fn backend(&self) -> &B {
        &self.backend
    }

    /// Bytes that headers and bodies have to make whole; 1 where they need not.
    pub fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    /// Where the next segment will stand.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Segments that are outstanding.
    pub fn outstanding(&self) -> usize {
        // At most the slots, which is a usize.
        (self.next - self.oldest) as usize
    }

    /// How far it is, and what it has come to.
    pub fn progress(&self) -> Progress {
        Progress {
            accepted: self.position,
            written: self.written,
            durable: self.durable,
            outstanding: self.outstanding(),
            reservation: self.reservation,
            bytes_copied: self.bytes_copied,
            failure: self.failure,
        }
    }

    fn place(&self, number: u64) -> usize {
        // Below the number of slots, which is a usize.
        (number % self.slots.len() as u64) as usize
    }

    /// The next region that is in the file, or will never be, and was wanted back.
    pub fn take_returned(&mut self) -> Option<ReadRegion> {
        self.returned.pop_front()
    }
}
