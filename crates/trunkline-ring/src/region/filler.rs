//! The end of a device that is recorded.

use super::losses::LossCounter;
use super::parts::{Losses, Parts};
use crate::byte_ring::Corrupt;
use crate::element_ring::ElementProducer;

/// The end that elements go into, as a device does it: it never waits. What has no room when it
/// comes is lost and counted.
///
/// # Real-time
/// Every operation is wait-free and makes no system call.
pub struct RegionFiller {
    producer: ElementProducer,
    losses: Losses,
    counter: LossCounter,
}

impl RegionFiller {
    pub(super) fn new(parts: Parts) -> Self {
        Self {
            producer: parts.memory.producer(),
            losses: parts.losses,
            counter: LossCounter::default(),
        }
    }

    /// Bytes of an element.
    #[must_use]
    pub fn element_bytes(&self) -> usize {
        // The shape of a region ring is of fixed elements.
        self.producer.shape().element_bytes().unwrap_or(1)
    }

    /// Elements that fit into the ring.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.producer.shape().capacity()
    }

    /// Elements that were put into the ring since the beginning, without those lost.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.producer.written_elements()
    }

    /// Elements that were lost.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.losses.losses().elements()
    }

    /// How often elements began to be lost: the flag of a device, counted.
    #[must_use]
    pub fn overflows(&self) -> u64 {
        self.losses.losses().times()
    }

    /// Elements there is room for now in one piece: to the end of the memory at most.
    ///
    /// # Errors
    /// [`Corrupt`]: the reader's position cannot be true.
    pub fn room(&mut self) -> Result<u64, Corrupt> {
        if !self.counter.may_go_on(self.losses.losses())? {
            return Ok(0);
        }
        let (_, room) = self.producer.room()?;
        let capacity = self.capacity();
        Ok(room.min(capacity - self.written() % capacity))
    }

    /// The memory of the next elements, to be filled in place: as many as asked for, or fewer where
    /// the memory ends or the ring is full; empty when it is full. Nothing is given away before
    /// [`commit`](Self::commit), and nothing is counted as lost before [`lose`](Self::lose).
    ///
    /// # Errors
    /// [`Corrupt`]: the reader's position cannot be true.
    #[cfg(not(loom))]
    pub fn next(&mut self, elements: u64) -> Result<&mut [u8], Corrupt> {
        let count = self.room()?.min(elements);
        // Within the memory, hence a usize.
        let bytes = count as usize * self.element_bytes();
        let from = self.producer.written();
        let pieces = self.producer.free_at(from, bytes);
        // There is room for that, and it does not go over the end.
        Ok(pieces.map(|[piece, _]| piece).unwrap_or_default())
    }

    /// Gives the next `elements` away: they were filled in place.
    ///
    /// # Panics
    /// There is no room for that much: a mistake in the program, as it could not be filled.
    pub fn commit(&mut self, elements: u64) {
        if elements == 0 {
            return;
        }
        let losses = self.losses.losses();
        self.counter.write_down(losses, self.producer.written());
        let bytes = elements.saturating_mul(self.element_bytes() as u64);
        self.producer.commit(bytes, elements);
    }

    /// Counts elements that came and had no room.
    pub fn lose(&mut self, elements: u64) {
        self.counter.lose(self.losses.losses(), elements);
    }

    /// Copies whole elements in, as many as there is room for, and loses the rest; how many went
    /// in. Bytes behind the last whole element are not looked at.
    ///
    /// # Errors
    /// [`Corrupt`]: the reader's position cannot be true.
    pub fn push(&mut self, bytes: &[u8]) -> Result<u64, Corrupt> {
        let size = self.element_bytes();
        let all = (bytes.len() / size) as u64;
        let mut done = 0;
        while done < all {
            let count = self.room()?.min(all - done);
            if count == 0 {
                self.lose(all - done);
                break;
            }
            // Both within `bytes`.
            let (from, to) = (done as usize * size, (done + count) as usize * size);
            let piece = bytes.get(from..to).unwrap_or_default();
            self.producer.write_at(self.producer.written(), piece);
            self.commit(count);
            done += count;
        }
        Ok(done)
    }

    /// The reader waits for what was put in and is to be woken. Costs a full fence.
    #[must_use]
    pub fn must_wake(&mut self) -> bool {
        self.producer.must_wake()
    }
}

impl std::fmt::Debug for RegionFiller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RegionFiller")
            .field("written", &self.written())
            .field("lost", &self.lost())
            .finish_non_exhaustive()
    }
}
