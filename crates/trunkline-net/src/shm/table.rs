//! Last values that the acceptor's process shows to the dialler's, in a mapping of its own.
//!
//! The dialler asks by a word in the memory that both have, and a doorbell. The acceptor answers
//! with a doorbell that has a file beside it, which its own process alone can write to, and says in
//! the memory that it has answered. An acceptor that knows nothing of this never answers.

use std::ffi::c_void;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use rustix::process::{Resource, getrlimit};
use trunkline_ring::{
    TABLE_SLOT_BYTES, TableEntry, TableMemory, TableReader, TableSlot, TableWriter,
};
use trunkline_types::Tick;

use crate::sync::{Arc, AtomicBool, Ordering};

/// Nobody can make it shorter, and nobody can write to it but through the mapping that its maker
/// has.
const SEALS: SealFlags = SealFlags::SHRINK
    .union(SealFlags::GROW)
    .union(SealFlags::FUTURE_WRITE)
    .union(SealFlags::SEAL);

/// Most that is mapped of another process: 8 Mi variables.
const BYTES_MAX: usize = 1 << 30;

/// A new table of so many slots, and the file that other processes may be given.
///
/// # Errors
/// The system gives no memory, no descriptor, or does not allow it.
pub fn create_table(slots: usize) -> io::Result<(TableWriter, OwnedFd)> {
    let bytes = slots.saturating_mul(TABLE_SLOT_BYTES);
    if bytes == 0 || bytes > BYTES_MAX {
        return Err(ErrorKind::InvalidInput.into());
    }
    // Beyond that limit the system would not only refuse, but kill.
    let limit = getrlimit(Resource::Fsize).current;
    if limit.is_some_and(|limit| limit < bytes as u64) {
        let text = "files may not be that long (ulimit -f)";
        return Err(io::Error::new(ErrorKind::FileTooLarge, text));
    }
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create(c"trunkline-values", flags)?;
    rustix::fs::ftruncate(&file, bytes as u64)?;
    reserve(&file, bytes as u64)?;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let mapping = TableMapping::map(&file, bytes, protection)?;
    rustix::fs::fcntl_add_seals(&file, SEALS)?;
    Ok((Arc::new(mapping).memory().writer(), file))
}

/// Has the system set the memory of a file aside. Without that, a store into a page that it has no
/// memory for would kill the process.
fn reserve(file: &OwnedFd, bytes: u64) -> io::Result<()> {
    loop {
        match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes) {
            Err(Errno::INTR) => {}
            reserved => return Ok(reserved?),
        }
    }
}

/// Last values that the process at the other end of a connection stores for as long as that lasts.
#[derive(Debug)]
pub struct LocalTable {
    reader: TableReader,
    /// The connection is not over.
    live: Arc<AtomicBool>,
}

impl LocalTable {
    /// The table behind a file that another process has made.
    ///
    /// # Errors
    /// It is not such a file, or the system does not map it.
    pub(super) fn accept(file: &OwnedFd, live: Arc<AtomicBool>) -> io::Result<Self> {
        let not_ours = |text: &str| io::Error::new(ErrorKind::InvalidData, text.to_owned());
        let seals = rustix::fs::fcntl_get_seals(file)?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(not_ours("its length can be changed"));
        }
        let bytes = usize::try_from(rustix::fs::fstat(file)?.st_size).unwrap_or(0);
        if bytes == 0 || bytes > BYTES_MAX || !bytes.is_multiple_of(TABLE_SLOT_BYTES) {
            return Err(not_ours("it has no length that a table has"));
        }
        let mapping = TableMapping::map(file, bytes, ProtFlags::READ)?;
        let reader = Arc::new(mapping).memory().reader();
        Ok(Self {
            reader: reader.ok_or_else(|| not_ours("it is laid out in another way"))?,
            live,
        })
    }

    /// What the other process stored last at `index`, of this generation; see
    /// [`TableReader::read`]. `None` as well once the connection is over.
    #[inline]
    pub fn read(&self, index: u32, generation: u16) -> Option<TableEntry> {
        let entry = self.reader.read(index as usize, generation);
        // Behind the copy: who made it has not gone, as far as this process knows.
        entry.filter(|_| self.live.load(Ordering::Acquire))
    }

    /// Whether there is a place for `index`, and the table is still stored into.
    pub fn serves(&self, index: u32) -> bool {
        (index as usize) < self.reader.end()
            && self.reader.is_current()
            && self.live.load(Ordering::Acquire)
    }
}

/// What became of a question for a table.
#[derive(Clone, Debug)]
pub(crate) enum TableAnswer {
    /// Here it is.
    Here(Arc<LocalTable>),
    /// There is none.
    None,
    /// The other end has not answered.
    Pending,
}

/// The dialler's side of the question.
#[derive(Default)]
pub(super) struct Asked {
    /// How often it has asked.
    pub(super) count: u64,
    pub(super) question: Question,
    /// When the last question was asked, and what for.
    pub(super) at: Tick,
    index: u32,
    /// The other end is not asked before, because it gave none.
    pub(super) none_until: Tick,
    /// The newest table that came.
    pub(super) table: Option<Arc<LocalTable>>,
}

impl Asked {
    /// A new question, for a table with a place for `index`.
    pub(super) fn ask(&mut self, index: u32, now: Tick) {
        self.count += 1;
        (self.question, self.index, self.at) = (Question::Open, index, now);
    }

    /// Whether the newest table is what the last question was for.
    pub(super) fn is_helped(&self) -> bool {
        let table = self.table.as_ref();
        table.is_some_and(|table| table.serves(self.index))
    }
}

/// Where the last question is.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Question {
    /// There is none, or its end is known.
    #[default]
    None,
    /// The other end has not answered.
    Open,
    /// It has not answered in time; what comes all the same is taken.
    Late,
    /// It has sent something that nobody has looked at.
    Answered,
}

/// Slots, mapped into this process.
struct TableMapping {
    start: NonNull<TableSlot>,
    bytes: usize,
}

// SAFETY: the slots are made of atomics.
#[allow(unsafe_code)]
unsafe impl Send for TableMapping {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Sync for TableMapping {}

impl TableMapping {
    #[allow(unsafe_code, reason = "a mapping is a pointer to memory of the system")]
    fn map(file: impl AsFd, bytes: usize, protection: ProtFlags) -> io::Result<Self> {
        // SAFETY: a new mapping at a place of the system's choice, so nothing of this program lies
        // there. The file has that length for ever, because it is or will be sealed.
        let start = unsafe {
            let nowhere = std::ptr::null_mut();
            rustix::mm::mmap(nowhere, bytes, protection, MapFlags::SHARED, file, 0)?
        };
        let start = NonNull::new(start.cast()).ok_or(ErrorKind::OutOfMemory)?;
        Ok(Self { start, bytes })
    }

    #[allow(unsafe_code)]
    fn memory(self: Arc<Self>) -> TableMemory {
        let (start, slots) = (self.start, self.bytes / TABLE_SLOT_BYTES);
        // SAFETY: mapped, page-aligned, for as long as the owner lives; writable where it is to be
        // a writer's; in this process nobody else knows it.
        unsafe { TableMemory::from_raw(start, slots, self) }
    }
}

impl Drop for TableMapping {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length; the ends of the table keep this alive.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast::<c_void>(), self.bytes) };
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests;
