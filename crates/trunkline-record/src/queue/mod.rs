//! Writes the segments of a file with several writes running at a time.
//!
//! The queue works like an event loop: calls and completions change [`Outstanding`], and only
//! [`WriteQueue::advance`] starts writes.

mod advance;
mod append;
mod ends;
mod free_space;
mod options;
mod outstanding;
mod part;
mod progress;
mod space;
mod sums;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use trunkline_ring::{ReadRegion, RegionMemory};
use trunkline_tdms::SumsId;

use self::append::Collected;
use self::ends::Syncing;
pub(crate) use self::free_space::FreeSpaceMonitor;
pub use self::free_space::{FreeSpace, FreeSpaceState};
pub use self::options::{COPY_BELOW_BYTES, Copying, FreeSpaceAlarm, FullDisk, QueueOptions};
use self::outstanding::Outstanding;
use self::progress::Counts;
pub use self::progress::{Closed, Durability, Progress, Reservation, WritePath};
use self::space::Space;
use self::sums::SumsFile;
use crate::backend::{Backend, FallbackReason, Span, Token};
use crate::error::{Failure, QueueError};
use crate::watched_path::MovedFile;

/// The token of a sync. Tokens of writes are smaller.
const SYNC: Token = Token(u64::MAX);

/// Writes segments to one file, in the order of the calls, with several writes running at a time.
#[derive(Debug)]
pub struct WriteQueue {
    // The backends must be the first fields: dropping them waits for running writes, and only then
    // may the memory that they write from be dropped.
    backend: Box<dyn Backend>,
    sums: Option<SumsFile>,
    outstanding: Outstanding,
    _memories: Vec<Arc<RegionMemory>>,
    registration_failure: Option<FallbackReason>,
    options: QueueOptions,
    space: Space,
    collected: Collected,
    syncing: Syncing,
    counts: Counts,
    /// Number of writes and syncs that are running in the backend.
    running: usize,
    /// Location of the data file if its name no longer refers to it.
    moved_file: Option<MovedFile>,
    /// Location of the checksum file if its name no longer refers to it.
    moved_sums_file: Option<MovedFile>,
    is_closed: bool,
    /// The system error number if closing could not truncate the file.
    truncate_error: Option<i32>,
    /// Files that this queue removes when it is dropped and nothing was written to them.
    created_files: Vec<PathBuf>,
    /// True if the files are removed even if data was written to them.
    always_removes_files: bool,
}

impl WriteQueue {
    /// Creates a queue that writes regions of `memories` to a new file.
    pub fn new(
        mut backend: Box<dyn Backend>,
        options: QueueOptions,
        memories: Vec<Arc<RegionMemory>>,
    ) -> Self {
        let outstanding = Outstanding::new(&options, backend.block_bytes().max(1));
        let mut spans = outstanding.spans().to_vec();
        spans.extend(memories.iter().map(|memory| {
            let (start, bytes) = memory.span();
            Span { start, bytes }
        }));
        // SAFETY: `self` keeps this memory mapped until the backend, its first field, has been
        // dropped.
        let registration_failure = unsafe { backend.register(&spans) };
        Self {
            registration_failure,
            backend,
            sums: None,
            outstanding,
            _memories: memories,
            space: Space::new(&options),
            options,
            collected: Collected::default(),
            syncing: Syncing::default(),
            counts: Counts::default(),
            running: 0,
            moved_file: None,
            moved_sums_file: None,
            is_closed: false,
            truncate_error: None,
            created_files: Vec::new(),
            always_removes_files: false,
        }
    }

    /// Stores the checksums of all segments in the separate, empty file of `backend`. Must be
    /// called before anything is appended. A segment then counts as written or durable only once
    /// its checksum does too, and the CPU reads every byte once.
    ///
    /// # Errors
    /// [`QueueError::Backend`]: the checksum file was opened for direct writes.
    pub fn with_sums(mut self, backend: Box<dyn Backend>) -> Result<Self, QueueError> {
        if backend.block_bytes() > 1 {
            let text = "a checksum file cannot be written with direct I/O; open it for cached \
                        writes";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text).into());
        }
        let id = SumsId::new(fastrand::u64(..));
        self.sums = Some(SumsFile::new(backend, id));
        Ok(self)
    }

    /// Sets the files to remove if the queue is dropped before any data was written.
    pub(crate) fn remove_if_unwritten(&mut self, paths: Vec<PathBuf>) {
        self.created_files = paths;
    }

    /// Drops the queue and removes its files, even if data was written to them.
    pub(crate) fn abandon(mut self) {
        self.always_removes_files = true;
    }

    /// Returns the number that identifies the checksum file, if there is one.
    pub fn sums_number(&self) -> Option<u64> {
        self.sums.as_ref().map(|sums| sums.id().number())
    }

    pub fn options(&self) -> &QueueOptions {
        &self.options
    }

    /// Returns the reason why the memory is not registered with the kernel, which makes each write
    /// more expensive. `None` if it is registered or registering has no benefit.
    pub fn registration_failure(&self) -> Option<&FallbackReason> {
        self.registration_failure.as_ref()
    }

    pub fn backend(&self) -> &dyn Backend {
        &*self.backend
    }

    /// Returns the block size in bytes to which headers and bodies must be padded; 1 if padding is
    /// not needed.
    pub fn block_bytes(&self) -> usize {
        self.outstanding.block_bytes
    }

    /// Returns the position of the next segment.
    pub fn position(&self) -> u64 {
        self.outstanding.position
    }

    /// Returns the number of regions being written or the number of segments not in the file,
    /// whichever is larger.
    pub fn outstanding(&self) -> usize {
        self.outstanding.count()
    }

    /// Returns the maximum number of segments appended but not yet in the file with their
    /// checksums.
    pub(crate) fn segments_unwritten_max(&self) -> usize {
        let sums = self.sums.as_ref().map_or(0, |_| sums::ENTRIES_MAX);
        // Two more segments may be appended before the written ones are counted: the collected
        // data, and the region that forces the collected data to be written.
        self.outstanding.max + sums + 2
    }

    pub fn progress(&self) -> Progress {
        Progress {
            accepted: self.position(),
            written: self.in_file(),
            durable: self.syncing.durable,
            outstanding: self.outstanding(),
            reservation: self.space.reservation,
            free_space: self.space.monitor.free_space(),
            path: self.counts.path,
            regions_in_place: self.counts.regions_in_place,
            regions_copied: self.counts.regions_copied,
            bytes_collected: self.collected.bytes,
            bytes_copied: self.counts.bytes_copied,
            failure: self.failure(),
        }
    }

    /// Returns the location of the data file if its name no longer refers to it. The name is
    /// checked about once a second, and when the file is synced and closed.
    ///
    /// If the file was removed or replaced, none of its data is left, and the queue has
    /// [failed](crate::FailedStep::Removed). If the file was renamed, writing continues in it.
    pub fn moved_file(&self) -> Option<&MovedFile> {
        self.moved_file.as_ref()
    }

    /// Returns the location of the checksum file if its name no longer refers to it. The data is
    /// written even if that file is lost.
    pub fn moved_sums_file(&self) -> Option<&MovedFile> {
        self.moved_sums_file.as_ref()
    }

    /// Returns true if the file was removed or replaced.
    pub(crate) fn is_removed(&self) -> bool {
        self.moved_file.as_ref().is_some_and(MovedFile::is_removed)
    }

    /// Returns the position up to which all data is in the file, with its checksums.
    fn in_file(&self) -> u64 {
        if self.is_removed() {
            return 0;
        }
        let sums = self.sums.as_ref().map(SumsFile::written_to);
        let written = self.outstanding.written;
        sums.map_or(written, |sums| sums.min(written))
    }

    fn failure(&self) -> Option<Failure> {
        let written = self.in_file();
        let failure = self.outstanding.failure;
        failure.map(|failure| Failure { written, ..failure })
    }

    fn check_failure(&self) -> Result<(), QueueError> {
        self.failure().map_or(Ok(()), |failure| Err(failure.into()))
    }

    fn now(&self) -> Duration {
        let sums = self.sums.as_ref().map(SumsFile::now);
        self.backend.now().max(sums.unwrap_or_default())
    }

    /// Returns the next region that was kept for the caller and is now in the file or has failed.
    pub fn take_returned(&mut self) -> Option<ReadRegion> {
        self.outstanding.returned.pop_front()
    }
}

impl Drop for WriteQueue {
    fn drop(&mut self) {
        if self.outstanding.written == 0 || self.always_removes_files {
            for path in &self.created_files {
                // A file that cannot be removed does no harm.
                let _ = std::fs::remove_file(path);
            }
        }
    }
}
