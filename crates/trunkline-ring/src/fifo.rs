//! The multi-element FIFO: several writers, several readers, each element to one reader.

use crate::slot_ring::{Empty, Full, Overflow, SlotRing};
use crate::snapshot::check_width;

/// The multi-element FIFO of a variable, in words.
///
/// A ring of exactly `capacity` elements of `words` words each; all memory is there from the
/// beginning. Any thread writes, any thread reads, and an element goes to one of the readers. A
/// design in which every reader sees every element has one FIFO per reader.
///
/// A full FIFO refuses ([`try_push`](Self::try_push)) or drops its oldest elements and says how
/// many ([`push_overwriting`](Self::push_overwriting)). An empty one says so; a [`FifoReader`] then
/// gives the last element *it* has read.
///
/// # Progress
///
/// Nobody waits, whoever else has lost its processor: the operations are lock-free, and repeat a
/// claim only when another thread's claim came first.
///
/// - Writers never wait for readers or the other way round. A writer that finds the next slot not
///   yet read, or just being read, reports full; a reader that finds the next element not yet
///   written, or just being written, reports empty.
/// - So a writer that is interrupted in the middle of an element holds back the elements behind it
///   until it goes on: they are in order, and not lost.
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
/// let mut words = [0; 2];
/// assert_eq!(fifo.try_pop_slice(&mut words), 2);
/// assert_eq!(words, [2, 3]);
/// # Ok::<(), Full>(())
/// ```
#[derive(Debug)]
pub struct Fifo {
    ring: SlotRing<u64>,
}

impl Fifo {
    /// An empty FIFO of `capacity` elements of `words` words each.
    ///
    /// # Panics
    ///
    /// When `capacity` or `words` is 0, or the elements do not fit in memory.
    #[must_use]
    pub fn new(capacity: usize, words: usize) -> Self {
        Self {
            ring: SlotRing::new(capacity, words),
        }
    }

    /// Number of elements there is room for.
    #[must_use]
    #[inline]
    pub fn capacity(&self) -> usize {
        self.ring.capacity()
    }

    /// Width of an element, in words.
    #[must_use]
    #[inline]
    pub fn words(&self) -> usize {
        self.ring.width()
    }

    /// Number of elements waiting, at some moment during the call; those that are being written or
    /// read count.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.ring.len()
    }

    /// Whether no element is waiting, at some moment during the call.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of elements lost to [`push_overwriting`](Self::push_overwriting) so far: the sum of
    /// what its calls have reported.
    #[must_use]
    #[inline]
    pub fn overflows(&self) -> u64 {
        self.ring.dropped()
    }

    /// Appends an element.
    ///
    /// # Errors
    ///
    /// [`Full`] when the slot behind the last element is not free; the element is the caller's
    /// still, and not counted as lost.
    ///
    /// # Panics
    ///
    /// When `element` does not have the declared width.
    #[inline]
    #[track_caller]
    pub fn try_push(&self, element: &[u64]) -> Result<(), Full> {
        check_width(element.len(), self.words());
        self.ring.try_push(element)
    }

    /// Appends an element, and drops the oldest ones when there is no room for it.
    ///
    /// The new element itself is refused, and counted as lost, in one case: its slot is in the
    /// hands of a thread that was interrupted while copying out of it or into it. Dropping others
    /// would not free that slot.
    ///
    /// # Panics
    ///
    /// When `element` does not have the declared width.
    #[inline]
    #[track_caller]
    pub fn push_overwriting(&self, element: &[u64]) -> Overflow {
        check_width(element.len(), self.words());
        self.ring.push_overwriting(element, &[]).0
    }

    /// [`try_push`](Self::try_push) of an element that lies in two parts, such as a block and its
    /// timestamp. Returns its place in the order of all elements: the places of elements of one
    /// FIFO grow from each to the next, not by one.
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// # Panics
    ///
    /// When the parts together do not have the declared width.
    #[inline]
    #[track_caller]
    pub fn try_push_parts(&self, first: &[u64], rest: &[u64]) -> Result<u64, Full> {
        check_width(first.len() + rest.len(), self.words());
        self.ring.try_push_parts(first, rest)
    }

    /// [`push_overwriting`](Self::push_overwriting) of an element that lies in two parts. Also
    /// returns its place, as [`try_push_parts`](Self::try_push_parts) does; of an element that was
    /// refused, that of one that comes next.
    ///
    /// # Panics
    ///
    /// When the parts together do not have the declared width.
    #[inline]
    #[track_caller]
    pub fn push_parts_overwriting(&self, first: &[u64], rest: &[u64]) -> (Overflow, u64) {
        check_width(first.len() + rest.len(), self.words());
        self.ring.push_overwriting(first, rest)
    }

    /// Takes the oldest element out and copies it to `element`, which is otherwise left as it is.
    ///
    /// # Errors
    ///
    /// [`Empty`] when the next element is not there.
    ///
    /// # Panics
    ///
    /// When `element` does not have the declared width.
    #[inline]
    #[track_caller]
    pub fn try_pop(&self, element: &mut [u64]) -> Result<(), Empty> {
        check_width(element.len(), self.words());
        self.ring.try_pop(element)
    }

    /// Takes the oldest element out where it lies: `take` is shown it, before its slot is free.
    ///
    /// # Errors
    ///
    /// [`Empty`] when the next element is not there; `take` is not called.
    #[inline]
    pub fn try_pop_with<R>(&self, take: impl FnOnce(&[u64]) -> R) -> Result<R, Empty> {
        self.ring.try_pop_with(take)
    }

    /// Appends as many of the elements, first to last, as there is room for, and returns how many.
    ///
    /// One claim serves them all, and no element of another writer comes between them.
    ///
    /// # Panics
    ///
    /// When `elements` is not a whole number of elements.
    #[inline]
    #[track_caller]
    pub fn try_push_slice(&self, elements: &[u64]) -> usize {
        check_whole(elements.len(), self.words());
        self.ring.try_push_slice(elements)
    }

    /// Takes as many elements out as there are and `elements` has room for, oldest first, and
    /// returns how many. What lies behind them in `elements` is left as it is.
    ///
    /// # Panics
    ///
    /// When `elements` is not a whole number of elements.
    #[inline]
    #[track_caller]
    pub fn try_pop_slice(&self, elements: &mut [u64]) -> usize {
        check_whole(elements.len(), self.words());
        self.ring.try_pop_slice(elements)
    }
}

#[inline]
#[track_caller]
fn check_whole(words: usize, width: usize) {
    assert!(
        words.is_multiple_of(width),
        "the slice has {words} words and an element {width}: pass a whole number of elements"
    );
}

/// What a [`FifoReader`] gives: an element, and whether it is a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FifoReading<'a> {
    /// The element just taken out, or the last one this reader has taken, or the default.
    pub words: &'a [u64],
    /// Whether the FIFO was empty, so that this is not a new element.
    pub underflow: bool,
}

/// One reader of a [`Fifo`], which remembers the last element it has read.
///
/// `F` points to the FIFO: `&Fifo`, `Arc<Fifo>` and so on. Each reader is one thread's.
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
    /// A reader whose default is words of zero, which every [`Word`](crate::Word) type takes as its
    /// own default.
    #[must_use]
    pub fn new(fifo: F) -> Self {
        let last = vec![0; fifo.words()].into();
        Self { fifo, last }
    }

    /// A reader that gives `default` until it has read an element.
    ///
    /// # Panics
    ///
    /// When `default` does not have the width of the FIFO's elements.
    #[must_use]
    #[track_caller]
    pub fn with_default(fifo: F, default: &[u64]) -> Self {
        check_width(default.len(), fifo.words());
        Self {
            fifo,
            last: default.into(),
        }
    }

    /// Takes the oldest element out, or gives the last one again when the FIFO is empty.
    #[inline]
    pub fn read(&mut self) -> FifoReading<'_> {
        let underflow = self.fifo.ring.try_pop(&mut self.last).is_err();
        FifoReading {
            words: &self.last,
            underflow,
        }
    }

    /// The FIFO this reader reads.
    #[must_use]
    pub fn fifo(&self) -> &Fifo {
        &self.fifo
    }
}
