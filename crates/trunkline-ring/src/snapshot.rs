//! The result of reading a cell: a copy, and whether it is complete.

use crate::sync::{AtomicU64, Ordering};

/// Number of times that a reader overtaken by writers copies before it gives up.
///
/// This bounds a read, so that it ends in a time-critical loop whatever the writers do. A reader is
/// overtaken only if writes complete while it copies, so it reaches this limit only if it is
/// interrupted in each of its copies.
pub const READ_ATTEMPTS_MAX: usize = 8;

/// The result of one read of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Snapshot {
    /// Number of the write that was read: 1 for the first, 0 when nothing has been written yet.
    pub count: u64,
    /// True if the copy contains the words of one write. If `false`, writers overtook the reader
    /// [`READ_ATTEMPTS_MAX`] times: the copy may mix words of several writes, and the caller keeps
    /// what it read before.
    pub complete: bool,
}

impl Snapshot {
    /// A copy of write number `count`.
    #[inline]
    pub(crate) fn complete(count: u64) -> Self {
        Self {
            count,
            complete: true,
        }
    }

    /// No complete copy, because writers overtook the reader each time; `count` is their latest
    /// write.
    pub(crate) fn overtaken(count: u64) -> Self {
        Self {
            count,
            complete: false,
        }
    }
}

/// Makes the attempts to read that are left after the first one; returns `None` if all fail.
pub(crate) fn further_attempts(mut attempt: impl FnMut() -> Option<Snapshot>) -> Option<Snapshot> {
    (1..READ_ATTEMPTS_MAX).find_map(|_| attempt())
}

/// Checks that a caller's slice has the width of the cell or element.
#[inline]
#[track_caller]
pub(crate) fn check_width(given: usize, declared: usize) {
    if given != declared {
        wrong_width(given, declared);
    }
}

/// Checks that a caller's slice has the width of a cell, whose `count` slots lie in `slots`.
///
/// Comparing this way around also tells the compiler how long `slots` is, so that it need not check
/// the bounds of the slot that is copied.
#[inline]
#[track_caller]
pub(crate) fn check_width_of_slots(given: usize, slots: &[AtomicU64], count: usize) {
    if slots.len() != given * count {
        wrong_width(given, slots.len() / count);
    }
}

// Kept apart from the check, so that a read contains only a comparison and not the message.
#[cold]
#[inline(never)]
#[track_caller]
fn wrong_width(given: usize, declared: usize) -> ! {
    panic!(
        "the slice has {given} words and the element {declared}: pass a slice of the declared width"
    );
}

/// Copies words out of a slot that a writer may be overwriting at the same time.
///
/// Every word is read whole. The caller must check afterwards that they belong together.
#[inline]
pub(crate) fn copy_out(slot: &[AtomicU64], out: &mut [u64]) {
    for (target, source) in out.iter_mut().zip(slot) {
        *target = source.load(Ordering::Relaxed);
    }
}

/// Copies words into a slot that a reader may be copying at the same time.
#[inline]
pub(crate) fn copy_in(slot: &[AtomicU64], words: &[u64]) {
    for (target, source) in slot.iter().zip(words) {
        target.store(*source, Ordering::Relaxed);
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    /// Behaviour: SP-21.
    #[test]
    fn reader_that_is_overtaken_every_time_stops_after_eight_attempts() {
        let mut attempts = 1;
        let snapshot = further_attempts(|| {
            attempts += 1;
            None
        });
        assert_eq!((snapshot, attempts), (None, 8));
    }

    #[test]
    fn no_attempt_follows_a_success() {
        let mut attempts = 1;
        let snapshot = further_attempts(|| {
            attempts += 1;
            (attempts == 5).then(|| Snapshot::complete(7))
        });
        assert_eq!((snapshot, attempts), (Some(Snapshot::complete(7)), 5));
    }
}
