//! Elements used where they have arrived.

use std::marker::PhantomData;
use std::ops::Deref;

use crate::element::Plain;

use super::ReaderCore;

/// Elements of a reader's buffer, in one piece. Dropping it gives them back: they have been read.
///
/// Both programs of a stream on one machine share this memory. A writing program that breaks the
/// rules can alter the elements while you use them, so copy what you check before you rely on it.
pub struct Region<'a, T: Plain> {
    core: &'a mut ReaderCore,
    count: usize,
    of: PhantomData<T>,
}

impl<'a, T: Plain> Region<'a, T> {
    /// The next `count` elements, which are there.
    pub(crate) fn new(core: &'a mut ReaderCore, count: usize) -> Self {
        Self {
            core,
            count,
            of: PhantomData,
        }
    }
}

impl<T: Plain> Deref for Region<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // At a multiple of the element's size in memory that begins at a page.
        bytemuck::cast_slice(self.core.known_region(self.count * size_of::<T>()))
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
