//! The last-value cell: one writer at a time, any number of readers. Other cells use its functions
//! for copying slots and its result type.

use crate::sync::{AtomicU64, Ordering, fence, zeroed_words};

/// The last value of a variable, in words: written by one thread at a time, read by any thread.
///
/// Two complete slots and a published count. Write number *n* goes to slot *n* mod 2 while readers
/// copy write *n* - 1 from the other. A reader therefore never waits for a writer, even one that
/// was preempted in the middle of a write: it copies the last complete value. It repeats the copy
/// only if a write was *completed* during the copy.
///
/// The cell itself is only three words plus one allocation for two slots and a tag, because an engine may have
/// a million cells. For the same reason, neighbouring cells share cache lines.
///
/// # Writers
///
/// The caller must ensure that only one thread writes at a time; in the engine, the variable's lock
/// ensures this. If two threads write at once, memory safety is preserved and counts still
/// increase, but a reader may get words of both writes. Writers that cannot take a lock use
/// [`RtCell`](crate::RtCell).
///
/// # Real-time
///
/// Only [`new`](Self::new) and [`with_tag`](Self::with_tag) allocate. [`publish`](Self::publish), [`read`](Self::read) and
/// [`count`](Self::count) are wait-free: no lock, no system call, a bounded number of steps.
///
/// ```
/// use trunkline_ring::LastValue;
///
/// let cell = LastValue::new(2);
/// assert_eq!(cell.publish(&[7, 8]), 1);
///
/// let mut words = [0; 2];
/// let snapshot = cell.read(&mut words);
/// assert!(snapshot.complete);
/// assert_eq!((snapshot.count, words), (1, [7, 8]));
/// ```
#[derive(Debug)]
pub struct LastValue {
    /// Number of the last complete write; 0 before the first write.
    published: AtomicU64,
    /// The two slots, and the tag. Allocators round sizes up, so the tag usually needs no memory of
    /// its own.
    slots: Box<[AtomicU64]>,
}

impl LastValue {
    /// Creates a cell for values of `words` words, all zero until the first write. Its tag is 0.
    pub fn new(words: usize) -> Self {
        Self::with_tag(words, 0)
    }

    /// Like [`new`](Self::new), with a [`tag`](Self::tag).
    pub fn with_tag(words: usize, tag: u64) -> Self {
        let slots = zeroed_words(words * 2 + 1);
        if let Some(last) = slots.last() {
            last.store(tag, Ordering::Relaxed);
        }
        Self {
            published: AtomicU64::new(0),
            slots,
        }
    }

    /// Returns the number that the creator of the cell has stored in it. It never changes.
    #[inline]
    pub fn tag(&self) -> u64 {
        self.slots
            .last()
            .map_or(0, |tag| tag.load(Ordering::Relaxed))
    }

    #[inline]
    pub fn words(&self) -> usize {
        self.slots.len() / 2
    }

    /// Returns the slots without the tag.
    #[inline]
    fn slots(&self) -> &[AtomicU64] {
        self.slots.split_last().map_or(&[], |(_, slots)| slots)
    }

    /// Returns the number of writes completed so far.
    #[inline]
    pub fn count(&self) -> u64 {
        self.published.load(Ordering::Acquire)
    }

    /// Sets the value to `words` and returns the number of this write, which is 1 for the first
    /// write.
    #[inline]
    #[track_caller]
    pub fn publish(&self, words: &[u64]) -> u64 {
        self.publish_parts(words, &[])
    }

    /// Like [`publish`](Self::publish), for a value in two parts.
    #[inline]
    #[track_caller]
    pub fn publish_parts(&self, first: &[u64], rest: &[u64]) -> u64 {
        let width = first.len() + rest.len();
        let slots = self.slots();
        check_width_of_slots(width, slots, 2);
        // Only writers store the count, and there is only one writer at a time. A lock that passes
        // from one writer to the next also passes on the latest count.
        let count = self.published.load(Ordering::Relaxed) + 1;
        // SYNC POINT, pairs with the acquire fence in `try_read`. The slot about to be overwritten
        // holds write `count - 2`. A reader that sees any word stored below must afterwards see
        // `count - 1` published, and so know that its copy is no longer that write's. The fence
        // lies between the store of `count - 1`, in the previous call, and those words.
        fence(Ordering::Release);
        let (first_words, rest_words) = slot(slots, count, width).split_at(first.len());
        copy_in(first_words, first);
        copy_in(rest_words, rest);
        // SYNC POINT, pairs with the acquire load in `try_read`: the words are stored before the
        // count.
        self.published.store(count, Ordering::Release);
        count
    }

    /// Copies the last complete value into `out`.
    ///
    /// If the [`Snapshot`] is not complete, the words in `out` are unspecified; a
    /// [`Reader`](crate::Reader) returns its previous reading in that case.
    #[inline]
    #[track_caller]
    pub fn read(&self, out: &mut [u64]) -> Snapshot {
        check_width_of_slots(out.len(), self.slots(), 2);
        self.try_read(out).unwrap_or_else(|| self.read_again(out))
    }

    /// Like [`read`](Self::read), for a width known at compile time. Returns the number of the
    /// write and its words, which stay in registers, or `None` if the copy would not be complete.
    ///
    /// ```
    /// let cell = trunkline_ring::LastValue::new(2);
    /// cell.publish(&[7, 8]);
    /// assert_eq!(cell.read_words(), Some((1, [7, 8])));
    /// ```
    #[inline]
    #[track_caller]
    pub fn read_words<const N: usize>(&self) -> Option<(u64, [u64; N])> {
        check_width_of_slots(N, self.slots(), 2);
        let mut words = [0; N];
        match self.try_read(&mut words) {
            Some(snapshot) => Some((snapshot.count, words)),
            None => self.read_words_again(),
        }
    }

    /// Makes the attempts after the first with a separate buffer, so that the words of the first
    /// attempt can stay in registers.
    #[cold]
    #[inline(never)]
    fn read_words_again<const N: usize>(&self) -> Option<(u64, [u64; N])> {
        let mut words = [0; N];
        let snapshot = self.read_again(&mut words);
        snapshot.complete.then_some((snapshot.count, words))
    }

    /// Makes one attempt; returns `None` if a writer overtook it. `out` has the declared width.
    #[inline]
    fn try_read(&self, out: &mut [u64]) -> Option<Snapshot> {
        let slots = self.slots();
        let count = self.published.load(Ordering::Acquire);
        copy_out(slot(slots, count, out.len()), out);
        // SYNC POINT, pairs with the release fence in `publish`: if one of the words copied came
        // from write `count + 2`, then the load below finds at least `count + 1`.
        fence(Ordering::Acquire);
        let is_last_still = self.published.load(Ordering::Relaxed) == count;
        is_last_still.then(|| Snapshot::complete(count))
    }

    /// Makes the attempts after the first.
    #[cold]
    #[inline(never)]
    fn read_again(&self, out: &mut [u64]) -> Snapshot {
        further_attempts(|| self.try_read(out)).unwrap_or_else(|| Snapshot::overtaken(self.count()))
    }
}

/// Returns the slot of write number `count`; `width` is the declared width.
#[inline]
fn slot(slots: &[AtomicU64], count: u64, width: usize) -> &[AtomicU64] {
    let first = if count.is_multiple_of(2) { 0 } else { width };
    &slots[first..][..width]
}

/// Maximum number of copies that a reader makes, if writers keep overtaking it, before it gives up.
///
/// This bounds the duration of a read, so that it always ends in a time-critical loop, regardless
/// of the writers. A reader is overtaken only if writes complete while it copies, so it reaches
/// this limit only if it is interrupted during each of its copies.
pub const READ_ATTEMPTS_MAX: usize = 8;

/// The result of one read of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Snapshot {
    /// Number of the write that was read: 1 for the first write, 0 if nothing has been written yet.
    pub count: u64,
    /// True if the copy contains the words of one write. If `false`, writers overtook the reader
    /// [`READ_ATTEMPTS_MAX`] times: the copy may mix words of several writes, and the caller should
    /// continue to use its previous value.
    pub complete: bool,
}

impl Snapshot {
    /// Creates the result for a complete copy of write number `count`.
    #[inline]
    pub(crate) fn complete(count: u64) -> Self {
        Self {
            count,
            complete: true,
        }
    }

    /// Creates the result for a reader that writers overtook each time; `count` is the number of
    /// their latest write.
    pub(crate) fn overtaken(count: u64) -> Self {
        Self {
            count,
            complete: false,
        }
    }
}

/// Makes the remaining attempts to read after the first one; returns `None` if all of them fail.
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
/// The comparison in this form also lets the compiler derive the length of `slots`, so that it need
/// not check the bounds of the slot that is copied.
#[inline]
#[track_caller]
pub(crate) fn check_width_of_slots(given: usize, slots: &[AtomicU64], count: usize) {
    if slots.len() != given * count {
        wrong_width(given, slots.len() / count);
    }
}

// Separate from the check, so that a read contains only the comparison and not the code for the
// message.
#[cold]
#[inline(never)]
#[track_caller]
fn wrong_width(given: usize, declared: usize) -> ! {
    panic!(
        "the slice has {given} words, but the declared width is {declared}; pass a slice of that width"
    );
}

/// Copies words out of a slot that a writer may be overwriting at the same time.
///
/// Each word is read atomically. The caller must check afterwards that the words belong together.
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
