//! Last values that the acceptor's process shares with the dialler's, in a separate mapping.
//!
//! The dialler makes a request through a word in the shared memory and a doorbell. The acceptor
//! answers with a doorbell that carries a file, writable only by the acceptor's own process, and
//! records in the memory that it has answered. An acceptor without support for this never answers.

use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;

use rustix::fs::{FallocateFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::ProtFlags;
use trunkline_ring::{TABLE_SLOT_BYTES, TableEntry, TableMemory, TableReader, TableWriter};
use trunkline_types::Tick;

use super::sealed_file::{self, Mapped, sealed_length, unusable};

use crate::sync::{Arc, AtomicBool, Ordering};

/// Seals that fix the length of the file and prevent writes except through its creator's mapping.
const SEALS: SealFlags = SealFlags::SHRINK
    .union(SealFlags::GROW)
    .union(SealFlags::FUTURE_WRITE)
    .union(SealFlags::SEAL);

/// Maximum number of bytes mapped from another process: 8 Mi variables.
const BYTES_MAX: usize = 1 << 30;

/// Creates a table of `slots` slots, and the file to pass to other processes.
pub fn create_table(slots: usize) -> io::Result<(TableWriter, OwnedFd)> {
    let bytes = slots.saturating_mul(TABLE_SLOT_BYTES);
    if bytes == 0 || bytes > BYTES_MAX {
        return Err(ErrorKind::InvalidInput.into());
    }
    let file = sealed_file::create(c"trunkline-values", bytes as u64)?;
    reserve(&file, bytes as u64)?;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let mapped = Mapped::new(&file, bytes, protection)?;
    rustix::fs::fcntl_add_seals(&file, SEALS)?;
    Ok((memory_of(mapped).writer(), file))
}

/// Makes the system reserve the memory of a file. Otherwise a store into a page without memory
/// would kill the process.
fn reserve(file: &OwnedFd, bytes: u64) -> io::Result<()> {
    loop {
        match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes) {
            Err(Errno::INTR) => {}
            reserved => return Ok(reserved?),
        }
    }
}

/// Last values that the process at the other end of a connection stores while the connection lasts.
#[derive(Debug)]
pub struct LocalTable {
    reader: TableReader,
    /// True until the connection has ended.
    live: Arc<AtomicBool>,
}

impl LocalTable {
    /// Maps the table in a file that another process has created.
    pub(super) fn accept(file: &OwnedFd, live: Arc<AtomicBool>) -> io::Result<Self> {
        let bytes = sealed_length(file, SealFlags::SHRINK)?;
        if bytes == 0 || bytes > BYTES_MAX || !bytes.is_multiple_of(TABLE_SLOT_BYTES) {
            return Err(unusable(
                "the length of the shared memory is not that of a table",
            ));
        }
        let mapped = Mapped::new(file, bytes, ProtFlags::READ)?;
        let reader = memory_of(mapped).reader();
        Ok(Self {
            reader: reader.ok_or_else(|| {
                unusable("the shared memory has the layout of a different version")
            })?,
            live,
        })
    }

    /// Returns the entry that the other process stored last at `index` for this generation; see
    /// [`TableReader::read`]. Also returns `None` once the connection has ended.
    #[inline]
    pub fn read(&self, index: u32, generation: u16) -> Option<TableEntry> {
        let entry = self.reader.read(index as usize, generation);
        // Checked after the copy: while the connection lasts, the creator is still running as far
        // as this process knows.
        entry.filter(|_| self.live.load(Ordering::Acquire))
    }

    /// Returns true if the table has a slot for `index` and is still updated.
    pub fn serves(&self, index: u32) -> bool {
        (index as usize) < self.reader.end()
            && self.reader.is_current()
            && self.live.load(Ordering::Acquire)
    }
}

/// The result of a request for a table.
#[derive(Clone, Debug)]
pub(crate) enum TableAnswer {
    Here(Arc<LocalTable>),
    /// There is no table.
    None,
    /// The other end has not answered yet.
    Pending,
}

/// The dialler's state of its table requests.
#[derive(Default)]
pub(super) struct TableRequest {
    /// Number of requests so far.
    pub(super) count: u64,
    pub(super) state: RequestState,
    /// Time of the last request.
    pub(super) sent_at: Tick,
    /// Index of the slot that the last request asked for.
    index: u32,
    /// The other end gave no table and is not asked again before this time.
    pub(super) retry_at: Tick,
    /// The newest table received.
    pub(super) table: Option<Arc<LocalTable>>,
}

impl TableRequest {
    /// Starts a new request, for a table with a slot for `index`.
    pub(super) fn start(&mut self, index: u32, now: Tick) {
        self.count += 1;
        (self.state, self.index, self.sent_at) = (RequestState::Open, index, now);
    }

    /// Returns true if the newest table has a slot for the index of the last request.
    pub(super) fn has_requested_slot(&self) -> bool {
        let table = self.table.as_ref();
        table.is_some_and(|table| table.serves(self.index))
    }
}

/// The state of the last request.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum RequestState {
    /// There is no open request.
    #[default]
    None,
    /// The other end has not answered.
    Open,
    /// The answer is overdue; a late answer is still accepted.
    Late,
    /// A table has arrived that no caller has checked yet.
    Answered,
}

#[allow(unsafe_code)]
fn memory_of(mapped: Mapped) -> TableMemory {
    let (start, slots) = (mapped.start().cast(), mapped.length() / TABLE_SLOT_BYTES);
    // SAFETY: mapped and page-aligned while the owner lives; writable where a writer is created; in
    // this process nothing else accesses it. The slots consist of atomics.
    unsafe { TableMemory::from_raw(start, slots, Arc::new(mapped)) }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests;
