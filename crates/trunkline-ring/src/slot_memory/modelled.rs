//! Slots made of loom's cells.

use crate::slab::Slab;
use crate::sync::{AtomicU8, Ordering};

/// Memory of `capacity` slots, each with a stamp and an element of `width` words.
#[derive(Debug)]
pub(crate) struct SlotMemory {
    stamps: Box<[AtomicU8]>,
    words: Slab<u64>,
    width: usize,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Spot(usize);

impl SlotMemory {
    pub(crate) fn new(capacity: usize, width: usize, stamp: u8) -> Option<Self> {
        let stamps = (0..capacity).map(|_| AtomicU8::new(stamp)).collect();
        Some(Self {
            stamps,
            words: Slab::new(capacity.checked_mul(width)?),
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

    pub(crate) fn is_stamped(&self, spot: Spot, stamp: u8) -> bool {
        self.stamps[spot.0].load(Ordering::Acquire) == stamp
    }

    pub(crate) fn set_stamp(&self, spot: Spot, stamp: u8) {
        self.stamps[spot.0].store(stamp, Ordering::Release);
    }

    /// # Safety
    ///
    /// As in `lines`; loom reports callers that break it.
    pub(crate) unsafe fn write(&self, spot: Spot, first: &[u64], rest: &[u64]) {
        let start = spot.0 * self.width;
        // SAFETY: the caller guarantees exclusive access.
        unsafe {
            self.words.write_slice(start, first);
            self.words.write_slice(start + first.len(), rest);
        }
    }

    /// # Safety
    ///
    /// As in `lines`; loom reports callers that break it.
    pub(crate) unsafe fn with<R>(&self, spot: Spot, look: impl FnOnce(&[u64]) -> R) -> R {
        let mut words = vec![0; self.width];
        // SAFETY: as the caller guarantees.
        unsafe { self.read(spot, &mut words) };
        look(&words)
    }

    /// # Safety
    ///
    /// As in `lines`; loom reports callers that break it.
    pub(crate) unsafe fn read(&self, spot: Spot, element: &mut [u64]) {
        // SAFETY: the caller guarantees initialised words and no concurrent write.
        unsafe { self.words.read_slice(spot.0 * self.width, element) };
    }
}
