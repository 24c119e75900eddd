//! Memory that two processes have mapped: a sealed anonymous file.

use std::io;
use std::mem::{offset_of, size_of};
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;

use rustix::mm::ProtFlags;
use trunkline_ring::{RingHeader, RingMemory};

use super::sealed_file::{self, Mapped, SEALS, sealed_length, unusable};
use crate::sync::{Arc, Ordering, SharedWord};

/// Capacity in bytes of each direction's ring.
pub(super) const CAPACITY: usize = 256 << 10;

/// Largest capacity in bytes that a peer may choose.
const CAPACITY_MAX: usize = 4 << 20;
/// Smallest capacity in bytes that a peer may choose.
const CAPACITY_MIN: usize = 4 << 10;

/// Offset of the first ring.
const HEADER_BYTES: usize = 4096;

/// Identifies the layout and its version. A file with another value is refused.
const MAGIC: u64 = u64::from_le_bytes(*b"TLSHM\0\0\x01");

/// The beginning of the memory. Everything else is initially zero.
#[repr(C)]
struct Header {
    magic: SharedWord,
    /// 1 once the end that accepted the connection has mapped the memory.
    accepted: SharedWord,
    directions: [Direction; 2],
    /// Number of requests of the dialler for a table of last values.
    table_asked: SharedWord,
    /// Twice the number of the last request that the acceptor has answered, plus 1 if it sent a
    /// table.
    table_answered: SharedWord,
}

#[repr(C)]
struct Direction {
    ring: RingHeader,
    /// Number of bytes in this direction that went over the socket before the first byte went into
    /// the ring, plus 1; 0 if no byte has gone into the ring yet.
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
    mapped: Mapped,
    capacity: usize,
}

impl Mapping {
    /// Creates the memory, and the file to pass to the other process.
    pub(super) fn create() -> io::Result<(Arc<Self>, OwnedFd)> {
        let file = sealed_file::create(c"trunkline", length(CAPACITY) as u64)?;
        rustix::fs::fcntl_add_seals(&file, SEALS)?;
        let mapping = Self::map(&file, CAPACITY)?;
        mapping.header().magic.store(MAGIC, Ordering::Relaxed);
        Ok((Arc::new(mapping), file))
    }

    /// Maps the file that another process has created.
    pub(super) fn accept(file: OwnedFd) -> io::Result<Arc<Self>> {
        let length = sealed_length(&file, SEALS)?;
        let capacity = length.saturating_sub(HEADER_BYTES) / 2;
        let is_whole = length == self::length(capacity) && capacity.is_power_of_two();
        if !is_whole || !(CAPACITY_MIN..=CAPACITY_MAX).contains(&capacity) {
            return Err(unusable(
                "the length of the shared memory is not that of two rings",
            ));
        }
        let mapping = Self::map(&file, capacity)?;
        if mapping.header().magic.load(Ordering::Relaxed) != MAGIC {
            return Err(unusable(
                "the shared memory has the layout of a different version",
            ));
        }
        mapping.header().accepted.store(1, Ordering::Release);
        Ok(Arc::new(mapping))
    }

    fn map(file: impl AsFd, capacity: usize) -> io::Result<Self> {
        let mapped = Mapped::new(file, length(capacity), ProtFlags::READ | ProtFlags::WRITE)?;
        Ok(Self { mapped, capacity })
    }

    #[allow(unsafe_code)]
    fn header(&self) -> &Header {
        // SAFETY: mapped while this lives, page-aligned, and consists only of atomics, for which
        // every bit pattern is a valid value.
        unsafe { self.mapped.start().cast::<Header>().as_ref() }
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
            let bytes = self.mapped.start().add(offset);
            RingMemory::from_raw(header, bytes, self.capacity, self.clone())
        }
    }

    /// Returns true if the accepting end has mapped the memory too.
    pub(super) fn is_accepted(&self) -> bool {
        self.header().accepted.load(Ordering::Acquire) != 0
    }

    /// Switches this end's output to the ring, after `sent` bytes over the socket.
    pub(super) fn leave_socket(&self, way: Way, sent: u64) {
        let over_socket = &self.direction(way).over_socket;
        over_socket.store(sent.saturating_add(1), Ordering::Release);
    }

    /// Returns the number of bytes in a direction that come over the socket, once it is known.
    pub(super) fn over_socket(&self, way: Way) -> Option<u64> {
        let stored = self.direction(way).over_socket.load(Ordering::Acquire);
        stored.checked_sub(1)
    }

    /// Requests a table of last values; `count` is the number of the request.
    pub(super) fn request_table(&self, count: u64) {
        self.header().table_asked.store(count, Ordering::Release);
    }

    /// Returns the number of the last request if it has not been answered.
    pub(super) fn table_request(&self) -> Option<u64> {
        let asked = self.header().table_asked.load(Ordering::Acquire);
        let answered = self.header().table_answered.load(Ordering::Relaxed);
        (asked != answered >> 1).then_some(asked)
    }

    /// Answers request `count`. `sent` is true if a table has been sent.
    pub(super) fn answer_table(&self, count: u64, sent: bool) {
        let answer = count << 1 | u64::from(sent);
        self.header()
            .table_answered
            .store(answer, Ordering::Release);
    }

    /// Returns true if request `count` was answered with a table, or `None` if it has not been
    /// answered yet.
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
        unsafe { self.mapped.start().cast::<SharedWord>().add(index).as_ref() }
    }

    /// Number of words of the header.
    #[cfg(test)]
    pub(super) const WORDS: usize = size_of::<Header>() / 8;
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
