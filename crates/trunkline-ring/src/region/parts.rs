//! The parts that the ends of a ring of regions are made of.

use super::losses::LossHeader;
use crate::element_ring::ElementMemory;
#[cfg(loom)]
use crate::element_ring::{self, RingShape, RingStart};
use crate::sync::Arc;

/// Owns the counters and keeps them valid.
#[cfg(not(loom))]
pub(super) trait HasLosses: Send + Sync {
    fn losses(&self) -> &LossHeader;
}

#[cfg(not(loom))]
pub(super) type Losses = Arc<dyn HasLosses>;
#[cfg(loom)]
pub(super) type Losses = Arc<PlainLosses>;

/// The memory for one end, and the loss counters.
pub(super) struct Parts {
    pub(super) memory: ElementMemory,
    pub(super) losses: Losses,
}

/// Counters in private memory.
#[cfg(loom)]
#[derive(Debug, Default)]
pub(super) struct PlainLosses(LossHeader);

#[cfg(loom)]
impl PlainLosses {
    pub(super) fn losses(&self) -> &LossHeader {
        &self.0
    }
}

/// Creates a ring for loom, without a mapping, that a device fills.
#[cfg(loom)]
pub fn region_ring_to_record(
    shape: RingShape,
    lent_max: usize,
) -> (super::RegionFiller, super::RegionReader) {
    let (for_device, for_program) = plain(shape);
    (
        super::RegionFiller::new(for_device),
        super::RegionReader::new(for_program, lent_max),
    )
}

/// Creates a ring for loom, without a mapping, that a device empties.
#[cfg(loom)]
pub fn region_ring_to_play(
    shape: RingShape,
    lent_max: usize,
) -> (super::RegionWriter, super::RegionDrain) {
    let (for_program, for_device) = plain(shape);
    (
        super::RegionWriter::new(for_program, lent_max),
        super::RegionDrain::new(for_device),
    )
}

#[cfg(loom)]
fn plain(shape: RingShape) -> (Parts, Parts) {
    let (one, other) = element_ring::plain(shape, RingStart::default());
    let losses = Arc::new(PlainLosses::default());
    let parts = |memory| Parts {
        memory,
        losses: losses.clone(),
    };
    (parts(one), parts(other))
}
