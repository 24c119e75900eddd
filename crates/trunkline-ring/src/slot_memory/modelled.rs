//! Slots made of loom's cells.

use crate::slab::Slab;
use crate::sync::{AtomicU8, Ordering};

/// `capacity` slots, each of a stamp and an element of `width` values of `T`.
#[derive(Debug)]
pub(crate) struct SlotMemory<T> {
    stamps: Box<[AtomicU8]>,
    values: Slab<T>,
    width: usize,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Spot(usize);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Stretch {
    first: usize,
    slots: usize,
}

impl Stretch {
    pub(crate) fn slots(self) -> usize {
        self.slots
    }

    pub(crate) fn shortened(self, slots: usize) -> Self {
        Self {
            slots: self.slots.min(slots),
            ..self
        }
    }
}

impl<T: Copy> SlotMemory<T> {
    pub(crate) fn new(capacity: usize, width: usize, stamp: u8) -> Option<Self> {
        let stamps = (0..capacity).map(|_| AtomicU8::new(stamp)).collect();
        Some(Self {
            stamps,
            values: Slab::new(capacity.checked_mul(width)?),
            width,
        })
    }

    pub(crate) fn capacity(&self) -> usize {
        self.stamps.len()
    }

    pub(crate) fn width(&self) -> usize {
        self.width
    }

    pub(crate) fn spot(&self, index: usize) -> Spot {
        assert!(index < self.capacity());
        Spot(index)
    }

    pub(crate) fn stretch(&self, first: usize, slots: usize) -> Stretch {
        assert!(first < self.capacity() && slots <= self.capacity() - first);
        Stretch { first, slots }
    }

    pub(crate) fn is_stamped(&self, spot: Spot, stamp: u8) -> bool {
        self.stamps[spot.0].load(Ordering::Acquire) == stamp
    }

    pub(crate) fn set_stamp(&self, spot: Spot, stamp: u8) {
        self.stamps[spot.0].store(stamp, Ordering::Release);
    }

    pub(crate) fn count_stamped(&self, stretch: Stretch, stamp: u8) -> usize {
        let slots = stretch.first..stretch.first + stretch.slots;
        slots
            .take_while(|slot| self.is_stamped(Spot(*slot), stamp))
            .count()
    }

    pub(crate) fn set_stamps(&self, stretch: Stretch, stamp: u8) {
        for slot in stretch.first + 1..stretch.first + stretch.slots {
            self.set_stamp(Spot(slot), stamp);
        }
        if stretch.slots > 0 {
            self.set_stamp(Spot(stretch.first), stamp);
        }
    }

    /// # Safety
    ///
    /// As in `lines`; loom reports callers that break it.
    pub(crate) unsafe fn write(&self, spot: Spot, first: &[T], rest: &[T]) {
        let start = spot.0 * self.width;
        // SAFETY: the caller guarantees exclusive access.
        unsafe {
            self.values.write_slice(start, first);
            self.values.write_slice(start + first.len(), rest);
        }
    }

    /// # Safety
    ///
    /// As in `lines`; loom reports callers that break it.
    pub(crate) unsafe fn with<R>(&self, spot: Spot, look: impl FnOnce(&[T]) -> R) -> R {
        let start = spot.0 * self.width;
        // SAFETY: the caller guarantees initialised values and no concurrent write.
        let value = |offset| unsafe { self.values.read(start + offset) };
        let values: Vec<T> = (0..self.width).map(value).collect();
        look(&values)
    }

    /// # Safety
    ///
    /// As in `lines`; loom reports callers that break it.
    pub(crate) unsafe fn read(&self, spot: Spot, target: *mut T) {
        for offset in 0..self.width {
            // SAFETY: the caller guarantees initialised values, room in `target` and no concurrent
            // write.
            unsafe {
                target
                    .add(offset)
                    .write(self.values.read(spot.0 * self.width + offset))
            };
        }
    }

    /// # Safety
    ///
    /// As in `lines`; loom reports callers that break it.
    pub(crate) unsafe fn write_all(&self, stretch: Stretch, elements: &[T]) {
        // SAFETY: the caller guarantees exclusive access.
        unsafe {
            self.values
                .write_slice(stretch.first * self.width, elements)
        };
    }

    /// # Safety
    ///
    /// As in `lines`; loom reports callers that break it.
    pub(crate) unsafe fn read_all(&self, stretch: Stretch, elements: &mut [T]) {
        // SAFETY: the caller guarantees initialised values and no concurrent write.
        unsafe { self.values.read_slice(stretch.first * self.width, elements) };
    }
}
