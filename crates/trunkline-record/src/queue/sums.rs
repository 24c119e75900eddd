//! Writes the checksums of segments to a separate file.
//!
//! An entry is collected once its segment is in the data file. It is written at once, or together
//! with later entries if a write is running. A segment counts as written once its entry is written,
//! and as durable once both files have been synced after that.

use std::io;

use trunkline_tdms::{SUMS_ENTRY_BYTES, SegmentSum, SumsId};

use super::SYNC;
use super::part::PartState;
use crate::backend::{Backend, Completed, Token, Wait, Write};
use crate::staging::Staging;
use crate::watched_path::MovedFile;

/// Maximum number of bytes of entries that are collected while a write is running.
const BATCH_BYTES: usize = 4096;
/// Maximum number of entries that are collected or being written.
pub(super) const ENTRIES_MAX: usize = 2 * BATCH_BYTES / SUMS_ENTRY_BYTES;
/// Number of bytes of disk space that are reserved at a time.
pub(super) const RESERVE_BYTES: u64 = 64 << 10;
const WRITE: Token = Token(0);

/// The checksum file, and the entries not yet in it.
#[derive(Debug)]
pub(super) struct SumsFile {
    // This field comes first, because dropping the backend waits for writes from the staging
    // memory.
    backend: Box<dyn Backend>,
    /// Memory with two slots: one slot collects entries while the other is written.
    staging: Staging,
    id: SumsId,
    /// Index of the slot that collects entries.
    collecting_slot: usize,
    /// Number of bytes collected in that slot.
    collected_bytes: usize,
    /// Position in the data file up to which entries were collected.
    collected_to: u64,
    /// Position in the data file up to which entries are being written.
    running_to: u64,
    /// Position in the data file up to which the checksum file has entries.
    written_to: u64,
    running: Option<PartState>,
    /// Position in the checksum file of the next batch of entries.
    position: u64,
    /// End of the last batch of entries in the checksum file.
    written_end: u64,
    reserved_to: u64,
    is_failed: bool,
    is_syncing: bool,
}

/// The result of an operation on the checksum file.
pub(super) enum SumsCompleted {
    Write(io::Result<()>),
    Sync(io::Result<()>),
}

impl SumsFile {
    pub(super) fn new(mut backend: Box<dyn Backend>, id: SumsId) -> Self {
        let mut staging = Staging::new(2, BATCH_BYTES);
        // SAFETY: `self` keeps the memory mapped until the backend, its first field, is dropped. A
        // failure to register is ignored, because writes from this memory are few and small.
        let _ = unsafe { backend.register(&[staging.span()]) };
        let header = id.begin();
        if let Some(space) = staging.bytes_mut(0).first_chunk_mut() {
            *space = header;
        }
        Self {
            backend,
            staging,
            id,
            collecting_slot: 0,
            collected_bytes: header.len(),
            collected_to: 0,
            running_to: 0,
            written_to: 0,
            running: None,
            position: 0,
            written_end: 0,
            reserved_to: 0,
            is_failed: false,
            is_syncing: false,
        }
    }

    pub(super) fn id(&self) -> SumsId {
        self.id
    }

    /// Returns the location of the checksum file if its name no longer refers to it.
    pub(super) fn moved_file(&self) -> Option<MovedFile> {
        self.backend.moved_file()
    }

    pub(super) fn now(&self) -> std::time::Duration {
        self.backend.now()
    }

    /// Returns the position in the data file up to which every segment has its entry in the
    /// checksum file.
    pub(super) fn written_to(&self) -> u64 {
        self.written_to
    }

    /// Returns true if a write or a sync is running.
    pub(super) fn is_busy(&self) -> bool {
        self.running.is_some() || self.is_syncing
    }

    /// Returns true if no entries are left to write, or writing has failed.
    pub(super) fn is_idle(&self) -> bool {
        self.running.is_none() && (self.collected_bytes == 0 || self.is_failed)
    }

    pub(super) fn is_failed(&self) -> bool {
        self.is_failed
    }

    /// Stops writing to the file.
    pub(super) fn abandon(&mut self) {
        self.is_failed = true;
        // Only a write that has already started can still complete.
        self.running = self.running.filter(|part| part.is_running);
    }

    /// Collects an entry. Returns false if there is no space for it until a write completes.
    pub(super) fn push(&mut self, sum: &SegmentSum) -> bool {
        if self.is_failed {
            return true;
        }
        let (offset, entry) = (self.collected_bytes, sum.entry(self.id));
        let batch = self.staging.bytes_mut(self.collecting_slot);
        let Some(space) = batch.get_mut(offset..offset + SUMS_ENTRY_BYTES) else {
            return false;
        };
        space.copy_from_slice(&entry);
        self.collected_bytes += SUMS_ENTRY_BYTES;
        self.collected_to = sum.position + sum.bytes;
        true
    }

    /// Starts writing the collected entries. Returns false if there are none or a write is running.
    pub(super) fn begin_write(&mut self) -> io::Result<bool> {
        if self.is_failed {
            return Ok(false);
        }
        if self.running.is_none() && self.collected_bytes > 0 {
            let memory = self
                .staging
                .slot(self.collecting_slot)
                .part(0, self.collected_bytes);
            self.running = Some(PartState::pending(self.position, memory));
            self.position += self.collected_bytes as u64;
            self.running_to = self.collected_to;
            self.collecting_slot = 1 - self.collecting_slot;
            self.collected_bytes = 0;
        }
        let Some(part) = self.running.as_mut().filter(|part| !part.is_running) else {
            return Ok(false);
        };
        let write = Write {
            token: WRITE,
            position: part.position,
            memory: part.memory,
        };
        // SAFETY: this slot collects nothing until the completion has been returned; when
        // `self` is dropped, the backend is dropped first.
        unsafe { self.backend.submit(write) }?;
        part.is_running = true;
        Ok(true)
    }

    pub(super) fn begin_sync(&mut self) -> io::Result<()> {
        self.backend.submit_sync(SYNC)?;
        self.is_syncing = true;
        Ok(())
    }

    /// Processes one completion. Returns `None` if none arrives in time.
    pub(super) fn apply(&mut self, wait: Wait) -> io::Result<Option<SumsCompleted>> {
        let Some(Completed { token, result }) = self.backend.completed(wait)? else {
            return Ok(None);
        };
        if token == SYNC {
            self.is_syncing = false;
            return Ok(Some(SumsCompleted::Sync(result.map(|_| ()))));
        }
        let Some(part) = &mut self.running else {
            return Ok(None);
        };
        let outcome = part.complete_write(result, 1);
        if outcome.is_err() {
            self.running = None;
        } else if part.is_written() {
            self.running = None;
            self.written_to = self.running_to;
            // Only one batch is written at a time.
            self.written_end = self.position;
        }
        Ok(Some(SumsCompleted::Write(outcome)))
    }

    /// Reserves disk space for the next entries.
    pub(super) fn reserve(&mut self) -> io::Result<()> {
        let needed = self.position + 3 * BATCH_BYTES as u64;
        while self.reserved_to < needed && !self.is_failed {
            self.backend.reserve(self.reserved_to, RESERVE_BYTES)?;
            self.reserved_to += RESERVE_BYTES;
        }
        Ok(())
    }

    /// Truncates the file, which frees reserved space and removes failed writes.
    pub(super) fn truncate(&mut self) -> io::Result<()> {
        self.backend.truncate(self.written_end)
    }
}
