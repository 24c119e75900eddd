//! Records of elements that a device could not put into the ring or did not find there, with their
//! positions.

use crate::byte_ring::Corrupt;
use crate::padded::Padded;
use crate::sync::{AtomicU64, Ordering};

/// Maximum number of gaps that the reader has not passed yet. Once this number is reached, all new
/// elements are lost, and the open gap grows.
#[cfg(not(loom))]
const GAPS_MAX: usize = 32;
#[cfg(loom)]
const GAPS_MAX: usize = 1;

/// The loss counters of a ring, in addition to its positions. A header of zeros is a ring without
/// losses.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct LossHeader {
    /// Written by the device.
    device: Padded<DeviceCounters>,
    /// Number of gaps that the reader has passed.
    gaps_passed: Padded<AtomicU64>,
    gaps: [Gap; GAPS_MAX],
}

#[derive(Debug, Default)]
#[repr(C)]
struct DeviceCounters {
    /// Number of elements lost or missing.
    elements: AtomicU64,
    /// Number of times that a loss began.
    overflow_count: AtomicU64,
    gaps: AtomicU64,
}

/// Lost elements between two neighbouring elements of the ring.
#[derive(Debug, Default)]
#[repr(C)]
struct Gap {
    /// Position of the first element after the gap.
    position: AtomicU64,
    elements: AtomicU64,
}

impl LossHeader {
    /// Number of elements lost or missing.
    pub(super) fn elements(&self) -> u64 {
        self.device.elements.load(Ordering::Relaxed)
    }

    /// Number of times that a loss began.
    pub(super) fn overflow_count(&self) -> u64 {
        self.device.overflow_count.load(Ordering::Relaxed)
    }

    fn gap(&self, number: u64) -> &Gap {
        // Fits, because it is below the length of the array, which is a usize.
        &self.gaps[(number % GAPS_MAX as u64) as usize]
    }
}

/// The device's side.
#[derive(Debug, Default)]
pub(super) struct LossCounter {
    elements: u64,
    overflow_count: u64,
    gaps: u64,
    passed_seen: u64,
    /// Number of elements in the open gap, which is not recorded yet; 0 if no gap is open.
    open_gap: u64,
}

impl LossCounter {
    /// Counts elements as lost.
    pub(super) fn lose(&mut self, header: &LossHeader, elements: u64) {
        if elements == 0 {
            return;
        }
        if self.open_gap == 0 {
            self.overflow_count += 1;
            header
                .device
                .overflow_count
                .store(self.overflow_count, Ordering::Relaxed);
        }
        self.open_gap = self.open_gap.saturating_add(elements);
        self.elements = self.elements.saturating_add(elements);
        let counter = &header.device.elements;
        counter.store(self.elements, Ordering::Relaxed);
    }

    /// Ends the open gap without recording it.
    pub(super) fn discard_gap(&mut self) {
        self.open_gap = 0;
    }

    /// Returns true if elements may enter the ring again: no gap is open, or it can be recorded.
    pub(super) fn can_resume(&mut self, header: &LossHeader) -> Result<bool, Corrupt> {
        if self.open_gap == 0 || self.gaps - self.passed_seen < GAPS_MAX as u64 {
            return Ok(true);
        }
        // SYNC POINT, pairs with the release store in `LossReader::pass`: the gap is read before it
        // is overwritten.
        let passed = header.gaps_passed.load(Ordering::Acquire);
        if !(self.passed_seen..=self.gaps).contains(&passed) {
            return Err(Corrupt);
        }
        self.passed_seen = passed;
        Ok(self.gaps - passed < GAPS_MAX as u64)
    }

    /// Records the open gap, if any. The first element after it is at `position`. Call this before
    /// publishing that element, and only after [`can_resume`](Self::can_resume).
    pub(super) fn record_gap(&mut self, header: &LossHeader, position: u64) {
        if self.open_gap == 0 {
            return;
        }
        let gap = header.gap(self.gaps);
        gap.position.store(position, Ordering::Relaxed);
        gap.elements.store(self.open_gap, Ordering::Relaxed);
        self.gaps += 1;
        // SYNC POINT, pairs with the acquire load in `LossReader::load`.
        header.device.gaps.store(self.gaps, Ordering::Release);
        self.open_gap = 0;
    }
}

#[derive(Debug, Default)]
pub(super) struct LossReader {
    passed: u64,
    written_seen: u64,
}

impl LossReader {
    /// Loads the number of recorded gaps. It covers all gaps before any position that was read from
    /// the ring before this call.
    pub(super) fn load(&mut self, header: &LossHeader) -> Result<(), Corrupt> {
        // SYNC POINT, pairs with the release store in `LossCounter::record_gap`.
        let written = header.device.gaps.load(Ordering::Acquire);
        if !(self.written_seen..=self.passed + GAPS_MAX as u64).contains(&written) {
            return Err(Corrupt);
        }
        self.written_seen = written;
        Ok(())
    }

    /// Returns the position and length, in elements, of the gap that is `ahead` gaps after the next
    /// one.
    pub(super) fn gap(
        &self,
        header: &LossHeader,
        ahead: u64,
        from: u64,
    ) -> Result<Option<(u64, u64)>, Corrupt> {
        let number = self.passed + ahead;
        if number >= self.written_seen {
            return Ok(None);
        }
        let gap = header.gap(number);
        let position = gap.position.load(Ordering::Relaxed);
        if position < from {
            return Err(Corrupt);
        }
        Ok(Some((position, gap.elements.load(Ordering::Relaxed))))
    }

    /// Marks the next gap as passed.
    pub(super) fn pass(&mut self, header: &LossHeader) {
        self.passed += 1;
        // SYNC POINT, pairs with the acquire load in `LossCounter::can_resume`.
        header.gaps_passed.store(self.passed, Ordering::Release);
    }
}
