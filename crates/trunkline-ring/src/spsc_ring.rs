//! A ring between exactly two threads.

use std::marker::PhantomData;

use crate::padded::Padded;
use crate::slab::Slab;
use crate::slot_ring::{Empty, Full};
use crate::sync::{Arc, AtomicUsize, Ordering, fence};

/// A bounded ring between one producing and one consuming thread.
///
/// [`new`](Self::new) returns its two ends. An end cannot be shared or cloned, so the types ensure
/// that one thread produces and one consumes, and neither ever repeats a step.
///
/// Each end keeps its own position, and a copy of the other's that it renews only when the ring
/// looks full, or empty. While there is room, the two threads do not touch each other's cache
/// lines except those of the elements.
///
/// # Real-time
///
/// Only [`new`](Self::new) allocates. Every other operation is wait-free and makes no system call;
/// dropping the second end frees the memory.
///
/// ```
/// use trunkline_ring::{Full, SpscRing};
///
/// let (mut producer, mut consumer) = SpscRing::new(4);
/// producer.push(1.5)?;
/// assert_eq!(producer.push_slice(&[2.5, 3.5, 4.5, 5.5]), 3); // there was room for three
///
/// assert_eq!(consumer.pop(), Ok(1.5));
/// let mut rest = [0.0; 8];
/// assert_eq!(consumer.pop_slice(&mut rest), 3);
/// assert_eq!(rest[..3], [2.5, 3.5, 4.5]);
/// # Ok::<(), Full>(())
/// ```
#[derive(Debug)]
pub struct SpscRing<T> {
    ends: PhantomData<T>,
}

impl<T: Copy + Send> SpscRing<T> {
    /// Creates an empty ring of exactly `capacity` elements and returns its two ends.
    ///
    /// # Panics
    ///
    /// If `capacity` is 0, or the elements do not fit in memory.
    // The ring is reached only through its ends.
    #[allow(clippy::new_ret_no_self)]
    #[must_use]
    pub fn new(capacity: usize) -> (Producer<T>, Consumer<T>) {
        assert!(
            capacity > 0,
            "a ring of 0 elements holds nothing: give it a capacity of 1 or more"
        );
        let ring = Arc::new(Shared {
            tail: Padded(AtomicUsize::new(0)),
            head: Padded(AtomicUsize::new(0)),
            values: Slab::new(capacity),
        });
        let producer = Producer {
            ring: Arc::clone(&ring),
            tail: 0,
            index: 0,
            head_seen: 0,
        };
        let consumer = Consumer {
            ring,
            head: 0,
            index: 0,
            tail_seen: 0,
        };
        (producer, consumer)
    }
}

/// The part that both ends share.
///
/// Positions count elements since the beginning and wrap with the integer; only their difference,
/// at most the capacity, is ever used. The consumer owns the elements from `head` up to `tail`, the
/// producer owns the other slots.
#[derive(Debug)]
struct Shared<T> {
    /// Stored by the producer, loaded by the consumer.
    tail: Padded<AtomicUsize>,
    /// Stored by the consumer, loaded by the producer.
    head: Padded<AtomicUsize>,
    values: Slab<T>,
}

impl<T: Copy> Shared<T> {
    #[inline]
    fn capacity(&self) -> usize {
        self.values.len()
    }

    /// Returns the slot `steps` behind slot `index`; `steps` is at most the capacity.
    #[inline]
    fn index_after(&self, index: usize, steps: usize) -> usize {
        let sum = index + steps;
        if sum < self.capacity() {
            sum
        } else {
            sum - self.capacity()
        }
    }
}

/// Returns true if one of the two ends has been dropped.
fn has_one_end<T>(ring: &Arc<Shared<T>>) -> bool {
    let has_one_end = Arc::strong_count(ring) < 2;
    if has_one_end {
        // Everything the other end did happened before it released the ring.
        fence(Ordering::Acquire);
    }
    has_one_end
}

/// The writing end of an [`SpscRing`].
#[derive(Debug)]
pub struct Producer<T> {
    ring: Arc<Shared<T>>,
    /// Own position, as last stored in `ring.tail`.
    tail: usize,
    /// Slot of `tail`.
    index: usize,
    /// The consumer's position as last loaded; the actual one may be ahead.
    head_seen: usize,
}

impl<T: Copy + Send> Producer<T> {
    /// Maximum number of elements in the ring.
    #[must_use]
    #[inline]
    pub fn capacity(&self) -> usize {
        self.ring.capacity()
    }

    /// Number of elements that can be pushed now. The consumer can only increase it.
    #[must_use]
    #[inline]
    pub fn free(&mut self) -> usize {
        self.room(self.capacity())
    }

    /// Appends an element.
    ///
    /// # Errors
    ///
    /// [`Full`] if the consumer has not kept up.
    #[inline]
    pub fn push(&mut self, value: T) -> Result<(), Full> {
        if self.room(1) == 0 {
            return Err(Full);
        }
        // SAFETY: `index` is below the capacity, and the slot belongs to the producer until
        // `commit`.
        unsafe { self.ring.values.write(self.index, value) };
        self.commit(1);
        Ok(())
    }

    /// Appends as many of the values, first to last, as there is room for, and returns their
    /// number.
    #[inline]
    pub fn push_slice(&mut self, values: &[T]) -> usize {
        let count = self.room(values.len()).min(values.len());
        let unwrapped = count.min(self.capacity() - self.index);
        let (first, rest) = values[..count].split_at(unwrapped);
        // SAFETY: both parts lie inside the ring, in `count` free slots from `index` on, which
        // belong to the producer until `commit`.
        unsafe {
            self.ring.values.write_slice(self.index, first);
            self.ring.values.write_slice(0, rest);
        }
        self.commit(count);
        count
    }

    /// Returns true if the consumer has been dropped, so that nothing reads further elements.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        has_one_end(&self.ring)
    }

    /// Returns the known number of free slots. Reloads the consumer's position if that is less than
    /// `wanted`.
    #[inline]
    fn room(&mut self, wanted: usize) -> usize {
        let room = self.capacity() - self.tail.wrapping_sub(self.head_seen);
        if room >= wanted {
            return room;
        }
        // SYNC POINT, pairs with the release store in `Consumer::release`: the elements before
        // `head` have been copied out.
        self.head_seen = self.ring.head.load(Ordering::Acquire);
        self.capacity() - self.tail.wrapping_sub(self.head_seen)
    }

    /// Publishes `count` written elements to the consumer.
    #[inline]
    fn commit(&mut self, count: usize) {
        self.tail = self.tail.wrapping_add(count);
        self.index = self.ring.index_after(self.index, count);
        // SYNC POINT, pairs with the acquire load in `Consumer::waiting`: the elements are written
        // before the position.
        self.ring.tail.store(self.tail, Ordering::Release);
    }
}

/// The reading end of an [`SpscRing`].
#[derive(Debug)]
pub struct Consumer<T> {
    ring: Arc<Shared<T>>,
    /// Own position, as last stored in `ring.head`.
    head: usize,
    /// Slot of `head`.
    index: usize,
    /// The producer's position as last loaded; the actual one may be ahead.
    tail_seen: usize,
}

impl<T: Copy + Send> Consumer<T> {
    /// Maximum number of elements in the ring.
    #[must_use]
    #[inline]
    pub fn capacity(&self) -> usize {
        self.ring.capacity()
    }

    /// Number of elements that can be popped now. The producer can only increase it.
    #[must_use]
    #[inline]
    pub fn len(&mut self) -> usize {
        self.waiting(self.capacity())
    }

    /// Returns true if nothing can be popped now.
    #[must_use]
    #[inline]
    pub fn is_empty(&mut self) -> bool {
        self.waiting(1) == 0
    }

    /// Removes and returns the oldest element.
    ///
    /// # Errors
    ///
    /// [`Empty`] if the producer has pushed nothing since.
    #[inline]
    pub fn pop(&mut self) -> Result<T, Empty> {
        if self.waiting(1) == 0 {
            return Err(Empty);
        }
        // SAFETY: `index` is below the capacity; the slot was written before the producer published
        // it, and belongs to the consumer until `release`.
        let value = unsafe { self.ring.values.read(self.index) };
        self.release(1);
        Ok(value)
    }

    /// Removes as many elements as are available and fit in `values`, oldest first, and returns
    /// their number. The rest of `values` is unchanged.
    #[inline]
    pub fn pop_slice(&mut self, values: &mut [T]) -> usize {
        let count = self.waiting(values.len()).min(values.len());
        let unwrapped = count.min(self.capacity() - self.index);
        let (first, rest) = values[..count].split_at_mut(unwrapped);
        // SAFETY: both parts lie inside the ring, in `count` written slots from `index` on, which
        // belong to the consumer until `release`.
        unsafe {
            self.ring.values.read_slice(self.index, first);
            self.ring.values.read_slice(0, rest);
        }
        self.release(count);
        count
    }

    /// Returns true if the producer has been dropped: once the ring is empty, nothing more will
    /// come.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        has_one_end(&self.ring)
    }

    /// Returns the known number of elements. Reloads the producer's position if that is less than
    /// `wanted`.
    #[inline]
    fn waiting(&mut self, wanted: usize) -> usize {
        let waiting = self.tail_seen.wrapping_sub(self.head);
        if waiting >= wanted {
            return waiting;
        }
        // SYNC POINT, pairs with the release store in `Producer::commit`: the elements before
        // `tail` have been written.
        self.tail_seen = self.ring.tail.load(Ordering::Acquire);
        self.tail_seen.wrapping_sub(self.head)
    }

    /// Releases `count` slots to the producer.
    #[inline]
    fn release(&mut self, count: usize) {
        self.head = self.head.wrapping_add(count);
        self.index = self.ring.index_after(self.index, count);
        // SYNC POINT, pairs with the acquire load in `Producer::room`: elements are copied out
        // before they are released.
        self.ring.head.store(self.head, Ordering::Release);
    }
}
