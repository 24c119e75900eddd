//! The multi-element FIFO of one type.

use std::mem::MaybeUninit;

use crate::slot_ring::{Empty, Full, Overflow, SlotRing};

/// The multi-element FIFO of one type: a [`Fifo`](crate::Fifo) that needs no words.
///
/// An element belongs to one thread at a time, so any plain type can be one: a number, an array of
/// fixed length, a struct of such. What `Fifo` says of progress and of real-time holds here too.
///
/// ```
/// use trunkline_ring::{TypedFifo, TypedFifoReader};
///
/// let fifo = TypedFifo::<[f64; 3]>::new(16);
/// fifo.try_push([1.0, 2.0, 3.0])?;
///
/// let mut reader = TypedFifoReader::new(&fifo);
/// assert_eq!(reader.read(), ([1.0, 2.0, 3.0], false));
/// assert_eq!(reader.read(), ([1.0, 2.0, 3.0], true)); // underflow: the last element again
/// # Ok::<(), trunkline_ring::Full>(())
/// ```
#[derive(Debug)]
pub struct TypedFifo<T> {
    ring: SlotRing<T>,
}

impl<T: Copy + Send> TypedFifo<T> {
    /// An empty FIFO of `capacity` elements.
    ///
    /// # Panics
    ///
    /// When `capacity` is 0, or the elements do not fit in memory.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self {
            ring: SlotRing::new(capacity, 1),
        }
    }

    /// Number of elements there is room for.
    #[must_use]
    #[inline]
    pub fn capacity(&self) -> usize {
        self.ring.capacity()
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

    /// Number of elements lost to [`push_overwriting`](Self::push_overwriting) so far.
    #[must_use]
    #[inline]
    pub fn overflows(&self) -> u64 {
        self.ring.dropped()
    }

    /// Appends an element.
    ///
    /// # Errors
    ///
    /// [`Full`] when the slot behind the last element is not free.
    #[inline]
    pub fn try_push(&self, element: T) -> Result<(), Full> {
        self.ring.try_push(&[element])
    }

    /// Appends an element, and drops the oldest ones when there is no room for it; see
    /// [`Fifo::push_overwriting`](crate::Fifo::push_overwriting).
    #[inline]
    pub fn push_overwriting(&self, element: T) -> Overflow {
        self.ring.push_overwriting(&[element], &[]).0
    }

    /// Takes the oldest element out.
    ///
    /// # Errors
    ///
    /// [`Empty`] when the next element is not there.
    #[inline]
    pub fn try_pop(&self) -> Result<T, Empty> {
        let mut element = MaybeUninit::uninit();
        // SAFETY: there is room for one element, of one value.
        unsafe { self.ring.try_pop_to(element.as_mut_ptr())? };
        // SAFETY: the pop succeeded, so it has written the element.
        Ok(unsafe { element.assume_init() })
    }

    /// Appends as many of the elements, first to last, as there is room for, and returns how many.
    #[inline]
    pub fn try_push_slice(&self, elements: &[T]) -> usize {
        self.ring.try_push_slice(elements)
    }

    /// Takes as many elements out as there are and `elements` has room for, oldest first, and
    /// returns how many. What lies behind them in `elements` is left as it is.
    #[inline]
    pub fn try_pop_slice(&self, elements: &mut [T]) -> usize {
        self.ring.try_pop_slice(elements)
    }
}

/// One reader of a [`TypedFifo`], which remembers the last element it has read.
///
/// `F` points to the FIFO: `&TypedFifo<T>`, `Arc<TypedFifo<T>>` and so on. It allocates nothing.
#[derive(Debug)]
pub struct TypedFifoReader<F, T> {
    fifo: F,
    last: [T; 1],
}

impl<F, T> TypedFifoReader<F, T>
where
    F: std::ops::Deref<Target = TypedFifo<T>>,
    T: Copy + Send,
{
    /// A reader that gives the type's default until it has read an element.
    #[must_use]
    pub fn new(fifo: F) -> Self
    where
        T: Default,
    {
        Self::with_default(fifo, T::default())
    }

    /// A reader that gives `default` until it has read an element.
    #[must_use]
    pub fn with_default(fifo: F, default: T) -> Self {
        Self {
            fifo,
            last: [default],
        }
    }

    /// The oldest element, taken out, and `false`; or, when the FIFO is empty, the last element
    /// this reader has read and `true` for underflow.
    #[inline]
    pub fn read(&mut self) -> (T, bool) {
        let underflow = self.fifo.ring.try_pop(&mut self.last).is_err();
        let [element] = self.last;
        (element, underflow)
    }

    /// The FIFO this reader reads.
    #[must_use]
    pub fn fifo(&self) -> &TypedFifo<T> {
        &self.fifo
    }
}
