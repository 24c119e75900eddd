//! The end from which a recording is made: it lends regions to read.

#[cfg(not(loom))]
use std::ptr::NonNull;

use super::NoRegion;
use super::loans::{Advance, LoanStatus, Loans};
use super::losses::LossReader;
use super::parts::{Lender, Parts};
use crate::byte_ring::Corrupt;
use crate::element_ring::ElementConsumer;
use crate::sync::Arc;

/// The reader, which lends its elements in regions.
///
/// Lending a region and taking it back hold a lock for a few instructions; the device never takes
/// that lock.
pub struct RegionReader {
    lender: Arc<ReadLender>,
}

/// Contiguous elements of the ring, at the place where the device has put them. They remain there
/// until the region is dropped.
pub struct ReadRegion {
    lender: Arc<ReadLender>,
    #[cfg(not(loom))]
    start: NonNull<u8>,
    bytes: usize,
    /// Position of its first byte, counted from the beginning of the ring.
    from: u64,
    lost_before: u64,
    loan_number: u64,
}

// SAFETY: the bytes are only read, and nothing writes them before the region is given back; the
// lender is behind a lock.
#[cfg(not(loom))]
unsafe impl Send for ReadRegion {}
// SAFETY: as above.
#[cfg(not(loom))]
unsafe impl Sync for ReadRegion {}

type ReadLender = Lender<LoanState>;

struct LoanState {
    loans: Loans<ElementConsumer>,
    gaps: LossReader,
}

impl Advance for ElementConsumer {
    fn advance(&mut self, bytes: u64, elements: u64) {
        self.release(bytes, elements);
    }
}

impl RegionReader {
    pub(super) fn new(parts: Parts, lent_max: usize) -> Self {
        let consumer = parts.memory.consumer();
        let shape = consumer.shape();
        let lent = LoanState {
            loans: Loans::new(consumer, lent_max),
            gaps: LossReader::default(),
        };
        let lender = Lender::new(lent, parts.losses, shape);
        Self { lender }
    }

    pub fn element_bytes(&self) -> usize {
        self.lender.element_bytes()
    }

    pub fn capacity(&self) -> u64 {
        self.lender.shape.capacity()
    }

    /// Lends the next `elements` elements, at least one. The region has fewer elements at the end
    /// of the memory, or before a gap.
    pub fn acquire(&mut self, elements: u64) -> Result<ReadRegion, NoRegion> {
        let elements = elements.max(1);
        ReadLender::lend(&self.lender, elements, elements)
    }

    /// Like [`acquire`](Self::acquire), but lends fewer elements if no more are available now,
    /// for example at the end of a recording.
    pub fn acquire_available(&mut self, elements_max: u64) -> Result<ReadRegion, NoRegion> {
        ReadLender::lend(&self.lender, 1, elements_max.max(1))
    }

    /// Returns the number of lent regions, including returned regions that wait for an earlier one.
    pub fn lent(&self) -> usize {
        self.lender.lock().loans.lent()
    }

    /// Returns the number of elements that the device has lost.
    pub fn lost(&self) -> u64 {
        self.lender.losses.losses().elements()
    }

    /// Returns the number of times that the device began to lose elements.
    pub fn overflows(&self) -> u64 {
        self.lender.losses.losses().overflow_count()
    }

    /// Returns the fill level: the number of elements in the ring, including lent elements.
    pub fn fill_level(&mut self) -> Result<u64, Corrupt> {
        Ok(self.lender.lock().loans.ring_end.available()?.1)
    }

    /// Announces that the reader is about to sleep because `elements` are not available to be lent.
    /// From then on the device's next [`must_wake`](super::RegionFiller::must_wake) returns true.
    /// Returns false if they have arrived.
    pub fn wait_for(&mut self, elements: u64) -> Result<bool, Corrupt> {
        let mut lent = self.lender.lock();
        let size = self.lender.element_bytes() as u64;
        let bytes = lent
            .loans
            .lent_bytes()
            .saturating_add(elements.saturating_mul(size));
        lent.loans.ring_end.wait_for(bytes, bytes / size)
    }
}

impl ReadLender {
    fn lend(
        lender: &Arc<Self>,
        elements_min: u64,
        elements_max: u64,
    ) -> Result<ReadRegion, NoRegion> {
        let size = lender.element_bytes() as u64;
        let losses = lender.losses.losses();
        let mut guard = lender.lock();
        let LoanState { loans, gaps } = &mut *guard;
        let limit = loans.limit();
        if loans.lent() == limit {
            return Err(NoRegion::AllLent { limit });
        }
        let from = loans.ring_end.read_position() + loans.lent_bytes();
        let available = (loans.ring_end.written()? - from) / size;
        if available == 0 {
            return Err(NoRegion::NotYet { available: 0 });
        }
        gaps.load(losses)?;
        let (mut lost_before, mut ahead) = (0, 0);
        if let Some((position, lost)) = gaps.gap(losses, 0, from)?
            && position == from
        {
            (lost_before, ahead) = (lost, 1);
        }
        let ring = lender.shape.bytes_max() as u64;
        let mut in_one_piece = (ring - from % ring) / size;
        // The gap after this region. If there is no gap before the region, this is the first gap.
        if let Some((position, _)) = gaps.gap(losses, ahead, from)? {
            in_one_piece = in_one_piece.min((position - from) / size);
        }
        if in_one_piece == 0 {
            return Err(NoRegion::Corrupt);
        }
        if available < elements_min.min(in_one_piece) {
            return Err(NoRegion::NotYet { available });
        }
        let elements = elements_max.min(in_one_piece).min(available);
        // Fits, because it is at most the memory's length, which is a usize.
        let bytes = (elements * size) as usize;
        #[cfg(not(loom))]
        let start = {
            let pieces = loans.ring_end.region_at(from, bytes);
            let [piece, _] = pieces.ok_or(NoRegion::Corrupt)?;
            NonNull::from(piece).cast()
        };
        let loan_number = loans.lend(bytes as u64, elements);
        let loan_number = loan_number.ok_or(NoRegion::AllLent { limit })?;
        if ahead == 1 {
            gaps.pass(losses);
        }
        drop(guard);
        Ok(ReadRegion {
            lender: lender.clone(),
            #[cfg(not(loom))]
            start,
            bytes,
            from,
            lost_before,
            loan_number,
        })
    }
}

impl ReadRegion {
    /// Returns the number of elements in the region, which may be less than requested.
    pub fn elements(&self) -> u64 {
        (self.bytes / self.lender.element_bytes()) as u64
    }

    /// Returns the bytes of the elements, which are contiguous.
    #[cfg(not(loom))]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: inside the written part, which belongs to the reader until the region is given
        // back on drop; the lender keeps the memory alive.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }

    /// Copies out as many of its bytes as fit into `bytes`.
    pub fn read_into(&self, bytes: &mut [u8]) {
        let count = bytes.len().min(self.bytes);
        if let Some(bytes) = bytes.get_mut(..count) {
            #[cfg(not(loom))]
            bytes.copy_from_slice(&self.bytes()[..count]);
            // Under loom, the bytes are traced cells, from which no slice can be created.
            #[cfg(loom)]
            self.lender.lock().loans.ring_end.read_at(self.from, bytes);
        }
    }

    /// Returns the number of its first element, counted from the beginning of the ring, not
    /// including lost elements.
    pub fn position(&self) -> u64 {
        self.from / self.lender.element_bytes() as u64
    }

    /// Returns the number of elements lost between the element before this region and its first
    /// element.
    pub fn lost_before(&self) -> u64 {
        self.lost_before
    }

    /// Returns the region to the ring. Equivalent to dropping it.
    pub fn release(self) {}
}

impl Drop for ReadRegion {
    fn drop(&mut self) {
        let mut lent = self.lender.lock();
        lent.loans.take_back(self.loan_number, LoanStatus::Done);
    }
}

impl std::fmt::Debug for RegionReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RegionReader")
            .field("lent", &self.lent())
            .field("lost", &self.lost())
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for ReadRegion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadRegion")
            .field("position", &self.position())
            .field("elements", &self.elements())
            .field("lost_before", &self.lost_before)
            .finish_non_exhaustive()
    }
}
