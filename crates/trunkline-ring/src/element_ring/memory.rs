//! The memory of a ring: what the two ends share.

#[cfg(not(loom))]
use std::any::Any;
use std::ptr::NonNull;

use super::bytes::Bytes;
use super::consumer::ElementConsumer;
use super::observer::ElementObserver;
use super::producer::ElementProducer;
use super::shape::{RingShape, RingStart};
use crate::padded::Padded;
use crate::sync::{Arc, AtomicU64, Ordering};

/// What the two ends share beside the bytes. All zero is an empty ring that begins at 0.
#[derive(Debug, Default)]
#[repr(C)]
pub struct ElementHeader {
    pub(super) written: Padded<Place>,
    pub(super) read: Padded<Place>,
    /// How often the consumer has waited, and the producer.
    pub(super) consumer_waits: Padded<AtomicU64>,
    pub(super) producer_waits: Padded<AtomicU64>,
}

/// How far an end has come. Either number alone only grows, and is a bound by itself: nobody needs
/// both of one instant.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Place {
    pub(super) position: AtomicU64,
    /// Elements; 0 where they are of one size.
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

// SAFETY: the header is made of atomics; the bytes are reached only through an end, which is not
// shared; the owner may be dropped by any thread.
unsafe impl Send for ElementMemory {}

/// What keeps the memory where it is.
#[cfg(not(loom))]
type Owner = Arc<dyn Any + Send + Sync>;
#[cfg(loom)]
type Owner = Arc<Plain>;

impl ElementMemory {
    /// Memory at a place of the caller's choice, such as a mapping that two programs share.
    /// `ring_bytes` is how many bytes are at `bytes`, at least the shape's; when it `is_mirrored`,
    /// the same bytes follow once more.
    ///
    /// # Panics
    /// `ring_bytes` is less than the shape's.
    ///
    /// # Safety
    /// `header`, and `ring_bytes` at `bytes` (twice that when mirrored), are initialised, valid for
    /// reads and writes, and aligned for the elements and for whoever uses them in place, for as
    /// long as `owner` lives; header and bytes do not overlap. In this program nobody else touches
    /// the bytes, except one other end made of the same memory, which is of the other kind. Another
    /// program may change any of it at any time: the header is checked, and a byte that it changes
    /// out of turn is just another byte, so it must be one for whoever uses it in place.
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
            "the memory of a ring holds what may lie in it: {} bytes, not {ring_bytes}",
            shape.bytes_max()
        );
        Self {
            header,
            bytes: Bytes {
                start: bytes,
                len: ring_bytes,
                is_mirrored,
            },
            shape,
            start: RingStart::default(),
            _owner: owner,
        }
    }

    /// This end counts from `start` on. The memory must begin there too.
    #[must_use]
    pub fn starting_at(mut self, start: RingStart) -> Self {
        self.start = start;
        self
    }

    /// Makes the memory one that begins where this end does: for who creates it, before anybody
    /// else has it. Not needed for a beginning at 0.
    pub fn initialise(&self) {
        for place in [&self.header().written, &self.header().read] {
            place.elements.store(self.start.elements, Ordering::Relaxed);
            place.position.store(self.start.position, Ordering::Release);
        }
    }

    /// The end that elements go into.
    #[must_use]
    pub fn producer(self) -> ElementProducer {
        ElementProducer::new(self)
    }

    /// The end that elements come out of.
    #[must_use]
    pub fn consumer(self) -> ElementConsumer {
        ElementConsumer::new(self)
    }

    /// Looks on without being one of the ends.
    #[must_use]
    pub fn observer(self) -> ElementObserver {
        ElementObserver::new(self)
    }

    #[inline]
    pub(super) fn header(&self) -> &ElementHeader {
        // SAFETY: valid for as long as the owner lives, which this keeps; made of atomics.
        unsafe { self.header.as_ref() }
    }

    /// Where the first byte lies.
    pub(super) fn first_index(&self) -> usize {
        // Below the ring's size, which is a usize.
        (self.start.position % self.bytes.len() as u64) as usize
    }

    /// The index `steps`, at most the ring's size, behind `index`.
    #[inline]
    pub(super) fn index_after(&self, index: usize, steps: usize) -> usize {
        let sum = index + steps;
        if sum < self.bytes.len() {
            sum
        } else {
            sum - self.bytes.len()
        }
    }
}

/// A ring in the memory of this program alone, which is not mirrored.
#[must_use]
pub fn element_ring(shape: RingShape, start: RingStart) -> (ElementProducer, ElementConsumer) {
    let (for_producer, for_consumer) = plain(shape, start);
    (for_producer.producer(), for_consumer.consumer())
}

/// The same memory for either end.
pub(crate) fn plain(shape: RingShape, start: RingStart) -> (ElementMemory, ElementMemory) {
    let owner = Arc::new(Plain::new(shape.bytes_max()));
    let memory = |owner: &Arc<Plain>| ElementMemory {
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

/// Memory of this program alone.
struct Plain {
    header: ElementHeader,
    #[cfg(not(loom))]
    lines: Box<[Line]>,
    #[cfg(not(loom))]
    len: usize,
    #[cfg(loom)]
    slab: Arc<crate::slab::Slab<u8>>,
}

// SAFETY: the header is made of atomics; the lines are reached only through an end.
#[cfg(not(loom))]
unsafe impl Send for Plain {}
// SAFETY: as above.
#[cfg(not(loom))]
unsafe impl Sync for Plain {}

#[cfg(not(loom))]
impl Plain {
    fn new(len: usize) -> Self {
        // Written one by one and not asked for as zeroes: that touches every page.
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
            is_mirrored: false,
        }
    }
}

#[cfg(loom)]
impl Plain {
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
