//! The end that elements come out of.

use super::memory::ElementMemory;
use super::producer::elements;
use super::shape::{RingShape, RingStart};
use crate::byte_ring::Corrupt;
use crate::sync::Ordering;
use crate::waits::Waits;

/// The end of a ring that elements come out of: the reading program of a stream, or whoever sends
/// for the writing one.
///
/// # Real-time
/// Every operation is wait-free and makes no system call.
pub struct ElementConsumer {
    memory: ElementMemory,
    /// Own position; what stands in the header is for the other end.
    read: RingStart,
    /// Where `read` lies.
    index: usize,
    /// The producer's position as last believed; it may be further.
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

    /// What may lie in the ring.
    #[must_use]
    #[inline]
    pub fn shape(&self) -> RingShape {
        self.memory.shape
    }

    /// Position up to which everything was given back.
    #[must_use]
    #[inline]
    pub fn read(&self) -> u64 {
        self.read.position
    }

    /// Elements that were given back, since the beginning.
    #[must_use]
    #[inline]
    pub fn read_elements(&self) -> u64 {
        elements(self.memory.shape, self.read)
    }

    /// Copies the next `bytes.len()` bytes, in which `elements` elements end, out and gives them
    /// back: all of them, or nothing when they are not there yet.
    ///
    /// # Errors
    /// [`Corrupt`]: the producer's position cannot be true.
    #[inline(always)]
    pub fn pull(&mut self, bytes: &mut [u8], elements: u64) -> Result<bool, Corrupt> {
        if !self.has(bytes.len() as u64, elements)? {
            return Ok(false);
        }
        // SAFETY: `index` is below the ring's size, and that many bytes from it on were written,
        // and are the consumer's until they are given back.
        unsafe { self.memory.bytes.read(self.index, bytes) };
        self.take(bytes.len(), elements);
        Ok(true)
    }

    /// Whether `bytes` with `elements` elements are there; the producer can only make it more.
    ///
    /// # Errors
    /// [`Corrupt`]: the producer's position cannot be true.
    #[inline(always)]
    pub fn has(&mut self, bytes: u64, elements: u64) -> Result<bool, Corrupt> {
        if self.knows(bytes, elements) {
            return Ok(true);
        }
        self.look()?;
        Ok(self.knows(bytes, elements))
    }

    /// Bytes and whole elements that are there now.
    ///
    /// # Errors
    /// [`Corrupt`]: the producer's position cannot be true.
    pub fn available(&mut self) -> Result<(u64, u64), Corrupt> {
        self.look()?;
        let bytes = self.known_bytes();
        let elements = match self.memory.shape.element_bytes() {
            // An element of which a part was given back, by who sends, is none any more.
            Some(size) => {
                let (size, read) = (size as u64, self.read.position);
                (self.written_seen.position / size).saturating_sub(read.div_ceil(size))
            }
            None => self.written_seen.elements - self.read.elements,
        };
        Ok((bytes, elements))
    }

    /// The two pieces of `len` bytes from `position` on; the second is empty when they lie in one
    /// piece, as they do in mirrored memory. `None` when not all of it is known to be there: ask
    /// [`has`](Self::has) first.
    #[cfg(not(loom))]
    #[must_use]
    pub fn region_at(&self, position: u64, len: usize) -> Option<[&[u8]; 2]> {
        let ahead = self.ahead(position, len)?;
        let at = self.memory.index_after(self.index, ahead);
        // SAFETY: inside what was written, which is the consumer's until it is given back, for
        // which this borrow has to end.
        Some(unsafe { self.memory.bytes.pieces(at, len) })
    }

    /// Copies bytes out from `position` on without giving them back. False when not all of them are
    /// known to be there.
    pub fn read_at(&self, position: u64, bytes: &mut [u8]) -> bool {
        let Some(ahead) = self.ahead(position, bytes.len()) else {
            return false;
        };
        let at = self.memory.index_after(self.index, ahead);
        // SAFETY: inside what was written, which is the consumer's.
        unsafe { self.memory.bytes.read(at, bytes) };
        true
    }

    /// Gives the next `bytes`, in which `elements` elements end, back: they were used in place.
    ///
    /// # Panics
    /// That much is not there: a mistake in the program.
    #[inline]
    pub fn release(&mut self, bytes: u64, elements: u64) {
        assert!(
            self.knows(bytes, elements),
            "{bytes} bytes with {elements} elements are given back where there are fewer"
        );
        // At most what fits, which is a usize.
        self.take(bytes as usize, elements);
    }

    /// The producer waits for what was given back and is to be woken. Ask after giving something
    /// back; costs a full fence, so once for many is better than once for each.
    #[inline]
    pub fn must_wake(&mut self) -> bool {
        let header = self.memory.header();
        self.waits.is_other_waiting(&header.producer_waits.0)
    }

    /// As [`must_wake`](Self::must_wake) without its fence, which would cost more than reading an
    /// element does: a producer that begins to wait at this very moment may be missed. For one that
    /// looks once more a while after it has said that it waits.
    #[inline]
    pub fn glance_wake(&mut self) -> bool {
        let header = self.memory.header();
        self.waits.glance(&header.producer_waits.0)
    }

    /// The consumer is about to sleep because `bytes` with `elements` elements are not there: from
    /// now on the producer's next [`must_wake`](super::ElementProducer::must_wake) says so. False
    /// when they are there by now; then it is not to sleep.
    ///
    /// # Errors
    /// [`Corrupt`]: the producer's position cannot be true.
    pub fn wait_for(&mut self, bytes: u64, elements: u64) -> Result<bool, Corrupt> {
        self.waits.say(&self.memory.header().consumer_waits.0);
        Ok(!self.has(bytes, elements)?)
    }

    /// Position up to which the producer has given away.
    ///
    /// # Errors
    /// [`Corrupt`]: the producer's position cannot be true.
    pub fn written(&mut self) -> Result<u64, Corrupt> {
        self.look()?;
        Ok(self.written_seen.position)
    }

    /// Elements that the producer has given away, since the beginning.
    ///
    /// # Errors
    /// [`Corrupt`]: the producer's position cannot be true.
    pub fn written_elements(&mut self) -> Result<u64, Corrupt> {
        self.look()?;
        Ok(elements(self.memory.shape, self.written_seen))
    }

    /// How far `position` is ahead, when `len` bytes from there on are known to be there.
    fn ahead(&self, position: u64, len: usize) -> Option<usize> {
        let ahead = position.checked_sub(self.read.position)?;
        let end = ahead.checked_add(len as u64)?;
        // At most what fits, which is a usize.
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
        // SYNC POINT, pairs with the acquire load in `ElementProducer::look`: used before given
        // back.
        place.position.store(self.read.position, Ordering::Release);
    }

    /// Looks how far the producer is.
    #[cold]
    fn look(&mut self) -> Result<(), Corrupt> {
        let shape = self.memory.shape;
        let place = &self.memory.header().written.0;
        if shape.counts() {
            // SYNC POINT, pairs with the release store in `ElementProducer::give`: the position
            // that is loaded next is not before the elements counted here.
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
        // A producer cannot have more in the ring than fits, nor take back what it gave.
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
