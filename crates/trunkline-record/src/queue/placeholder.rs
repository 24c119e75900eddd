//! Placeholders for the header of the next segment, until it is written.
//!
//! Readers go from lead-in to lead-in, and some refuse a file in which one is missing. The end of
//! each segment is therefore followed by a lead-in that marks the next segment as incomplete. The
//! header of a segment is written when the placeholders at both of its ends are in the file: its
//! own, because the header replaces it, and that of the next segment, because readers look there as
//! soon as they see this one.

use std::io;

use trunkline_tdms::LEAD_IN_BYTES;

use super::slot::PartState;
use super::steps::{PLACEHOLDER, submit};
use super::{Token, WriteQueue};
use crate::backend::{Backend, Span};
use crate::error::FailedStep;

impl<B: Backend> WriteQueue<B> {
    /// Returns the bytes of a placeholder: one block, or only a lead-in if there are no blocks.
    pub(super) fn placeholder_bytes(&self) -> usize {
        (LEAD_IN_BYTES as usize).next_multiple_of(self.block_bytes)
    }

    fn placeholder_mut(&mut self, number: u64) -> &mut PartState {
        // One more than the outstanding segments: the next one has its placeholder too.
        let place = (number % self.placeholders.len() as u64) as usize;
        &mut self.placeholders[place]
    }

    /// Begins to write the placeholder of a segment that will begin at `position`.
    pub(super) fn begin_placeholder(&mut self, number: u64, position: u64) {
        let memory = Span {
            start: self.placeholder.place(0),
            bytes: self.placeholder_bytes(),
        };
        *self.placeholder_mut(number) = PartState::waiting(position, memory);
        self.go_on_with_placeholder(number);
    }

    /// Begins to write a placeholder, if its turn has come.
    fn go_on_with_placeholder(&mut self, number: u64) {
        // In order, so that a file never begins with zeros.
        let before = number.checked_sub(1);
        let is_next = before.is_none_or(|before| self.placeholder_mut(before).is_written());
        let is_wanted = number < self.failed_from && self.placeholder_mut(number).is_waiting();
        if !is_next || !is_wanted {
            return;
        }
        let token = Token(number * 4 + PLACEHOLDER);
        let mut state = *self.placeholder_mut(number);
        let begun = submit(&mut self.backend, token, &mut state);
        *self.placeholder_mut(number) = state;
        self.running += usize::from(begun.is_ok());
        if let Err(error) = begun {
            self.fail(number, FailedStep::Header, &error);
        }
    }

    pub(super) fn written_placeholder(&mut self, number: u64, result: io::Result<usize>) {
        if !(self.oldest..=self.next).contains(&number) {
            return;
        }
        let block_bytes = self.block_bytes;
        let state = self.placeholder_mut(number);
        state.is_running = false;
        if let Err(error) = state.take(result, block_bytes) {
            self.fail(number, FailedStep::Header, &error);
        }
        self.go_on_with_placeholder(number);
        if number < self.next {
            self.go_on_with_placeholder(number + 1);
        }
        self.pass_over_done();
    }

    /// Returns true if the placeholders at both ends of a segment are in the file. A file that has
    /// failed is truncated there and needs none at its end.
    pub(super) fn has_placeholders(&mut self, number: u64) -> bool {
        let next = number + 1;
        let is_last = next >= self.failed_from;
        self.placeholder_mut(number).is_written()
            && (is_last || self.placeholder_mut(next).is_written())
    }

    /// Returns true if a placeholder at one of its ends is being written.
    pub(super) fn is_placeholder_running(&mut self, number: u64) -> bool {
        self.placeholder_mut(number).is_running || self.placeholder_mut(number + 1).is_running
    }
}
