//! An observer of a ring.

use super::memory::{ElementMemory, Progress};
use super::shape::{RingShape, RingStart};
use crate::byte_ring::Corrupt;
use crate::padded::Padded;
use crate::sync::Ordering;

/// Observes the positions of both ends of a ring without changing anything. It is for a program
/// whose ring is shared by its own threads and another program.
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

    pub fn shape(&self) -> RingShape {
        self.memory.shape
    }

    /// Returns the place up to which the producer has published, and the place up to which the
    /// consumer has released. The consumer's place is loaded first, so it is never ahead.
    ///
    /// # Errors
    /// [`Corrupt`]: a position moved backwards, or is not plausible.
    pub fn positions(&mut self) -> Result<(RingStart, RingStart), Corrupt> {
        let shape = self.memory.shape;
        let header = self.memory.header();
        let see = |place: &Padded<Progress>| {
            // Load the count before the position: the counted elements lie before the position.
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
        // Loaded again, because the consumer may have advanced. The producer cannot have seen more
        // of its progress than this.
        let room_from = see(&header.read);
        let is_forward = |old: RingStart, new: RingStart| {
            old.position <= new.position && old.elements <= new.elements
        };
        let most = RingStart {
            position: room_from.position.saturating_add(shape.bytes_max() as u64),
            elements: room_from.elements.saturating_add(shape.capacity()),
        };
        if !is_forward(self.read, read)
            || !is_forward(self.written, written)
            || read.position > written.position
            || !is_forward(written, most)
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
