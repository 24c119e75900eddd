//! What happens to a segment until it is in the file.

use std::io;

use super::slot::Part;
use super::{SYNC, WriteQueue};
use crate::backend::{Backend, Completed, Token, Wait, Write};
use crate::error::{FailedStep, Failure, QueueError};

impl<B: Backend> WriteQueue<B> {
    /// Begins what can be begun of a segment, and gives back what it needs no more.
    pub(super) fn go_on(&mut self, number: u64) {
        let place = self.place(number);
        let is_failed = number >= self.failed_from;
        for part in Part::ALL {
            let slot = &self.slots[place];
            if is_failed || !slot.may_begin(part) {
                continue;
            }
            self.submit(number, part);
        }
        let is_failed = number >= self.failed_from;
        let slot = &mut self.slots[place];
        let is_needed_no_more = slot.is_body_written() || is_failed && !slot.is_running();
        if is_needed_no_more
            && let Some(region) = slot.region.take()
            && slot.is_wanted_back
        {
            self.returned.push_back(region);
        }
        self.pass_over_done();
    }

    fn submit(&mut self, number: u64, part: Part) {
        let place = self.place(number);
        let state = &mut self.slots[place].parts[part as usize];
        let write = Write {
            token: Token(number * 4 + part as u64),
            position: state.position,
            memory: state.memory,
        };
        state.is_running = true;
        // SAFETY: regions and staging stay until the completion has come: the slot keeps both, and
        // is not used again before; and when this is dropped the backend goes first.
        if let Err(error) = unsafe { self.backend.submit(write) } {
            self.slots[place].parts[part as usize].is_running = false;
            self.fail(number, part.step(), &error);
        }
    }

    /// Segments that are in the file, with all before them, are outstanding no more.
    fn pass_over_done(&mut self) {
        while self.oldest < self.next {
            let slot = &self.slots[self.place(self.oldest)];
            let is_failed = self.oldest >= self.failed_from;
            if is_failed && slot.is_running() || !is_failed && !slot.is_written() {
                break;
            }
            if !is_failed {
                self.written = slot.end;
            }
            self.oldest += 1;
        }
        if let Some(failure) = &mut self.failure {
            failure.written = self.written;
        }
    }

    /// Takes completions that have come, without waiting.
    ///
    /// # Errors
    /// [`QueueError::Backend`]. That the file takes nothing more is in
    /// [`progress`](Self::progress).
    pub fn poll(&mut self) -> Result<(), QueueError> {
        while self.step(Wait::No)? {}
        Ok(())
    }

    /// Takes one completion. False when none has come in time.
    pub(super) fn step(&mut self, wait: Wait) -> Result<bool, QueueError> {
        let Some(Completed { token, result }) = self.backend.completed(wait)? else {
            return Ok(false);
        };
        if token == SYNC {
            let made = self.syncing.take().unwrap_or(0);
            match result {
                Ok(_) => self.durable = self.durable.max(made),
                Err(error) => self.fail(self.next, FailedStep::Sync, &error),
            }
            return Ok(true);
        }
        // The tokens that `submit` makes.
        let part = Part::ALL
            .into_iter()
            .find(|part| *part as u64 == token.0 % 4);
        if let Some(part) = part {
            self.written_part(token.0 / 4, part, result);
        }
        Ok(true)
    }

    fn written_part(&mut self, number: u64, part: Part, result: io::Result<usize>) {
        if !(self.oldest..self.next).contains(&number) {
            return;
        }
        let place = self.place(number);
        let block_bytes = self.block_bytes;
        let state = &mut self.slots[place].parts[part as usize];
        state.is_running = false;
        if let Err(error) = state.take(result, block_bytes) {
            self.fail(number, part.step(), &error);
        }
        self.go_on(number);
    }

    /// From segment `number` on nothing more comes into the file.
    fn fail(&mut self, number: u64, step: FailedStep, error: &io::Error) {
        self.is_sync_failed |= step == FailedStep::Sync;
        if number >= self.failed_from && self.failure.is_some() {
            return;
        }
        self.failed_from = number;
        let position = match number < self.next {
            true => self.slots[self.place(number)].position,
            false => self.position,
        };
        self.failure = Some(Failure {
            step,
            position,
            os_error: error
                .raw_os_error()
                .unwrap_or(rustix::io::Errno::IO.raw_os_error()),
            written: self.written,
        });
        // Those behind it that run no more will not be in the file either.
        for later in number..self.next {
            let place = self.place(later);
            let slot = &mut self.slots[place];
            if !slot.is_running()
                && let Some(region) = slot.region.take()
                && slot.is_wanted_back
            {
                self.returned.push_back(region);
            }
        }
        self.pass_over_done();
    }
}
