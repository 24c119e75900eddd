//! The end that elements go into.

use super::memory::ElementMemory;
use super::shape::{RingShape, RingStart};
use crate::byte_ring::Corrupt;
use crate::sync::Ordering;
use crate::waits::Waits;

/// The end of a ring that elements go into: the writing program of a stream, or whoever receives
/// for the reading one.
///
/// # Real-time
/// Every operation is wait-free and makes no system call.
pub struct ElementProducer {
    memory: ElementMemory,
    /// Own position; what stands in the header is for the other end.
    written: RingStart,
    /// Where `written` lies.
    index: usize,
    /// The consumer's position as last believed; it may be further.
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

    /// What may lie in the ring.
    #[must_use]
    #[inline]
    pub fn shape(&self) -> RingShape {
        self.memory.shape
    }

    /// Position up to which bytes were given to the consumer.
    #[must_use]
    #[inline]
    pub fn written(&self) -> u64 {
        self.written.position
    }

    /// Elements that were given to the consumer, since the beginning.
    #[must_use]
    #[inline]
    pub fn written_elements(&self) -> u64 {
        elements(self.memory.shape, self.written)
    }

    /// Appends `bytes`, in which `elements` elements end: all of it, or nothing when it does not
    /// fit now.
    ///
    /// # Errors
    /// [`Corrupt`]: the consumer's position cannot be true.
    #[inline(always)]
    pub fn push(&mut self, bytes: &[u8], elements: u64) -> Result<bool, Corrupt> {
        if !self.has_room(bytes.len() as u64, elements)? {
            return Ok(false);
        }
        // SAFETY: `index` is below the ring's size, and that many bytes from it on are free, hence
        // the producer's until they are given away.
        unsafe { self.memory.bytes.write(self.index, bytes) };
        self.give(bytes.len(), elements);
        Ok(true)
    }

    /// Whether `bytes` with `elements` elements fit now; the consumer can only make it more.
    ///
    /// # Errors
    /// [`Corrupt`]: the consumer's position cannot be true.
    #[inline(always)]
    pub fn has_room(&mut self, bytes: u64, elements: u64) -> Result<bool, Corrupt> {
        if self.knows_room(bytes, elements) {
            return Ok(true);
        }
        self.look()?;
        Ok(self.knows_room(bytes, elements))
    }

    /// Bytes and elements there is room for now. Elements of one size make it a number of bytes.
    ///
    /// # Errors
    /// [`Corrupt`]: the consumer's position cannot be true.
    pub fn room(&mut self) -> Result<(u64, u64), Corrupt> {
        self.look()?;
        let bytes = self.room_bytes();
        let elements = match self.memory.shape.element_bytes() {
            Some(size) => bytes / size as u64,
            None => self.memory.shape.capacity() - self.counted(),
        };
        Ok((bytes, elements))
    }

    /// The two pieces of the free memory from `position` on, of `len` bytes together; the second is
    /// empty when they lie in one piece, as they do in mirrored memory. `None` when not all of it
    /// is known to be free: ask [`has_room`](Self::has_room) first.
    ///
    /// What is written there is given away by [`commit`](Self::commit).
    #[cfg(not(loom))]
    pub fn free_at(&mut self, position: u64, len: usize) -> Option<[&mut [u8]; 2]> {
        let ahead = self.ahead(position, len)?;
        let at = self.memory.index_after(self.index, ahead);
        // SAFETY: inside the free part, which is the producer's until it is given away, for which
        // this borrow has to end.
        Some(unsafe { self.memory.bytes.pieces_mut(at, len) })
    }

    /// Writes into the free memory at `position` without giving it away. False when not all of it
    /// is known to be free.
    pub fn write_at(&mut self, position: u64, bytes: &[u8]) -> bool {
        let Some(ahead) = self.ahead(position, bytes.len()) else {
            return false;
        };
        let at = self.memory.index_after(self.index, ahead);
        // SAFETY: inside the free part, which is the producer's.
        unsafe { self.memory.bytes.write(at, bytes) };
        true
    }

    /// Gives the next `bytes`, in which `elements` elements end, to the consumer: they were written
    /// in place.
    ///
    /// # Panics
    /// There is no room for that much: a mistake in the program, as it could not be written.
    #[inline]
    pub fn commit(&mut self, bytes: u64, elements: u64) {
        assert!(
            self.knows_room(bytes, elements),
            "{bytes} bytes with {elements} elements are given away where there is no room for them"
        );
        // At most what fits, which is a usize.
        self.give(bytes as usize, elements);
    }

    /// The consumer waits for what was given to it and is to be woken. Ask after giving something;
    /// costs a full fence, so once for many is better than once for each.
    #[inline]
    pub fn must_wake(&mut self) -> bool {
        let header = self.memory.header();
        self.waits.is_other_waiting(&header.consumer_waits.0)
    }

    /// As [`must_wake`](Self::must_wake) without its fence, which would cost more than writing an
    /// element does: a consumer that begins to wait at this very moment may be missed. For one that
    /// looks once more a while after it has said that it waits.
    #[inline(always)]
    pub fn glance_wake(&mut self) -> bool {
        let header = self.memory.header();
        self.waits.glance(&header.consumer_waits.0)
    }

    /// The producer is about to sleep because `bytes` with `elements` elements do not fit: from now
    /// on the consumer's next [`must_wake`](super::ElementConsumer::must_wake) says so. False when
    /// they fit by now; then it is not to sleep.
    ///
    /// # Errors
    /// [`Corrupt`]: the consumer's position cannot be true.
    pub fn wait_for_room(&mut self, bytes: u64, elements: u64) -> Result<bool, Corrupt> {
        self.waits.say(&self.memory.header().producer_waits.0);
        Ok(!self.has_room(bytes, elements)?)
    }

    /// Position up to which the consumer has given everything back.
    ///
    /// # Errors
    /// [`Corrupt`]: the consumer's position cannot be true.
    pub fn read(&mut self) -> Result<u64, Corrupt> {
        self.look()?;
        Ok(self.read_seen.position)
    }

    /// Elements that the consumer has given back, since the beginning.
    ///
    /// # Errors
    /// [`Corrupt`]: the consumer's position cannot be true.
    pub fn read_elements(&mut self) -> Result<u64, Corrupt> {
        self.look()?;
        Ok(elements(self.memory.shape, self.read_seen))
    }

    /// How far `position` is ahead, when `len` bytes from there on are known to be free.
    fn ahead(&self, position: u64, len: usize) -> Option<usize> {
        let ahead = position.checked_sub(self.written.position)?;
        let end = ahead.checked_add(len as u64)?;
        // At most what fits, which is a usize.
        (end <= self.room_bytes()).then_some(ahead as usize)
    }

    #[inline(always)]
    fn room_bytes(&self) -> u64 {
        let used = self.written.position - self.read_seen.position;
        self.memory.shape.bytes_max() as u64 - used
    }

    /// Elements in the ring, where they are counted.
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
        // SYNC POINT, pairs with the acquire load in `ElementConsumer::look`: the bytes before the
        // position.
        place
            .position
            .store(self.written.position, Ordering::Release);
        if self.memory.shape.counts() {
            self.written.elements += elements;
            // SYNC POINT, pairs with the acquire load in `ElementConsumer::look`: the position
            // before the count, so that what was counted is there.
            place
                .elements
                .store(self.written.elements, Ordering::Release);
        }
    }

    /// Looks how far the consumer is.
    #[cold]
    fn look(&mut self) -> Result<(), Corrupt> {
        let place = &self.memory.header().read.0;
        // SYNC POINT, pairs with the release store in `ElementConsumer::take`: what lies before the
        // position is not looked at any more.
        let position = place.position.load(Ordering::Acquire);
        // A consumer cannot give back what it never got, nor take back what it gave.
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

/// Elements before a place.
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
