//! A ring that several read, each at its own place: what all have passed is free.
//!
//! ```text
//!        freed = the slowest      another        written
//!                  v                v               v
//!  - - ------------+----------------+---------------+-----------+- - -
//!     given back   |                                |   room    |
//! ```

use std::collections::BTreeMap;

use super::memory::ElementMemory;
use super::producer::elements;
use super::shape::{RingShape, RingStart};
use crate::byte_ring::Corrupt;
use crate::sync::{Arc, Mutex, MutexGuard, Ordering, PoisonError};
use crate::waits::Waits;

/// The end of a ring that elements come out of, for any number of [cursors](ElementCursor).
///
/// While there is none, the ring keeps what is in it. A clone is the same end.
#[derive(Clone)]
pub struct ElementCursors(Arc<Shared>);

struct Shared {
    memory: ElementMemory,
    table: Mutex<Table>,
}

// SAFETY: the header of the memory is made of atomics. The bytes are reached only through cursors,
// which read them, and each only what it keeps the producer from writing over.
unsafe impl Sync for Shared {}

/// Where the cursors are.
struct Table {
    places: BTreeMap<u64, RingStart>,
    /// What was given back to the producer: never beyond a cursor.
    freed: RingStart,
    last: u64,
    waits: Waits,
}

/// One reader of a ring that several read.
///
/// What it has passed is not its own any more; what it has not, no producer writes over. Dropping
/// it takes it out: then it holds nothing up.
pub struct ElementCursor {
    ring: Arc<Shared>,
    number: u64,
    place: RingStart,
    /// The producer's position as last seen; it may be further.
    written_seen: RingStart,
}

impl ElementMemory {
    /// The end that elements come out of, for several readers; takes the place of
    /// [`consumer`](Self::consumer).
    #[must_use]
    pub fn cursors(self) -> ElementCursors {
        let table = Table {
            places: BTreeMap::new(),
            freed: self.start,
            last: 0,
            waits: Waits::default(),
        };
        ElementCursors(Arc::new(Shared {
            memory: self,
            table: Mutex::new(table),
        }))
    }
}

impl ElementCursors {
    /// What may lie in the ring.
    #[must_use]
    pub fn shape(&self) -> RingShape {
        self.0.memory.shape
    }

    /// Where everything begins that the ring keeps.
    #[must_use]
    pub fn freed(&self) -> RingStart {
        let freed = self.0.table().freed;
        RingStart {
            elements: elements(self.shape(), freed),
            ..freed
        }
    }

    /// How many cursors there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.table().places.len()
    }

    /// There is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A cursor at the beginning of what the ring keeps, and how many there were before.
    #[must_use]
    pub fn join(&self) -> (ElementCursor, usize) {
        let mut table = self.0.table();
        let others = table.places.len();
        table.last += 1;
        let (number, place) = (table.last, table.freed);
        table.places.insert(number, place);
        drop(table);
        let cursor = ElementCursor {
            ring: self.0.clone(),
            number,
            place,
            written_seen: place,
        };
        (cursor, others)
    }
}

impl Shared {
    fn table(&self) -> MutexGuard<'_, Table> {
        // Whoever panicked had not begun to change anything.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives back what all cursors have passed.
    fn free(&self, table: &mut Table) {
        let places = table.places.values().copied();
        let Some(slowest) = places.min_by_key(|place| place.position) else {
            return;
        };
        if slowest.position <= table.freed.position {
            return;
        }
        table.freed = slowest;
        let place = &self.memory.header().read.0;
        if self.memory.shape.counts() {
            place.elements.store(slowest.elements, Ordering::Relaxed);
        }
        // SYNC POINT, pairs with the acquire load in `ElementProducer::look`: used before given
        // back. What other cursors have used comes before this through the lock.
        place.position.store(slowest.position, Ordering::Release);
    }
}

impl ElementCursor {
    /// Where it is: what lies before, it has passed.
    #[must_use]
    pub fn place(&self) -> RingStart {
        RingStart {
            elements: elements(self.ring.memory.shape, self.place),
            ..self.place
        }
    }

    /// Position up to which the producer has given away.
    ///
    /// # Errors
    /// [`Corrupt`]: the producer's position cannot be true.
    pub fn written(&mut self) -> Result<u64, Corrupt> {
        self.look()?;
        Ok(self.written_seen.position)
    }

    /// Elements that the producer has given away, since the beginning.
    ///
    /// # Errors
    /// [`Corrupt`]: the producer's position cannot be true.
    pub fn written_elements(&mut self) -> Result<u64, Corrupt> {
        self.look()?;
        Ok(elements(self.ring.memory.shape, self.written_seen))
    }

    /// The two pieces of `len` bytes from `position` on; the second is empty when they lie in one
    /// piece, as they do in mirrored memory. `None` when not all of it is known to be there: ask
    /// [`written`](Self::written) first.
    #[cfg(not(loom))]
    #[must_use]
    pub fn region_at(&self, position: u64, len: usize) -> Option<[&[u8]; 2]> {
        let at = self.index(position, len)?;
        // SAFETY: inside what was written. The producer gets it back only when this cursor has
        // passed it, for which this borrow has to end.
        Some(unsafe { self.ring.memory.bytes.pieces(at, len) })
    }

    /// Copies bytes out from `position` on. False when not all of them are known to be there.
    pub fn read_at(&self, position: u64, bytes: &mut [u8]) -> bool {
        let Some(at) = self.index(position, bytes.len()) else {
            return false;
        };
        // SAFETY: inside what was written and this cursor has not passed.
        unsafe { self.ring.memory.bytes.read(at, bytes) };
        true
    }

    /// Passes everything before `position`, between two elements, before which there are
    /// `elements`. What is not there cannot be passed, and nothing twice: then nothing is done.
    pub fn pass(&mut self, position: u64, elements: u64) {
        if position <= self.place.position || position > self.written_seen.position {
            return;
        }
        self.place = RingStart { position, elements };
        let mut table = self.ring.table();
        table.places.insert(self.number, self.place);
        self.ring.free(&mut table);
    }

    /// Says that nobody looks at the ring for this cursor any more: the producer's next
    /// [`must_wake`](super::ElementProducer::must_wake) says so. False when there is something
    /// behind `position` by now.
    ///
    /// # Errors
    /// [`Corrupt`]: the producer's position cannot be true.
    pub fn wait_behind(&mut self, position: u64) -> Result<bool, Corrupt> {
        let mut table = self.ring.table();
        table.waits.say(&self.ring.memory.header().consumer_waits.0);
        drop(table);
        Ok(self.written()? <= position)
    }

    /// Where bytes lie that are known to be there.
    fn index(&self, position: u64, len: usize) -> Option<usize> {
        let end = position.checked_add(len as u64)?;
        if position < self.place.position || end > self.written_seen.position {
            return None;
        }
        // Below the ring's size, which is a usize.
        Some((position % self.ring.memory.bytes.len() as u64) as usize)
    }

    /// Looks how far the producer is.
    fn look(&mut self) -> Result<(), Corrupt> {
        let shape = self.ring.memory.shape;
        let place = &self.ring.memory.header().written.0;
        if shape.counts() {
            // SYNC POINT, pairs with the release store in `ElementProducer::give`: the position
            // that is loaded next is not before the elements counted here.
            let elements = place.elements.load(Ordering::Acquire);
            if elements < self.written_seen.elements {
                return Err(Corrupt);
            }
            self.written_seen.elements = elements;
        }
        // SYNC POINT, pairs with the release store in `ElementProducer::give`: the bytes before the
        // position have been written.
        let position = place.position.load(Ordering::Acquire);
        // This cursor keeps its place, so there cannot be more than fits behind it.
        let most = self.place.position.saturating_add(shape.bytes_max() as u64);
        if !(self.written_seen.position..=most).contains(&position) {
            return Err(Corrupt);
        }
        self.written_seen.position = position;
        Ok(())
    }
}

impl Drop for ElementCursor {
    fn drop(&mut self) {
        let mut table = self.ring.table();
        table.places.remove(&self.number);
        self.ring.free(&mut table);
    }
}

impl std::fmt::Debug for ElementCursors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ElementCursors")
            .field("freed", &self.freed())
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for ElementCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ElementCursor")
            .field("place", &self.place)
            .field("written_seen", &self.written_seen)
            .finish_non_exhaustive()
    }
}

/// A ring in the memory of this program alone, which is not mirrored, with several readers.
#[must_use]
pub fn element_ring_of_many(
    shape: RingShape,
    start: RingStart,
) -> (super::ElementProducer, ElementCursors) {
    let (for_producer, for_cursors) = super::memory::plain(shape, start);
    (for_producer.producer(), for_cursors.cursors())
}
