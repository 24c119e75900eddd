//! The two ends of a ring, and their use of its bytes and positions.

#[cfg(not(loom))]
use std::ptr::NonNull;

use super::memory::ElementMemory;
use super::shape::{RingShape, RingStart};
use crate::byte_ring::Corrupt;
use crate::sync::Ordering;
use crate::waits::Waits;

/// The writing end of a ring. It belongs to the writing program of a stream, or to the receiver
/// that serves the reading program.
///
/// # Real-time
/// Every operation is wait-free and makes no system call.
pub struct ElementProducer {
    memory: ElementMemory,
    /// This end's position. The copy in the header is only for the other end.
    written: RingStart,
    /// Index of `written` in the ring.
    index: usize,
    /// The consumer's position at the last check that accepted it; the actual position may be
    /// ahead.
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

    /// Returns the position up to which bytes were published.
    #[inline]
    pub fn written(&self) -> u64 {
        self.written.position
    }

    /// Returns the number of elements published since the beginning.
    #[inline]
    pub fn written_elements(&self) -> u64 {
        elements(self.memory.shape, self.written)
    }

    /// Appends and publishes `bytes`, in which `elements` elements end. Writes either all bytes or,
    /// if they do not fit now, none.
    #[inline(always)]
    pub fn push(&mut self, bytes: &[u8], elements: u64) -> Result<bool, Corrupt> {
        if !self.has_room(bytes.len() as u64, elements)? {
            return Ok(false);
        }
        // SAFETY: `index` is below the ring's size. That many bytes from it on are free, so they
        // belong to the producer until it publishes them.
        unsafe { self.memory.bytes.write(self.index, bytes) };
        self.publish(bytes.len(), elements);
        Ok(true)
    }

    /// Returns true if `bytes` with `elements` elements fit now. A result of true remains valid,
    /// because the consumer can only free more room.
    #[inline(always)]
    pub fn has_room(&mut self, bytes: u64, elements: u64) -> Result<bool, Corrupt> {
        if self.has_known_room(bytes, elements) {
            return Ok(true);
        }
        self.check()?;
        Ok(self.has_known_room(bytes, elements))
    }

    /// Returns the number of bytes and elements that fit now. For elements of one size, the second
    /// number is derived from the first.
    pub fn room(&mut self) -> Result<(u64, u64), Corrupt> {
        self.check()?;
        let bytes = self.room_bytes();
        let elements = match self.memory.shape.element_bytes() {
            Some(size) => bytes / size as u64,
            None => self.memory.shape.capacity() - self.element_count(),
        };
        Ok((bytes, elements))
    }

    /// Returns the two pieces of the free memory from `position` on, with a total of `len` bytes.
    /// The second piece is empty if the bytes are contiguous, as they always are in mirrored
    /// memory. Returns `None` if not all of it is known to be free: call
    /// [`has_room`](Self::has_room) first.
    ///
    /// [`commit`](Self::commit) publishes the bytes written there.
    #[cfg(not(loom))]
    pub fn free_at(&mut self, position: u64, len: usize) -> Option<[&mut [u8]; 2]> {
        let ahead = self.ahead(position, len)?;
        let at = self.memory.bytes.index_after(self.index, ahead);
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
        let at = self.memory.bytes.index_after(self.index, ahead);
        // SAFETY: inside the free part, which belongs to the producer.
        unsafe { self.memory.bytes.write(at, bytes) };
        true
    }

    /// Publishes the next `bytes`, in which `elements` elements end, after they were written in
    /// place.
    ///
    /// # Panics
    /// If there is not enough room. This is a programming error, because the bytes could not have
    /// been written.
    #[inline]
    pub fn commit(&mut self, bytes: u64, elements: u64) {
        assert!(
            self.has_known_room(bytes, elements),
            "committing {bytes} bytes with {elements} elements, but the ring has less room"
        );
        // Fits, because it is at most the ring's capacity, which is a usize.
        self.publish(bytes as usize, elements);
    }

    /// Returns true if the consumer is waiting for the bytes just published and must be woken. Call
    /// it after publishing. It costs a full fence, so one call for many elements is better than a
    /// call for each.
    #[inline]
    pub fn must_wake(&mut self) -> bool {
        self.waits
            .is_other_waiting(&self.memory.header().consumer_wait_count.0)
    }

    /// Like [`must_wake`](Self::must_wake), but without its fence, which would cost more than
    /// writing an element. It may miss a consumer that begins to wait at the same moment, so the
    /// consumer must check again some time after it announced that it is waiting.
    #[inline(always)]
    pub fn must_wake_unfenced(&mut self) -> bool {
        self.waits
            .is_other_waiting_unfenced(&self.memory.header().consumer_wait_count.0)
    }

    /// Announces that the producer is about to sleep because `bytes` with `elements` elements do
    /// not fit. From then on the consumer's next [`must_wake`](super::ElementConsumer::must_wake)
    /// returns true. Returns false if they fit after all; the producer must not sleep then.
    pub fn wait_for_room(&mut self, bytes: u64, elements: u64) -> Result<bool, Corrupt> {
        self.waits
            .announce(&self.memory.header().producer_wait_count.0);
        Ok(!self.has_room(bytes, elements)?)
    }

    /// Returns the position before which the consumer has released everything.
    pub fn read_position(&mut self) -> Result<u64, Corrupt> {
        self.check()?;
        Ok(self.read_seen.position)
    }

    /// Returns the number of elements that the consumer has released since the beginning.
    pub fn read_elements(&mut self) -> Result<u64, Corrupt> {
        self.check()?;
        Ok(elements(self.memory.shape, self.read_seen))
    }

    /// Returns the distance to `position` if `len` bytes from there on are known to be free.
    fn ahead(&self, position: u64, len: usize) -> Option<usize> {
        let ahead = position.checked_sub(self.written.position)?;
        let end = ahead.checked_add(len as u64)?;
        // Fits, because it is at most the ring's capacity, which is a usize.
        (end <= self.room_bytes()).then_some(ahead as usize)
    }

    #[inline(always)]
    fn room_bytes(&self) -> u64 {
        let used = self.written.position - self.read_seen.position;
        self.memory.shape.bytes_max() as u64 - used
    }

    /// Returns the number of elements in the ring; meaningful only if elements are counted.
    #[inline]
    fn element_count(&self) -> u64 {
        self.written.elements - self.read_seen.elements
    }

    #[inline(always)]
    fn has_known_room(&self, bytes: u64, elements: u64) -> bool {
        let shape = self.memory.shape;
        bytes <= self.room_bytes()
            && (!shape.counts() || elements <= shape.capacity() - self.element_count())
    }

    #[inline(always)]
    fn publish(&mut self, bytes: usize, elements: u64) {
        self.written.position += bytes as u64;
        self.index = self.memory.bytes.index_after(self.index, bytes);
        let place = &self.memory.header().written.0;
        // SYNC POINT, pairs with the acquire load in `ElementConsumer::check`: the bytes are
        // written before the position.
        place
            .position
            .store(self.written.position, Ordering::Release);
        if self.memory.shape.counts() {
            self.written.elements += elements;
            // SYNC POINT, pairs with the acquire load in `ElementConsumer::check`: the position is
            // stored before the count, so that every counted element is there.
            place
                .elements
                .store(self.written.elements, Ordering::Release);
        }
    }

    /// Loads and checks the consumer's position.
    #[cold]
    fn check(&mut self) -> Result<(), Corrupt> {
        let place = &self.memory.header().read.0;
        // SYNC POINT, pairs with the release store in `ElementConsumer::free`: the consumer no
        // longer accesses anything before the position.
        let position = place.position.load(Ordering::Acquire);
        // A consumer cannot release bytes that it never received, or take back bytes that it has
        // released.
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

impl std::fmt::Debug for ElementProducer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ElementProducer")
            .field("written", &self.written)
            .field("read_seen", &self.read_seen)
            .finish_non_exhaustive()
    }
}

/// The reading end of a ring. It belongs to the reading program of a stream, or to the sender that
/// serves the writing program.
///
/// # Real-time
/// Every operation is wait-free and makes no system call.
pub struct ElementConsumer {
    memory: ElementMemory,
    /// This end's position. The copy in the header is only for the other end.
    read: RingStart,
    /// Index of `read` in the ring.
    index: usize,
    /// The producer's position at the last check that accepted it; the actual position may be
    /// ahead.
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

    /// Returns the position before which everything was released.
    #[inline]
    pub fn read_position(&self) -> u64 {
        self.read.position
    }

    /// Returns the number of elements released since the beginning.
    #[inline]
    pub fn read_elements(&self) -> u64 {
        elements(self.memory.shape, self.read)
    }

    /// Copies out and releases the next `bytes.len()` bytes, in which `elements` elements end.
    /// Takes either all bytes or, if not all of them have arrived, none.
    #[inline(always)]
    pub fn pull(&mut self, bytes: &mut [u8], elements: u64) -> Result<bool, Corrupt> {
        if !self.has(bytes.len() as u64, elements)? {
            return Ok(false);
        }
        // SAFETY: `index` is below the ring's size. That many bytes from it on have been written,
        // and belong to the consumer until it releases them.
        unsafe { self.memory.bytes.read(self.index, bytes) };
        self.free(bytes.len(), elements);
        Ok(true)
    }

    /// Returns true if `bytes` with `elements` elements are available. A result of true remains
    /// valid, because the producer can only add more.
    #[inline(always)]
    pub fn has(&mut self, bytes: u64, elements: u64) -> Result<bool, Corrupt> {
        if self.has_known(bytes, elements) {
            return Ok(true);
        }
        self.check()?;
        Ok(self.has_known(bytes, elements))
    }

    /// Returns the number of bytes and of whole elements that are available now.
    pub fn available(&mut self) -> Result<(u64, u64), Corrupt> {
        self.check()?;
        let bytes = self.known_bytes();
        let elements = match self.memory.shape.element_bytes() {
            // An element is not counted once the sender has released a part of it.
            Some(size) => {
                let (size, read) = (size as u64, self.read.position);
                (self.written_seen.position / size).saturating_sub(read.div_ceil(size))
            }
            None => self.written_seen.elements - self.read.elements,
        };
        Ok((bytes, elements))
    }

    /// Returns the two pieces of `len` bytes from `position` on. The second piece is empty if the
    /// bytes are contiguous, as they always are in mirrored memory. Returns `None` if not all of
    /// them are known to be available: call [`has`](Self::has) first.
    #[cfg(not(loom))]
    pub fn region_at(&self, position: u64, len: usize) -> Option<[&[u8]; 2]> {
        let ahead = self.ahead(position, len)?;
        let at = self.memory.bytes.index_after(self.index, ahead);
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
        let at = self.memory.bytes.index_after(self.index, ahead);
        // SAFETY: inside the written part, which belongs to the consumer.
        unsafe { self.memory.bytes.read(at, bytes) };
        true
    }

    /// Releases the next `bytes`, in which `elements` elements end, after their use in place.
    ///
    /// # Panics
    /// If fewer bytes or elements are available, which is a programming error.
    #[inline]
    pub fn release(&mut self, bytes: u64, elements: u64) {
        assert!(
            self.has_known(bytes, elements),
            "releasing {bytes} bytes with {elements} elements, but fewer are available"
        );
        // Fits, because it is at most the ring's capacity, which is a usize.
        self.free(bytes as usize, elements);
    }

    /// Returns true if the producer is waiting for the bytes just released and must be woken. Call
    /// it after releasing. It costs a full fence, so one call for many releases is better than a
    /// call for each.
    #[inline]
    pub fn must_wake(&mut self) -> bool {
        self.waits
            .is_other_waiting(&self.memory.header().producer_wait_count.0)
    }

    /// Like [`must_wake`](Self::must_wake), but without its fence, which would cost more than
    /// reading an element. It may miss a producer that begins to wait at the same moment, so the
    /// producer must check again some time after it announced that it is waiting.
    #[inline]
    pub fn must_wake_unfenced(&mut self) -> bool {
        self.waits
            .is_other_waiting_unfenced(&self.memory.header().producer_wait_count.0)
    }

    /// Announces that the consumer is about to sleep because `bytes` with `elements` elements are
    /// not available. From then on the producer's next
    /// [`must_wake`](super::ElementProducer::must_wake) returns true. Returns false if they have
    /// arrived; the consumer must not sleep then.
    pub fn wait_for(&mut self, bytes: u64, elements: u64) -> Result<bool, Corrupt> {
        self.waits
            .announce(&self.memory.header().consumer_wait_count.0);
        Ok(!self.has(bytes, elements)?)
    }

    /// Returns the position up to which the producer has published bytes.
    pub fn written(&mut self) -> Result<u64, Corrupt> {
        self.check()?;
        Ok(self.written_seen.position)
    }

    /// Returns the number of elements that the producer has published since the beginning.
    pub fn written_elements(&mut self) -> Result<u64, Corrupt> {
        self.check()?;
        Ok(elements(self.memory.shape, self.written_seen))
    }

    /// Returns the distance to `position` if `len` bytes from there on are known to be available.
    fn ahead(&self, position: u64, len: usize) -> Option<usize> {
        let ahead = position.checked_sub(self.read.position)?;
        let end = ahead.checked_add(len as u64)?;
        // Fits, because it is at most the ring's capacity, which is a usize.
        (end <= self.known_bytes()).then_some(ahead as usize)
    }

    #[inline(always)]
    fn known_bytes(&self) -> u64 {
        self.written_seen.position - self.read.position
    }

    #[inline(always)]
    fn has_known(&self, bytes: u64, elements: u64) -> bool {
        bytes <= self.known_bytes()
            && (!self.memory.shape.counts()
                || elements <= self.written_seen.elements - self.read.elements)
    }

    #[inline(always)]
    fn free(&mut self, bytes: usize, elements: u64) {
        self.read.position += bytes as u64;
        self.index = self.memory.bytes.index_after(self.index, bytes);
        let place = &self.memory.header().read.0;
        if self.memory.shape.counts() {
            self.read.elements += elements;
            place.elements.store(self.read.elements, Ordering::Relaxed);
        }
        // SYNC POINT, pairs with the acquire load in `ElementProducer::check`: the bytes are used
        // before they are released.
        place.position.store(self.read.position, Ordering::Release);
    }

    /// Loads and checks the producer's position.
    #[cold]
    fn check(&mut self) -> Result<(), Corrupt> {
        let shape = self.memory.shape;
        let place = &self.memory.header().written.0;
        if shape.counts() {
            // SYNC POINT, pairs with the release store in `ElementProducer::publish`: the position
            // loaded next is not before the elements counted here.
            let elements = place.elements.load(Ordering::Acquire);
            let max = self.read.elements.saturating_add(shape.capacity());
            if !(self.written_seen.elements..=max).contains(&elements) {
                return Err(Corrupt);
            }
            self.written_seen.elements = elements;
        }
        // SYNC POINT, pairs with the release store in `ElementProducer::publish`: the bytes before
        // the position have been written.
        let position = place.position.load(Ordering::Acquire);
        // A producer cannot have more bytes in the ring than its capacity, or take back bytes that
        // it has published.
        let max = self.read.position.saturating_add(shape.bytes_max() as u64);
        if !(self.written_seen.position..=max).contains(&position) {
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

#[inline]
pub(super) fn elements(shape: RingShape, place: RingStart) -> u64 {
    match shape.element_bytes() {
        Some(size) => place.position / size as u64,
        None => place.elements,
    }
}

/// The bytes of a ring, possibly mapped twice. Each byte belongs to one end at a time.
#[cfg(not(loom))]
pub(super) struct Bytes {
    pub(super) start: NonNull<u8>,
    pub(super) len: usize,
    /// Length of the memory: `len`, or twice that if it is mapped twice in succession, so that the
    /// byte at `i` is also at `len + i`.
    pub(super) mapped: usize,
}

#[cfg(not(loom))]
impl Bytes {
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the number of contiguous bytes from `at` on.
    #[inline]
    fn in_one_piece(&self, at: usize) -> usize {
        self.mapped - at
    }

    /// # Safety
    /// `at` is below `len`, `bytes.len()` is at most `len`, and the range belongs to the
    /// producer.
    #[inline(always)]
    pub(super) unsafe fn write(&self, at: usize, bytes: &[u8]) {
        // SAFETY: as the caller guarantees; no slice of this program overlaps the producer's
        // range.
        unsafe {
            if bytes.len() > self.in_one_piece(at) {
                return self.write_in_two(at, bytes);
            }
            let target = self.start.as_ptr().add(at);
            target.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
    }

    /// # Safety
    /// As [`write`](Self::write), and the range wraps around the end.
    #[cold]
    unsafe fn write_in_two(&self, at: usize, bytes: &[u8]) {
        let whole = self.in_one_piece(at);
        let target = self.start.as_ptr();
        // SAFETY: as the caller guarantees; the wrapped part ends at `at` at most.
        unsafe {
            let (first, rest) = bytes.split_at_unchecked(whole);
            target
                .add(at)
                .copy_from_nonoverlapping(first.as_ptr(), whole);
            target.copy_from_nonoverlapping(rest.as_ptr(), rest.len());
        }
    }

    /// # Safety
    /// `at` is below `len`, `bytes.len()` is at most `len`, and the range belongs to the
    /// consumer.
    #[inline(always)]
    pub(super) unsafe fn read(&self, at: usize, bytes: &mut [u8]) {
        // SAFETY: as the caller guarantees; every byte is a valid value, even if another
        // program changes it during the copy.
        unsafe {
            if bytes.len() > self.in_one_piece(at) {
                return self.read_in_two(at, bytes);
            }
            let source = self.start.as_ptr().add(at);
            source.copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len());
        }
    }

    /// # Safety
    /// As [`read`](Self::read), and the range wraps around the end.
    #[cold]
    unsafe fn read_in_two(&self, at: usize, bytes: &mut [u8]) {
        let whole = self.in_one_piece(at);
        let source = self.start.as_ptr();
        // SAFETY: as the caller guarantees; the wrapped part ends at `at` at most.
        unsafe {
            let (first, rest) = bytes.split_at_mut_unchecked(whole);
            source
                .add(at)
                .copy_to_nonoverlapping(first.as_mut_ptr(), whole);
            source.copy_to_nonoverlapping(rest.as_mut_ptr(), rest.len());
        }
    }

    /// Returns the two pieces of a range. The second piece is empty if the range is contiguous.
    ///
    /// # Safety
    /// As [`read`](Self::read), for as long as the slices live.
    pub(super) unsafe fn pieces<'a>(&self, at: usize, len: usize) -> [&'a [u8]; 2] {
        let first = len.min(self.in_one_piece(at));
        // SAFETY: as the caller guarantees; the pieces lie in the memory.
        unsafe {
            [
                std::slice::from_raw_parts(self.start.as_ptr().add(at), first),
                std::slice::from_raw_parts(self.start.as_ptr(), len - first),
            ]
        }
    }

    /// Returns the two pieces of a range for writing. The second piece is empty if the range is
    /// contiguous.
    ///
    /// # Safety
    /// As [`write`](Self::write), for as long as the slices live.
    pub(super) unsafe fn pieces_mut<'a>(&self, at: usize, len: usize) -> [&'a mut [u8]; 2] {
        let first = len.min(self.in_one_piece(at));
        // SAFETY: as the caller guarantees; the pieces lie in the memory, and do not overlap
        // because together they are at most `len` long.
        unsafe {
            [
                std::slice::from_raw_parts_mut(self.start.as_ptr().add(at), first),
                std::slice::from_raw_parts_mut(self.start.as_ptr(), len - first),
            ]
        }
    }
}

/// The same under loom, byte by byte, so that loom sees every access and reports a race.
#[cfg(loom)]
pub(super) struct Bytes(pub(super) crate::sync::Arc<crate::slab::Slab<u8>>);

#[cfg(loom)]
impl Bytes {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) unsafe fn write(&self, at: usize, bytes: &[u8]) {
        let (first, rest) = bytes.split_at(bytes.len().min(self.len() - at));
        // SAFETY: as the caller guarantees; loom reports concurrent access.
        unsafe {
            self.0.write_slice(at, first);
            self.0.write_slice(0, rest);
        }
    }

    pub(super) unsafe fn read(&self, at: usize, bytes: &mut [u8]) {
        let (first, rest) = bytes.split_at_mut(bytes.len().min(self.len() - at));
        // SAFETY: as above.
        unsafe {
            self.0.read_slice(at, first);
            self.0.read_slice(0, rest);
        }
    }
}

impl Bytes {
    /// Returns the index that is `steps` after `index`; `steps` is at most the ring's size.
    #[inline]
    fn index_after(&self, index: usize, steps: usize) -> usize {
        let sum = index + steps;
        sum.checked_sub(self.len()).unwrap_or(sum)
    }
}
