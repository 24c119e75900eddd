//! The state machine of writing: segments of a file, several of which are written at a time.

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

/// The token of a sync; tokens of writes are computed from smaller numbers.
const SYNC: Token = Token(u64::MAX);

/// Writes segments to one file, in the order of the calls, with several writes running at a time.
#[derive(Debug)]
pub struct WriteQueue<B: Backend> {
    // The backends come first: dropping them waits for running writes. The memory they write from
    // is dropped after them.
    backend: B,
    sums: Option<SumsFile<B>>,
    slots: Box<[Slot]>,
    segments: Box<[Segment]>,
    staging: Staging,
    /// The content of all placeholders, which is the same.
    placeholder: Staging,
    /// Placeholders of the outstanding segments and of the next one.
    placeholders: Box<[PartState]>,
    _memories: Vec<Arc<RegionMemory>>,
    not_registered: Option<WhyNot>,
    options: QueueOptions,
    block_bytes: usize,
    /// Offsets in a staging place of a region's unaligned end and of copied data.
    odd_at: usize,
    copy_at: usize,
    /// Writes and syncs of the backend that are running.
    running: usize,
    /// Numbers of the oldest region being written and of the next one.
    oldest_slot: u64,
    next_slot: u64,
    /// Numbers of the oldest outstanding segment and of the next one.
    oldest: u64,
    next: u64,
    /// The position of the next segment.
    position: u64,
    written: u64,
    durable: u64,
    /// The position that the running syncs make durable, their number, and whether none has failed.
    syncing: Option<u64>,
    syncs: u8,
    is_sync_good: bool,
    failure: Option<Failure>,
    /// A sync has failed: a later one would prove nothing.
    is_sync_failed: bool,
    is_closed: bool,
    /// The files' locations if their names no longer refer to them.
    displaced: Option<Displaced>,
    sums_displaced: Option<Displaced>,
    /// The system error number if closing could not truncate the file.
    untrimmed: Option<i32>,
    /// The first segment and the first region that will not be in the file.
    failed_from: u64,
    failed_slot: u64,
    reserved_to: u64,
    /// The length to which the file was extended ahead of its writes.
    lengthened_to: u64,
    reservation: Reservation,
    /// Regions to be handed back to the caller.
    returned: VecDeque<ReadRegion>,
    /// Bytes collected from copied regions in the place of the next segment, and the time of the
    /// first one.
    collected: usize,
    collected_since: Duration,
    room: RoomWatch,
    path: Option<WritePath>,
    regions_in_place: u64,
    regions_copied: u64,
    bytes_copied: u64,
    /// Files that are removed if nothing is written to them.
    unwritten: Vec<PathBuf>,
    /// True if the files are to be removed in any case.
    is_given_up: bool,
}

impl<B: Backend> WriteQueue<B> {
    /// Creates a queue for a new file. Regions come from `memories`.
    pub fn new(mut backend: B, options: QueueOptions, memories: Vec<Arc<RegionMemory>>) -> Self {
        let block_bytes = backend.block_bytes().max(1);
        let places = options.outstanding_max.get();
        // After the header come the region's unaligned end and the padding of its block, then a
        // copied region and the padding of its block.
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
        // SAFETY: `self` keeps all of this memory until the backend, its first field, has been
        // dropped.
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

    /// Keeps the checksums of all segments in another, empty file, which `backend` writes. Must be
    /// called before anything is appended. A segment counts as written or durable only when its
    /// checksum does too. The CPU then reads every byte once.
    ///
    /// # Errors
    /// [`QueueError::Backend`]: the checksum file was opened for direct writes.
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

    /// Removes these files, which belong to this queue, if it is dropped before anything was
    /// written.
    pub(crate) fn remove_if_unwritten(&mut self, paths: Vec<PathBuf>) {
        self.unwritten = paths;
    }

    /// Removes the files whatever was written: the data is of no use.
    pub(crate) fn give_up(mut self) {
        self.is_given_up = true;
    }

    /// Returns the number that identifies the checksum file, if there is one.
    pub fn sums_number(&self) -> Option<u64> {
        self.sums.as_ref().map(|sums| sums.id().number())
    }

    /// Returns the options of this queue.
    pub fn options(&self) -> &QueueOptions {
        &self.options
    }

    /// Returns why the memory is not registered with the kernel, which makes each write cost more.
    /// `None` if it is registered or registering has no benefit.
    pub fn not_registered(&self) -> Option<&WhyNot> {
        self.not_registered.as_ref()
    }

    /// Returns the backend.
    pub fn backend(&self) -> &B {
        &self.backend
    }

    /// Returns the block size to which headers and bodies must be padded; 1 if there is none.
    pub fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    /// Returns the position of the next segment.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns the number of regions being written or of segments not in the file, whichever is
    /// larger.
    pub fn outstanding(&self) -> usize {
        let segments = self.next - self.oldest;
        let regions = self.next_slot - self.oldest_slot;
        // At most the number of slots, which is a `usize`.
        segments.max(regions) as usize
    }

    /// Returns the maximum number of segments appended but not yet in the file with their
    /// checksums.
    pub(crate) fn segments_unwritten_max(&self) -> usize {
        let sums = self.sums.as_ref().map_or(0, |_| sums::ENTRIES_MAX);
        // Two more may be appended before those in the file are counted: the collected data, and
        // the region that forces it to be written.
        self.segments.len() + sums + 2
    }

    /// Returns the progress of this queue.
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

    /// Returns the position up to which everything is in the file, with checksums.
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

    /// Returns the place of a region or a segment: there are equally many of both.
    fn place(&self, number: u64) -> usize {
        // Below the number of slots, which is a `usize`.
        (number % self.slots.len() as u64) as usize
    }

    /// Returns the next region that the caller wanted back and that is in the file or never will
    /// be.
    pub fn take_returned(&mut self) -> Option<ReadRegion> {
        self.returned.pop_front()
    }
}

impl<B: Backend> Drop for WriteQueue<B> {
    fn drop(&mut self) {
        if self.written == 0 || self.is_given_up {
            for path in &self.unwritten {
                // An empty file left behind does no harm.
                let _ = std::fs::remove_file(path);
            }
        }
    }
}
