//! A queue in the order of arrival, from which entries can also be removed in the middle.

use std::collections::VecDeque;

/// Maximum capacity, in entries, that an empty lane keeps.
pub(crate) const EMPTY_LANE_CAPACITY_MAX: usize = 1024;

/// Entries in the order of their serials. An entry that is removed in the middle stays as a removed
/// slot until all entries before it have left. The first entry is never a removed one.
#[derive(Debug)]
pub(crate) struct Lane<T> {
    pub(crate) slots: VecDeque<T>,
    /// Number of removed slots.
    pub(crate) removed: usize,
    /// The largest number of entries since the lane was last empty.
    pub(crate) peak: usize,
}

pub(crate) trait Slot {
    fn serial(&self) -> u64;
    fn is_removed(&self) -> bool;
}

impl<T> Default for Lane<T> {
    fn default() -> Self {
        let slots = VecDeque::new();
        let (removed, peak) = (0, 0);
        Self {
            slots,
            removed,
            peak,
        }
    }
}

impl<T: Slot> Lane<T> {
    #[inline]
    pub(crate) fn push(&mut self, slot: T) {
        self.slots.push_back(slot);
    }

    #[inline]
    pub(crate) fn front_serial(&self) -> Option<u64> {
        self.slots.front().map(Slot::serial)
    }

    pub(crate) fn find(&mut self, serial: u64) -> Option<&mut T> {
        let index = self.slots.binary_search_by_key(&serial, Slot::serial);
        self.slots.get_mut(index.ok()?)
    }

    /// Counts one more removed slot in the middle.
    pub(crate) fn count_removed(&mut self) {
        self.removed += 1;
        self.trim();
        if self.removed > 32 && self.removed > self.slots.len() / 2 {
            self.slots.retain(|slot| !slot.is_removed());
            self.removed = 0;
        }
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<T> {
        self.peak = self.peak.max(self.slots.len());
        let slot = self.slots.pop_front()?;
        self.clean_up();
        Some(slot)
    }

    /// Cleans up after entries have left at the front.
    #[inline]
    pub(crate) fn clean_up(&mut self) {
        if self.removed > 0 {
            self.trim();
        }
        if self.slots.is_empty() {
            self.release_capacity();
        }
    }

    /// Releases capacity that was not used since the lane was last empty. A lane that is filled and
    /// emptied repeatedly keeps its capacity, and allocates nothing.
    fn release_capacity(&mut self) {
        let needed = std::mem::take(&mut self.peak).max(EMPTY_LANE_CAPACITY_MAX);
        if self.slots.capacity() / 4 > needed {
            self.slots.shrink_to(needed);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.removed
    }

    /// Removes removed slots from the front, so that the first entry is never a removed one.
    fn trim(&mut self) {
        while self.slots.front().is_some_and(Slot::is_removed) {
            self.slots.pop_front();
            self.removed -= 1;
        }
    }
}
