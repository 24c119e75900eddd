//! The writing end of an element ring.

use super::memory::ElementMemory;
use super::shape::{RingShape, RingStart};
use crate::byte_ring::Corrupt;
use crate::sync::Ordering;
use crate::waits::Waits;

/// The writing end of a ring: the writing program of a stream, or the receiver that serves the
/// reading program.
///
/// # Real-time
/// Every operation is wait-free and makes no system call.
pub struct ElementProducer {
    memory: ElementMemory,
    /// Own position. The copy in the header is for the other end only.
    written: RingStart,
    /// Index of `written` in the ring.
    index: usize,
    /// The consumer's position at the last check that accepted it; the actual one may be ahead.
    read_seen: RingStart,
    waits: Waits,
}

impl ElementProducer {
    pub(super) fn new(memory: ElementMemory) -> Self {
        Self {
            written: memory.start,
            index: memory.first_index(),
            read_seen: memory.start,
            waits: Waits::default(),
            memory,
        }
    }

    #[inline]
    pub fn shape(&self) -> RingShape {
        self.memory.shape
    }

    /// Position up to which bytes were published.
    #[inline]
    pub fn written(&self) -> u64 {
        self.written.position
    }

    /// Number of elements published since the beginning.
    #[inline]
    pub fn written_elements(&self) -> u64 {
        elements(self.memory.shape, self.written)
    }

    /// Appends and publishes `bytes`, in which `elements` elements end. Writes either all of it or,
    /// if it does not fit now, nothing.
    #[inline(always)]
    pub fn push(&mut self, bytes: &[u8], elements: u64) -> Result<bool, Corrupt> {
        if !self.has_room(bytes.len() as u64, elements)? {
            return Ok(false);
        }
        // SAFETY: `index` is below the ring's size. That many bytes from it on are free, so they
        // belong to the producer until it publishes them.
        unsafe { self.memory.bytes.write(self.index, bytes) };
        self.give(bytes.len(), elements);
        Ok(true)
    }

    /// Returns true if `bytes` with `elements` elements fit now. The consumer can only make more
    /// room.
    #[inline(always)]
    pub fn has_room(&mut self, bytes: u64, elements: u64) -> Result<bool, Corrupt> {
        if self.knows_room(bytes, elements) {
            return Ok(true);
        }
        self.look()?;
        Ok(self.knows_room(bytes, elements))
    }

    /// Returns the number of bytes and elements that fit now. For elements of one size the second
    /// number follows from the first.
    pub fn room(&mut self) -> Result<(u64, u64), Corrupt> {
        self.look()?;
        let bytes = self.room_bytes();
        let elements = match self.memory.shape.element_bytes() {
            Some(size) => bytes / size as u64,
            None => self.memory.shape.capacity() - self.counted(),
        };
        Ok((bytes, elements))
    }

    /// Returns the two pieces of the free memory from `position` on, of `len` bytes together. The
    /// second is empty if the bytes are contiguous, as they always are in mirrored memory. Returns
    /// `None` if not all of it is known to be free: call [`has_room`](Self::has_room) first.
    ///
    /// [`commit`](Self::commit) publishes what is written there.
    #[cfg(not(loom))]
    pub fn free_at(&mut self, position: u64, len: usize) -> Option<[&mut [u8]; 2]> {
        let ahead = self.ahead(position, len)?;
        let at = self.memory.index_after(self.index, ahead);
        // SAFETY: inside the free part, which belongs to the producer until it publishes it, and
        // this borrow ends before that.
        Some(unsafe { self.memory.bytes.pieces_mut(at, len) })
    }

    /// Writes into the free memory at `position` without publishing it. Returns false if not all of
    /// it is known to be free.
    pub fn write_at(&mut self, position: u64, bytes: &[u8]) -> bool {
        let Some(ahead) = self.ahead(position, bytes.len()) else {
            return false;
        };
        let at = self.memory.index_after(self.index, ahead);
        // SAFETY: inside the free part, which belongs to the producer.
        unsafe { self.memory.bytes.write(at, bytes) };
        true
    }

    /// Publishes the next `bytes`, in which `elements` elements end, after they were written in
    /// place.
    ///
    /// # Panics
    /// There is no room for that much: a mistake in the program, since it could not have been
    /// written.
    #[inline]
    pub fn commit(&mut self, bytes: u64, elements: u64) {
        assert!(
            self.knows_room(bytes, elements),
            "{bytes} bytes with {elements} elements are given away where there is no room for them"
        );
        // At most the ring's capacity, which is a usize.
        self.give(bytes as usize, elements);
    }

    /// Returns true if the consumer waits for the bytes just published and must be woken. Call it
    /// after publishing. It costs a full fence, so one call for many elements is better than one
    /// for each.
    #[inline]
    pub fn must_wake(&mut self) -> bool {
        let header = self.memory.header();
        self.waits.is_other_waiting(&header.consumer_waits.0)
    }

    /// As [`must_wake`](Self::must_wake) without its fence, which would cost more than writing an
    /// element does. A consumer that begins to wait at this very moment may be missed, so the
    /// consumer must check again some time after it announced that it waits.
    #[inline(always)]
    pub fn glance_wake(&mut self) -> bool {
        let header = self.memory.header();
        self.waits.glance(&header.consumer_waits.0)
    }

    /// Announces that the producer is about to sleep because `bytes` with `elements` elements do
    /// not fit. From then on the consumer's next [`must_wake`](super::ElementConsumer::must_wake)
    /// returns true. Returns false if they fit after all: then the producer must not sleep.
    pub fn wait_for_room(&mut self, bytes: u64, elements: u64) -> Result<bool, Corrupt> {
        self.waits.say(&self.memory.header().producer_waits.0);
        Ok(!self.has_room(bytes, elements)?)
    }

    /// Returns the position before which the consumer has released everything.
    pub fn read(&mut self) -> Result<u64, Corrupt> {
        self.look()?;
        Ok(self.read_seen.position)
    }

    /// Returns the number of elements the consumer has released since the beginning.
    pub fn read_elements(&mut self) -> Result<u64, Corrupt> {
        self.look()?;
        Ok(elements(self.memory.shape, self.read_seen))
    }

    /// Returns the distance to `position` if `len` bytes from there on are known to be free.
    fn ahead(&self, position: u64, len: usize) -> Option<usize> {
        let ahead = position.checked_sub(self.written.position)?;
        let end = ahead.checked_add(len as u64)?;
        // At most the ring's capacity, which is a usize.
        (end <= self.room_bytes()).then_some(ahead as usize)
    }

    #[inline(always)]
    fn room_bytes(&self) -> u64 {
        let used = self.written.position - self.read_seen.position;
        self.memory.shape.bytes_max() as u64 - used
    }

    /// Number of elements in the ring; meaningful only if elements are counted.
    #[inline]
    fn counted(&self) -> u64 {
        self.written.elements - self.read_seen.elements
    }

    #[inline(always)]
    fn knows_room(&self, bytes: u64, elements: u64) -> bool {
        let shape = self.memory.shape;
        bytes <= self.room_bytes()
            && (!shape.counts() || elements <= shape.capacity() - self.counted())
    }

    #[inline(always)]
    fn give(&mut self, bytes: usize, elements: u64) {
        self.written.position += bytes as u64;
        self.index = self.memory.index_after(self.index, bytes);
        let place = &self.memory.header().written.0;
        // SYNC POINT, pairs with the acquire load in `ElementConsumer::look`: the bytes are written
        // before the position.
        place
            .position
            .store(self.written.position, Ordering::Release);
        if self.memory.shape.counts() {
            self.written.elements += elements;
            // SYNC POINT, pairs with the acquire load in `ElementConsumer::look`: the position is
            // stored before the count, so that every counted element is there.
            place
                .elements
                .store(self.written.elements, Ordering::Release);
        }
    }

    /// Loads and checks the consumer's position.
    #[cold]
    fn look(&mut self) -> Result<(), Corrupt> {
        let place = &self.memory.header().read.0;
        // SYNC POINT, pairs with the release store in `ElementConsumer::take`: the consumer no
        // longer accesses anything before the position.
        let position = place.position.load(Ordering::Acquire);
        // A consumer cannot release bytes it never received, nor take back bytes it released.
        if !(self.read_seen.position..=self.written.position).contains(&position) {
            return Err(Corrupt);
        }
        if self.memory.shape.counts() {
            let elements = place.elements.load(Ordering::Relaxed);
            if !(self.read_seen.elements..=self.written.elements).contains(&elements) {
                return Err(Corrupt);
            }
            self.read_seen.elements = elements;
        }
        self.read_seen.position = position;
        Ok(())
    }
}

#[inline]
pub(super) fn elements(shape: RingShape, place: RingStart) -> u64 {
    match shape.element_bytes() {
        Some(size) => place.position / size as u64,
        None => place.elements,
    }
}

impl std::fmt::Debug for ElementProducer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ElementProducer")
            .field("written", &self.written)
            .field("read_seen", &self.read_seen)
            .finish_non_exhaustive()
    }
}
