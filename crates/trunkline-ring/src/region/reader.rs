//! The end that is recorded from: regions to read.

#[cfg(not(loom))]
use std::ptr::NonNull;

use super::NoRegion;
use super::loans::{Fate, Loans, MovesOn};
use super::losses::LossReader;
use super::parts::{Losses, Parts};
use crate::byte_ring::Corrupt;
use crate::element_ring::{ElementConsumer, RingShape};
use crate::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The end that elements come out of, lent in regions.
///
/// Lending and taking back hold a lock for a few instructions; the device never takes it.
pub struct RegionReader {
    lender: Arc<ReadLender>,
}

/// Elements of the ring, in one piece, where the device has put them. They stay there until it is
/// dropped.
pub struct ReadRegion {
    lender: Arc<ReadLender>,
    #[cfg(not(loom))]
    start: NonNull<u8>,
    bytes: usize,
    /// Where its bytes begin since the beginning.
    from: u64,
    lost_before: u64,
    number: u64,
}

// SAFETY: the bytes are only read, and nobody writes them before the region is given back; the
// lender is behind a lock.
#[cfg(not(loom))]
unsafe impl Send for ReadRegion {}
// SAFETY: as above.
#[cfg(not(loom))]
unsafe impl Sync for ReadRegion {}

struct ReadLender {
    lent: Mutex<Lent>,
    losses: Losses,
    shape: RingShape,
}

struct Lent {
    loans: Loans<ElementConsumer>,
    gaps: LossReader,
}

impl MovesOn for ElementConsumer {
    fn move_on(&mut self, bytes: u64, elements: u64) {
        self.release(bytes, elements);
    }
}

impl RegionReader {
    pub(super) fn new(parts: Parts, lent_max: usize) -> Self {
        let consumer = parts.memory.consumer();
        let shape = consumer.shape();
        let lent = Lent {
            loans: Loans::new(consumer, lent_max),
            gaps: LossReader::default(),
        };
        Self {
            lender: Arc::new(ReadLender {
                lent: Mutex::new(lent),
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

    /// The next `elements` elements, at least one: all of them, or fewer where the memory ends or
    /// elements are missing.
    ///
    /// # Errors
    /// [`NoRegion`]; nothing was lent then.
    pub fn acquire(&mut self, elements: u64) -> Result<ReadRegion, NoRegion> {
        let elements = elements.max(1);
        ReadLender::lend(&self.lender, elements, elements)
    }

    /// As [`acquire`](Self::acquire), but also fewer when there are no more now: what is left at
    /// the end of a recording.
    ///
    /// # Errors
    /// [`NoRegion`]; nothing was lent then.
    pub fn acquire_available(&mut self, elements_max: u64) -> Result<ReadRegion, NoRegion> {
        ReadLender::lend(&self.lender, 1, elements_max.max(1))
    }

    /// Regions that are lent, with those that are given back and lie behind one that is not.
    #[must_use]
    pub fn lent(&self) -> usize {
        self.lender.lock().loans.lent()
    }

    /// Elements that the device has lost.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lender.losses.losses().elements()
    }

    /// How often the device began to lose elements.
    #[must_use]
    pub fn overflows(&self) -> u64 {
        self.lender.losses.losses().times()
    }

    /// Elements that are in the ring, lent ones too: its fill.
    ///
    /// # Errors
    /// [`Corrupt`]: the device's position cannot be true.
    pub fn fill(&mut self) -> Result<u64, Corrupt> {
        Ok(self.lender.lock().loans.end.available()?.1)
    }

    /// The reader is about to sleep because `elements` are not there to be lent: from now on the
    /// device's next [`must_wake`](super::RegionFiller::must_wake) says so. False when they are
    /// there by now.
    ///
    /// # Errors
    /// [`Corrupt`]: the device's position cannot be true.
    pub fn wait_for(&mut self, elements: u64) -> Result<bool, Corrupt> {
        let mut lent = self.lender.lock();
        let size = self.lender.element_bytes() as u64;
        let bytes = lent.loans.ahead() + elements.saturating_mul(size);
        lent.loans.end.wait_for(bytes, bytes / size)
    }
}

impl ReadLender {
    fn element_bytes(&self) -> usize {
        // The shape of a region ring is of fixed elements.
        self.shape.element_bytes().unwrap_or(1)
    }

    fn lock(&self) -> MutexGuard<'_, Lent> {
        // Nothing in here panics between two changes that belong together.
        self.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lend(lender: &Arc<Self>, least: u64, most: u64) -> Result<ReadRegion, NoRegion> {
        let size = lender.element_bytes() as u64;
        let losses = lender.losses.losses();
        let mut guard = lender.lock();
        let Lent { loans, gaps } = &mut *guard;
        let limit = loans.limit();
        if loans.lent() == limit {
            return Err(NoRegion::AllLent { limit });
        }
        let from = loans.end.read() + loans.ahead();
        let there = (loans.end.written()? - from) / size;
        if there == 0 {
            return Err(NoRegion::NotYet { available: 0 });
        }
        gaps.look(losses)?;
        let (mut lost_before, mut ahead) = (0, 0);
        if let Some((position, lost)) = gaps.gap(losses, 0, from)?
            && position == from
        {
            (lost_before, ahead) = (lost, 1);
        }
        let ring = lender.shape.bytes_max() as u64;
        let mut in_one_piece = (ring - from % ring) / size;
        // The one behind it, or the first that is not here.
        if let Some((position, _)) = gaps.gap(losses, ahead, from)? {
            in_one_piece = in_one_piece.min((position - from) / size);
        }
        if in_one_piece == 0 {
            return Err(NoRegion::Corrupt);
        }
        if there < least.min(in_one_piece) {
            return Err(NoRegion::NotYet { available: there });
        }
        let elements = most.min(in_one_piece).min(there);
        // Within the memory, hence a usize.
        let bytes = (elements * size) as usize;
        #[cfg(not(loom))]
        let start = {
            let pieces = loans.end.region_at(from, bytes);
            let [piece, _] = pieces.ok_or(NoRegion::Corrupt)?;
            NonNull::from(piece).cast()
        };
        let number = loans.lend(bytes as u64, elements);
        let number = number.ok_or(NoRegion::AllLent { limit })?;
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
            number,
        })
    }
}

impl ReadRegion {
    /// How many elements it has: the true number, which may be less than was asked for.
    #[must_use]
    pub fn elements(&self) -> u64 {
        (self.bytes / self.lender.element_bytes()) as u64
    }

    /// Its bytes: elements, one behind the other.
    #[cfg(not(loom))]
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: inside what was written, and the reader's until it is given back, which is when
        // this is dropped; the lender keeps the memory.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }

    /// Copies its bytes out, up to as many as `bytes` takes.
    pub fn read_into(&self, bytes: &mut [u8]) {
        let count = bytes.len().min(self.bytes);
        if let Some(bytes) = bytes.get_mut(..count) {
            #[cfg(not(loom))]
            bytes.copy_from_slice(&self.bytes()[..count]);
            // Under loom its bytes are traced cells, which no slice can be made of.
            #[cfg(loom)]
            self.lender.lock().loans.end.read_at(self.from, bytes);
        }
    }

    /// Number of its first element, counted from the beginning of the ring without those lost.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.from / self.lender.element_bytes() as u64
    }

    /// Elements that the device has lost between the one before this region and its first.
    #[must_use]
    pub fn lost_before(&self) -> u64 {
        self.lost_before
    }

    /// Gives it back. The same as dropping it.
    pub fn release(self) {}
}

impl Drop for ReadRegion {
    fn drop(&mut self) {
        let mut lent = self.lender.lock();
        lent.loans.take_back(self.number, Fate::Done);
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
