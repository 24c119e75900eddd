//! A ring with several readers, each at its own place. The part that all readers have passed is
//! free.
//!
//! ```text
//!        freed = the slowest      another        written
//!                  v                v               v
//!  - - ------------+----------------+---------------+-----------+- - -
//!     released     |                                |   room    |
//! ```

use std::collections::BTreeMap;

use super::ends::elements;
use super::memory::ElementMemory;
use super::shape::{RingShape, RingStart};
use crate::byte_ring::Corrupt;
use crate::sync::{Arc, Mutex, MutexGuard, Ordering, PoisonError};
use crate::waits::Waits;

/// The reading side of a ring for any number of [cursors](ElementCursor).
///
/// While there is no cursor, no part of the ring is freed. Clones refer to the same end.
#[derive(Clone)]
pub struct ElementCursors(Arc<Shared>);

struct Shared {
    memory: ElementMemory,
    table: Mutex<Table>,
}

// SAFETY: the header of the memory consists of atomics. The bytes are reached only through cursors,
// which only read, and only the part that each of them keeps the producer from overwriting.
unsafe impl Sync for Shared {}

/// The places of the cursors.
struct Table {
    places: BTreeMap<u64, RingStart>,
    /// Place up to which bytes were released to the producer. It is never beyond a cursor.
    freed: RingStart,
    last: u64,
    waits: Waits,
}

/// One reader of a ring with several readers.
///
/// The producer cannot overwrite bytes that the cursor has not passed. The cursor has no access to
/// bytes that it has passed. Dropping the cursor removes it, so that it no longer blocks the
/// producer.
pub struct ElementCursor {
    ring: Arc<Shared>,
    number: u64,
    place: RingStart,
    /// The producer's position at the last check; the actual position may be ahead.
    written_seen: RingStart,
}

impl ElementMemory {
    /// Returns the reading side for several readers; use it instead of
    /// [`consumer`](Self::consumer).
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
    pub fn shape(&self) -> RingShape {
        self.0.memory.shape
    }

    /// Returns the place of the oldest byte that has not been freed.
    pub fn freed(&self) -> RingStart {
        let freed = self.0.table().freed;
        RingStart {
            elements: elements(self.shape(), freed),
            ..freed
        }
    }

    pub fn len(&self) -> usize {
        self.0.table().places.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a cursor at the oldest byte that has not been freed. Also returns the previous number
    /// of cursors.
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
        // A thread that panicked while it held this lock had not changed anything yet.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Releases the bytes that all cursors have passed.
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
        // SYNC POINT, pairs with the acquire load in `ElementProducer::check`: bytes are used
        // before they are released. The lock orders what other cursors have used before this store.
        place.position.store(slowest.position, Ordering::Release);
    }
}

impl ElementCursor {
    /// Returns the place of this cursor, which has passed everything before it.
    pub fn place(&self) -> RingStart {
        RingStart {
            elements: elements(self.ring.memory.shape, self.place),
            ..self.place
        }
    }

    /// Returns the position up to which the producer has published bytes.
    pub fn written(&mut self) -> Result<u64, Corrupt> {
        self.check()?;
        Ok(self.written_seen.position)
    }

    /// Returns the number of elements that the producer has published since the beginning.
    pub fn written_elements(&mut self) -> Result<u64, Corrupt> {
        self.check()?;
        Ok(elements(self.ring.memory.shape, self.written_seen))
    }

    /// Returns the two pieces of `len` bytes from `position` on. The second piece is empty if the
    /// bytes are contiguous, as they always are in mirrored memory. Returns `None` if not all of
    /// them are known to be available: call [`written`](Self::written) first.
    #[cfg(not(loom))]
    pub fn region_at(&self, position: u64, len: usize) -> Option<[&[u8]; 2]> {
        let at = self.index(position, len)?;
        // SAFETY: inside the written part. The producer gets it back only after this cursor has
        // passed it, and this borrow ends before that.
        Some(unsafe { self.ring.memory.bytes.pieces(at, len) })
    }

    /// Copies bytes out from `position` on. Returns false if not all of them are known to be
    /// available.
    pub fn read_at(&self, position: u64, bytes: &mut [u8]) -> bool {
        let Some(at) = self.index(position, bytes.len()) else {
            return false;
        };
        // SAFETY: inside the written part, which this cursor has not passed.
        unsafe { self.ring.memory.bytes.read(at, bytes) };
        true
    }

    /// Passes everything before `position`, which must be a boundary between two elements with
    /// `elements` elements before it. Does nothing if that part is not available or was already
    /// passed.
    pub fn pass(&mut self, position: u64, elements: u64) {
        if position <= self.place.position || position > self.written_seen.position {
            return;
        }
        self.place = RingStart { position, elements };
        let mut table = self.ring.table();
        table.places.insert(self.number, self.place);
        self.ring.free(&mut table);
    }

    /// Announces that this cursor is about to wait. From then on the producer's next
    /// [`must_wake`](super::ElementProducer::must_wake) returns true. Returns false if there are
    /// already bytes after `position`.
    pub fn wait_after(&mut self, position: u64) -> Result<bool, Corrupt> {
        let mut table = self.ring.table();
        table
            .waits
            .announce(&self.ring.memory.header().consumer_wait_count.0);
        drop(table);
        Ok(self.written()? <= position)
    }

    /// Returns the index of the bytes in the ring, if they are known to be available.
    fn index(&self, position: u64, len: usize) -> Option<usize> {
        let end = position.checked_add(len as u64)?;
        if position < self.place.position || end > self.written_seen.position {
            return None;
        }
        // Fits, because it is below the ring's size, which is a usize.
        Some((position % self.ring.memory.bytes.len() as u64) as usize)
    }

    /// Loads and checks the producer's position.
    fn check(&mut self) -> Result<(), Corrupt> {
        let shape = self.ring.memory.shape;
        let place = &self.ring.memory.header().written.0;
        if shape.counts() {
            // SYNC POINT, pairs with the release store in `ElementProducer::publish`: the position
            // loaded next is not before the elements counted here.
            let elements = place.elements.load(Ordering::Acquire);
            // As for the bytes below: the producer cannot overwrite this cursor's place.
            let max = self.place.elements.saturating_add(shape.capacity());
            if !(self.written_seen.elements..=max).contains(&elements) {
                return Err(Corrupt);
            }
            self.written_seen.elements = elements;
        }
        // SYNC POINT, pairs with the release store in `ElementProducer::publish`: the bytes before
        // the position have been written.
        let position = place.position.load(Ordering::Acquire);
        // The producer cannot overwrite this cursor's place, so at most the ring's capacity can
        // follow it.
        let max = self.place.position.saturating_add(shape.bytes_max() as u64);
        if !(self.written_seen.position..=max).contains(&position) {
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

/// Creates a ring with several readers in private memory that is not mirrored.
pub fn element_ring_of_many(
    shape: RingShape,
    start: RingStart,
) -> (super::ElementProducer, ElementCursors) {
    let (for_producer, for_cursors) = super::memory::private_memory(shape, start);
    (for_producer.producer(), for_cursors.cursors())
}
