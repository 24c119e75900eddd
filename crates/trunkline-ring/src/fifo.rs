//! The multi-element FIFO: several writers and readers; each element goes to one reader.

use crate::last_value::check_width;
use crate::slot_ring::{Empty, Full, Overflow, SlotRing};

/// The multi-element FIFO of a variable, in words.
///
/// A ring of exactly `capacity` elements of `words` words each, allocated in full at the beginning.
/// Any thread may write and any thread may read. Each element goes to one of the readers. If every
/// reader must see every element, use one FIFO per reader.
///
/// A full FIFO either refuses an element ([`try_push`](Self::try_push)), or drops its oldest
/// elements and returns their number ([`push_overwriting`](Self::push_overwriting)). An empty FIFO
/// returns an error; a [`FifoReader`] then returns the last element that *it* has read.
///
/// # Progress
///
/// No operation waits for another thread, even if that thread has been preempted. The operations
/// are lock-free, and repeat a claim only if another thread's claim came first.
///
/// - Writers never wait for readers, and readers never wait for writers. A writer reports full if
///   the next slot has not been read yet or is being read. A reader reports empty if the next
///   element has not been written yet or is being written.
/// - A writer that is interrupted in the middle of an element therefore delays the elements after
///   it until it continues. Those elements remain in order and are not lost.
///
/// # Real-time
///
/// Only [`new`](Self::new) allocates. No operation locks or makes a system call.
///
/// ```
/// use trunkline_ring::{Fifo, Full};
///
/// let fifo = Fifo::new(2, 1);
/// fifo.try_push(&[1])?;
/// fifo.try_push(&[2])?;
/// assert_eq!(fifo.try_push(&[3]), Err(Full));
///
/// let overflow = fifo.push_overwriting(&[3]);
/// assert!(overflow.stored);
/// assert_eq!((overflow.dropped, fifo.overflows()), (1, 1));
///
/// let mut word = [0];
/// assert_eq!(fifo.try_pop(&mut word).map(|()| word), Ok([2]));
/// # Ok::<(), Full>(())
/// ```
#[derive(Debug)]
pub struct Fifo {
    ring: SlotRing,
}

impl Fifo {
    /// Creates an empty FIFO of `capacity` elements of `words` words each.
    ///
    /// # Panics
    ///
    /// If `capacity` or `words` is 0, or the elements do not fit in memory.
    pub fn new(capacity: usize, words: usize) -> Self {
        Self {
            ring: SlotRing::new(capacity, words),
        }
    }

    #[inline]
    pub fn capacity(&self) -> usize {
        self.ring.capacity()
    }

    /// Returns the width of an element, in words.
    #[inline]
    pub fn words(&self) -> usize {
        self.ring.width()
    }

    /// Returns the number of elements in the FIFO at some moment during the call, including
    /// elements that are being written or read.
    #[inline]
    pub fn len(&self) -> usize {
        self.ring.len()
    }

    /// Returns true if the FIFO was empty at some moment during the call.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of elements lost to [`push_overwriting`](Self::push_overwriting) so far,
    /// which is the sum of the numbers that its calls have returned.
    #[inline]
    pub fn overflows(&self) -> u64 {
        self.ring.dropped()
    }

    /// Appends an element.
    ///
    /// # Errors
    ///
    /// [`Full`] if the slot after the last element is not free. The caller still has the element,
    /// which does not count as lost.
    #[inline]
    #[track_caller]
    pub fn try_push(&self, element: &[u64]) -> Result<(), Full> {
        check_width(element.len(), self.words());
        self.ring.try_push(element)
    }

    /// Appends an element, and drops the oldest elements if there is no room for it.
    ///
    /// In one case the new element itself is refused and counted as lost: a thread was interrupted
    /// while it was copying into or out of the slot that the element needs. Dropping other elements
    /// would not free that slot.
    #[inline]
    #[track_caller]
    pub fn push_overwriting(&self, element: &[u64]) -> Overflow {
        check_width(element.len(), self.words());
        self.ring.push_overwriting(element, &[]).0
    }

    /// Like [`try_push`](Self::try_push), for an element in two parts, such as a block and its
    /// timestamp. Returns its position in the order of all elements. The positions of the elements
    /// of one FIFO increase, but not always by one.
    #[inline]
    #[track_caller]
    pub fn try_push_parts(&self, first: &[u64], rest: &[u64]) -> Result<u64, Full> {
        check_width(first.len() + rest.len(), self.words());
        self.ring.try_push_parts(first, rest)
    }

    /// Like [`push_overwriting`](Self::push_overwriting), for an element in two parts. Also returns
    /// its position, like [`try_push_parts`](Self::try_push_parts). For a refused element, this is
    /// the position of a later element.
    #[inline]
    #[track_caller]
    pub fn push_parts_overwriting(&self, first: &[u64], rest: &[u64]) -> (Overflow, u64) {
        check_width(first.len() + rest.len(), self.words());
        self.ring.push_overwriting(first, rest)
    }

    /// Removes the oldest element and copies it to `element`. After an error, `element` is
    /// unchanged.
    #[inline]
    #[track_caller]
    pub fn try_pop(&self, element: &mut [u64]) -> Result<(), Empty> {
        check_width(element.len(), self.words());
        self.ring.try_pop(element)
    }

    /// Removes the oldest element without copying it: `take` receives it in place, before its slot
    /// is freed.
    ///
    /// # Errors
    ///
    /// [`Empty`] if the next element is not available; `take` is not called.
    #[inline]
    pub fn try_pop_with<R>(&self, take: impl FnOnce(&[u64]) -> R) -> Result<R, Empty> {
        self.ring.try_pop_with(take)
    }
}

/// The result of `FifoReader::read`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FifoReading<'a> {
    /// The element just removed. If there was none, the last element that this reader has read, or
    /// the default.
    pub words: &'a [u64],
    /// True if the FIFO was empty, so that this is not a new element.
    pub underflow: bool,
}

/// A reader of a [`Fifo`] that remembers the last element it has read.
///
/// `F` points to the FIFO: `&Fifo`, `Arc<Fifo>` and so on. Each reader belongs to one thread.
///
/// # Real-time
///
/// Only the constructors allocate; [`read`](Self::read) does not, and makes no system call.
///
/// ```
/// use trunkline_ring::{Fifo, FifoReader};
///
/// let fifo = Fifo::new(8, 1);
/// let mut reader = FifoReader::new(&fifo);
///
/// let reading = reader.read();
/// assert_eq!((reading.words, reading.underflow), (&[0][..], true)); // the default
///
/// fifo.try_push(&[5])?;
/// let reading = reader.read();
/// assert_eq!((reading.words, reading.underflow), (&[5][..], false));
/// let reading = reader.read();
/// assert_eq!((reading.words, reading.underflow), (&[5][..], true)); // the last one again
/// # Ok::<(), trunkline_ring::Full>(())
/// ```
#[derive(Debug)]
pub struct FifoReader<F> {
    fifo: F,
    last: Box<[u64]>,
}

impl<F> FifoReader<F>
where
    F: std::ops::Deref<Target = Fifo>,
{
    /// Creates a reader whose default is an element of zero words, which represent the default
    /// value of every [`Word`](crate::Word) type.
    pub fn new(fifo: F) -> Self {
        let last = vec![0; fifo.words()].into();
        Self { fifo, last }
    }

    /// Creates a reader that returns `default` until it has read an element.
    ///
    /// # Panics
    ///
    /// If `default` does not have the width of the FIFO's elements.
    #[track_caller]
    pub fn with_default(fifo: F, default: &[u64]) -> Self {
        check_width(default.len(), fifo.words());
        Self {
            fifo,
            last: default.into(),
        }
    }

    /// Removes and returns the oldest element, or returns the last element again if the FIFO is
    /// empty.
    #[inline]
    pub fn read(&mut self) -> FifoReading<'_> {
        let underflow = self.fifo.ring.try_pop(&mut self.last).is_err();
        FifoReading {
            words: &self.last,
            underflow,
        }
    }

    pub fn fifo(&self) -> &Fifo {
        &self.fifo
    }
}
