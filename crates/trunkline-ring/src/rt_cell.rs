//! The single-element FIFO: several writers, several readers, reads repeat the newest value.

use crate::four_slots::{CellBusy, FourSlots, SLOTS};
use crate::last_value::Snapshot;
use crate::reader::WordCell;
use crate::reader::sealed::Sealed;

/// The single-element FIFO of a variable, in words.
///
/// Any thread may write and any thread may read, without a lock. Every reader gets the newest
/// complete value. Neither an overflow nor an underflow is possible.
///
/// Writes are numbered consecutively from 1 when they are claimed, and the newest claimed write
/// wins: a write that was interrupted and ends late never replaces a newer value. Such a write is
/// still counted, so the difference between the numbers of two snapshots is the number of writes
/// between them.
///
/// # Progress
///
/// - A read is wait-free: up to [`READ_ATTEMPTS_MAX`](crate::READ_ATTEMPTS_MAX) copies, but only
///   one unless two or more newer writes complete during the copy. It never waits for a writer.
/// - A write is lock-free: it repeats its claim only if another writer's claim came first, and
///   after the claim it takes a bounded number of steps. It never waits for a reader.
/// - With four slots, three writers can be in the middle of a write, running or not. A fourth
///   writer at the same instant searches for a slot for a few microseconds and then returns
///   [`CellBusy`], without having written anything or taken a number. This cannot happen with up to
///   three writing threads.
///
/// # Real-time
///
/// Only [`new`](Self::new) allocates; nothing else allocates, locks or makes a system call.
///
/// ```
/// use trunkline_ring::RtCell;
///
/// let cell = RtCell::new(1);
/// assert_eq!(cell.write(&[42])?, 1);
///
/// let mut word = [0];
/// assert!(cell.read(&mut word).complete);
/// assert_eq!(word, [42]);
/// # Ok::<(), trunkline_ring::CellBusy>(())
/// ```
#[derive(Debug)]
pub struct RtCell {
    cell: FourSlots,
}

impl RtCell {
    /// Number of values for which the cell has memory.
    pub const SLOTS: usize = SLOTS;

    /// Creates a cell for values of `words` words, all zero until the first write.
    pub fn new(words: usize) -> Self {
        Self {
            cell: FourSlots::new(words),
        }
    }

    #[inline]
    pub fn words(&self) -> usize {
        self.cell.width()
    }

    /// Returns the number of the newest complete write; 0 before the first.
    #[inline]
    pub fn count(&self) -> u64 {
        self.cell.count()
    }

    /// Sets the value to `words`, unless a write claimed later is already complete. Returns the
    /// number of this write.
    ///
    /// # Errors
    ///
    /// [`CellBusy`] if three other writers are in the middle of a write and do not finish in time.
    #[inline]
    #[track_caller]
    pub fn write(&self, words: &[u64]) -> Result<u64, CellBusy> {
        self.write_parts(words, &[])
    }

    /// Like [`write`](Self::write), for a value in two parts.
    ///
    /// # Errors
    ///
    /// Same as for `write`.
    #[inline]
    #[track_caller]
    pub fn write_parts(&self, first: &[u64], rest: &[u64]) -> Result<u64, CellBusy> {
        self.cell.write_parts(first, rest)
    }

    /// Copies the newest complete value into `out`.
    ///
    /// If the [`Snapshot`] is not complete, the words in `out` are unspecified; a
    /// [`Reader`](crate::Reader) returns its previous reading in that case.
    #[inline]
    #[track_caller]
    pub fn read(&self, out: &mut [u64]) -> Snapshot {
        self.cell.read(out)
    }
}

impl Sealed for RtCell {}

impl WordCell for RtCell {
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
