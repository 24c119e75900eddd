//! The memory of a stream's ring: its bytes are mapped twice in succession, so that every sequence
//! of them is contiguous.
//!
//! ```text
//!   file      | header | bytes           |
//!   mapped    | header | bytes           | bytes once more  |
//! ```
//!
//! The file is sealed and anonymous. If both ends of a stream are on one machine, another process
//! maps it as well.

use std::ffi::c_void;
use std::io::{self, ErrorKind};
use std::mem::{offset_of, size_of};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use rustix::fs::FallocateFlags;
use rustix::mm::{MapFlags, ProtFlags};
use rustix::param::page_size;
use trunkline_ring::{ElementHeader, ElementMemory, RingShape, RingStart};

use crate::sync::{Arc, Ordering, SharedWord};

use super::sealed_file::{self, Mapped, SEALS, sealed_length, unusable};

/// Size of the smallest page, in which the header must fit.
const PAGE_MIN: usize = 4096;

/// Identifies the layout and its version. A file with another value is refused.
const MAGIC: u64 = u64::from_le_bytes(*b"TLSTR\0\0\x01");

/// The beginning of the file. Everything else is initially zero.
#[repr(C)]
struct Header {
    magic: SharedWord,
    ring: ElementHeader,
}

const _: () = assert!(size_of::<Header>() <= PAGE_MIN);
const _: () = assert!(offset_of!(Header, magic) == 0);

/// The memory of a stream's ring, mapped into this process.
pub struct StreamMemory {
    mapped: Mapped,
    ring_bytes: usize,
    shape: RingShape,
    start_at: RingStart,
    file: OwnedFd,
}

impl StreamMemory {
    /// Creates memory for the given `shape`, whose positions begin at `start`. If `is_touched` is
    /// true, all pages are allocated at once rather than at their first use.
    pub fn create(shape: RingShape, start: RingStart, is_touched: bool) -> io::Result<Arc<Self>> {
        let ring_bytes = ring_bytes(shape)?;
        let length = (page_size() + ring_bytes) as u64;
        let file = sealed_file::create(c"trunkline-stream", length)?;
        rustix::fs::fcntl_add_seals(&file, SEALS)?;
        if is_touched {
            // Allocate the memory here, so that a lack of memory is an error and not a signal at
            // first use.
            rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, length)?;
        }
        let memory = Self::map(file, ring_bytes, shape, start, is_touched)?;
        memory.element_memory_of_creator().initialise();
        memory.header().magic.store(MAGIC, Ordering::Release);
        Ok(Arc::new(memory))
    }

    /// Maps a file that another process has created for the same shape and start.
    pub fn accept(file: OwnedFd, shape: RingShape, start: RingStart) -> io::Result<Arc<Self>> {
        let length = sealed_length(&file, SEALS)?;
        let ring_bytes = ring_bytes(shape)?;
        if length != page_size() + ring_bytes {
            return Err(unusable(
                "the length of the shared memory is not that of this stream's ring",
            ));
        }
        let memory = Self::map(file, ring_bytes, shape, start, false)?;
        if memory.header().magic.load(Ordering::Acquire) != MAGIC {
            return Err(unusable(
                "the shared memory has the layout of a different version",
            ));
        }
        Ok(Arc::new(memory))
    }

    #[allow(
        unsafe_code,
        reason = "a mapping is a pointer to memory that the system provides"
    )]
    fn map(
        file: OwnedFd,
        ring_bytes: usize,
        shape: RingShape,
        start_at: RingStart,
        is_touched: bool,
    ) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let mut flags = MapFlags::SHARED;
        flags.set(MapFlags::POPULATE, is_touched);
        let mapped = Mapped::reserve(page_size() + 2 * ring_bytes)?;
        // SAFETY: both mappings lie in the range just reserved, into which nothing has a pointer. The
        // length of the file cannot change, because it is sealed.
        unsafe {
            let first = mapped.start().as_ptr().cast::<c_void>();
            let again = first.byte_add(page_size() + ring_bytes);
            let flags = flags | MapFlags::FIXED;
            rustix::mm::mmap(first, page_size() + ring_bytes, protection, flags, &file, 0)?;
            let offset = page_size() as u64;
            rustix::mm::mmap(again, ring_bytes, protection, flags, &file, offset)?;
        }
        Ok(Self {
            mapped,
            ring_bytes,
            shape,
            start_at,
            file,
        })
    }

    #[allow(unsafe_code)]
    fn header(&self) -> &Header {
        // SAFETY: the header stays mapped while `self` lives, is page-aligned, and consists only of
        // atomics, for which every bit pattern is a valid value.
        unsafe { self.mapped.start().cast::<Header>().as_ref() }
    }

    /// Returns the memory for one end of the ring. Called once for each end in this process.
    #[allow(unsafe_code)]
    pub fn element_memory(self: &Arc<Self>) -> ElementMemory {
        self.element_memory_for(self.clone())
    }

    /// Returns the memory during creation, before anything else uses it.
    fn element_memory_of_creator(&self) -> ElementMemory {
        self.element_memory_for(Arc::new(()))
    }

    #[allow(unsafe_code)]
    fn element_memory_for(&self, owner: Arc<dyn std::any::Any + Send + Sync>) -> ElementMemory {
        let header = NonNull::from(&self.header().ring);
        // SAFETY: the header and the 2 x `ring_bytes` bytes after it lie in the mapping and do not
        // overlap. The mapping lives as long as `owner` or, during creation, until the caller
        // returns. The bytes begin on a page boundary. The code that creates the ends asks for at most one of each kind, and in this
        // process nothing else accesses the bytes.
        unsafe {
            let bytes = self.mapped.start().byte_add(page_size());
            ElementMemory::from_raw(header, bytes, self.ring_bytes, true, self.shape, owner)
        }
        .starting_at(self.start_at)
    }

    /// The shape of the ring: element size and capacity.
    pub fn shape(&self) -> RingShape {
        self.shape
    }

    /// Returns the memory of unneeded bytes to the system. They read as zeros when they are next
    /// used. `position` and `len` describe a range of stream positions. Only the owner of the
    /// producer may call this, and only for the producer's free part.
    pub fn give_back(&self, position: u64, len: u64) {
        let ring = self.ring_bytes as u64;
        let start = position % ring;
        // Covers at most the ring, in whole pages; a range beyond the end of the ring continues at
        // its beginning.
        let len = len.min(ring);
        let first = (start, (start + len).min(ring));
        let rest = (0, (start + len).saturating_sub(ring));
        let page = page_size() as u64;
        for (from, to) in [first, rest] {
            let (from, to) = (from.next_multiple_of(page), to / page * page);
            if from < to {
                let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                // If the system does not support this, the memory stays in use.
                let _ = rustix::fs::fallocate(&self.file, flags, page + from, to - from);
            }
        }
    }

    /// Bytes of system memory in use.
    pub fn resident_bytes(&self) -> io::Result<u64> {
        let blocks = rustix::fs::fstat(&self.file)?.st_blocks;
        Ok(u64::try_from(blocks).unwrap_or(0).saturating_mul(512))
    }
}

impl AsFd for StreamMemory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl std::fmt::Debug for StreamMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamMemory")
            .field("shape", &self.shape)
            .field("ring_bytes", &self.ring_bytes)
            .finish_non_exhaustive()
    }
}

/// Rounds the maximum size of a ring up to whole pages.
fn ring_bytes(shape: RingShape) -> io::Result<usize> {
    let bytes = shape.bytes_max().checked_next_multiple_of(page_size());
    bytes
        .filter(|bytes| *bytes < isize::MAX as usize / 4)
        .ok_or(ErrorKind::OutOfMemory.into())
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;

    fn shape(bytes: usize) -> RingShape {
        RingShape::variable(bytes, 1000).unwrap()
    }

    /// NS-20, NS-21
    #[test]
    fn data_across_the_end_of_the_ring_is_contiguous() {
        let memory = StreamMemory::create(shape(8192), RingStart::default(), true).unwrap();
        let mut producer = memory.element_memory().producer();
        let mut consumer = memory.element_memory().consumer();
        assert!(producer.push(&[1; 8000], 1).unwrap());
        assert!(consumer.has(8000, 1).unwrap());
        consumer.release(8000, 1);
        let bytes: Vec<u8> = (0..1000).map(|i| i as u8).collect();
        assert!(producer.push(&bytes, 1).unwrap());
        assert!(consumer.has(1000, 1).unwrap());
        let [piece, rest] = consumer.region_at(8000, 1000).unwrap();
        assert_eq!((piece, rest), (bytes.as_slice(), [].as_slice()));
    }

    #[test]
    fn another_mapping_of_the_file_is_the_same_ring() {
        let start = RingStart {
            position: 12_345,
            elements: 17,
        };
        let near = StreamMemory::create(shape(5000), start, false).unwrap();
        let file = near.as_fd().try_clone_to_owned().unwrap();
        let far = StreamMemory::accept(file, shape(5000), start).unwrap();
        let mut producer = near.element_memory().producer();
        let mut consumer = far.element_memory().consumer();
        assert!(producer.push(b"an element", 1).unwrap());
        let mut read = [0; 10];
        assert!(consumer.pull(&mut read, 1).unwrap());
        assert_eq!(&read, b"an element");
        assert_eq!(
            (consumer.read_position(), consumer.read_elements()),
            (12_355, 18)
        );
    }

    #[test]
    fn a_file_that_is_not_this_ring_is_refused() {
        let start = RingStart::default();
        let other = StreamMemory::create(shape(5000), start, false).unwrap();
        let file = other.as_fd().try_clone_to_owned().unwrap();
        let error = StreamMemory::accept(file, shape(9000), start).unwrap_err();
        assert!(error.to_string().contains("length"), "{error}");
        let unsealed = sealed_file::create(c"other", 12288).unwrap();
        let error = StreamMemory::accept(unsealed, shape(5000), start).unwrap_err();
        assert!(error.to_string().contains("is not fixed"), "{error}");
    }

    /// F25
    #[test]
    fn released_memory_is_returned_to_the_system() {
        let bytes = 1 << 20;
        let memory = StreamMemory::create(shape(bytes), RingStart::default(), false).unwrap();
        let mut producer = memory.element_memory().producer();
        let mut consumer = memory.element_memory().consumer();
        let before = memory.resident_bytes().unwrap();
        assert!(
            before <= 2 * page_size() as u64,
            "{before} bytes are in use before the first write"
        );
        let full = vec![7; bytes];
        assert!(producer.push(&full, 1).unwrap());
        assert!(memory.resident_bytes().unwrap() >= bytes as u64);
        assert!(consumer.has(bytes as u64, 1).unwrap());
        consumer.release(bytes as u64, 1);
        memory.give_back(producer.written(), bytes as u64);
        assert!(memory.resident_bytes().unwrap() <= 2 * page_size() as u64);
        // The memory is allocated again when it is used.
        assert!(producer.push(&full, 1).unwrap());
        assert!(consumer.has(bytes as u64, 1).unwrap());
        let [piece, _] = consumer.region_at(bytes as u64, bytes).unwrap();
        assert!(piece.iter().all(|byte| *byte == 7));
    }
}
