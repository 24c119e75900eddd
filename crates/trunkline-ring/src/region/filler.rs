//! The end of the ring for a device that is being recorded.

use super::losses::LossCounter;
use super::parts::{Losses, Parts};
use crate::byte_ring::Corrupt;
use crate::element_ring::ElementProducer;

/// The writing end for a device. It never waits. Elements that arrive while the ring is full are
/// lost and counted.
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

    pub fn element_bytes(&self) -> usize {
        // All elements of a region ring have the same size.
        self.producer.shape().element_bytes().unwrap_or(1)
    }

    pub fn capacity(&self) -> u64 {
        self.producer.shape().capacity()
    }

    /// Returns the number of elements put into the ring since the beginning, not counting lost
    /// elements.
    pub fn written(&self) -> u64 {
        self.producer.written_elements()
    }

    pub fn lost(&self) -> u64 {
        self.losses.losses().elements()
    }

    /// Returns the number of overflows: the number of times that elements began to be lost.
    pub fn overflows(&self) -> u64 {
        self.losses.losses().overflow_count()
    }

    /// Returns the number of contiguous elements for which there is room now, at most up to the end
    /// of the memory.
    pub fn room(&mut self) -> Result<u64, Corrupt> {
        if !self.counter.can_resume(self.losses.losses())? {
            return Ok(0);
        }
        let (_, room) = self.producer.room()?;
        let capacity = self.capacity();
        Ok(room.min(capacity - self.written() % capacity))
    }

    /// Returns the memory of the next elements, to be filled in place. It is shorter than requested
    /// if the end of the memory comes first or the ring is nearly full, and empty if the ring is
    /// full. Nothing is published before [`commit`](Self::commit), and nothing counts as lost
    /// before [`lose`](Self::lose).
    #[cfg(not(loom))]
    pub fn next(&mut self, elements: u64) -> Result<&mut [u8], Corrupt> {
        let count = self.room()?.min(elements);
        // Fits, because it is at most the memory's length, which is a usize.
        let bytes = count as usize * self.element_bytes();
        let from = self.producer.written();
        let pieces = self.producer.free_at(from, bytes);
        // There is room for these elements, and they do not wrap around the end.
        Ok(pieces.map(|[piece, _]| piece).unwrap_or_default())
    }

    /// Publishes the next `elements`, which were filled in place.
    ///
    /// # Panics
    /// If there is not enough room. This is a programming error, because the elements could not
    /// have been filled.
    pub fn commit(&mut self, elements: u64) {
        if elements == 0 {
            return;
        }
        let losses = self.losses.losses();
        self.counter.record_gap(losses, self.producer.written());
        let bytes = elements.saturating_mul(self.element_bytes() as u64);
        self.producer.commit(bytes, elements);
    }

    /// Counts elements that arrived while the ring was full.
    pub fn lose(&mut self, elements: u64) {
        self.counter.lose(self.losses.losses(), elements);
    }

    /// Copies as many whole elements into the ring as there is room for; the rest is lost. Returns
    /// the number of copied elements. Bytes after the last whole element are ignored.
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
            // Neither can overflow, because both are within `bytes`.
            let (from, to) = (done as usize * size, (done + count) as usize * size);
            let piece = bytes.get(from..to).unwrap_or_default();
            self.producer.write_at(self.producer.written(), piece);
            self.commit(count);
            done += count;
        }
        Ok(done)
    }

    /// Returns true if the reader is waiting for new elements and must be woken. Costs a full
    /// fence.
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
