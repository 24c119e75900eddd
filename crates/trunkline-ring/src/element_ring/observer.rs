//! Who looks on at a ring.

use super::memory::{ElementMemory, Place};
use super::shape::{RingShape, RingStart};
use crate::byte_ring::Corrupt;
use crate::padded::Padded;
use crate::sync::Ordering;

/// Sees how far both ends of a ring are, and touches nothing: a program whose ring is used by
/// threads of its own and by another program.
pub struct ElementObserver {
    memory: ElementMemory,
    written: RingStart,
    read: RingStart,
}

impl ElementObserver {
    pub(super) fn new(memory: ElementMemory) -> Self {
        Self {
            written: memory.start,
            read: memory.start,
            memory,
        }
    }

    /// What may lie in the ring.
    #[must_use]
    pub fn shape(&self) -> RingShape {
        self.memory.shape
    }

    /// How far the producer has given away, and how far the consumer has given back: positions, and
    /// elements before them. Seen one after the other, the consumer first, so that it is never
    /// ahead.
    ///
    /// # Errors
    /// [`Corrupt`]: a position went back, or cannot be true.
    pub fn look(&mut self) -> Result<(RingStart, RingStart), Corrupt> {
        let shape = self.memory.shape;
        let header = self.memory.header();
        let see = |place: &Padded<Place>| {
            // The count before the position: what was counted lies before it.
            let elements = place.0.elements.load(Ordering::Acquire);
            let position = place.0.position.load(Ordering::Acquire);
            let elements = match shape.element_bytes() {
                Some(size) => position / size as u64,
                None => elements,
            };
            RingStart { position, elements }
        };
        let read = see(&header.read);
        let written = see(&header.written);
        let is_forward = |old: RingStart, new: RingStart| {
            old.position <= new.position && old.elements <= new.elements
        };
        // Both may have gone on in between, so only their order is certain.
        if !is_forward(self.read, read)
            || !is_forward(self.written, written)
            || read.position > written.position
        {
            return Err(Corrupt);
        }
        (self.read, self.written) = (read, written);
        Ok((written, read))
    }
}

impl std::fmt::Debug for ElementObserver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ElementObserver")
            .field("written", &self.written)
            .field("read", &self.read)
            .finish_non_exhaustive()
    }
}
