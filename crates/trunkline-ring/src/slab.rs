//! The memory of a ring: a fixed number of cells, each written by its current owner.

use std::mem::MaybeUninit;

/// A fixed array of `T` that gives out no references, but copies values in and out.
///
/// It does not know which thread owns a cell; the ring that uses it does, from its sequence stamps
/// or indices. Every access is therefore `unsafe`.
pub(crate) struct Slab<T> {
    #[cfg(not(loom))]
    cells: Box<[std::cell::UnsafeCell<MaybeUninit<T>>]>,
    #[cfg(loom)]
    cells: Box<[crate::sync::TracedCell<MaybeUninit<T>>]>,
}

// SAFETY: a `Slab` gives access to its cells only through `unsafe` methods, whose contract is that
// the caller has exclusive access to the cell; what moves between threads are values of `T: Send`.
unsafe impl<T: Send> Sync for Slab<T> {}

impl<T: Copy> Slab<T> {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.cells.len()
    }
}

#[cfg(not(loom))]
impl<T: Copy> Slab<T> {
    /// Allocates `len` cells and touches each page, so that no later access causes a page fault.
    pub(crate) fn new(len: usize) -> Self {
        /// Minimum page size of all supported systems.
        const PAGE_BYTES_MIN: usize = 4096;

        let mut cells: Box<[_]> = (0..len)
            .map(|_| std::cell::UnsafeCell::new(MaybeUninit::<T>::uninit()))
            .collect();
        let bytes = size_of_val(&*cells);
        let start = cells.as_mut_ptr().cast::<u8>();
        for offset in (0..bytes).step_by(PAGE_BYTES_MIN) {
            // SAFETY: `offset` is below the size of the allocation, which is not shared yet, and a
            // `MaybeUninit` may hold any byte.
            unsafe { start.add(offset).write_volatile(0) };
        }
        Self { cells }
    }

    /// Returns a pointer to the first cell.
    pub(crate) fn start(&self) -> std::ptr::NonNull<T> {
        // SAFETY: no slice begins at null.
        unsafe { std::ptr::NonNull::new_unchecked(self.cells.as_ptr().cast_mut().cast()) }
    }
}

/// The same under loom, cell by cell, so that loom sees every access and reports a race.
#[cfg(loom)]
impl<T: Copy> Slab<T> {
    pub(crate) fn new(len: usize) -> Self {
        let cell = |_| crate::sync::TracedCell::new(MaybeUninit::uninit());
        Self {
            cells: (0..len).map(cell).collect(),
        }
    }

    pub(crate) unsafe fn write(&self, at: usize, value: T) {
        // SAFETY: loom reports callers that break the contract.
        self.cells[at].with_mut(|cell| unsafe { (*cell).write(value) });
    }

    pub(crate) unsafe fn read(&self, at: usize) -> T {
        // SAFETY: as above; the caller guarantees that the value has been written.
        self.cells[at].with(|cell| unsafe { (*cell).assume_init() })
    }

    pub(crate) unsafe fn write_slice(&self, at: usize, values: &[T]) {
        for (offset, value) in values.iter().enumerate() {
            // SAFETY: the caller guarantees exclusive access to every cell of the range.
            unsafe { self.write(at + offset, *value) };
        }
    }

    pub(crate) unsafe fn read_slice(&self, at: usize, values: &mut [T]) {
        for (offset, value) in values.iter_mut().enumerate() {
            // SAFETY: the caller guarantees every cell of the range.
            *value = unsafe { self.read(at + offset) };
        }
    }
}

impl<T> std::fmt::Debug for Slab<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slab")
            .field("cells", &self.cells.len())
            .finish_non_exhaustive()
    }
}
