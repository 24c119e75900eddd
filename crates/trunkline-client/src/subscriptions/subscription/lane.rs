//! A queue in arrival order from which entries can be removed early.

use std::collections::VecDeque;

/// Capacity up to which an emptied lane is not shrunk, in entries.
pub(crate) const KEPT_ENTRIES: usize = 1024;

/// Entries in the order of their serials. An entry removed from the middle remains as a dead slot
/// until the entries before it are gone. The first entry is never dead.
#[derive(Debug)]
pub(crate) struct Lane<T> {
    pub(crate) slots: VecDeque<T>,
    pub(crate) dead: usize,
    /// The largest number of entries since the lane was last empty.
    pub(crate) peak: usize,
}

pub(crate) trait Slot {
    fn serial(&self) -> u64;
    fn is_dead(&self) -> bool;
}

impl<T> Default for Lane<T> {
    fn default() -> Self {
        let slots = VecDeque::new();
        let (dead, peak) = (0, 0);
        Self { slots, dead, peak }
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

    /// Counts one more dead entry in the middle.
    pub(crate) fn bury(&mut self) {
        self.dead += 1;
        self.trim();
        if self.dead > 32 && self.dead > self.slots.len() / 2 {
            self.slots.retain(|slot| !slot.is_dead());
            self.dead = 0;
        }
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<T> {
        self.peak = self.peak.max(self.slots.len());
        let slot = self.slots.pop_front()?;
        self.left();
        Some(slot)
    }

    /// Cleans up after entries were removed at the front.
    #[inline]
    pub(crate) fn left(&mut self) {
        if self.dead > 0 {
            self.trim();
        }
        if self.slots.is_empty() {
            self.emptied();
        }
    }

    /// Releases capacity that was not used since the lane was last empty. A lane that fills and
    /// empties repeatedly retains its capacity and allocates nothing.
    fn emptied(&mut self) {
        let needed = std::mem::take(&mut self.peak).max(KEPT_ENTRIES);
        if self.slots.capacity() / 4 > needed {
            self.slots.shrink_to(needed);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.dead
    }

    /// Removes dead entries from the front, so that the first entry is never dead.
    fn trim(&mut self) {
        while self.slots.front().is_some_and(Slot::is_dead) {
            self.slots.pop_front();
            self.dead -= 1;
        }
    }
}
