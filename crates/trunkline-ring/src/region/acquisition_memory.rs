//! The memory of a ring of regions, which another process may share.
//!
//! ```text
//!   | bytes of the ring, page-aligned | header | unused, up to a whole page
//! ```
//!
//! The bytes come first, so that they begin at a huge page if huge pages are used.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use super::losses::LossHeader;
use super::pages::{Mapped, Pages, PagesWanted, invalid_memory};
use super::parts::{LossMemory, Losses, Parts};
use super::{RegionDrain, RegionFiller, RegionReader, RegionWriter};
use crate::element_ring::{ElementHeader, ElementMemory, RingShape};
use crate::sync::{Arc, AtomicU64, Ordering};

/// The length of a ring's memory is a multiple of this. No disk has larger blocks, and no supported
/// system has smaller pages.
const BLOCK_BYTES: usize = 4096;

/// Identifies the layout and its version. A file with another value is refused.
const MAGIC: u64 = u64::from_le_bytes(*b"TLREG\0\0\x01");

/// The header after the bytes. A header of zeros is an empty ring.
#[repr(C)]
struct Header {
    magic: AtomicU64,
    element_bytes: AtomicU64,
    capacity: AtomicU64,
    ring: ElementHeader,
    losses: LossHeader,
}

const _: () = assert!(size_of::<Header>() <= BLOCK_BYTES);

/// Page-aligned memory of a ring of regions, filled by a device, a thread or another process.
///
/// Pass its descriptor ([`AsFd`]) to another process, which opens it with [`accept`](Self::accept).
pub struct RegionMemory {
    mapped: Mapped,
    shape: RingShape,
    pages: Pages,
}

impl LossMemory for RegionMemory {
    fn losses(&self) -> &LossHeader {
        &self.header().losses
    }
}

impl RegionMemory {
    /// Allocates memory for `capacity` elements of `element_bytes` bytes each. The total must be a
    /// multiple of 4096 bytes. All pages exist when this returns.
    ///
    /// # Errors
    /// `InvalidInput`: the size is not a multiple of 4096 bytes; the message contains suitable
    /// sizes. Any other error: the system provides no memory, no pages of the required kind, or no
    /// descriptor.
    pub fn create(
        element_bytes: usize,
        capacity: usize,
        pages: PagesWanted,
    ) -> io::Result<Arc<Self>> {
        let shape = whole_blocks(element_bytes, capacity)?;
        let (mapped, pages) = Mapped::create(shape.bytes_max() + BLOCK_BYTES, pages)?;
        let memory = Self {
            mapped,
            shape,
            pages,
        };
        let header = memory.header();
        let [element_bytes, capacity] = [element_bytes, capacity].map(|number| number as u64);
        header.element_bytes.store(element_bytes, Ordering::Relaxed);
        header.capacity.store(capacity, Ordering::Relaxed);
        header.magic.store(MAGIC, Ordering::Release);
        Ok(Arc::new(memory))
    }

    /// Maps the memory of a descriptor that another process has created.
    ///
    /// # Errors
    /// `InvalidData`: the descriptor does not refer to such memory. Any other error: the system
    /// cannot map it.
    pub fn accept(file: OwnedFd) -> io::Result<Arc<Self>> {
        let mapped = Mapped::accept(file)?;
        // The header follows the ring's bytes. With ordinary pages it is in the last block of the
        // mapping. With huge pages it may be up to one huge page earlier, so search for it.
        let shape = (1..=mapped.bytes() / BLOCK_BYTES)
            .map(|blocks| mapped.bytes() - blocks * BLOCK_BYTES)
            .take(1 + (2 << 20) / BLOCK_BYTES)
            .find_map(|at| header_at(&mapped, at))
            .ok_or_else(|| invalid_memory("it has no header that matches its length"))?;
        Ok(Arc::new(Self {
            mapped,
            shape,
            pages: Pages::UnknownOfPeer,
        }))
    }

    pub fn pages(&self) -> Pages {
        self.pages
    }

    pub fn shape(&self) -> RingShape {
        self.shape
    }

    /// Returns the address and length of the ring's bytes, which a backend registers with the
    /// kernel.
    pub fn span(&self) -> (NonNull<u8>, usize) {
        (self.mapped.start(), self.shape.bytes_max())
    }

    /// Returns the end for a device that is recorded. Create it only once, in one of the processes.
    ///
    /// # Safety
    /// In this process no other writer is created from this memory.
    pub unsafe fn filler(self: &Arc<Self>) -> RegionFiller {
        RegionFiller::new(self.parts())
    }

    /// Returns the end from which a recording is made. At most `lent_max` regions may be lent at a
    /// time.
    ///
    /// # Safety
    /// In this process no other reader is created from this memory.
    pub unsafe fn reader(self: &Arc<Self>, lent_max: usize) -> RegionReader {
        RegionReader::new(self.parts(), lent_max)
    }

    /// Creates memory and both ends for a recording in one process.
    pub fn for_recording(
        element_bytes: usize,
        capacity: usize,
        pages: PagesWanted,
        lent_max: usize,
    ) -> io::Result<(Arc<Self>, RegionFiller, RegionReader)> {
        let memory = Self::create(element_bytes, capacity, pages)?;
        // SAFETY: one end of each kind; a caller that creates more from the memory gives its own
        // guarantee.
        let (filler, reader) = unsafe { (memory.filler(), memory.reader(lent_max)) };
        Ok((memory, filler, reader))
    }

    /// Creates memory and both ends for playback in one process.
    pub fn for_playback(
        element_bytes: usize,
        capacity: usize,
        pages: PagesWanted,
        lent_max: usize,
    ) -> io::Result<(Arc<Self>, RegionWriter, RegionDrain)> {
        let memory = Self::create(element_bytes, capacity, pages)?;
        let writer = RegionWriter::new(memory.parts(), lent_max);
        let drain = RegionDrain::new(memory.parts());
        Ok((memory, writer, drain))
    }

    fn header(&self) -> &Header {
        // SAFETY: behind the bytes and inside the mapping, which is a block longer than they are
        // and lives as long as this; aligned because the bytes are whole blocks; consists only of
        // atomics, for which every bit pattern is a valid value.
        unsafe {
            let start = self.mapped.start().byte_add(self.shape.bytes_max());
            start.cast::<Header>().as_ref()
        }
    }

    fn parts(self: &Arc<Self>) -> Parts {
        let header = NonNull::from(&self.header().ring);
        // SAFETY: the bytes are initialised and lie in the mapping, before the header, for as long
        // as the owner lives; they begin at a page. The callers guarantee that there is one end of
        // each kind.
        let memory = unsafe {
            let (start, bytes) = self.span();
            ElementMemory::from_raw(header, start, bytes, false, self.shape, self.clone())
        };
        let losses: Losses = self.clone();
        Parts { memory, losses }
    }
}

impl AsFd for RegionMemory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.mapped.file.as_fd()
    }
}

impl std::fmt::Debug for RegionMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RegionMemory")
            .field("shape", &self.shape)
            .field("pages", &self.pages)
            .finish_non_exhaustive()
    }
}

/// Returns the shape if a matching header is at `at`.
fn header_at(mapped: &Mapped, at: usize) -> Option<RingShape> {
    // SAFETY: at least a block before the end of the mapping, so a whole header fits; aligned to a
    // block; consists only of atomics, for which every bit pattern is a valid value.
    let header = unsafe { mapped.start().byte_add(at).cast::<Header>().as_ref() };
    if header.magic.load(Ordering::Acquire) != MAGIC {
        return None;
    }
    let number = |word: &AtomicU64| usize::try_from(word.load(Ordering::Relaxed)).ok();
    let shape = whole_blocks(number(&header.element_bytes)?, number(&header.capacity)?).ok()?;
    (shape.bytes_max() == at).then_some(shape)
}

/// Returns the shape if the elements fill whole blocks.
fn whole_blocks(element_bytes: usize, capacity: usize) -> io::Result<RingShape> {
    let invalid = |text: String| io::Error::new(io::ErrorKind::InvalidInput, text);
    let shape = RingShape::fixed(element_bytes, capacity).ok_or_else(|| {
        invalid(format!(
            "a ring of {capacity} elements of {element_bytes} bytes is empty or larger than the \
             address space; choose another capacity"
        ))
    })?;
    if !shape.bytes_max().is_multiple_of(BLOCK_BYTES) {
        // Elements fill whole blocks if their number is a multiple of this. The odd factor of the
        // element size is not relevant.
        let step = BLOCK_BYTES >> element_bytes.trailing_zeros().min(12);
        let (less, more) = (capacity / step * step, capacity.next_multiple_of(step));
        return Err(invalid(format!(
            "{capacity} elements of {element_bytes} bytes are not a multiple of {BLOCK_BYTES} bytes; \
             use {less} or {more} elements"
        )));
    }
    Ok(shape)
}
