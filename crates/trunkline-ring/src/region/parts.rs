//! The components of the two sides of a region ring.

use super::losses::LossHeader;
#[cfg(loom)]
use crate::element_ring::{self, RingStart};
use crate::element_ring::{ElementMemory, RingShape};
use crate::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Owns the counters and keeps them valid.
#[cfg(not(loom))]
pub(super) trait LossMemory: Send + Sync {
    fn losses(&self) -> &LossHeader;
}

#[cfg(not(loom))]
pub(super) type Losses = Arc<dyn LossMemory>;
#[cfg(loom)]
pub(super) type Losses = Arc<HeapLosses>;

/// The memory for one end, and the loss counters.
pub(super) struct Parts {
    pub(super) memory: ElementMemory,
    pub(super) losses: Losses,
}

/// The data that an end shares with the regions that it lends; `L` is the account of these regions.
pub(super) struct Lender<L> {
    lent: Mutex<L>,
    pub(super) losses: Losses,
    pub(super) shape: RingShape,
}

impl<L> Lender<L> {
    pub(super) fn new(lent: L, losses: Losses, shape: RingShape) -> Arc<Self> {
        let lent = Mutex::new(lent);
        Arc::new(Self {
            lent,
            losses,
            shape,
        })
    }

    pub(super) fn element_bytes(&self) -> usize {
        // All elements of a region ring have the same size.
        self.shape.element_bytes().unwrap_or(1)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, L> {
        // No code under the lock panics between two related changes.
        self.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counters in private memory.
#[cfg(loom)]
#[derive(Debug, Default)]
pub(super) struct HeapLosses(LossHeader);

#[cfg(loom)]
impl HeapLosses {
    pub(super) fn losses(&self) -> &LossHeader {
        &self.0
    }
}

/// Creates an unmapped ring for loom that a device fills.
#[cfg(loom)]
pub fn region_ring_to_record(
    shape: RingShape,
    lent_max: usize,
) -> (super::RegionFiller, super::RegionReader) {
    let (for_device, for_program) = unmapped(shape);
    (
        super::RegionFiller::new(for_device),
        super::RegionReader::new(for_program, lent_max),
    )
}

/// Creates an unmapped ring for loom that a device empties.
#[cfg(loom)]
pub fn region_ring_to_play(
    shape: RingShape,
    lent_max: usize,
) -> (super::RegionWriter, super::RegionDrain) {
    let (for_program, for_device) = unmapped(shape);
    (
        super::RegionWriter::new(for_program, lent_max),
        super::RegionDrain::new(for_device),
    )
}

#[cfg(loom)]
fn unmapped(shape: RingShape) -> (Parts, Parts) {
    let (one, other) = element_ring::private_memory(shape, RingStart::default());
    let losses = Arc::new(HeapLosses::default());
    let parts = |memory| Parts {
        memory,
        losses: losses.clone(),
    };
    (parts(one), parts(other))
}
