//! The reading end of an element ring.

use super::memory::ElementMemory;
use super::producer::elements;
use super::shape::{RingShape, RingStart};
use crate::byte_ring::Corrupt;
use crate::sync::Ordering;
use crate::waits::Waits;

/// The reading end of a ring: the reading program of a stream, or the sender that serves the
/// writing program.
///
/// # Real-time
/// Every operation is wait-free and makes no system call.
pub struct ElementConsumer {
    memory: ElementMemory,
    /// Own position. The copy in the header is for the other end only.
    read: RingStart,
    /// Index of `read` in the ring.
    index: usize,
    /// The producer's position at the last check that accepted it; the actual one may be ahead.
    written_seen: RingStart,
    waits: Waits,
}

impl ElementConsumer {
    pub(super) fn new(memory: ElementMemory) -> Self {
        Self {
            read: memory.start,
            index: memory.first_index(),
            written_seen: memory.start,
            waits: Waits::default(),
            memory,
        }
    }

    #[inline]
    pub fn shape(&self) -> RingShape {
        self.memory.shape
    }

    /// Position before which everything was released.
    #[inline]
    pub fn read(&self) -> u64 {
        self.read.position
    }

    /// Number of elements released since the beginning.
    #[inline]
    pub fn read_elements(&self) -> u64 {
        elements(self.memory.shape, self.read)
    }

    /// Copies out and releases the next `bytes.len()` bytes, in which `elements` elements end.
    /// Takes either all of them or, if they have not all arrived, none.
    #[inline(always)]
    pub fn pull(&mut self, bytes: &mut [u8], elements: u64) -> Result<bool, Corrupt> {
        if !self.has(bytes.len() as u64, elements)? {
            return Ok(false);
        }
        // SAFETY: `index` is below the ring's size. That many bytes from it on have been written,
        // and belong to the consumer until it releases them.
        unsafe { self.memory.bytes.read(self.index, bytes) };
        self.take(bytes.len(), elements);
        Ok(true)
    }

    /// Returns true if `bytes` with `elements` elements are available. The producer can only add to
    /// them.
    #[inline(always)]
    pub fn has(&mut self, bytes: u64, elements: u64) -> Result<bool, Corrupt> {
        if self.knows(bytes, elements) {
            return Ok(true);
        }
        self.look()?;
        Ok(self.knows(bytes, elements))
    }

    /// Returns the bytes and whole elements that are available now.
    pub fn available(&mut self) -> Result<(u64, u64), Corrupt> {
        self.look()?;
        let bytes = self.known_bytes();
        let elements = match self.memory.shape.element_bytes() {
            // An element does not count once the sender has released a part of it.
            Some(size) => {
                let (size, read) = (size as u64, self.read.position);
                (self.written_seen.position / size).saturating_sub(read.div_ceil(size))
            }
            None => self.written_seen.elements - self.read.elements,
        };
        Ok((bytes, elements))
    }

    /// Returns the two pieces of `len` bytes from `position` on. The second is empty if the bytes
    /// are contiguous, as they always are in mirrored memory. Returns `None` if not all of them are
    /// known to be available: call [`has`](Self::has) first.
    #[cfg(not(loom))]
    pub fn region_at(&self, position: u64, len: usize) -> Option<[&[u8]; 2]> {
        let ahead = self.ahead(position, len)?;
        let at = self.memory.index_after(self.index, ahead);
        // SAFETY: inside the written part, which belongs to the consumer until it releases it, and
        // this borrow ends before that.
        Some(unsafe { self.memory.bytes.pieces(at, len) })
    }

    /// Copies bytes out from `position` on without releasing them. Returns false if not all of them
    /// are known to be available.
    pub fn read_at(&self, position: u64, bytes: &mut [u8]) -> bool {
        let Some(ahead) = self.ahead(position, bytes.len()) else {
            return false;
        };
        let at = self.memory.index_after(self.index, ahead);
        // SAFETY: inside the written part, which belongs to the consumer.
        unsafe { self.memory.bytes.read(at, bytes) };
        true
    }

    /// Releases the next `bytes`, in which `elements` elements end, after their use in place.
    ///
    /// # Panics
    /// Fewer bytes or elements are available, which is a mistake in the program.
    #[inline]
    pub fn release(&mut self, bytes: u64, elements: u64) {
        assert!(
            self.knows(bytes, elements),
            "{bytes} bytes with {elements} elements are given back where there are fewer"
        );
        // At most the ring's capacity, which is a usize.
        self.take(bytes as usize, elements);
    }

    /// Returns true if the producer waits for the bytes just released and must be woken. Call it
    /// after releasing. It costs a full fence, so one call for many releases is better than one for
    /// each.
    #[inline]
    pub fn must_wake(&mut self) -> bool {
        let header = self.memory.header();
        self.waits.is_other_waiting(&header.producer_waits.0)
    }

    /// As [`must_wake`](Self::must_wake) without its fence, which would cost more than reading an
    /// element does. A producer that begins to wait at this very moment may be missed, so the
    /// producer must check again some time after it announced that it waits.
    #[inline]
    pub fn glance_wake(&mut self) -> bool {
        let header = self.memory.header();
        self.waits.glance(&header.producer_waits.0)
    }

    /// Announces that the consumer is about to sleep because `bytes` with `elements` elements are
    /// not available. From then on the producer's next
    /// [`must_wake`](super::ElementProducer::must_wake) returns true. Returns false if they have
    /// arrived: then the consumer must not sleep.
    pub fn wait_for(&mut self, bytes: u64, elements: u64) -> Result<bool, Corrupt> {
        self.waits.say(&self.memory.header().consumer_waits.0);
        Ok(!self.has(bytes, elements)?)
    }

    /// Returns the position up to which the producer has published bytes.
    pub fn written(&mut self) -> Result<u64, Corrupt> {
        self.look()?;
        Ok(self.written_seen.position)
    }

    /// Returns the number of elements the producer has published since the beginning.
    pub fn written_elements(&mut self) -> Result<u64, Corrupt> {
        self.look()?;
        Ok(elements(self.memory.shape, self.written_seen))
    }

    /// Returns the distance to `position` if `len` bytes from there on are known to be available.
    fn ahead(&self, position: u64, len: usize) -> Option<usize> {
        let ahead = position.checked_sub(self.read.position)?;
        let end = ahead.checked_add(len as u64)?;
        // At most the ring's capacity, which is a usize.
        (end <= self.known_bytes()).then_some(ahead as usize)
    }

    #[inline(always)]
    fn known_bytes(&self) -> u64 {
        self.written_seen.position - self.read.position
    }

    #[inline(always)]
    fn knows(&self, bytes: u64, elements: u64) -> bool {
        bytes <= self.known_bytes()
            && (!self.memory.shape.counts()
                || elements <= self.written_seen.elements - self.read.elements)
    }

    #[inline(always)]
    fn take(&mut self, bytes: usize, elements: u64) {
        self.read.position += bytes as u64;
        self.index = self.memory.index_after(self.index, bytes);
        let place = &self.memory.header().read.0;
        if self.memory.shape.counts() {
            self.read.elements += elements;
            place.elements.store(self.read.elements, Ordering::Relaxed);
        }
        // SYNC POINT, pairs with the acquire load in `ElementProducer::look`: the bytes are used
        // before they are released.
        place.position.store(self.read.position, Ordering::Release);
    }

    /// Loads and checks the producer's position.
    #[cold]
    fn look(&mut self) -> Result<(), Corrupt> {
        let shape = self.memory.shape;
        let place = &self.memory.header().written.0;
        if shape.counts() {
            // SYNC POINT, pairs with the release store in `ElementProducer::give`: the position
            // loaded next is not before the elements counted here.
            let elements = place.elements.load(Ordering::Acquire);
            let most = self.read.elements.saturating_add(shape.capacity());
            if !(self.written_seen.elements..=most).contains(&elements) {
                return Err(Corrupt);
            }
            self.written_seen.elements = elements;
        }
        // SYNC POINT, pairs with the release store in `ElementProducer::give`: the bytes before the
        // position have been written.
        let position = place.position.load(Ordering::Acquire);
        // A producer cannot have more in the ring than fits, nor take back bytes it published.
        let most = self.read.position.saturating_add(shape.bytes_max() as u64);
        if !(self.written_seen.position..=most).contains(&position) {
            return Err(Corrupt);
        }
        self.written_seen.position = position;
        Ok(())
    }
}

impl std::fmt::Debug for ElementConsumer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ElementConsumer")
            .field("read", &self.read)
            .field("written_seen", &self.written_seen)
            .finish_non_exhaustive()
    }
}
