//! The progress of regions and segments until they are in the file.

use std::io;

use trunkline_tdms::{SegmentSum, lengthen_segment};

use super::slot::{Part, PartState};
use super::sums::{SumsFile, SumsStep};
use super::{SYNC, WriteQueue};
use crate::backend::{Backend, Completed, Token, Wait, Write};
use crate::error::{FailedStep, Failure, QueueError, os_error};

/// The low bits of a token of a segment's header; the other values are parts of a region.
const HEADER: u64 = 2;
/// The low bits of a token of a segment's placeholder.
pub(super) const PLACEHOLDER: u64 = 3;

impl<B: Backend> WriteQueue<B> {
    /// Begins the writes of a region that can begin, and releases the region if it is no longer
    /// needed.
    pub(super) fn go_on(&mut self, number: u64) {
        for part in Part::ALL {
            let state = &self.slots[self.place(number)].parts[part as usize];
            if number < self.failed_slot && state.is_waiting() {
                self.submit_part(number, part);
            }
        }
        self.give_back(number);
        self.pass_over_done();
    }

    fn submit_part(&mut self, number: u64, part: Part) {
        let place = self.place(number);
        let state = &mut self.slots[place].parts[part as usize];
        let begun = submit(&mut self.backend, Token(number * 4 + part as u64), state);
        self.running += usize::from(begun.is_ok());
        if let Err(error) = begun {
            self.fail_region(number, &error);
        }
    }

    /// Releases a region that is in the file or never will be.
    fn give_back(&mut self, number: u64) {
        let is_failed = number >= self.failed_slot;
        let place = self.place(number);
        let slot = &mut self.slots[place];
        let is_needed_no_more = slot.is_written() || is_failed && !slot.is_running();
        if is_needed_no_more
            && let Some(region) = slot.region.take()
            && slot.is_wanted_back
        {
            self.returned.push_back(region);
        }
    }

    /// Begins to write the header of a segment once all of its regions are in the file, no further
    /// one can be added, and a placeholder follows them.
    fn go_on_with_header(&mut self, number: u64) {
        let place = self.place(number);
        let segment = &self.segments[place];
        let is_due = !segment.is_open && segment.last <= self.oldest_slot;
        if number >= self.failed_from
            || !is_due
            || !segment.header.is_waiting()
            || !self.has_placeholders(number)
        {
            return;
        }
        let segment = &mut self.segments[place];
        let staged = self.staging.bytes_mut(place);
        let header = staged.get_mut(..segment.header_bytes);
        if let Some(header) = header.filter(|_| segment.described_end < segment.end) {
            // Includes the regions added since the header was made.
            lengthen_segment(header, segment.end - segment.described_end);
            segment.described_end = segment.end;
        }
        if self.sums.is_some() && segment.sum.is_none() {
            let header = staged.get(..segment.header_bytes);
            let header = header.unwrap_or_default();
            let sum = SegmentSum::of(segment.position, header, segment.body_sum);
            segment.sum = Some(sum);
        }
        let token = Token(number * 4 + HEADER);
        let begun = submit(&mut self.backend, token, &mut segment.header);
        self.running += usize::from(begun.is_ok());
        if let Err(error) = begun {
            self.fail(number, FailedStep::Header, &error);
        }
    }

    /// Retires the regions and segments that are in the file together with all before them.
    pub(super) fn pass_over_done(&mut self) {
        while self.oldest_slot < self.next_slot {
            let slot = &self.slots[self.place(self.oldest_slot)];
            let is_failed = self.oldest_slot >= self.failed_slot;
            if is_failed && slot.is_running() || !is_failed && !slot.is_written() {
                break;
            }
            self.oldest_slot += 1;
        }
        if self.oldest_slot == self.next_slot {
            // The disk is idle: close the segment, so that its rows become visible.
            self.close_segment();
        }
        for number in self.oldest..self.next {
            self.go_on_with_header(number);
        }
        while self.oldest < self.next {
            let is_placeholder_running = self.is_placeholder_running(self.oldest);
            let segment = &self.segments[self.place(self.oldest)];
            let is_failed = self.oldest >= self.failed_from;
            let is_running = is_placeholder_running
                || segment.header.is_running
                || segment.last > self.oldest_slot;
            let is_written = !segment.is_open && segment.header.is_written();
            if is_running || !is_failed && !is_written {
                break;
            }
            let sum = segment.sum.filter(|_| !is_failed);
            if let (Some(sums), Some(sum)) = (&mut self.sums, sum)
                && !sums.push(&sum)
            {
                // A place for its checksum becomes free when the running write completes.
                break;
            }
            if !is_failed {
                self.written = self.segments[self.place(self.oldest)].end;
            }
            self.oldest += 1;
        }
        self.go_on_with_sums();
        let in_file = self.in_file();
        if let Some(failure) = &mut self.failure {
            failure.written = in_file;
        }
    }

    fn go_on_with_sums(&mut self) {
        let begun = self.sums.as_mut().map_or(Ok(()), SumsFile::go_on);
        if let Err(error) = begun {
            self.fail_sums(&error);
        }
    }

    /// Handles a failure of the checksum file: without checksums, no further segment is written.
    fn fail_sums(&mut self, error: &io::Error) {
        if let Some(sums) = &mut self.sums {
            sums.give_up();
        }
        self.fail(self.next, FailedStep::Sums, error);
    }

    /// Processes completions that have arrived, without waiting.
    ///
    /// # Errors
    /// [`QueueError::Backend`]. A failure of the file is reported by [`progress`](Self::progress)
    /// instead.
    pub fn poll(&mut self) -> Result<(), QueueError> {
        while self.step(Wait::No)? {}
        self.look_at_room();
        Ok(())
    }

    /// Processes one completion. Returns false if none arrives in time.
    pub(super) fn step(&mut self, wait: Wait) -> Result<bool, QueueError> {
        if self.step_sums(Wait::No)? {
            return Ok(true);
        }
        // Waits for the data, unless only checksums are still being written.
        let are_sums_busy = self.sums.as_ref().is_some_and(SumsFile::is_busy);
        if self.running == 0 && are_sums_busy && wait != Wait::No {
            return self.step_sums(wait);
        }
        let Some(Completed { token, result }) = self.backend.completed(wait)? else {
            return Ok(false);
        };
        self.running = self.running.saturating_sub(1);
        if token == SYNC {
            self.synced(result.map(|_| ()));
            return Ok(true);
        }
        let number = token.0 / 4;
        match token.0 % 4 {
            HEADER => self.written_header(number, result),
            PLACEHOLDER => self.written_placeholder(number, result),
            part => self.written_part(number, part, result),
        }
        Ok(true)
    }

    /// Processes one completion of the checksum file.
    fn step_sums(&mut self, wait: Wait) -> Result<bool, QueueError> {
        let Some(sums) = &mut self.sums else {
            return Ok(false);
        };
        match sums.step(wait)? {
            SumsStep::Nothing => return Ok(false),
            SumsStep::Synced(result) => self.synced(result),
            SumsStep::Written(Ok(())) => self.pass_over_done(),
            SumsStep::Written(Err(error)) => self.fail_sums(&error),
        }
        Ok(true)
    }

    /// Records the result of syncing one of the files.
    fn synced(&mut self, result: io::Result<()>) {
        self.syncs = self.syncs.saturating_sub(1);
        if let Err(error) = result {
            self.is_sync_good = false;
            self.fail(self.next, FailedStep::Sync, &error);
        }
        if self.syncs == 0
            && let Some(made) = self.syncing.take()
            && self.is_sync_good
            && !self.is_removed()
        {
            self.durable = self.durable.max(made);
        }
    }

    fn written_part(&mut self, number: u64, part: u64, result: io::Result<usize>) {
        let part = Part::ALL.into_iter().find(|known| *known as u64 == part);
        let is_outstanding = (self.oldest_slot..self.next_slot).contains(&number);
        let Some(part) = part.filter(|_| is_outstanding) else {
            return;
        };
        let place = self.place(number);
        let block_bytes = self.block_bytes;
        let state = &mut self.slots[place].parts[part as usize];
        state.is_running = false;
        if let Err(error) = state.take(result, block_bytes) {
            self.fail_region(number, &error);
        }
        self.go_on(number);
    }

    fn written_header(&mut self, number: u64, result: io::Result<usize>) {
        if !(self.oldest..self.next).contains(&number) {
            return;
        }
        let place = self.place(number);
        let block_bytes = self.block_bytes;
        let state = &mut self.segments[place].header;
        state.is_running = false;
        if let Err(error) = state.take(result, block_bytes) {
            self.fail(number, FailedStep::Header, &error);
        }
        self.pass_over_done();
    }

    /// Stops writing from a region on. The regions before it in its segment are still written.
    fn fail_region(&mut self, number: u64, error: &io::Error) {
        if number >= self.failed_slot {
            return;
        }
        self.failed_slot = number;
        let (slot, place) = (&self.slots[self.place(number)], self.place(number));
        let (of, position) = (slot.segment, slot.position);
        let segment_place = self.place(of);
        let segment = &mut self.segments[segment_place];
        segment.is_open = false;
        if number > segment.first {
            segment.last = number;
            segment.end = position;
            segment.body_sum = self.slots[place].sum_before;
            self.fail_at(of + 1, position, FailedStep::Body, error);
        } else {
            let position = segment.position;
            self.fail_at(of, position, FailedStep::Body, error);
        }
    }

    /// Stops writing from segment `number` on.
    pub(super) fn fail(&mut self, number: u64, step: FailedStep, error: &io::Error) {
        self.is_sync_failed |= step == FailedStep::Sync;
        if number >= self.failed_from && self.failure.is_some() {
            return;
        }
        let position = match number < self.next {
            true => {
                let segment = &self.segments[self.place(number)];
                self.failed_slot = self.failed_slot.min(segment.first);
                segment.position
            }
            // Data without a checksum does not count and is cut off.
            false if step == FailedStep::Sums => self.in_file(),
            false => self.position,
        };
        self.fail_at(number, position, step, error);
    }

    fn fail_at(&mut self, number: u64, position: u64, step: FailedStep, error: &io::Error) {
        self.failed_from = self.failed_from.min(number);
        self.failure = Some(Failure {
            step,
            position,
            os_error: os_error(error),
            written: self.in_file(),
        });
        // Later regions without a running write will not be in the file either.
        for later in self.failed_slot.max(self.oldest_slot)..self.next_slot {
            self.give_back(later);
        }
        self.pass_over_done();
    }
}

pub(super) fn submit(
    backend: &mut impl Backend,
    token: Token,
    state: &mut PartState,
) -> io::Result<()> {
    let write = Write {
        token,
        position: state.position,
        memory: state.memory,
    };
    // SAFETY: regions, staging and the placeholder stay mapped until the completion has been
    // returned: the queue keeps them and changes none before. When the queue is dropped, the
    // backend is dropped first.
    let begun = unsafe { backend.submit(write) };
    state.is_running = begun.is_ok();
    begun
}
