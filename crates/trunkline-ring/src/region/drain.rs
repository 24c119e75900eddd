//! The end of a device that is played to.

use super::losses::LossCounter;
use super::parts::{Losses, Parts};
use crate::byte_ring::Corrupt;
use crate::element_ring::ElementConsumer;

/// The end that elements come out of, as a device does it: it never waits. What is not there when
/// it is wanted is counted.
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

    /// Bytes of an element.
    #[must_use]
    pub fn element_bytes(&self) -> usize {
        // The shape of a region ring is of fixed elements.
        self.consumer.shape().element_bytes().unwrap_or(1)
    }

    /// Elements that are there now.
    ///
    /// # Errors
    /// [`Corrupt`]: the writer's position cannot be true.
    pub fn available(&mut self) -> Result<u64, Corrupt> {
        Ok(self.consumer.available()?.1)
    }

    /// Takes elements out until `bytes` is full, or as far as there are any; how many. Those that
    /// are missing are counted, and their bytes are left as they were.
    ///
    /// # Errors
    /// [`Corrupt`]: the writer's position cannot be true.
    pub fn take(&mut self, bytes: &mut [u8]) -> Result<u64, Corrupt> {
        let size = self.element_bytes();
        let all = (bytes.len() / size) as u64;
        let count = self.consumer.available()?.1.min(all);
        // Within `bytes`.
        if let Some(bytes) = bytes.get_mut(..count as usize * size)
            && count > 0
        {
            self.consumer.pull(bytes, count)?;
            self.counter.end();
        }
        self.counter.lose(self.losses.losses(), all - count);
        Ok(count)
    }

    /// Elements that were wanted and were not there.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.losses.losses().elements()
    }

    /// How often elements began to be missing.
    #[must_use]
    pub fn underruns(&self) -> u64 {
        self.losses.losses().times()
    }
}

impl std::fmt::Debug for RegionDrain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RegionDrain")
            .field("missed", &self.missed())
            .finish_non_exhaustive()
    }
}
