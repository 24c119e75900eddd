//! Provides access to the elements in a reader's buffer without a copy.

use std::marker::PhantomData;
use std::ops::Deref;

use crate::element::Plain;

use super::ReaderCore;

/// Contiguous elements in a reader's buffer. The elements count as read when the region is dropped.
///
/// Both programs of a stream on one machine share this memory. A faulty or hostile writing program
/// can modify the elements while you use them. If you validate elements, copy them first.
pub struct Region<'a, T: Plain> {
    core: &'a mut ReaderCore,
    count: usize,
    element_type: PhantomData<T>,
}

impl<'a, T: Plain> Region<'a, T> {
    /// Creates a region of the next `count` elements, which must be available.
    pub(crate) fn new(core: &'a mut ReaderCore, count: usize) -> Self {
        Self {
            core,
            count,
            element_type: PhantomData,
        }
    }
}

impl<T: Plain> Deref for Region<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // The offset is a multiple of the element's size, in memory that begins at a page boundary.
        bytemuck::cast_slice(self.core.available_region(self.count * size_of::<T>()))
    }
}

impl<T: Plain> Drop for Region<'_, T> {
    fn drop(&mut self) {
        self.core.release(self.count * size_of::<T>(), self.count);
    }
}

impl<T: Plain + std::fmt::Debug> std::fmt::Debug for Region<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The contiguous bytes of complete elements in a reader's buffer. The elements count as read when
/// the region is dropped. The writing program may share this memory: see [`Region`].
pub struct ByteRegion<'a> {
    core: &'a mut ReaderCore,
    bytes: usize,
    count: usize,
}

impl<'a> ByteRegion<'a> {
    /// Creates a region of the next `count` elements of `size` bytes, which must be available.
    pub(crate) fn new(core: &'a mut ReaderCore, size: usize, count: usize) -> Self {
        Self {
            core,
            bytes: count * size,
            count,
        }
    }

    pub fn elements(&self) -> usize {
        self.count
    }
}

impl Deref for ByteRegion<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.core.available_region(self.bytes)
    }
}

impl Drop for ByteRegion<'_> {
    fn drop(&mut self) {
        self.core.release(self.bytes, self.count);
    }
}

impl std::fmt::Debug for ByteRegion<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ByteRegion")
            .field("bytes", &self.bytes)
            .field("count", &self.count)
            .finish()
    }
}
