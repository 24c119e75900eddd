//! Appends regions and headers to a queue.

use std::time::Duration;

use trunkline_ring::ReadRegion;
use trunkline_tdms::BodySum;

use super::outstanding::Body;
use super::{WritePath, WriteQueue};
use crate::backend::Wait;
use crate::error::{QueueError, Refused};

/// Maximum number of regions in a segment.
const SEGMENT_REGIONS_MAX: u64 = 64;
/// Maximum size of a segment in bytes; a single region may be longer. At this size, a header of one
/// block takes a thousandth of the segment.
const SEGMENT_BYTES_MAX: u64 = 4 << 20;
/// Age at which a segment accepts no more regions. Readers see its rows only once the header is in
/// the file.
const SEGMENT_AGE_MAX: Duration = Duration::from_millis(100);

/// Data of copied regions, collected in the staging memory of the next segment so that it is copied
/// only once.
#[derive(Debug, Default)]
pub(super) struct Collected {
    pub(super) bytes: usize,
    /// Time at which the first region was copied.
    since: Duration,
}

impl WriteQueue {
    /// Waits until the queue can accept another region, for at most the time set in the options.
    pub fn wait_for_slot(&mut self) -> Result<(), QueueError> {
        if self.is_closed {
            return Err(QueueError::Closed);
        }
        self.poll()?;
        let since = self.now();
        let deadline = since.saturating_add(self.options.wait);
        while self.outstanding() == self.outstanding.max {
            if !self.step(Wait::Until(deadline))? && self.now() >= deadline {
                return Err(QueueError::Busy {
                    outstanding: self.outstanding(),
                    waited: self.options.wait,
                });
            }
        }
        self.check_failure()
    }

    /// Writes a segment that consists of `header`, the region's bytes, and `padding`. This call
    /// waits only while the maximum number of regions is outstanding.
    ///
    /// The region is written directly from its memory; only a partial block at its end is copied.
    /// A region that does not begin on a block boundary is copied completely, if
    /// [`QueueOptions::copying`](super::QueueOptions::copying) allows it. The region is released
    /// once it is in the file, or kept for [`take_returned`](Self::take_returned) if
    /// `returns_region` is true.
    ///
    /// # Errors
    /// [`Refused`] returns the region. Nothing was written.
    pub fn append(
        &mut self,
        header: &[u8],
        region: ReadRegion,
        padding: &[u8],
        returns_region: bool,
    ) -> Result<(), Box<Refused>> {
        let ready = self.wait_for_slot();
        let alignment_checked = ready.and_then(|()| self.check_alignment(&region));
        let bytes = region.bytes().len();
        let checked = alignment_checked.and_then(|()| self.check_lengths(header, bytes, padding));
        match checked.and_then(|end| self.reserve(end).map(|()| end)) {
            Ok(end) => {
                let body = match self.is_aligned(&region) {
                    true => Body::Region(region, returns_region),
                    false => {
                        self.collected.bytes = 0;
                        self.copy(region.bytes());
                        if returns_region {
                            self.outstanding.returned.push_back(region);
                        }
                        self.take_collected()
                    }
                };
                self.begin(header, Some(body), padding, end);
                Ok(())
            }
            Err(error) => Err(Box::new(Refused { region, error })),
        }
    }

    /// Writes a segment that consists of a header only. This call waits only while the maximum
    /// number of segments is outstanding.
    pub fn append_header(&mut self, header: &[u8]) -> Result<(), QueueError> {
        self.wait_for_slot()?;
        let end = self.check_lengths(header, 0, &[])?;
        self.reserve(end)?;
        self.begin(header, None, &[], end);
        Ok(())
    }

    /// Ensures that a segment with this region and any header can be appended: waits until the
    /// queue can accept it, and reserves space on the disk.
    pub fn prepare_for(&mut self, region: &ReadRegion) -> Result<(), QueueError> {
        self.wait_for_slot()?;
        self.check_alignment(region)?;
        self.reserve_for(region.bytes().len())
    }

    /// Returns true if a region can be added at the end of the last segment: the segment's data is
    /// still being written, and its header has not been written.
    pub(crate) fn may_extend(&self, region: &ReadRegion) -> bool {
        let Some(segment) = self.outstanding.open_segment() else {
            return false;
        };
        let bytes = region.bytes().len() as u64;
        // No part of the header is being written while the segment is open.
        let body_position = segment.position + segment.header_bytes as u64;
        self.outstanding.failure.is_none()
            && self.is_aligned(region)
            && bytes.is_multiple_of(self.block_bytes() as u64)
            && segment.chunks_end - segment.first_chunk < SEGMENT_REGIONS_MAX
            && segment.end - body_position + bytes <= SEGMENT_BYTES_MAX
            && self.now().saturating_sub(segment.begun_at) < SEGMENT_AGE_MAX
    }

    /// Adds a region to the last segment as another chunk. [`may_extend`](Self::may_extend) must
    /// have returned true, and [`prepare_for`](Self::prepare_for) must have reserved the space.
    pub(crate) fn extend(&mut self, region: ReadRegion) {
        let end = self.position() + region.bytes().len() as u64;
        self.space.extend(&mut *self.backend, end);
        self.add(Body::Region(region, false), &[]);
        self.advance();
    }

    /// Returns true if a region must be copied before it is written.
    pub(crate) fn is_to_be_copied(&self, region: &ReadRegion) -> bool {
        let bytes = region.bytes().len();
        self.options.copying.is_some_and(|copying| {
            let needs_copy = bytes < copying.below_bytes || !self.is_aligned(region);
            needs_copy && bytes <= copying.segment_bytes
        })
    }

    /// Returns the number of bytes that can be collected before a segment must be written.
    pub(crate) fn free_copy_bytes(&self) -> usize {
        self.options.copy_bytes_max() - self.collected.bytes
    }

    /// Returns true if collected data has reached its maximum age.
    pub(crate) fn is_collected_data_due(&self) -> bool {
        let age = || self.now().saturating_sub(self.collected.since);
        let copying = self.options.copying;
        self.collected.bytes > 0 && copying.is_some_and(|copying| age() >= copying.age_max)
    }

    /// Ensures that a region can be collected now and written in a segment later.
    pub(crate) fn prepare_to_collect(&mut self) -> Result<(), QueueError> {
        if self.collected.bytes > 0 {
            // The space was reserved when the first region was collected.
            self.poll()?;
            return self.check_failure();
        }
        self.wait_for_slot()?;
        self.reserve_for(self.options.copy_bytes_max())
    }

    /// Copies a region to the collected data. Space must have been reserved.
    pub(crate) fn collect(&mut self, region: &ReadRegion) {
        if self.collected.bytes == 0 {
            self.collected.since = self.now();
        }
        self.copy(region.bytes());
    }

    fn copy(&mut self, bytes: &[u8]) {
        self.outstanding.copy(self.collected.bytes, bytes);
        self.collected.bytes += bytes.len();
        self.counts.regions_copied += 1;
        self.counts.bytes_copied += bytes.len() as u64;
        self.counts.path = Some(WritePath::Copied);
    }

    fn take_collected(&mut self) -> Body {
        Body::Copied(std::mem::take(&mut self.collected.bytes))
    }

    /// Writes a segment that consists of `header`, the collected data, and `padding`.
    ///
    /// # Errors
    /// [`QueueError`]. The data stays collected.
    pub(crate) fn append_collected(
        &mut self,
        header: &[u8],
        padding: &[u8],
    ) -> Result<(), QueueError> {
        let end = self.check_lengths(header, self.collected.bytes, padding)?;
        let body = self.take_collected();
        self.begin(header, Some(body), padding, end);
        Ok(())
    }

    /// Reserves space for a segment with a body of `body_bytes` and any header.
    pub(crate) fn reserve_for(&mut self, body_bytes: usize) -> Result<(), QueueError> {
        let bytes_max = body_bytes.saturating_add(self.outstanding.copy_offset);
        self.reserve(self.position().saturating_add(bytes_max as u64))
    }

    /// Reserves space for a segment up to `end` and the placeholder after it, and more space ahead.
    fn reserve(&mut self, end: u64) -> Result<(), QueueError> {
        let end = end.saturating_add(self.outstanding.placeholder_bytes as u64);
        let sums = self.sums.as_mut();
        self.space.reserve(&mut *self.backend, sums, end)
    }

    /// Returns true if a region is aligned for a direct write.
    fn is_aligned(&self, region: &ReadRegion) -> bool {
        let address = region.bytes().as_ptr().addr();
        address.is_multiple_of(self.block_bytes())
    }

    /// Checks that a region is aligned for direct writes or may be copied.
    fn check_alignment(&self, region: &ReadRegion) -> Result<(), QueueError> {
        let bytes = region.bytes().len();
        let copy_bytes_max = self.options.copy_bytes_max();
        if self.is_aligned(region) || bytes <= copy_bytes_max {
            return Ok(());
        }
        Err(QueueError::Unaligned {
            address: region.bytes().as_ptr().addr(),
            block_bytes: self.block_bytes(),
            bytes,
            copy_bytes_max,
        })
    }

    /// Checks the lengths of a segment's parts, and returns its end.
    fn check_lengths(&self, header: &[u8], body: usize, padding: &[u8]) -> Result<u64, QueueError> {
        let block_bytes = self.block_bytes();
        let limit = self.options.header_bytes_max;
        if header.is_empty() || header.len() > limit {
            let bytes = header.len();
            return Err(QueueError::HeaderTooLong { bytes, limit });
        }
        let body_position = self.position() + header.len() as u64;
        let end = body_position + (body + padding.len()) as u64;
        let mut ends = [body_position, end].into_iter();
        let unaligned = ends.find(|end| !end.is_multiple_of(block_bytes as u64));
        // A staging slot has space for two blocks after the header.
        let is_too_long = body % block_bytes + padding.len() > 2 * block_bytes;
        match unaligned.or(is_too_long.then_some(end)) {
            Some(end) => Err(QueueError::PartialBlock { end, block_bytes }),
            None => Ok(end),
        }
    }

    /// Starts writing a segment whose lengths were checked and whose space is reserved.
    fn begin(&mut self, header: &[u8], body: Option<Body>, padding: &[u8], end: u64) {
        if self.outstanding.next_segment() > 0 {
            // The first segment does not extend the file, so a file stays short if its recording
            // does not start.
            self.space.extend(&mut *self.backend, end);
        }
        let body_sum = self.sums.as_ref().map(|_| BodySum::default());
        self.outstanding.begin(header, end, self.now(), body_sum);
        match body {
            Some(body) => self.add(body, padding),
            None => self.outstanding.close_segment(),
        }
        self.advance();
    }

    fn add(&mut self, body: Body, padding: &[u8]) {
        if let Body::Region(region, _) = &body {
            let tail_bytes = region.bytes().len() % self.block_bytes();
            self.counts.regions_in_place += 1;
            self.counts.path = Some(WritePath::InPlace);
            self.counts.bytes_copied += tail_bytes as u64;
        }
        self.outstanding.add(body, padding);
    }
}
