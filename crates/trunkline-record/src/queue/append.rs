//! Appending to a queue.

use std::ptr::NonNull;
use std::time::Duration;

use trunkline_ring::ReadRegion;
use trunkline_tdms::BodySum;

use super::slot::{PartState, Segment, Slot, after};
use super::{WritePath, WriteQueue};
use crate::backend::{Backend, Span, Wait};
use crate::error::{QueueError, Refused};

/// Limits of a segment: its number of regions, its bytes unless it is one longer region, and the
/// age after which it accepts no more.
///
/// Rows become visible once the header is in the file. With 4 MiB per segment, a header of one
/// block costs one part in a thousand.
const SEGMENT_REGIONS_MAX: u64 = 64;
const SEGMENT_BYTES_MAX: u64 = 4 << 20;
const SEGMENT_AGE_MAX: Duration = Duration::from_millis(100);

impl<B: Backend> WriteQueue<B> {
    /// Waits until one more region may be outstanding, at most for the time set in the options.
    ///
    /// # Errors
    /// [`QueueError::Busy`], [`QueueError::Failed`], [`QueueError::Closed`],
    /// [`QueueError::Backend`].
    pub fn make_room(&mut self) -> Result<(), QueueError> {
        if self.is_closed {
            return Err(QueueError::Closed);
        }
        self.poll()?;
        let since = self.now();
        let until = since.saturating_add(self.options.wait);
        while self.outstanding() == self.slots.len() {
            if !self.step(Wait::Until(until))? && self.now() >= until {
                return Err(QueueError::Busy {
                    outstanding: self.outstanding(),
                    waited: self.options.wait,
                });
            }
        }
        self.failure.map_or(Ok(()), |failure| Err(failure.into()))
    }

    /// Writes a segment: `header`, the region's bytes, then `behind`. Returns at once unless the
    /// maximum number of regions is outstanding.
    ///
    /// The region is written directly from its memory. Only a partial block at its end is copied. A
    /// region that does not begin on a block boundary is copied completely, if
    /// [`QueueOptions::copying`](super::QueueOptions::copying) allows it. The region is released as
    /// soon as it is in the file, or kept for [`take_returned`](Self::take_returned) if it
    /// `is_wanted_back`.
    ///
    /// # Errors
    /// [`Refused`], with the region; nothing was written.
    pub fn append(
        &mut self,
        header: &[u8],
        region: ReadRegion,
        behind: &[u8],
        is_wanted_back: bool,
    ) -> Result<(), Box<Refused>> {
        let ready = self.make_room();
        let fits = ready.and_then(|()| self.fits(&region));
        let bytes = region.bytes().len();
        let checked = fits.and_then(|()| self.check(header, bytes, behind));
        match checked.and_then(|end| self.reserve(end).map(|()| end)) {
            Ok(end) => {
                match self.is_aligned(&region) {
                    true => self.begin(header, Body::Region(region, is_wanted_back), behind, end),
                    false => {
                        self.collected = 0;
                        self.copy(region.bytes());
                        if is_wanted_back {
                            self.returned.push_back(region);
                        }
                        self.begin(header, Body::Collected, behind, end);
                    }
                }
                Ok(())
            }
            Err(error) => Err(Box::new(Refused { region, error })),
        }
    }

    /// Writes a segment that consists of a header only. Returns at once unless the maximum number
    /// of segments is outstanding.
    ///
    /// # Errors
    /// [`QueueError`]; nothing was written.
    pub fn append_header(&mut self, header: &[u8]) -> Result<(), QueueError> {
        self.make_room()?;
        let end = self.check(header, 0, &[])?;
        self.reserve(end)?;
        self.begin(header, Body::Nothing, &[], end);
        Ok(())
    }

    /// Ensures that a segment with this region can be appended, whatever its header: waits until
    /// one more may be outstanding, and reserves room on the disk.
    ///
    /// # Errors
    /// Those of [`append`](Self::append).
    pub fn make_room_for(&mut self, region: &ReadRegion) -> Result<(), QueueError> {
        self.make_room()?;
        self.fits(region)?;
        self.reserve_for(region.bytes().len())
    }

    /// Returns true if a region can be added at the end of the last segment: the disk is still busy
    /// with it, and its header has not been written.
    pub(crate) fn may_extend(&self, region: &ReadRegion) -> bool {
        let Some(number) = self.next.checked_sub(1).filter(|n| *n >= self.oldest) else {
            return false;
        };
        let segment = &self.segments[self.place(number)];
        let bytes = region.bytes().len() as u64;
        // No part of the header is being written while the segment is open.
        let begin = segment.position + segment.header_bytes as u64;
        segment.is_open
            && self.failure.is_none()
            && self.is_aligned(region)
            && bytes.is_multiple_of(self.block_bytes as u64)
            && segment.last - segment.first < SEGMENT_REGIONS_MAX
            && segment.end - begin + bytes <= SEGMENT_BYTES_MAX
            && self.now().saturating_sub(segment.since) < SEGMENT_AGE_MAX
    }

    /// Adds a region to the last segment. [`may_extend`](Self::may_extend) must allow it, and
    /// [`make_room_for`](Self::make_room_for) must have reserved the room. The bytes become another
    /// chunk of that segment.
    pub(crate) fn extend(&mut self, region: ReadRegion) {
        let end = self.position + region.bytes().len() as u64;
        self.lengthen(end);
        let slot = self.next_slot;
        self.add(
            self.next.saturating_sub(1),
            Body::Region(region, false),
            &[],
        );
        self.position = end;
        self.go_on(slot);
    }

    /// Returns true if a region is aligned for a direct write.
    pub(super) fn is_aligned(&self, region: &ReadRegion) -> bool {
        let address = region.bytes().as_ptr().addr();
        address.is_multiple_of(self.block_bytes)
    }

    /// Checks that a region can be written at all.
    fn fits(&self, region: &ReadRegion) -> Result<(), QueueError> {
        let bytes = region.bytes().len();
        let copy_bytes_max = self.options.copy_bytes_max();
        if self.is_aligned(region) || bytes <= copy_bytes_max {
            return Ok(());
        }
        Err(QueueError::Unaligned {
            address: region.bytes().as_ptr().addr(),
            block_bytes: self.block_bytes,
            bytes,
            copy_bytes_max,
        })
    }

    /// Returns the end of the segment.
    pub(super) fn check(
        &self,
        header: &[u8],
        body: usize,
        behind: &[u8],
    ) -> Result<u64, QueueError> {
        let block_bytes = self.block_bytes;
        let limit = self.options.header_bytes_max;
        if header.is_empty() || header.len() > limit {
            let bytes = header.len();
            return Err(QueueError::HeaderTooLong { bytes, limit });
        }
        let body_at = self.position + header.len() as u64;
        let end = body_at + (body + behind.len()) as u64;
        let mut ends = [body_at, end].into_iter();
        let odd = ends.find(|end| !end.is_multiple_of(block_bytes as u64));
        // The room after the header in staging.
        let is_too_long = body % block_bytes + behind.len() > 2 * block_bytes;
        match odd.or(is_too_long.then_some(end)) {
            Some(end) => Err(QueueError::OddBlocks { end, block_bytes }),
            None => Ok(end),
        }
    }

    /// Begins to write a segment that was checked and has room reserved.
    pub(super) fn begin(&mut self, header: &[u8], body: Body, behind: &[u8], end: u64) {
        self.close_segment();
        self.lengthen(end);
        let (number, slot) = (self.next, self.next_slot);
        let place = self.place(number);
        let position = self.position;
        // Checked before: the header fits.
        put(self.staging.bytes_mut(place), 0, header);
        let memory = Span {
            start: self.staging.place(place),
            bytes: header.len(),
        };
        self.segments[place] = Segment {
            position,
            end: position + header.len() as u64,
            first: slot,
            last: slot,
            described_end: end,
            header: PartState::waiting(position, memory),
            header_bytes: header.len(),
            is_open: true,
            since: self.now(),
            body_sum: BodySum::default(),
            sum: None,
        };
        self.next += 1;
        self.position = end;
        if number == 0 {
            self.begin_placeholder(number, position);
        }
        if matches!(body, Body::Nothing) {
            self.close_segment();
            self.pass_over_done();
            return;
        }
        let is_last = !self.add(number, body, behind);
        self.go_on(slot);
        if is_last {
            self.close_segment();
        }
    }

    /// Takes a slot for the next part of a segment. Returns true if more may follow it.
    fn add(&mut self, number: u64, body: Body, behind: &[u8]) -> bool {
        let place = self.place(number);
        let start = self.staging.place(place);
        let collected = std::mem::take(&mut self.collected);
        let (odd_at, copy_at) = (self.odd_at, self.copy_at);
        let segment = &mut self.segments[place];
        let (position, sum_before) = (segment.end, segment.body_sum);
        // Checked before: each piece fits.
        let staged = self.staging.bytes_mut(place);
        let (memory, odd_bytes) = match &body {
            Body::Region(region, _) => {
                let bytes = region.bytes();
                let whole = bytes.len() / self.block_bytes * self.block_bytes;
                let (body, odd) = bytes.split_at(whole);
                put(staged, odd_at, odd);
                put(staged, odd_at + odd.len(), behind);
                self.regions_in_place += 1;
                self.path = Some(WritePath::InPlace);
                self.bytes_copied += odd.len() as u64;
                let start = NonNull::from(body).cast();
                (
                    Span {
                        start,
                        bytes: whole,
                    },
                    odd.len() + behind.len(),
                )
            }
            _ => {
                put(staged, copy_at + collected, behind);
                let (start, bytes) = (after(start, copy_at), collected + behind.len());
                (Span { start, bytes }, 0)
            }
        };
        if self.sums.is_some() {
            let body = match &body {
                Body::Region(region, _) => region.bytes(),
                _ => staged.get(copy_at..copy_at + collected).unwrap_or_default(),
            };
            segment.body_sum = sum_before.with(body).with(behind);
        }
        let odd = Span {
            start: after(start, odd_at),
            bytes: odd_bytes,
        };
        let odd_position = position + memory.bytes as u64;
        segment.end = odd_position + odd_bytes as u64;
        segment.last += 1;
        // Staging has room for one of each per segment.
        let may_more_come = odd_bytes == 0 && matches!(body, Body::Region(..));
        let (region, is_wanted_back) = match body {
            Body::Region(region, is_wanted_back) => (Some(region), is_wanted_back),
            _ => (None, false),
        };
        let slot = self.next_slot;
        let slot_place = self.place(slot);
        self.slots[slot_place] = Slot {
            segment: number,
            position,
            region,
            is_wanted_back,
            parts: [
                PartState::waiting(position, memory),
                PartState::waiting(odd_position, odd),
            ],
            sum_before,
        };
        self.next_slot += 1;
        may_more_come
    }

    /// Closes the last segment to further regions, which fixes the position of the next one.
    pub(super) fn close_segment(&mut self) {
        let Some(number) = self.next.checked_sub(1) else {
            return;
        };
        let place = self.place(number);
        let segment = &mut self.segments[place];
        if std::mem::take(&mut segment.is_open) {
            let end = segment.end;
            self.begin_placeholder(number + 1, end);
        }
    }
}

/// The source of a segment's values.
pub(super) enum Body {
    /// A region, and whether it is wanted back.
    Region(ReadRegion, bool),
    /// Data that was copied into the place of the segment.
    Collected,
    Nothing,
}

/// Copies `bytes` into `room` at `at`. The room is large enough.
pub(super) fn put(room: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(room) = room.get_mut(at..at.saturating_add(bytes.len())) {
        room.copy_from_slice(bytes);
    }
}
