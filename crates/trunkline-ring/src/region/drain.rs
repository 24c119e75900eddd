//! The end for a device to which data is played.

use super::losses::LossCounter;
use super::parts::{Losses, Parts};
use crate::byte_ring::Corrupt;
use crate::element_ring::ElementConsumer;

/// The reading end for a device. It never waits. Elements that are missing when the device needs
/// them are counted.
///
/// # Real-time
/// Every operation is wait-free and makes no system call.
pub struct RegionDrain {
    consumer: ElementConsumer,
    losses: Losses,
    counter: LossCounter,
}

impl RegionDrain {
    pub(super) fn new(parts: Parts) -> Self {
        Self {
            consumer: parts.memory.consumer(),
            losses: parts.losses,
            counter: LossCounter::default(),
        }
    }

    pub fn element_bytes(&self) -> usize {
        // All elements of a region ring have the same size.
        self.consumer.shape().element_bytes().unwrap_or(1)
    }

    pub fn available(&mut self) -> Result<u64, Corrupt> {
        Ok(self.consumer.available()?.1)
    }

    /// Takes elements out until `bytes` is full or no more are available. Returns their number.
    /// Missing elements are counted, and their bytes are left unchanged.
    pub fn take(&mut self, bytes: &mut [u8]) -> Result<u64, Corrupt> {
        let size = self.element_bytes();
        let all = (bytes.len() / size) as u64;
        let count = self.consumer.available()?.1.min(all);
        // Does not overflow, because it is within `bytes`.
        if let Some(bytes) = bytes.get_mut(..count as usize * size)
            && count > 0
        {
            self.consumer.pull(bytes, count)?;
            self.counter.discard_gap();
        }
        self.counter.lose(self.losses.losses(), all - count);
        Ok(count)
    }

    /// Returns the number of elements that were missing when the device needed them.
    pub fn missed(&self) -> u64 {
        self.losses.losses().elements()
    }

    /// Returns the number of underruns: the number of times that elements began to be missing.
    pub fn underruns(&self) -> u64 {
        self.losses.losses().overflow_count()
    }
}

impl std::fmt::Debug for RegionDrain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RegionDrain")
            .field("missed", &self.missed())
            .finish_non_exhaustive()
    }
}
