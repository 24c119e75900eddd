//! Slots as loom's cells.

use crate::slab::Slab;
use crate::sync::{AtomicU8, Ordering};

/// `capacity` slots, each of a stamp and an element of `width` values of `T`.
#[derive(Debug)]
pub(crate) struct SlotMemory<T> {
    stamps: Box<[AtomicU8]>,
    values: Slab<T>,
    width: usize,
}

/// Slots in a row; made by [`SlotMemory::stretch`], and inside the memory that made it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stretch {
    first: usize,
    slots: usize,
}

impl Stretch {
    /// Number of slots.
    pub(crate) fn slots(self) -> usize {
        self.slots
    }

    /// The first `slots` slots of this stretch, or all if it has fewer.
    pub(crate) fn shortened(self, slots: usize) -> Self {
        Self {
            slots: self.slots.min(slots),
            ..self
        }
    }
}

impl<T: Copy> SlotMemory<T> {
    /// Allocates the slots, all stamped `stamp`.
    pub(crate) fn new(capacity: usize, width: usize, stamp: u8) -> Option<Self> {
        let stamps = (0..capacity).map(|_| AtomicU8::new(stamp)).collect();
        Some(Self {
            stamps,
            values: Slab::new(capacity.checked_mul(width)?),
            width,
        })
    }

    /// Number of slots.
    pub(crate) fn capacity(&self) -> usize {
        self.stamps.len()
    }

    /// Number of values of an element.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// The `slots` slots from `first` on.
    pub(crate) fn stretch(&self, first: usize, slots: usize) -> Stretch {
        assert!(first < self.capacity() && slots <= self.capacity() - first);
        Stretch { first, slots }
    }

    /// How many slots have this stamp, up to the first that has another.
    pub(crate) fn count_stamped(&self, stretch: Stretch, stamp: u8) -> usize {
        let stamps = &self.stamps[stretch.first..stretch.first + stretch.slots];
        stamps
            .iter()
            .take_while(|s| s.load(Ordering::Acquire) == stamp)
            .count()
    }

    /// Stamps the slots, the first one last.
    pub(crate) fn set_stamps(&self, stretch: Stretch, stamp: u8) {
        if let [first, rest @ ..] = &self.stamps[stretch.first..stretch.first + stretch.slots] {
            rest.iter().for_each(|s| s.store(stamp, Ordering::Release));
            first.store(stamp, Ordering::Release);
        }
    }

    /// Copies elements into the slots.
    ///
    /// # Safety
    ///
    /// As for the real one; loom reports whoever breaks it.
    pub(crate) unsafe fn write(&self, stretch: Stretch, elements: &[T]) {
        // SAFETY: the caller vouches for being alone.
        unsafe {
            self.values
                .write_slice(stretch.first * self.width, elements)
        };
    }

    /// Copies elements out of the slots.
    ///
    /// # Safety
    ///
    /// As for the real one; loom reports whoever breaks it.
    pub(crate) unsafe fn read(&self, stretch: Stretch, elements: &mut [T]) {
        // SAFETY: the caller vouches for the values and against writers.
        unsafe { self.values.read_slice(stretch.first * self.width, elements) };
    }
}
