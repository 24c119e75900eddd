//! Tracks segments and chunks from the call that appends them until they are in the file.
//!
//! [`Outstanding::next_write`] returns the next write that can start, [`Outstanding::apply`]
//! records the result of a write, and [`Outstanding::retire`] releases the regions that are in the
//! file. Only [`WriteQueue::advance`](super::WriteQueue) starts writes.
//!
//! # Placeholders
//!
//! Readers step from lead-in to lead-in, and some reject a file in which a lead-in is missing. Each
//! segment is therefore followed by a placeholder: a lead-in that marks the next segment as
//! incomplete. The header of a segment is written once two placeholders are in the file: the
//! segment's own placeholder, which the header replaces, and the placeholder of the next segment,
//! which readers look for as soon as they see the header.

use std::collections::VecDeque;
use std::io;
use std::ptr::NonNull;
use std::time::Duration;

use trunkline_ring::ReadRegion;
use trunkline_tdms::{BodySum, SegmentSum, lengthen_segment, unwritten_lead_in};

use super::QueueOptions;
use super::part::{Chunk, Part, PartState, Segment};
use super::sums::SumsFile;
use crate::backend::{Span, Token, Write};
use crate::error::{FailedStep, Failure, os_error};
use crate::staging::Staging;

/// The segments and chunks that are not in the file yet. They are numbered in the order of the
/// calls.
#[derive(Debug)]
pub(super) struct Outstanding {
    /// Maximum number of outstanding chunks; also the maximum number of outstanding segments.
    pub(super) max: usize,
    chunks: VecDeque<Chunk>,
    segments: VecDeque<Segment>,
    /// Number of the oldest chunk.
    oldest_chunk: u64,
    /// Number of the oldest segment.
    oldest_segment: u64,
    next_placeholder: PartState,
    /// Memory with one slot per segment, for the header, an unaligned end, and copied data.
    staging: Staging,
    /// The content of every placeholder: a lead-in, padded to whole blocks.
    placeholder: Staging,
    pub(super) placeholder_bytes: usize,
    pub(super) block_bytes: usize,
    /// Offset of the unaligned end within a staging slot.
    tail_offset: usize,
    /// Offset of copied data within a staging slot.
    pub(super) copy_offset: usize,
    /// Position in the file of the next segment.
    pub(super) position: u64,
    /// Position in the file at which the last written segment ends.
    pub(super) written: u64,
    /// Number of the first chunk that will not be in the file; `u64::MAX` without a failure.
    failed_chunk: u64,
    /// Number of the first segment that will not be in the file; `u64::MAX` without a failure.
    failed_segment: u64,
    /// The failure that ended the file. Its `written` is set when the failure is reported.
    pub(super) failure: Option<Failure>,
    /// Regions to return to the caller.
    pub(super) returned: VecDeque<ReadRegion>,
}

/// The source of a chunk.
pub(super) enum Body {
    /// A region. The flag is true if the region is returned to the caller instead of being
    /// released.
    Region(ReadRegion, bool),
    /// This number of bytes, which were [copied](Outstanding::copy) to staging memory.
    Copied(usize),
}

impl Outstanding {
    pub(super) fn new(options: &QueueOptions, block_bytes: usize) -> Self {
        let max = options.outstanding_max.get();
        // A slot holds the header, then a chunk's unaligned end and the padding of its block, then
        // copied data and the padding of its block.
        let tail_offset = options.header_bytes_max.next_multiple_of(block_bytes);
        let copy_offset = tail_offset + 2 * block_bytes;
        let copy_bytes = match options.copy_bytes_max() {
            0 => 0,
            bytes => bytes.saturating_add(2 * block_bytes),
        };
        let lead_in = unwritten_lead_in();
        let placeholder_bytes = lead_in.len().next_multiple_of(block_bytes);
        let mut placeholder = Staging::new(1, placeholder_bytes);
        copy_to(placeholder.bytes_mut(0), 0, &lead_in);
        Self {
            max,
            chunks: VecDeque::with_capacity(max),
            segments: VecDeque::with_capacity(max),
            oldest_chunk: 0,
            oldest_segment: 0,
            // The first segment begins the file.
            next_placeholder: PartState::pending(0, placeholder.slot(0).part(0, placeholder_bytes)),
            staging: Staging::new(max, copy_offset.saturating_add(copy_bytes)),
            placeholder,
            placeholder_bytes,
            block_bytes,
            tail_offset,
            copy_offset,
            position: 0,
            written: 0,
            failed_chunk: u64::MAX,
            failed_segment: u64::MAX,
            failure: None,
            returned: VecDeque::with_capacity(max),
        }
    }

    /// Returns the memory outside regions from which the file is written.
    pub(super) fn spans(&self) -> [Span; 2] {
        [self.staging.span(), self.placeholder.span()]
    }

    /// Returns the number of chunks being written or the number of segments not yet in the file,
    /// whichever is larger.
    pub(super) fn count(&self) -> usize {
        self.segments.len().max(self.chunks.len())
    }

    /// Returns true if no segment, chunk or placeholder is outstanding.
    pub(super) fn is_empty(&self) -> bool {
        self.count() == 0 && !self.next_placeholder.is_running
    }

    /// Returns the number of the next segment.
    pub(super) fn next_segment(&self) -> u64 {
        self.oldest_segment + self.segments.len() as u64
    }

    fn next_chunk(&self) -> u64 {
        self.oldest_chunk + self.chunks.len() as u64
    }

    /// Returns the last segment if more chunks may be added to it.
    pub(super) fn open_segment(&self) -> Option<&Segment> {
        self.segments.back().filter(|segment| segment.is_open)
    }

    /// Returns the index of a segment's staging slot.
    fn slot(&self, number: u64) -> usize {
        // The remainder is less than the number of slots, which is a `usize`.
        (number % self.max as u64) as usize
    }

    fn segment(&self, number: u64) -> Option<&Segment> {
        self.segments
            .get(number.checked_sub(self.oldest_segment)? as usize)
    }

    fn segment_mut(&mut self, number: u64) -> Option<&mut Segment> {
        let index = number.checked_sub(self.oldest_segment)?;
        self.segments.get_mut(index as usize)
    }

    fn placeholder(&self, number: u64) -> &PartState {
        self.segment(number)
            .map_or(&self.next_placeholder, |segment| &segment.placeholder)
    }

    fn part_mut(&mut self, part: Part) -> Option<&mut PartState> {
        match part {
            Part::Placeholder(number) if number == self.next_segment() => {
                Some(&mut self.next_placeholder)
            }
            Part::Placeholder(number) => Some(&mut self.segment_mut(number)?.placeholder),
            Part::Header(number) => Some(&mut self.segment_mut(number)?.header),
            Part::Body(number) | Part::Tail(number) => {
                let index = number.checked_sub(self.oldest_chunk)?;
                let chunk = self.chunks.get_mut(index as usize)?;
                Some(match part {
                    Part::Body(_) => &mut chunk.body,
                    _ => &mut chunk.tail,
                })
            }
        }
    }

    /// Copies `bytes` to `offset` in the copied data of the next segment, where they must fit.
    pub(super) fn copy(&mut self, offset: usize, bytes: &[u8]) {
        let slot = self.slot(self.next_segment());
        copy_to(
            self.staging.bytes_mut(slot),
            self.copy_offset + offset,
            bytes,
        );
    }

    /// Closes the last segment and begins a new one, which ends at `end` according to its header.
    /// The header must fit, and fewer than the maximum number of segments must be outstanding.
    pub(super) fn begin(
        &mut self,
        header: &[u8],
        end: u64,
        begun_at: Duration,
        body_sum: Option<BodySum>,
    ) {
        self.close_segment();
        let (position, first_chunk) = (self.position, self.next_chunk());
        let slot = self.slot(self.next_segment());
        copy_to(self.staging.bytes_mut(slot), 0, header);
        self.position += header.len() as u64;
        self.segments.push_back(Segment {
            position,
            end: self.position,
            first_chunk,
            chunks_end: first_chunk,
            described_end: end,
            placeholder: std::mem::take(&mut self.next_placeholder),
            header: PartState::pending(position, self.staging.slot(slot).part(0, header.len())),
            header_bytes: header.len(),
            is_open: true,
            begun_at,
            body_sum,
            sum: None,
        });
    }

    /// Adds a chunk and the `padding` after it to the last segment, which must be open. Both must
    /// fit, and fewer than the maximum number of chunks must be outstanding.
    pub(super) fn add(&mut self, body: Body, padding: &[u8]) {
        let number = self.next_segment().saturating_sub(1);
        let slot = self.slot(number);
        let Some(segment) = self.segments.back_mut() else {
            return;
        };
        let (tail_offset, copy_offset) = (self.tail_offset, self.copy_offset);
        let span = self.staging.slot(slot);
        let staged = self.staging.bytes_mut(slot);
        let (values, memory, tail_bytes) = match &body {
            Body::Region(region, _) => {
                let values = region.bytes();
                let bytes = values.len() / self.block_bytes * self.block_bytes;
                let (blocks, tail) = values.split_at(bytes);
                copy_to(staged, tail_offset, tail);
                copy_to(staged, tail_offset + tail.len(), padding);
                let start = NonNull::from(blocks).cast();
                (values, Span { start, bytes }, tail.len() + padding.len())
            }
            Body::Copied(count) => {
                copy_to(staged, copy_offset + count, padding);
                let memory = span.part(copy_offset, count + padding.len());
                (&staged[copy_offset..copy_offset + count], memory, 0)
            }
        };
        let (position, preceding_sum) = (segment.end, segment.body_sum);
        segment.body_sum = preceding_sum.map(|sum| sum.with(values).with(padding));
        let tail_position = position + memory.bytes as u64;
        let tail = span.part(tail_offset, tail_bytes);
        segment.end = tail_position + tail_bytes as u64;
        segment.chunks_end += 1;
        self.position = segment.end;
        // A staging slot has space for only one unaligned end and one copy per segment.
        let is_last = tail_bytes > 0 || matches!(body, Body::Copied(_));
        let (region, returns_region) = match body {
            Body::Region(region, returns_region) => (Some(region), returns_region),
            Body::Copied(_) => (None, false),
        };
        self.chunks.push_back(Chunk {
            segment: number,
            position,
            region,
            returns_region,
            body: PartState::pending(position, memory),
            tail: PartState::pending(tail_position, tail),
            preceding_sum,
        });
        if is_last {
            self.close_segment();
        }
    }

    /// Makes the last segment accept no more chunks. This fixes the position of the next segment.
    pub(super) fn close_segment(&mut self) {
        if let Some(segment) = self.segments.back_mut()
            && std::mem::take(&mut segment.is_open)
        {
            let memory = self.placeholder.slot(0).part(0, self.placeholder_bytes);
            self.next_placeholder = PartState::pending(segment.end, memory);
        }
    }

    /// Returns the next write that can start, and marks it as running.
    pub(super) fn next_write(&mut self) -> Option<Write> {
        let part = self.next_part()?;
        if let Part::Header(number) = part {
            self.complete_header(number);
        }
        let state = self.part_mut(part)?;
        state.is_running = true;
        Some(Write {
            token: part.token(),
            position: state.position,
            memory: state.memory,
        })
    }

    fn next_part(&self) -> Option<Part> {
        let numbers = self.oldest_chunk..self.failed_chunk;
        let chunk = numbers.zip(&self.chunks).find_map(|(number, chunk)| {
            let body = chunk.body.can_start().then_some(Part::Body(number));
            body.or_else(|| chunk.tail.can_start().then_some(Part::Tail(number)))
        });
        // Placeholders are written in order, so the file never begins with zeros.
        let placeholder = || {
            (self.oldest_segment..=self.next_segment())
                .find(|number| !self.placeholder(*number).is_written())
                .filter(|number| {
                    *number < self.failed_segment && self.placeholder(*number).can_start()
                })
                .map(Part::Placeholder)
        };
        let header = || {
            (self.oldest_segment..self.failed_segment)
                .zip(&self.segments)
                .find(|(number, segment)| self.can_write_header(*number, segment))
                .map(|(number, _)| Part::Header(number))
        };
        chunk.or_else(placeholder).or_else(header)
    }

    /// Returns true if a segment accepts no more chunks, and all its chunks and the placeholders
    /// at both of its ends are in the file. A failed file is truncated at the end of its last
    /// segment, so that segment needs no placeholder after it.
    fn can_write_header(&self, number: u64, segment: &Segment) -> bool {
        let next = number + 1;
        !segment.is_open
            && segment.chunks_end <= self.oldest_chunk
            && segment.header.can_start()
            && segment.placeholder.is_written()
            && (next >= self.failed_segment || self.placeholder(next).is_written())
    }

    /// Updates a header to cover the chunks that were added after it was built.
    fn complete_header(&mut self, number: u64) {
        let slot = self.slot(number);
        let Some(segment) = self
            .segments
            .get_mut((number - self.oldest_segment) as usize)
        else {
            return;
        };
        let header = &mut self.staging.bytes_mut(slot)[..segment.header_bytes];
        if segment.described_end < segment.end {
            lengthen_segment(header, segment.end - segment.described_end);
            segment.described_end = segment.end;
        }
        if segment.sum.is_none() {
            let sum = |body| SegmentSum::of(segment.position, header, body);
            segment.sum = segment.body_sum.map(sum);
        }
    }

    /// Records the result of a write.
    pub(super) fn apply(&mut self, token: Token, result: io::Result<usize>) {
        let (part, block_bytes) = (Part::of(token), self.block_bytes);
        if let Some(state) = self.part_mut(part)
            && let Err(error) = state.complete_write(result, block_bytes)
        {
            self.fail(part, &error);
        }
    }

    /// Releases the regions that are in the file or have failed. Retires chunks and segments in
    /// order, up to the first one that is still outstanding.
    pub(super) fn retire(&mut self, mut sums: Option<&mut SumsFile>) {
        for (number, chunk) in (self.oldest_chunk..).zip(&mut self.chunks) {
            if chunk.is_finished(number >= self.failed_chunk)
                && let Some(region) = chunk.region.take()
                && chunk.returns_region
            {
                self.returned.push_back(region);
            }
        }
        while let Some(chunk) = self.chunks.front()
            && chunk.is_finished(self.oldest_chunk >= self.failed_chunk)
        {
            self.chunks.pop_front();
            self.oldest_chunk += 1;
        }
        if self.chunks.is_empty() {
            // The disk is idle. Closing the segment makes its rows visible to readers.
            self.close_segment();
        }
        while let Some(segment) = self.segments.front() {
            let is_failed = self.oldest_segment >= self.failed_segment;
            let is_running = segment.header.is_running
                || segment.chunks_end > self.oldest_chunk
                || segment.placeholder.is_running
                || self.placeholder(self.oldest_segment + 1).is_running;
            if is_running || !is_failed && !segment.header.is_written() {
                return;
            }
            if !is_failed {
                if let Some((sums, sum)) = sums.as_deref_mut().zip(segment.sum)
                    && !sums.push(&sum)
                {
                    // There is space for this checksum once the running write completes.
                    return;
                }
                self.written = segment.end;
            }
            self.segments.pop_front();
            self.oldest_segment += 1;
        }
    }

    fn fail(&mut self, part: Part, error: &io::Error) {
        match part {
            Part::Body(number) | Part::Tail(number) => self.fail_chunk(number, error),
            Part::Placeholder(number) | Part::Header(number) => {
                let mut position = self.position;
                if let Some(segment) = self.segment(number) {
                    position = segment.position;
                    self.failed_chunk = self.failed_chunk.min(segment.first_chunk);
                }
                self.fail_from(number, FailedStep::Header, position, error);
            }
        }
    }

    /// Ends the file before a chunk. Earlier chunks of its segment are still written.
    fn fail_chunk(&mut self, number: u64, error: &io::Error) {
        if number >= self.failed_chunk {
            return;
        }
        self.failed_chunk = number;
        let Some(chunk) = self.chunks.get((number - self.oldest_chunk) as usize) else {
            return;
        };
        let (segment_number, position, preceding_sum) =
            (chunk.segment, chunk.position, chunk.preceding_sum);
        let Some(segment) = self.segment_mut(segment_number) else {
            return;
        };
        segment.is_open = false;
        let (end_segment, position) = match number > segment.first_chunk {
            true => {
                segment.chunks_end = number;
                segment.end = position;
                segment.body_sum = preceding_sum;
                (segment_number + 1, position)
            }
            false => (segment_number, segment.position),
        };
        // Any failure recorded so far concerns data after this chunk.
        self.failed_segment = u64::MAX;
        self.fail_from(end_segment, FailedStep::Body, position, error);
    }

    /// Records that the file ends at `position`, before segment `number`.
    pub(super) fn fail_from(
        &mut self,
        number: u64,
        step: FailedStep,
        position: u64,
        error: &io::Error,
    ) {
        if number >= self.failed_segment {
            return;
        }
        self.failed_segment = number;
        self.failure = Some(Failure {
            step,
            position,
            os_error: os_error(error),
            written: 0,
        });
    }
}

/// Copies `bytes` into `buffer` at `offset`, where they must fit.
fn copy_to(buffer: &mut [u8], offset: usize, bytes: &[u8]) {
    if let Some(target) = buffer.get_mut(offset..offset.saturating_add(bytes.len())) {
        target.copy_from_slice(bytes);
    }
}
