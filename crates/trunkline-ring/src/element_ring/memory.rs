//! The memory of a ring that both ends share.

#[cfg(not(loom))]
use std::any::Any;
use std::ptr::NonNull;

use super::ends::{Bytes, ElementConsumer, ElementProducer};
use super::observer::ElementObserver;
use super::shape::{RingShape, RingStart};
use crate::padded::Padded;
use crate::sync::{Arc, AtomicU64, Ordering};

/// The shared header of an element ring. A header of zeros is an empty ring that begins at 0.
#[derive(Debug, Default)]
#[repr(C)]
pub struct ElementHeader {
    pub(super) written: Padded<Progress>,
    pub(super) read: Padded<Progress>,
    /// Number of times that the consumer has announced that it is waiting.
    pub(super) consumer_wait_count: Padded<AtomicU64>,
    /// Number of times that the producer has announced that it is waiting.
    pub(super) producer_wait_count: Padded<AtomicU64>,
}

/// The progress of an end. Each of the two numbers only grows, and each can be used by itself: no
/// code needs values of both at the same instant.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Progress {
    pub(super) position: AtomicU64,
    /// Element count; 0 if all elements have the same size.
    pub(super) elements: AtomicU64,
}

/// Memory of a ring, for one of its two ends.
pub struct ElementMemory {
    header: NonNull<ElementHeader>,
    pub(super) bytes: Bytes,
    pub(super) shape: RingShape,
    pub(super) start: RingStart,
    _owner: Owner,
}

// SAFETY: the header consists of atomics; the bytes are reached only through an end, which is not
// shared; the owner may be dropped by any thread.
unsafe impl Send for ElementMemory {}

/// Keeps the memory valid.
#[cfg(not(loom))]
type Owner = Arc<dyn Any + Send + Sync>;
#[cfg(loom)]
type Owner = Arc<PrivateMemory>;

impl ElementMemory {
    /// Uses memory that the caller provides, such as a mapping that two programs share.
    /// `ring_bytes` is the number of bytes at `bytes`, at least the number that the shape requires.
    /// If the memory `is_mirrored`, the same bytes follow a second time.
    ///
    /// # Panics
    /// If `ring_bytes` is less than the shape requires.
    ///
    /// # Safety
    /// The header and the `ring_bytes` bytes at `bytes` (twice as many if mirrored) are
    /// initialised, and valid for reads and writes for as long as `owner` lives. They do not
    /// overlap. `header` is aligned for an [`ElementHeader`]; `bytes` is aligned for the type as
    /// which the elements are used in place. In this program nothing else accesses the bytes except
    /// one other end of the opposite kind made from the same memory. Another program may change
    /// header and bytes at any time: the ends check the header, and code that uses the bytes in
    /// place must accept every bit pattern.
    #[cfg(not(loom))]
    pub unsafe fn from_raw(
        header: NonNull<ElementHeader>,
        bytes: NonNull<u8>,
        ring_bytes: usize,
        is_mirrored: bool,
        shape: RingShape,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Self {
        assert!(
            ring_bytes >= shape.bytes_max(),
            "the memory of this ring must be at least {} bytes, but is {ring_bytes}",
            shape.bytes_max()
        );
        Self {
            header,
            bytes: Bytes {
                start: bytes,
                len: ring_bytes,
                mapped: ring_bytes * if is_mirrored { 2 } else { 1 },
            },
            shape,
            start: RingStart::default(),
            _owner: owner,
        }
    }

    /// Makes this end count from `start` on. The memory must begin there as well.
    pub fn starting_at(mut self, start: RingStart) -> Self {
        self.start = start;
        self
    }

    /// Writes the start position of this end to the header. The creator calls this before any
    /// other code has access to the memory. A ring that begins at 0 does not need it.
    pub fn initialise(&self) {
        for place in [&self.header().written, &self.header().read] {
            place.elements.store(self.start.elements, Ordering::Relaxed);
            place.position.store(self.start.position, Ordering::Release);
        }
    }

    pub fn producer(self) -> ElementProducer {
        ElementProducer::new(self)
    }

    pub fn consumer(self) -> ElementConsumer {
        ElementConsumer::new(self)
    }

    /// Returns an observer, which is neither of the two ends.
    pub fn observer(self) -> ElementObserver {
        ElementObserver::new(self)
    }

    #[inline]
    pub(super) fn header(&self) -> &ElementHeader {
        // SAFETY: valid for as long as the owner lives, and `self` keeps the owner alive;
        // consists of atomics.
        unsafe { self.header.as_ref() }
    }

    pub(super) fn first_index(&self) -> usize {
        // Fits, because it is below the ring's size, which is a usize.
        (self.start.position % self.bytes.len() as u64) as usize
    }
}

/// Creates a ring in private memory that is not mirrored.
pub fn element_ring(shape: RingShape, start: RingStart) -> (ElementProducer, ElementConsumer) {
    let (for_producer, for_consumer) = private_memory(shape, start);
    (for_producer.producer(), for_consumer.consumer())
}

/// Returns the same memory for both ends.
pub(crate) fn private_memory(shape: RingShape, start: RingStart) -> (ElementMemory, ElementMemory) {
    let owner = Arc::new(PrivateMemory::new(shape.bytes_max()));
    let memory = |owner: &Arc<PrivateMemory>| ElementMemory {
        header: NonNull::from(&owner.header),
        bytes: owner.bytes(),
        shape,
        start,
        _owner: owner.clone(),
    };
    let for_producer = memory(&owner);
    for_producer.initialise();
    (for_producer, memory(&owner))
}

/// Bytes aligned for any element.
#[cfg(not(loom))]
#[repr(align(64))]
struct Line(
    #[allow(dead_code, reason = "reached through a pointer")] std::cell::UnsafeCell<[u8; 64]>,
);

/// Memory that only this program uses.
struct PrivateMemory {
    header: ElementHeader,
    #[cfg(not(loom))]
    lines: Box<[Line]>,
    #[cfg(not(loom))]
    len: usize,
    #[cfg(loom)]
    slab: Arc<crate::slab::Slab<u8>>,
}

// SAFETY: the header consists of atomics; the lines are reached only through an end.
#[cfg(not(loom))]
unsafe impl Send for PrivateMemory {}
// SAFETY: as above.
#[cfg(not(loom))]
unsafe impl Sync for PrivateMemory {}

#[cfg(not(loom))]
impl PrivateMemory {
    fn new(len: usize) -> Self {
        // Writes each line, instead of allocating zeroed memory, in order to touch every page.
        let lines = (0..len.div_ceil(64)).map(|_| Line(std::cell::UnsafeCell::new([0; 64])));
        Self {
            header: ElementHeader::default(),
            lines: lines.collect(),
            len,
        }
    }

    fn bytes(&self) -> Bytes {
        // SAFETY: no slice begins at null.
        let start = unsafe { NonNull::new_unchecked(self.lines.as_ptr().cast_mut().cast()) };
        Bytes {
            start,
            len: self.len,
            mapped: self.len,
        }
    }
}

#[cfg(loom)]
impl PrivateMemory {
    fn new(len: usize) -> Self {
        Self {
            header: ElementHeader::default(),
            slab: Arc::new(crate::slab::Slab::new(len)),
        }
    }

    fn bytes(&self) -> Bytes {
        Bytes(self.slab.clone())
    }
}

impl std::fmt::Debug for ElementMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ElementMemory")
            .field("shape", &self.shape)
            .field("ring_bytes", &self.bytes.len())
            .finish_non_exhaustive()
    }
}
