//! Memory that two processes have mapped: a sealed anonymous file.

use std::ffi::c_void;
use std::io::{self, ErrorKind};
use std::mem::{offset_of, size_of};
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};
use rustix::process::{Resource, getrlimit};
use trunkline_ring::{RingHeader, RingMemory};

use crate::sync::{Arc, Ordering, SharedWord};

/// Capacity in bytes of each direction's ring.
pub(super) const CAPACITY: usize = 256 << 10;

/// The largest and, below, the smallest capacity that a peer may choose.
const CAPACITY_MAX: usize = 4 << 20;
const CAPACITY_MIN: usize = 4 << 10;

/// Offset of the first ring.
const HEADER_BYTES: usize = 4096;

/// Identifies the layout and its version. A file with another value is refused.
const MAGIC: u64 = u64::from_le_bytes(*b"TLSHM\0\0\x01");

/// Fixes the length of the file: an access beyond the end of a shortened file would kill the
/// process.
pub(super) const SEALS: SealFlags = SealFlags::SHRINK
    .union(SealFlags::GROW)
    .union(SealFlags::SEAL);

/// The beginning of the memory. Everything else is initially zero.
#[repr(C)]
struct Header {
    magic: SharedWord,
    /// 1 once the end that accepted the connection has mapped the memory.
    accepted: SharedWord,
    directions: [Direction; 2],
    /// Number of times the dialler has asked for a table of last values.
    table_asked: SharedWord,
    /// Twice the number of the last question that the acceptor has answered, plus 1 if it sent a
    /// table.
    table_answered: SharedWord,
}

#[repr(C)]
struct Direction {
    ring: RingHeader,
    /// Number of this direction's bytes that went over the socket before the first went into the
    /// ring, plus 1; 0 if none has yet.
    over_socket: SharedWord,
}

const _: () = assert!(size_of::<Header>() <= HEADER_BYTES);

/// The direction of the bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    ToAcceptor = 0,
    ToDialler = 1,
}

/// The memory, mapped into this process.
pub(super) struct Mapping {
    start: NonNull<Header>,
    capacity: usize,
}

// SAFETY: the header consists of atomics, and the rings are handed out as separate ends.
#[allow(unsafe_code)]
unsafe impl Send for Mapping {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Creates the memory, and the file to pass to the other process.
    pub(super) fn create() -> io::Result<(Arc<Self>, OwnedFd)> {
        within_file_limit(length(CAPACITY) as u64)?;
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create(c"trunkline", flags)?;
        rustix::fs::ftruncate(&file, length(CAPACITY) as u64)?;
        rustix::fs::fcntl_add_seals(&file, SEALS)?;
        let mapping = Self::map(&file, CAPACITY)?;
        mapping.header().magic.store(MAGIC, Ordering::Relaxed);
        Ok((Arc::new(mapping), file))
    }

    /// Maps the file that another process has created.
    pub(super) fn accept(file: OwnedFd) -> io::Result<Arc<Self>> {
        let not_ours = |text: &str| io::Error::new(ErrorKind::InvalidData, text.to_owned());
        let seals = rustix::fs::fcntl_get_seals(&file)?;
        if !seals.contains(SEALS) {
            return Err(not_ours("its length can be changed"));
        }
        let length = usize::try_from(rustix::fs::fstat(&file)?.st_size).unwrap_or(0);
        let capacity = length.saturating_sub(HEADER_BYTES) / 2;
        let is_whole = length == self::length(capacity) && capacity.is_power_of_two();
        if !is_whole || !(CAPACITY_MIN..=CAPACITY_MAX).contains(&capacity) {
            return Err(not_ours("it has no length that two rings have"));
        }
        let mapping = Self::map(&file, capacity)?;
        if mapping.header().magic.load(Ordering::Relaxed) != MAGIC {
            return Err(not_ours("it is laid out in another way"));
        }
        mapping.header().accepted.store(1, Ordering::Release);
        Ok(Arc::new(mapping))
    }

    #[allow(unsafe_code, reason = "a mapping is a pointer to memory of the system")]
    fn map(file: impl AsFd, capacity: usize) -> io::Result<Self> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping at an address that the system chooses, so it overlaps nothing of
        // this program. The length of the file cannot change, because it is sealed.
        let start = unsafe {
            let nowhere = std::ptr::null_mut();
            rustix::mm::mmap(nowhere, length(capacity), protection, flags, file, 0)?
        };
        let start = NonNull::new(start.cast()).ok_or(ErrorKind::OutOfMemory)?;
        Ok(Self { start, capacity })
    }

    #[allow(unsafe_code)]
    fn header(&self) -> &Header {
        // SAFETY: mapped while this lives, page-aligned, and consists only of atomics, for which
        // every bit pattern is a valid value.
        unsafe { self.start.as_ref() }
    }

    fn direction(&self, way: Way) -> &Direction {
        &self.header().directions[way as usize]
    }

    /// Returns the memory of a direction's ring. Called once for each end in this process.
    #[allow(unsafe_code)]
    pub(super) fn ring(self: &Arc<Self>, way: Way) -> RingMemory {
        let header = NonNull::from(&self.direction(way).ring);
        let offset = HEADER_BYTES + way as usize * self.capacity;
        // SAFETY: the header and `capacity` bytes behind the offset lie in the mapping, which lives
        // as long as the owner; the directions and the header do not overlap; the halves of a
        // transport ask for one end of each ring, and in this process nothing else accesses the
        // bytes.
        unsafe {
            let bytes = self.start.cast::<u8>().add(offset);
            RingMemory::from_raw(header, bytes, self.capacity, self.clone())
        }
    }

    /// Returns true if the accepting end has mapped the memory too.
    pub(super) fn is_accepted(&self) -> bool {
        self.header().accepted.load(Ordering::Acquire) != 0
    }

    /// Switches this end's bytes to the ring, after `sent` bytes over the socket.
    pub(super) fn leave_socket(&self, way: Way, sent: u64) {
        let over_socket = &self.direction(way).over_socket;
        over_socket.store(sent.saturating_add(1), Ordering::Release);
    }

    /// Returns the number of a direction's bytes that come over the socket, once it is known.
    pub(super) fn over_socket(&self, way: Way) -> Option<u64> {
        let stored = self.direction(way).over_socket.load(Ordering::Acquire);
        stored.checked_sub(1)
    }

    /// Asks for a table of last values; `count` is the number of the question.
    pub(super) fn ask_table(&self, count: u64) {
        self.header().table_asked.store(count, Ordering::Release);
    }

    /// Returns the number of the last question if it has not been answered.
    pub(super) fn table_question(&self) -> Option<u64> {
        let asked = self.header().table_asked.load(Ordering::Acquire);
        let answered = self.header().table_answered.load(Ordering::Relaxed);
        (asked != answered >> 1).then_some(asked)
    }

    /// Answers question `count`. If `sent` is true, a table has been sent before.
    pub(super) fn answer_table(&self, count: u64, sent: bool) {
        let answer = count << 1 | u64::from(sent);
        self.header()
            .table_answered
            .store(answer, Ordering::Release);
    }

    /// Returns true if question `count` was answered with a table; `None` if it is not answered
    /// yet.
    pub(super) fn table_answer(&self, count: u64) -> Option<bool> {
        let answer = self.header().table_answered.load(Ordering::Acquire);
        (answer >> 1 == count).then_some(answer & 1 != 0)
    }

    /// Returns a word of the memory, for a test that writes invalid values into it.
    #[cfg(test)]
    #[allow(unsafe_code)]
    pub(super) fn word(&self, index: usize) -> &SharedWord {
        assert!(index < size_of::<Header>() / 8);
        // SAFETY: inside the header, which consists of such words and of gaps between them.
        unsafe { self.start.cast::<SharedWord>().add(index).as_ref() }
    }

    /// Number of words of the header.
    #[cfg(test)]
    pub(super) const WORDS: usize = size_of::<Header>() / 8;
}

impl Drop for Mapping {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length, and no reference is left: the ends of the rings
        // keep this alive.
        let _ = unsafe {
            let start = self.start.as_ptr().cast::<c_void>();
            rustix::mm::munmap(start, length(self.capacity))
        };
    }
}

/// # Errors
/// The system does not allow files of this length. Exceeding the limit would not only fail, but
/// kill the process.
pub(super) fn within_file_limit(length: u64) -> io::Result<()> {
    let limit = getrlimit(Resource::Fsize).current;
    if limit.is_some_and(|limit| limit < length) {
        let text = "files may not be that long (ulimit -f)";
        return Err(io::Error::new(ErrorKind::FileTooLarge, text));
    }
    Ok(())
}

/// Length of the whole file in bytes.
const fn length(capacity: usize) -> usize {
    HEADER_BYTES + 2 * capacity
}

// The layout must match the table in docs/reference/protocol.md, which other implementations
// follow.
const _: () = assert!(offset_of!(Header, accepted) == 8);
const _: () = assert!(offset_of!(Header, directions) == 128);
const _: () = assert!(size_of::<RingHeader>() == 4 * 128);
const _: () = assert!(offset_of!(Direction, ring) == 0);
const _: () = assert!(offset_of!(Direction, over_socket) == 640 - 128);
const _: () = assert!(size_of::<Direction>() == 768 - 128);
const _: () = assert!(offset_of!(Header, table_asked) == 1408);
const _: () = assert!(offset_of!(Header, table_answered) == 1416);
// The first word identifies the layout of the others.
const _: () = assert!(offset_of!(Header, magic) == 0);
