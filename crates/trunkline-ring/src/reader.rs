//! A reader that stores its last reading.

use std::ops::Deref;

use crate::last_value::{LastValue, Snapshot};

/// A cell whose last complete value can be read as words: [`LastValue`], [`RtCell`](crate::RtCell).
pub trait WordCell: sealed::Sealed {
    fn words(&self) -> usize;
    /// Returns the number of the last complete write; 0 before the first.
    fn count(&self) -> u64;
    fn read(&self, out: &mut [u64]) -> Snapshot;
}

pub(crate) mod sealed {
    pub trait Sealed {}
}

impl sealed::Sealed for LastValue {}

impl WordCell for LastValue {
    fn words(&self) -> usize {
        self.words()
    }

    fn count(&self) -> u64 {
        self.count()
    }

    fn read(&self, out: &mut [u64]) -> Snapshot {
        self.read(out)
    }
}

/// The result of `Reader::read`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading<'a> {
    pub words: &'a [u64],
    /// Number of the write that was read; 0 if nothing has been written yet.
    pub count: u64,
    /// True if a newer value exists but could not be read, because writers overtook the reader
    /// [`READ_ATTEMPTS_MAX`](crate::READ_ATTEMPTS_MAX) times. In that case, this is the reader's
    /// previous reading.
    pub stale_read: bool,
}

/// Reads one cell and stores the last reading, so that it can always return a complete value.
///
/// `C` points to the cell: `&LastValue`, `Arc<RtCell>` and so on. Each reader belongs to one
/// thread.
///
/// # Real-time
///
/// Only [`new`](Self::new) allocates. [`read`](Self::read) is wait-free, makes no system call, and
/// copies only if the cell has been written since the last reading.
#[derive(Debug)]
pub struct Reader<C> {
    cell: C,
    /// The last complete reading.
    last: Box<[u64]>,
    /// Number of the write of which `last` is a copy.
    count: u64,
    /// Target of the next copy; swapped with `last` once the copy is known to be complete.
    buffer: Box<[u64]>,
}

impl<C> Reader<C>
where
    C: Deref,
    C::Target: WordCell,
{
    /// Creates a reader of `cell`. Until its first complete reading, it returns zero words with the
    /// number 0.
    pub fn new(cell: C) -> Self {
        let width = cell.words();
        let mut reader = Self {
            cell,
            last: vec![0; width].into(),
            count: 0,
            buffer: vec![0; width].into(),
        };
        reader.refresh();
        reader
    }

    /// Returns the last complete value. If writers overtook every attempt, returns the previous
    /// reading, marked as stale.
    #[inline]
    pub fn read(&mut self) -> Reading<'_> {
        let is_current = self.cell.count() == self.count || self.refresh();
        Reading {
            words: &self.last,
            count: self.count,
            stale_read: !is_current,
        }
    }

    pub fn cell(&self) -> &C::Target {
        &self.cell
    }

    /// Copies the last complete value; returns false if writers overtook every attempt.
    #[inline(never)]
    fn refresh(&mut self) -> bool {
        let snapshot = self.cell.read(&mut self.buffer);
        if snapshot.complete {
            std::mem::swap(&mut self.last, &mut self.buffer);
            self.count = snapshot.count;
        }
        snapshot.complete
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
