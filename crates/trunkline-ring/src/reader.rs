//! A reader that keeps its last reading.

use std::ops::Deref;

use crate::last_value::LastValue;
use crate::rt_cell::{RtCell, TypedCell};
use crate::snapshot::Snapshot;
use crate::words::{WordArray, Words};

/// A cell whose last complete value can be read as words: [`LastValue`], [`RtCell`], [`TypedCell`].
pub trait WordCell: sealed::Sealed {
    /// Width of a value, in words.
    fn words(&self) -> usize;
    /// Number of the last complete write; 0 before the first.
    fn count(&self) -> u64;
    /// Copies the last complete value into `out`.
    fn read(&self, out: &mut [u64]) -> Snapshot;
}

mod sealed {
    use super::*;

    pub trait Sealed {}
    impl Sealed for LastValue {}
    impl Sealed for RtCell {}
    impl<T: Words> Sealed for TypedCell<T> {}
}

/// What a [`Reader`] has of its cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading<'a> {
    /// One complete value.
    pub words: &'a [u64],
    /// Number of the write that made it; 0 when nothing has been written yet.
    pub count: u64,
    /// Whether a newer value is there but could not be read, because writers overtook the reader
    /// [`READ_ATTEMPTS_MAX`](crate::READ_ATTEMPTS_MAX) times; this is then the reader's previous
    /// reading.
    pub stale_read: bool,
}

impl Reading<'_> {
    /// The value as a type; `None` when a `T` has another width than the cell.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use trunkline_ring::{Reader, TypedCell};
    ///
    /// let level = Arc::new(TypedCell::new(0.0_f64));
    /// let mut reader = Reader::new(Arc::clone(&level));
    /// level.write(1.25)?;
    /// assert_eq!(reader.read().value::<f64>(), Some(1.25));
    /// # Ok::<(), trunkline_ring::CellBusy>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn value<T: Words>(&self) -> Option<T> {
        let mut array = T::Array::ZERO;
        if array.as_ref().len() != self.words.len() {
            return None;
        }
        array.as_mut().copy_from_slice(self.words);
        Some(T::from_words(array))
    }
}

/// Reads one cell and keeps what it read, so that it always has a complete value to give.
///
/// `C` points to the cell: `&LastValue`, `Arc<RtCell>` and so on. Each reader is one thread's.
///
/// # Real-time
///
/// Only [`new`](Self::new) allocates. [`read`](Self::read) is wait-free, makes no system call, and
/// copies only when the cell has been written since.
#[derive(Debug)]
pub struct Reader<C> {
    cell: C,
    kept: Box<[u64]>,
    /// Number of the write that `kept` is a copy of.
    count: u64,
    /// Where a copy is made; changes places with `kept` once it is known to be complete.
    copy: Box<[u64]>,
}

impl<C> Reader<C>
where
    C: Deref,
    C::Target: WordCell,
{
    /// A reader of `cell`. Until its first complete reading it has words of zero, number 0.
    #[must_use]
    pub fn new(cell: C) -> Self {
        let width = cell.words();
        let mut reader = Self {
            cell,
            kept: vec![0; width].into(),
            count: 0,
            copy: vec![0; width].into(),
        };
        reader.refresh();
        reader
    }

    /// The last complete value, or the previous reading, marked, if writers kept overtaking.
    #[inline]
    pub fn read(&mut self) -> Reading<'_> {
        let is_current = self.cell.count() == self.count || self.refresh();
        Reading {
            words: &self.kept,
            count: self.count,
            stale_read: !is_current,
        }
    }

    /// The cell this reader reads.
    #[must_use]
    pub fn cell(&self) -> &C::Target {
        &self.cell
    }

    /// Copies the last complete value; false when writers overtook every attempt.
    #[inline(never)]
    fn refresh(&mut self) -> bool {
        let snapshot = self.cell.read(&mut self.copy);
        if snapshot.complete {
            std::mem::swap(&mut self.kept, &mut self.copy);
            self.count = snapshot.count;
        }
        snapshot.complete
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
