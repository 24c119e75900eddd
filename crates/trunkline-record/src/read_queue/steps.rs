//! Starts and completes the reads of a region until it is filled.

use std::ptr;

use super::slot::{Part, Piece};
use super::{ReadFailure, ReadFault, ReadQueue, ReadQueueError};
use crate::backend::{Completed, Read, Token, Wait};

impl ReadQueue {
    /// Starts the possible reads of read number `number`, and finishes its region if it is filled.
    pub(super) fn advance(&mut self, number: u64) {
        let index = self.slot_index(number);
        for part in Part::ALL {
            if number < self.first_failed && self.slots[index].may_start(part) {
                self.submit(number, part);
            }
        }
        let is_failed = number >= self.first_failed;
        let slot = &mut self.slots[index];
        if slot.is_read()
            && !slot.is_reading()
            && !is_failed
            && let Some(region) = slot.region.take()
        {
            region.finish();
        }
        if is_failed && !slot.is_reading() {
            // Dropping an unfilled region ends the ring: the device never gets data that follows a
            // gap.
            slot.region = None;
        }
        self.retire();
    }

    fn submit(&mut self, number: u64, part: Part) {
        let index = self.slot_index(number);
        let slot = &self.slots[index];
        let piece = slot.next_piece(part);
        let read = match part {
            Part::Body => piece,
            Part::Bounced => self.staging_piece(index, piece),
        };
        let read = Read {
            token: Token(number * 2 + part as u64),
            position: read.position,
            memory: read.memory,
        };
        self.slots[index].is_running[part as usize] = true;
        // SAFETY: the region and the staging memory stay mapped until the completion has been
        // returned: `self` keeps both, does not reuse the slot earlier, and drops the backend
        // first. No other code has the region before it is finished, and only one read of a piece
        // runs at a time.
        if let Err(error) = unsafe { self.backend.submit_read(read) } {
            self.slots[index].is_running[part as usize] = false;
            self.fail(number, read.position, ReadFault::of(&error));
        }
    }

    /// Returns the whole blocks that contain a piece, limited to those that fit into the slot's
    /// staging memory.
    fn staging_piece(&self, index: usize, piece: Piece) -> Piece {
        let block = self.block_bytes;
        let block_offset = self.block_offset(piece);
        let bytes = (block_offset + piece.memory.bytes).next_multiple_of(block);
        let staging_bytes = self.staging.slot_bytes() / block * block;
        Piece {
            position: piece.position - block_offset as u64,
            memory: self.staging.slot(index).part(0, bytes.min(staging_bytes)),
        }
    }

    /// Returns the number of bytes that precede a piece in its first block.
    fn block_offset(&self, piece: Piece) -> usize {
        // The remainder is less than the block size, which is a `usize`.
        (piece.position % self.block_bytes as u64) as usize
    }

    /// Retires completed reads in order, up to the first outstanding one.
    fn retire(&mut self) {
        while self.oldest < self.next {
            let slot = &self.slots[self.slot_index(self.oldest)];
            if slot.region.is_some() {
                break;
            }
            if self.oldest < self.first_failed {
                self.read += slot.bytes;
            }
            self.oldest += 1;
        }
    }

    /// Processes the completions that have arrived and finishes their regions. This call does not
    /// wait.
    ///
    /// # Errors
    /// [`ReadQueueError::Backend`]. [`progress`](Self::progress) reports failed reads instead.
    pub fn poll(&mut self) -> Result<(), ReadQueueError> {
        while self.step(Wait::No)? {}
        Ok(())
    }

    /// Processes one completion. Returns false if none arrives in time.
    pub(super) fn step(&mut self, wait: Wait) -> Result<bool, ReadQueueError> {
        let Some(Completed { token, result }) = self.backend.completed(wait)? else {
            return Ok(false);
        };
        let (number, part) = (token.0 / 2, Part::ALL[(token.0 % 2) as usize]);
        if !(self.oldest..self.next).contains(&number) {
            return Ok(true);
        }
        let index = self.slot_index(number);
        let block_bytes = self.block_bytes;
        let piece = self.slots[index].next_piece(part);
        // The offset is 0 for the body, which begins on a block boundary.
        let block_offset = self.block_offset(piece);
        let slot = &mut self.slots[index];
        slot.is_running[part as usize] = false;
        match slot.complete_read(part, result, block_offset, block_bytes) {
            Ok(bytes) if part == Part::Bounced => self.copy(index, block_offset, piece, bytes),
            Ok(_) => {}
            Err(fault) => self.fail(number, piece.position, fault),
        }
        self.advance(number);
        Ok(true)
    }

    fn copy(&mut self, index: usize, block_offset: usize, piece: Piece, bytes: usize) {
        let staged = self.staging.bytes_mut(index);
        let staged = staged
            .get(block_offset..block_offset + bytes)
            .unwrap_or_default();
        // SAFETY: the slot keeps the region, no other read of this piece is running, and the piece
        // has at least as many bytes as are copied.
        unsafe {
            let memory = piece.memory.start.as_ptr();
            ptr::copy_nonoverlapping(staged.as_ptr(), memory, staged.len());
        }
        self.bytes_copied += staged.len() as u64;
    }

    /// Records a failure, after which read `number` and all later reads are abandoned.
    fn fail(&mut self, number: u64, position: u64, fault: ReadFault) {
        if number >= self.first_failed {
            return;
        }
        self.first_failed = number;
        self.failure = Some(ReadFailure { position, fault });
        // Reads that are still running drop their region when they complete.
        for later in number + 1..self.next {
            let index = self.slot_index(later);
            let slot = &mut self.slots[index];
            if !slot.is_reading() {
                slot.region = None;
            }
        }
    }
}
