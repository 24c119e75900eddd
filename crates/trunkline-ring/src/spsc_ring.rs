//! The ring between exactly two threads.

use std::marker::PhantomData;

use crate::padded::Padded;
use crate::slab::Slab;
use crate::slot_ring::{Empty, Full};
use crate::sync::{Arc, AtomicUsize, Ordering, fence};

/// A bounded ring between one producing and one consuming thread.
///
/// [`new`](Self::new) gives its two ends. An end cannot be shared or cloned, so that one thread
/// produces and one consumes is a fact of types, and neither ever repeats a step.
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
    /// The two ends of an empty ring of exactly `capacity` elements.
    ///
    /// # Panics
    ///
    /// When `capacity` is 0, or the elements do not fit in memory.
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

/// What the two ends share.
///
/// Positions count elements since the beginning and wrap with the integer; only their difference,
/// at most the capacity, is ever used. Elements from `head` up to `tail` are the consumer's, the
/// other slots the producer's.
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

    /// The slot `steps`, at most the capacity, behind slot `index`.
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

/// Whether one of the two ends has been dropped.
fn has_one_end<T>(ring: &Arc<Shared<T>>) -> bool {
    let has_one_end = Arc::strong_count(ring) < 2;
    if has_one_end {
        // Everything the other end did came before it let go of the ring.
        fence(Ordering::Acquire);
    }
    has_one_end
}

/// The end of an [`SpscRing`] that elements go into.
#[derive(Debug)]
pub struct Producer<T> {
    ring: Arc<Shared<T>>,
    /// Own position, as last stored in `ring.tail`.
    tail: usize,
    /// The slot of `tail`.
    index: usize,
    /// The consumer's position as last loaded; the consumer may be further.
    head_seen: usize,
}

impl<T: Copy + Send> Producer<T> {
    /// Number of elements there is room for in an empty ring.
    #[must_use]
    #[inline]
    pub fn capacity(&self) -> usize {
        self.ring.capacity()
    }

    /// Number of elements that can be pushed now; the consumer can only make it more.
    #[must_use]
    #[inline]
    pub fn free(&mut self) -> usize {
        self.room(self.capacity())
    }

    /// Appends an element.
    ///
    /// # Errors
    ///
    /// [`Full`] when the consumer has not kept up.
    #[inline]
    pub fn push(&mut self, value: T) -> Result<(), Full> {
        if self.room(1) == 0 {
            return Err(Full);
        }
        // SAFETY: `index` is below the capacity, and the slot is the producer's until `commit`.
        unsafe { self.ring.values.write(self.index, value) };
        self.commit(1);
        Ok(())
    }

    /// Appends as many of the values, first to last, as there is room for, and returns how many.
    #[inline]
    pub fn push_slice(&mut self, values: &[T]) -> usize {
        let count = self.room(values.len()).min(values.len());
        let unwrapped = count.min(self.capacity() - self.index);
        let (first, rest) = values[..count].split_at(unwrapped);
        // SAFETY: both parts lie inside the ring, in `count` free slots from `index` on, which are
        // the producer's until `commit`.
        unsafe {
            self.ring.values.write_slice(self.index, first);
            self.ring.values.write_slice(0, rest);
        }
        self.commit(count);
        count
    }

    /// Whether the consumer has been dropped, so that nobody will read what is pushed.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        has_one_end(&self.ring)
    }

    /// Number of free slots as far as known, after another look if that is less than `wanted`.
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

    /// Gives `count` written elements to the consumer.
    #[inline]
    fn commit(&mut self, count: usize) {
        self.tail = self.tail.wrapping_add(count);
        self.index = self.ring.index_after(self.index, count);
        // SYNC POINT, pairs with the acquire load in `Consumer::waiting`: the elements before the
        // position.
        self.ring.tail.store(self.tail, Ordering::Release);
    }
}

/// The end of an [`SpscRing`] that elements come out of.
#[derive(Debug)]
pub struct Consumer<T> {
    ring: Arc<Shared<T>>,
    /// Own position, as last stored in `ring.head`.
    head: usize,
    /// The slot of `head`.
    index: usize,
    /// The producer's position as last loaded; the producer may be further.
    tail_seen: usize,
}

impl<T: Copy + Send> Consumer<T> {
    /// Number of elements there is room for in an empty ring.
    #[must_use]
    #[inline]
    pub fn capacity(&self) -> usize {
        self.ring.capacity()
    }

    /// Number of elements that can be popped now; the producer can only make it more.
    #[must_use]
    #[inline]
    pub fn len(&mut self) -> usize {
        self.waiting(self.capacity())
    }

    /// Whether nothing can be popped now.
    #[must_use]
    #[inline]
    pub fn is_empty(&mut self) -> bool {
        self.waiting(1) == 0
    }

    /// Takes the oldest element out.
    ///
    /// # Errors
    ///
    /// [`Empty`] when the producer has pushed nothing since.
    #[inline]
    pub fn pop(&mut self) -> Result<T, Empty> {
        if self.waiting(1) == 0 {
            return Err(Empty);
        }
        // SAFETY: `index` is below the capacity; the slot was written before the producer gave it
        // away, and is the consumer's until `release`.
        let value = unsafe { self.ring.values.read(self.index) };
        self.release(1);
        Ok(value)
    }

    /// Takes as many elements out as there are and `values` has room for, oldest first, and
    /// returns how many. What lies behind them in `values` is left as it is.
    #[inline]
    pub fn pop_slice(&mut self, values: &mut [T]) -> usize {
        let count = self.waiting(values.len()).min(values.len());
        let unwrapped = count.min(self.capacity() - self.index);
        let (first, rest) = values[..count].split_at_mut(unwrapped);
        // SAFETY: both parts lie inside the ring, in `count` written slots from `index` on, which
        // are the consumer's until `release`.
        unsafe {
            self.ring.values.read_slice(self.index, first);
            self.ring.values.read_slice(0, rest);
        }
        self.release(count);
        count
    }

    /// Whether the producer has been dropped, so that nothing more will come once this is empty.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        has_one_end(&self.ring)
    }

    /// Number of elements as far as known, after another look if that is less than `wanted`.
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

    /// Gives `count` slots back to the producer.
    #[inline]
    fn release(&mut self, count: usize) {
        self.head = self.head.wrapping_add(count);
        self.index = self.ring.index_after(self.index, count);
        // SYNC POINT, pairs with the acquire load in `Producer::room`: copied out before given
        // back.
        self.ring.head.store(self.head, Ordering::Release);
    }
}
