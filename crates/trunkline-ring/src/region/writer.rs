//! The writer of a ring from which a device plays data: lends regions to fill.

#[cfg(not(loom))]
use std::ptr::NonNull;

use super::NoRegion;
use super::loans::{Advance, LoanStatus, Loans};
use super::parts::{Lender, Parts};
use crate::element_ring::ElementProducer;
use crate::sync::Arc;

/// The writer, which lends its memory in regions that are filled in any order.
///
/// Lending a region and taking it back hold a lock for a few instructions; the device never takes
/// that lock.
pub struct RegionWriter {
    lender: Arc<WriteLender>,
}

/// Contiguous free memory of the ring, to be filled in place and finished.
pub struct WriteRegion {
    lender: Arc<WriteLender>,
    #[cfg(not(loom))]
    start: NonNull<u8>,
    bytes: usize,
    /// Position of its first byte, counted from the beginning of the ring.
    from: u64,
    number: u64,
    status: LoanStatus,
}

// SAFETY: nothing else accesses the bytes before the region is finished; the lender is behind a
// lock.
#[cfg(not(loom))]
unsafe impl Send for WriteRegion {}
// SAFETY: as above; a shared reference gives no access to the bytes.
#[cfg(not(loom))]
unsafe impl Sync for WriteRegion {}

type WriteLender = Lender<Loans<ElementProducer>>;

impl Advance for ElementProducer {
    fn advance(&mut self, bytes: u64, elements: u64) {
        self.commit(bytes, elements);
    }
}

impl RegionWriter {
    pub(super) fn new(parts: Parts, lent_max: usize) -> Self {
        let producer = parts.memory.producer();
        let shape = producer.shape();
        let loans = Loans::new(producer, lent_max);
        let lender = Lender::new(loans, parts.losses, shape);
        Self { lender }
    }

    pub fn element_bytes(&self) -> usize {
        self.lender.element_bytes()
    }

    pub fn capacity(&self) -> u64 {
        self.lender.shape.capacity()
    }

    /// Lends room for the next `elements` elements, at least one. The region has fewer elements at
    /// the end of the memory.
    pub fn acquire(&mut self, elements: u64) -> Result<WriteRegion, NoRegion> {
        WriteLender::lend(&self.lender, elements.max(1))
    }

    /// Returns the number of lent regions, including finished regions that wait for an earlier one.
    pub fn lent(&self) -> usize {
        self.lender.lock().lent()
    }

    /// Returns the number of elements that were missing when the device needed them.
    pub fn missed(&self) -> u64 {
        self.lender.losses.losses().elements()
    }

    /// Returns the number of underruns, each of which is a sequence of missing elements.
    pub fn underruns(&self) -> u64 {
        self.lender.losses.losses().overflow_count()
    }
}

impl WriteLender {
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
        let from = loans.ring_end.written() + loans.lent_bytes();
        let (room, _) = loans.ring_end.room()?;
        let room = room.saturating_sub(loans.lent_bytes()) / size;
        let ring = lender.shape.bytes_max() as u64;
        let elements = wanted.min((ring - from % ring) / size);
        if room < elements {
            return Err(NoRegion::NotYet { available: room });
        }
        // Fits, because it is at most the memory's length, which is a usize.
        let bytes = (elements * size) as usize;
        #[cfg(not(loom))]
        let start = {
            let pieces = loans.ring_end.free_at(from, bytes);
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
            status: LoanStatus::Abandoned,
        })
    }
}

impl WriteRegion {
    /// Returns the number of elements that the region holds, which may be less than requested.
    pub fn elements(&self) -> u64 {
        (self.bytes / self.lender.element_bytes()) as u64
    }

    pub fn byte_len(&self) -> usize {
        self.bytes
    }

    /// Returns the number of its first element, counted from the beginning of the ring.
    pub fn position(&self) -> u64 {
        self.from / self.lender.element_bytes() as u64
    }

    /// Returns the bytes to fill. Until they are filled, they contain earlier elements.
    #[cfg(not(loom))]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: inside the free part, which only this region accesses until it is finished, at
        // the latest on drop; the lender keeps the memory.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }

    /// Copies `bytes` to the beginning of the region.
    pub fn fill(&mut self, bytes: &[u8]) {
        let count = bytes.len().min(self.bytes);
        let bytes = &bytes[..count];
        #[cfg(not(loom))]
        self.bytes_mut()[..count].copy_from_slice(bytes);
        // Under loom, the bytes are traced cells, from which no slice can be created.
        #[cfg(loom)]
        self.lender.lock().ring_end.write_at(self.from, bytes);
    }

    /// Declares the region filled. The device gets it once all earlier regions are finished.
    ///
    /// Dropping a region without this call makes the ring unusable: [`NoRegion::Abandoned`].
    pub fn finish(mut self) {
        self.status = LoanStatus::Done;
    }
}

impl Drop for WriteRegion {
    fn drop(&mut self) {
        self.lender.lock().take_back(self.number, self.status);
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
