//! The end that is played from: regions to fill.

#[cfg(not(loom))]
use std::ptr::NonNull;

use super::NoRegion;
use super::loans::{Fate, Loans, MovesOn};
use super::parts::{Losses, Parts};
use crate::element_ring::{ElementProducer, RingShape};
use crate::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The end that elements go into, lent in regions that are filled in any order.
///
/// Lending and taking back hold a lock for a few instructions; the device never takes it.
pub struct RegionWriter {
    lender: Arc<WriteLender>,
}

/// Room in the ring, in one piece, to be filled in place and finished.
pub struct WriteRegion {
    lender: Arc<WriteLender>,
    #[cfg(not(loom))]
    start: NonNull<u8>,
    bytes: usize,
    /// Where its bytes begin since the beginning.
    from: u64,
    number: u64,
    fate: Fate,
}

// SAFETY: nobody else has the bytes before the region is finished; the lender is behind a lock.
#[cfg(not(loom))]
unsafe impl Send for WriteRegion {}
// SAFETY: as above; shared, it gives out its bytes to be read alone.
#[cfg(not(loom))]
unsafe impl Sync for WriteRegion {}

struct WriteLender {
    loans: Mutex<Loans<ElementProducer>>,
    losses: Losses,
    shape: RingShape,
}

impl MovesOn for ElementProducer {
    fn move_on(&mut self, bytes: u64, elements: u64) {
        self.commit(bytes, elements);
    }
}

impl RegionWriter {
    pub(super) fn new(parts: Parts, lent_max: usize) -> Self {
        let producer = parts.memory.producer();
        let shape = producer.shape();
        Self {
            lender: Arc::new(WriteLender {
                loans: Mutex::new(Loans::new(producer, lent_max)),
                losses: parts.losses,
                shape,
            }),
        }
    }

    /// Bytes of an element.
    #[must_use]
    pub fn element_bytes(&self) -> usize {
        self.lender.element_bytes()
    }

    /// Elements that fit into the ring.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.lender.shape.capacity()
    }

    /// Room for the next `elements` elements, at least one: for all of them, or fewer where the
    /// memory ends.
    ///
    /// # Errors
    /// [`NoRegion`]; nothing was lent then.
    pub fn acquire(&mut self, elements: u64) -> Result<WriteRegion, NoRegion> {
        WriteLender::lend(&self.lender, elements.max(1))
    }

    /// Regions that are lent, with those that are finished and lie behind one that is not.
    #[must_use]
    pub fn lent(&self) -> usize {
        self.lender.lock().lent()
    }

    /// Elements that the device wanted and did not find.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.lender.losses.losses().elements()
    }

    /// How often the device began to find nothing.
    #[must_use]
    pub fn underruns(&self) -> u64 {
        self.lender.losses.losses().times()
    }
}

impl WriteLender {
    fn element_bytes(&self) -> usize {
        // The shape of a region ring is of fixed elements.
        self.shape.element_bytes().unwrap_or(1)
    }

    fn lock(&self) -> MutexGuard<'_, Loans<ElementProducer>> {
        // Nothing in here panics between two changes that belong together.
        self.loans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lend(lender: &Arc<Self>, wanted: u64) -> Result<WriteRegion, NoRegion> {
        let size = lender.element_bytes() as u64;
        let mut loans = lender.lock();
        let limit = loans.limit();
        if loans.is_abandoned() {
            return Err(NoRegion::Abandoned);
        }
        if loans.lent() == limit {
            return Err(NoRegion::AllLent { limit });
        }
        let from = loans.end.written() + loans.ahead();
        let (room, _) = loans.end.room()?;
        let room = room.saturating_sub(loans.ahead()) / size;
        let ring = lender.shape.bytes_max() as u64;
        let elements = wanted.min((ring - from % ring) / size);
        if room < elements {
            return Err(NoRegion::NotYet { available: room });
        }
        // Within the memory, hence a usize.
        let bytes = (elements * size) as usize;
        #[cfg(not(loom))]
        let start = {
            let pieces = loans.end.free_at(from, bytes);
            let [piece, _] = pieces.ok_or(NoRegion::Corrupt)?;
            NonNull::from(piece).cast()
        };
        let number = loans.lend(bytes as u64, elements);
        let number = number.ok_or(NoRegion::AllLent { limit })?;
        drop(loans);
        Ok(WriteRegion {
            lender: lender.clone(),
            #[cfg(not(loom))]
            start,
            bytes,
            from,
            number,
            fate: Fate::Abandoned,
        })
    }
}

impl WriteRegion {
    /// How many elements it takes: the true number, which may be less than was asked for.
    #[must_use]
    pub fn elements(&self) -> u64 {
        (self.bytes / self.lender.element_bytes()) as u64
    }

    /// Bytes of them.
    #[must_use]
    pub fn byte_len(&self) -> usize {
        self.bytes
    }

    /// Number of its first element, counted from the beginning of the ring.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.from / self.lender.element_bytes() as u64
    }

    /// Its bytes, to be filled. What they are before is left over from earlier elements.
    #[cfg(not(loom))]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: inside the free part, and nobody else's until it is finished, which is when this
        // is dropped; the lender keeps the memory.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }

    /// Fills it from its beginning.
    pub fn fill(&mut self, bytes: &[u8]) {
        let count = bytes.len().min(self.bytes);
        let bytes = &bytes[..count];
        #[cfg(not(loom))]
        self.bytes_mut()[..count].copy_from_slice(bytes);
        // Under loom its bytes are traced cells, which no slice can be made of.
        #[cfg(loom)]
        self.lender.lock().end.write_at(self.from, bytes);
    }

    /// All of it is filled: the device may have it, as soon as the regions before it are finished.
    ///
    /// One that is dropped without this ends the ring: [`NoRegion::Abandoned`].
    pub fn finish(mut self) {
        self.fate = Fate::Done;
    }
}

impl Drop for WriteRegion {
    fn drop(&mut self) {
        self.lender.lock().take_back(self.number, self.fate);
    }
}

impl std::fmt::Debug for RegionWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RegionWriter")
            .field("lent", &self.lent())
            .field("missed", &self.missed())
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for WriteRegion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WriteRegion")
            .field("position", &self.position())
            .field("elements", &self.elements())
            .finish_non_exhaustive()
    }
}
