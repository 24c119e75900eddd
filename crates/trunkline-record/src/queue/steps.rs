//! What happens to a segment until it is in the file.

use std::io;

use super::slot::Part;
use super::sums::{SumsFile, SumsStep};
use super::{SYNC, WriteQueue};
use crate::backend::{Backend, Completed, Token, Wait, Write};
use crate::error::{FailedStep, Failure, QueueError, os_error};

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
        let begun = unsafe { self.backend.submit(write) };
        self.running += usize::from(begun.is_ok());
        if let Err(error) = begun {
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
            let sum = slot.sum.filter(|_| !is_failed);
            if let (Some(sums), Some(sum)) = (&mut self.sums, sum)
                && !sums.push(&sum)
            {
                // There is room for its checksum when a write of others is done.
                break;
            }
            if !is_failed {
                self.written = self.slots[self.place(self.oldest)].end;
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

    /// No further checksum comes into its file, so no further segment comes into this one.
    fn fail_sums(&mut self, error: &io::Error) {
        if let Some(sums) = &mut self.sums {
            sums.give_up();
        }
        self.fail(self.next, FailedStep::Sums, error);
    }

    /// Takes completions that have come, without waiting.
    ///
    /// # Errors
    /// [`QueueError::Backend`]. That the file takes nothing more is in
    /// [`progress`](Self::progress).
    pub fn poll(&mut self) -> Result<(), QueueError> {
        while self.step(Wait::No)? {}
        self.look_at_room();
        Ok(())
    }

    /// Takes one completion. False when none has come in time.
    pub(super) fn step(&mut self, wait: Wait) -> Result<bool, QueueError> {
        if self.step_sums(Wait::No)? {
            return Ok(true);
        }
        // What is waited for is the data, unless it is only the checksums that are on their way.
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
        // The tokens that `submit` makes.
        let part = Part::ALL
            .into_iter()
            .find(|part| *part as u64 == token.0 % 4);
        if let Some(part) = part {
            self.written_part(token.0 / 4, part, result);
        }
        Ok(true)
    }

    /// Takes one completion of the file of checksums.
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

    /// One of the files was synced, or not.
    fn synced(&mut self, result: io::Result<()>) {
        self.syncs = self.syncs.saturating_sub(1);
        if let Err(error) = result {
            self.is_sync_good = false;
            self.fail(self.next, FailedStep::Sync, &error);
        }
        if self.syncs == 0
            && let Some(made) = self.syncing.take()
            && self.is_sync_good
        {
            self.durable = self.durable.max(made);
        }
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
    pub(super) fn fail(&mut self, number: u64, step: FailedStep, error: &io::Error) {
        self.is_sync_failed |= step == FailedStep::Sync;
        if number >= self.failed_from && self.failure.is_some() {
            return;
        }
        self.failed_from = number;
        let position = match number < self.next {
            true => self.slots[self.place(number)].position,
            // What is in the file without a checksum does not count, and does not stay.
            false if step == FailedStep::Sums => self.in_file(),
            false => self.position,
        };
        self.failure = Some(Failure {
            step,
            position,
            os_error: os_error(error),
            written: self.in_file(),
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
