//! The multi-element FIFO of one type.

use std::mem::MaybeUninit;

use crate::slot_ring::{Empty, Full, Overflow, SlotRing};

/// The multi-element FIFO of one type: a [`Fifo`](crate::Fifo) without the conversion to words.
///
/// An element belongs to one thread at a time, so it can be of any plain type: a number, an array
/// of fixed length, a struct of these. The sections on progress and real time of `Fifo` apply here
/// too.
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
    /// Creates an empty FIFO of `capacity` elements.
    ///
    /// # Panics
    ///
    /// If `capacity` is 0, or the elements do not fit in memory.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self {
            ring: SlotRing::new(capacity, 1),
        }
    }

    /// Maximum number of elements.
    #[must_use]
    #[inline]
    pub fn capacity(&self) -> usize {
        self.ring.capacity()
    }

    /// Number of elements in the FIFO at some moment during the call, including those that are
    /// being written or read.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.ring.len()
    }

    /// Returns true if the FIFO was empty at some moment during the call.
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
    /// [`Full`] if the slot behind the last element is not free.
    #[inline]
    pub fn try_push(&self, element: T) -> Result<(), Full> {
        self.ring.try_push(&[element])
    }

    /// Appends an element and drops the oldest ones if there is no room for it; see
    /// [`Fifo::push_overwriting`](crate::Fifo::push_overwriting).
    #[inline]
    pub fn push_overwriting(&self, element: T) -> Overflow {
        self.ring.push_overwriting(&[element], &[]).0
    }

    /// Removes and returns the oldest element.
    ///
    /// # Errors
    ///
    /// [`Empty`] if the next element is not available.
    #[inline]
    pub fn try_pop(&self) -> Result<T, Empty> {
        let mut element = MaybeUninit::uninit();
        // SAFETY: there is room for one element of one value.
        unsafe { self.ring.try_pop_to(element.as_mut_ptr())? };
        // SAFETY: the pop succeeded, so it has written the element.
        Ok(unsafe { element.assume_init() })
    }

    /// Appends as many of the elements, first to last, as there is room for, and returns their
    /// number.
    #[inline]
    pub fn try_push_slice(&self, elements: &[T]) -> usize {
        self.ring.try_push_slice(elements)
    }

    /// Removes as many elements as are available and fit in `elements`, oldest first, and returns
    /// their number. The rest of `elements` is unchanged.
    #[inline]
    pub fn try_pop_slice(&self, elements: &mut [T]) -> usize {
        self.ring.try_pop_slice(elements)
    }
}

/// One reader of a [`TypedFifo`] that remembers the last element it has read.
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
    /// Creates a reader that returns the type's default until it has read an element.
    #[must_use]
    pub fn new(fifo: F) -> Self
    where
        T: Default,
    {
        Self::with_default(fifo, T::default())
    }

    /// Creates a reader that returns `default` until it has read an element.
    #[must_use]
    pub fn with_default(fifo: F, default: T) -> Self {
        Self {
            fifo,
            last: [default],
        }
    }

    /// Removes the oldest element and returns it with `false`. If the FIFO is empty, returns the
    /// last element that this reader has read with `true` for underflow.
    #[inline]
    pub fn read(&mut self) -> (T, bool) {
        let underflow = self.fifo.ring.try_pop(&mut self.last).is_err();
        let [element] = self.last;
        (element, underflow)
    }

    #[must_use]
    pub fn fifo(&self) -> &TypedFifo<T> {
        &self.fifo
    }
}
