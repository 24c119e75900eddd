//! The state machine: segments of a file, of which several are written at a time.
//!
//! ```text
//!   append, extend --> body running --> body in the file
//!                                       (region given back)
//!                      all bodies in the file, and a placeholder behind them
//!                                       --> header running --> segment in the file
//!                                                              (once all before it are)
//! ```
//!
//! The header is written when the bodies are in the file, so a segment that can be seen is whole,
//! whatever the order in which writes are done and wherever the program stops. While the disk is
//! busy with a segment, further regions may come into it: then there is one header for all. Where
//! the next segment will begin, a placeholder is written before.

mod append;
mod copies;
mod ends;
mod options;
mod place;
mod placeholder;
mod progress;
mod reserve;
mod room;
mod slot;
mod steps;
mod sums;

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use trunkline_ring::{ReadRegion, RegionMemory};
use trunkline_tdms::{SumsId, unwritten_segment};

pub use self::options::{COPY_BELOW_BYTES, Copying, FullDisk, QueueOptions, RoomAlarm};
pub use self::progress::{Closed, Durability, Progress, Reservation, WritePath};
pub(crate) use self::room::RoomWatch;
pub use self::room::{Room, RoomState};
use self::slot::{PartState, Segment, Slot};
use self::sums::SumsFile;
use crate::backend::{Backend, Span, Token, WhyNot};
use crate::error::{Failure, QueueError};
use crate::place::Displaced;
use crate::staging::Staging;

/// The token of a sync; those of writes are made of numbers that are smaller.
const SYNC: Token = Token(u64::MAX);

/// Writes segments to one file, in the order of the calls, with several writes running.
#[derive(Debug)]
pub struct WriteQueue<B: Backend> {
    // First, because they wait for what is running when they are dropped; then what that is written
    // from.
    backend: B,
    sums: Option<SumsFile<B>>,
    slots: Box<[Slot]>,
    segments: Box<[Segment]>,
    staging: Staging,
    /// What placeholders are written from: all of them are the same.
    placeholder: Staging,
    /// Those of the segments that are outstanding, and of the next one.
    placeholders: Box<[PartState]>,
    _memories: Vec<Arc<RegionMemory>>,
    not_registered: Option<WhyNot>,
    options: QueueOptions,
    block_bytes: usize,
    /// Where in a place of staging the odd end of a region stands, and where what is copied.
    odd_at: usize,
    copy_at: usize,
    /// Writes and syncs of the backend that are running.
    running: usize,
    /// Numbers of the oldest region that is being written, and of the next.
    oldest_slot: u64,
    next_slot: u64,
    /// Numbers of the oldest segment that is outstanding, and of the next.
    oldest: u64,
    next: u64,
    /// Where the next segment will stand.
    position: u64,
    written: u64,
    durable: u64,
    /// What syncs that are running make durable, how many they are, and whether none has failed.
    syncing: Option<u64>,
    syncs: u8,
    is_sync_good: bool,
    failure: Option<Failure>,
    /// A sync has failed: a later one would prove nothing.
    is_sync_failed: bool,
    is_closed: bool,
    /// Where the files are, if their names no longer lead to them.
    displaced: Option<Displaced>,
    sums_displaced: Option<Displaced>,
    /// Why it could not be cut when it was closed.
    untrimmed: Option<i32>,
    /// The first segment that will not be in the file, and the first region.
    failed_from: u64,
    failed_slot: u64,
    reserved_to: u64,
    /// How long the file was made ahead of what is written.
    lengthened_to: u64,
    reservation: Reservation,
    /// Regions that the caller wants to have back.
    returned: VecDeque<ReadRegion>,
    /// What was collected of regions that are copied, in the place of the next segment, and since
    /// when.
    collected: usize,
    collected_since: Duration,
    room: RoomWatch,
    path: Option<WritePath>,
    regions_in_place: u64,
    regions_copied: u64,
    bytes_copied: u64,
    /// Files that are removed if nothing comes into them.
    unwritten: Vec<PathBuf>,
    /// They are removed in any case.
    is_given_up: bool,
}

impl<B: Backend> WriteQueue<B> {
    /// A queue for a new file, whose regions come from `memories`.
    pub fn new(mut backend: B, options: QueueOptions, memories: Vec<Arc<RegionMemory>>) -> Self {
        let block_bytes = backend.block_bytes().max(1);
        let places = options.outstanding_max.get();
        // Behind the header the odd end of the region, and what fills up its block; behind those a
        // region that is copied, and what fills up its block.
        let odd_at = options.header_bytes_max.next_multiple_of(block_bytes);
        let copy_at = odd_at + 2 * block_bytes;
        let copy_bytes = match options.copy_bytes_max() {
            0 => 0,
            bytes => bytes.saturating_add(2 * block_bytes),
        };
        let staging = Staging::new(places, copy_at.saturating_add(copy_bytes));
        let (start, bytes) = staging.span();
        let mut spans = vec![Span { start, bytes }];
        let lead_in = unwritten_segment();
        let mut placeholder = Staging::new(1, lead_in.len().next_multiple_of(block_bytes));
        append::put(placeholder.bytes_mut(0), 0, &lead_in);
        let (start, bytes) = placeholder.span();
        spans.push(Span { start, bytes });
        spans.extend(memories.iter().map(|memory| {
            let (start, bytes) = memory.span();
            Span { start, bytes }
        }));
        // SAFETY: this keeps all of it until the backend is dropped, which it is first.
        let not_registered = unsafe { backend.register(&spans) };
        Self {
            not_registered,
            backend,
            sums: None,
            odd_at,
            copy_at,
            running: 0,
            slots: (0..places).map(|_| Slot::default()).collect(),
            segments: (0..places).map(|_| Segment::default()).collect(),
            staging,
            placeholder,
            placeholders: vec![PartState::default(); places + 1].into(),
            _memories: memories,
            options,
            block_bytes,
            oldest_slot: 0,
            next_slot: 0,
            oldest: 0,
            next: 0,
            position: 0,
            written: 0,
            durable: 0,
            syncing: None,
            syncs: 0,
            is_sync_good: true,
            failure: None,
            is_sync_failed: false,
            is_closed: false,
            displaced: None,
            sums_displaced: None,
            untrimmed: None,
            failed_from: u64::MAX,
            failed_slot: u64::MAX,
            reserved_to: 0,
            lengthened_to: 0,
            reservation: match options.reserve_bytes {
                0 => Reservation::NotWanted,
                _ => Reservation::Ahead,
            },
            returned: VecDeque::with_capacity(places),
            collected: 0,
            collected_since: Duration::ZERO,
            room: RoomWatch::new(options.alarm),
            path: None,
            regions_in_place: 0,
            regions_copied: 0,
            bytes_copied: 0,
            unwritten: Vec::new(),
            is_given_up: false,
        }
    }

    /// Keeps the checksums of all segments in another file, which is empty and which `backend`
    /// writes: before anything is appended. A segment counts as written, and as durable, when its
    /// checksum is so too. The CPU then reads every byte once.
    ///
    /// # Errors
    /// [`QueueError::Backend`]: the file was opened for direct writes.
    pub fn with_sums(mut self, backend: B) -> Result<Self, QueueError> {
        if backend.block_bytes() > 1 {
            let text = "checksums are written through the system's cache; open their file for \
                        cached writes";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text).into());
        }
        let id = SumsId::new(fastrand::u64(..));
        self.sums = Some(SumsFile::new(backend, id));
        Ok(self)
    }

    /// Removes these files, which are this queue's own, when it is dropped and nothing has come
    /// into them.
    pub(crate) fn remove_if_unwritten(&mut self, paths: Vec<PathBuf>) {
        self.unwritten = paths;
    }

    /// Removes them whatever has come into them: it was of no use.
    pub(crate) fn give_up(mut self) {
        self.is_given_up = true;
    }

    /// The number of the file of checksums; none where there is none.
    pub fn sums_number(&self) -> Option<u64> {
        self.sums.as_ref().map(|sums| sums.id().number())
    }

    /// How it writes.
    pub fn options(&self) -> &QueueOptions {
        &self.options
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

    /// Regions that are being written, or segments that are not in the file, whichever are more.
    pub fn outstanding(&self) -> usize {
        let segments = self.next - self.oldest;
        let regions = self.next_slot - self.oldest_slot;
        // At most the slots, which is a usize.
        segments.max(regions) as usize
    }

    /// Segments that may be appended and not in the file yet, checksums and all.
    pub(crate) fn segments_unwritten_max(&self) -> usize {
        let sums = self.sums.as_ref().map_or(0, |_| sums::ENTRIES_MAX);
        // And two that are appended before those that are in the file are counted: what was
        // collected, and the region before which it is written.
        self.segments.len() + sums + 2
    }

    /// How far it is, and what it has come to.
    pub fn progress(&self) -> Progress {
        Progress {
            accepted: self.position,
            written: self.in_file(),
            durable: self.durable,
            outstanding: self.outstanding(),
            reservation: self.reservation,
            room: self.room.room(),
            path: self.path,
            regions_in_place: self.regions_in_place,
            regions_copied: self.regions_copied,
            bytes_collected: self.collected,
            bytes_copied: self.bytes_copied,
            failure: self.failure,
        }
    }

    /// Up to where everything is in the file, checksums and all.
    fn in_file(&self) -> u64 {
        if self.is_removed() {
            return 0;
        }
        let sums = self.sums.as_ref().map(SumsFile::written_to);
        sums.map_or(self.written, |sums| sums.min(self.written))
    }

    fn now(&self) -> Duration {
        let sums = self.sums.as_ref().map(SumsFile::now);
        self.backend.now().max(sums.unwrap_or_default())
    }

    /// The place of a region or a segment: there are as many of both.
    fn place(&self, number: u64) -> usize {
        // Below the number of slots, which is a usize.
        (number % self.slots.len() as u64) as usize
    }

    /// The next region that is in the file, or will never be, and was wanted back.
    pub fn take_returned(&mut self) -> Option<ReadRegion> {
        self.returned.pop_front()
    }
}

impl<B: Backend> Drop for WriteQueue<B> {
    fn drop(&mut self) {
        if self.written == 0 || self.is_given_up {
            for path in &self.unwritten {
                // An empty file that stays does no harm.
                let _ = std::fs::remove_file(path);
            }
        }
    }
}
