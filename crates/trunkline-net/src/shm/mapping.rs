//! Memory that two processes have mapped: a sealed file without a name.

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

/// Bytes on their way in each direction.
pub(super) const CAPACITY: usize = 256 << 10;

/// The largest that a peer may choose, and the smallest.
const CAPACITY_MAX: usize = 4 << 20;
const CAPACITY_MIN: usize = 4 << 10;

/// Where the bytes begin.
const HEADER_BYTES: usize = 4096;

/// The layout of this version; another version is another file.
const MAGIC: u64 = u64::from_le_bytes(*b"TLSHM\0\0\x01");

/// Nobody can make the file shorter, which would kill whoever touches what is gone.
pub(super) const SEALS: SealFlags = SealFlags::SHRINK
    .union(SealFlags::GROW)
    .union(SealFlags::SEAL);

/// The beginning of the memory. Everything else is zero at first.
#[repr(C)]
struct Header {
    magic: SharedWord,
    /// 1 once the end that accepted the connection has mapped the memory.
    accepted: SharedWord,
    directions: [Direction; 2],
    /// How often the dialler has asked for a table of last values.
    table_asked: SharedWord,
    /// Twice the number of the last question that the acceptor has answered, plus 1 if it sent a
    /// table.
    table_answered: SharedWord,
}

#[repr(C)]
struct Direction {
    ring: RingHeader,
    /// How many bytes of this direction went over the socket before the first went into the ring,
    /// plus 1; 0 while none has.
    over_socket: SharedWord,
}

const _: () = assert!(size_of::<Header>() <= HEADER_BYTES);

/// Which way bytes go.
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

// SAFETY: the header is made of atomics, and the rings are handed out as ends of their own.
#[allow(unsafe_code)]
unsafe impl Send for Mapping {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Sync for Mapping {}

impl Mapping {
    /// New memory, and the file to hand to the other process.
    ///
    /// # Errors
    /// The system gives no memory, no descriptor, or does not allow it.
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

    /// The memory behind a file that another process has made.
    ///
    /// # Errors
    /// It is not such a file, or the system does not map it.
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
        // SAFETY: a new mapping at a place of the system's choice, so nothing of this program lies
        // there. The file has that length for ever, because it is sealed.
        let start = unsafe {
            let nowhere = std::ptr::null_mut();
            rustix::mm::mmap(nowhere, length(capacity), protection, flags, file, 0)?
        };
        let start = NonNull::new(start.cast()).ok_or(ErrorKind::OutOfMemory)?;
        Ok(Self { start, capacity })
    }

    #[allow(unsafe_code)]
    fn header(&self) -> &Header {
        // SAFETY: mapped for as long as this lives, page-aligned, and nothing but atomics, of which
        // every bit pattern is a value.
        unsafe { self.start.as_ref() }
    }

    fn direction(&self, way: Way) -> &Direction {
        &self.header().directions[way as usize]
    }

    /// One end of the ring of a direction; asked for once for each end in this process.
    #[allow(unsafe_code)]
    pub(super) fn ring(self: &Arc<Self>, way: Way) -> RingMemory {
        let header = NonNull::from(&self.direction(way).ring);
        let offset = HEADER_BYTES + way as usize * self.capacity;
        // SAFETY: the header and `capacity` bytes behind the offset lie in the mapping, which lives
        // as long as the owner; the directions and the header do not overlap; the halves of a
        // transport ask for one end of each ring, and in this process nobody else knows the bytes.
        unsafe {
            let bytes = self.start.cast::<u8>().add(offset);
            RingMemory::from_raw(header, bytes, self.capacity, self.clone())
        }
    }

    /// Whether the end that accepted the connection has the memory too.
    pub(super) fn is_accepted(&self) -> bool {
        self.header().accepted.load(Ordering::Acquire) != 0
    }

    /// From now on this end's bytes go into the ring; so many went over the socket.
    pub(super) fn leave_socket(&self, way: Way, sent: u64) {
        let over_socket = &self.direction(way).over_socket;
        over_socket.store(sent.saturating_add(1), Ordering::Release);
    }

    /// How many bytes of a direction come over the socket, once that is known.
    pub(super) fn over_socket(&self, way: Way) -> Option<u64> {
        let stored = self.direction(way).over_socket.load(Ordering::Acquire);
        stored.checked_sub(1)
    }

    /// Asks for a table of last values, for the `count`th time.
    pub(super) fn ask_table(&self, count: u64) {
        self.header().table_asked.store(count, Ordering::Release);
    }

    /// The number of the last question, when it has not been answered.
    pub(super) fn table_question(&self) -> Option<u64> {
        let asked = self.header().table_asked.load(Ordering::Acquire);
        let answered = self.header().table_answered.load(Ordering::Relaxed);
        (asked != answered >> 1).then_some(asked)
    }

    /// Answers question `count`; a table has been `sent` before.
    pub(super) fn answer_table(&self, count: u64, sent: bool) {
        let answer = count << 1 | u64::from(sent);
        self.header()
            .table_answered
            .store(answer, Ordering::Release);
    }

    /// Whether question `count` was answered with a table, once it is answered.
    pub(super) fn table_answer(&self, count: u64) -> Option<bool> {
        let answer = self.header().table_answered.load(Ordering::Acquire);
        (answer >> 1 == count).then_some(answer & 1 != 0)
    }

    /// A word of the memory, for a test that writes nonsense into it.
    #[cfg(test)]
    #[allow(unsafe_code)]
    pub(super) fn word(&self, index: usize) -> &SharedWord {
        assert!(index < size_of::<Header>() / 8);
        // SAFETY: inside the header, which is made of such words and of gaps between them.
        unsafe { self.start.cast::<SharedWord>().add(index).as_ref() }
    }

    /// Words of the memory up to the end of its header.
    #[cfg(test)]
    pub(super) const WORDS: usize = size_of::<Header>() / 8;
}

impl Drop for Mapping {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length, and nobody has a reference any more: the ends
        // of the rings keep this alive.
        let _ = unsafe {
            let start = self.start.as_ptr().cast::<c_void>();
            rustix::mm::munmap(start, length(self.capacity))
        };
    }
}

/// # Errors
/// The system does not allow files of this length. It would not only refuse, but kill.
pub(super) fn within_file_limit(length: u64) -> io::Result<()> {
    let limit = getrlimit(Resource::Fsize).current;
    if limit.is_some_and(|limit| limit < length) {
        let text = "files may not be that long (ulimit -f)";
        return Err(io::Error::new(ErrorKind::FileTooLarge, text));
    }
    Ok(())
}

/// Bytes of the whole file.
const fn length(capacity: usize) -> usize {
    HEADER_BYTES + 2 * capacity
}

// As the table in docs/reference/protocol.md says: another implementation goes by it.
const _: () = assert!(offset_of!(Header, accepted) == 8);
const _: () = assert!(offset_of!(Header, directions) == 128);
const _: () = assert!(size_of::<RingHeader>() == 4 * 128);
const _: () = assert!(offset_of!(Direction, ring) == 0);
const _: () = assert!(offset_of!(Direction, over_socket) == 640 - 128);
const _: () = assert!(size_of::<Direction>() == 768 - 128);
const _: () = assert!(offset_of!(Header, table_asked) == 1408);
const _: () = assert!(offset_of!(Header, table_answered) == 1416);
// The bytes of the first word tell which layout the others have.
const _: () = assert!(offset_of!(Header, magic) == 0);
