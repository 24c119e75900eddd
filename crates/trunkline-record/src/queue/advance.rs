//! Starts writes and processes completions.

use std::io;

use rustix::io::Errno;

use super::sums::{SumsCompleted, SumsFile};
use super::{SYNC, WriteQueue};
use crate::backend::{Completed, Wait};
use crate::error::{FailedStep, QueueError};

impl WriteQueue {
    /// Retires the segments that are in the file, and starts every write that can start. Must be
    /// called after each change to the outstanding segments and after each failure.
    ///
    /// The loop terminates, because each iteration starts a write, retries a postponed write, or
    /// moves the end of a failed file towards its beginning.
    pub(super) fn advance(&mut self) {
        loop {
            self.outstanding.retire(self.sums.as_mut());
            if let Some(write) = self.outstanding.next_write() {
                // SAFETY: regions, staging memory and the placeholder stay mapped until the
                // completion has been returned: the queue keeps them and does not change them
                // earlier. When the queue is dropped, the backend is dropped first.
                match unsafe { self.backend.submit(write) } {
                    Ok(()) => self.running += 1,
                    Err(error) => self.outstanding.apply(write.token, Err(error)),
                }
                continue;
            }
            match self.sums.as_mut().map_or(Ok(false), SumsFile::begin_write) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => self.fail_sums(&error),
            }
        }
    }

    /// Processes the completions that have arrived, without waiting.
    ///
    /// # Errors
    /// [`QueueError::Backend`]. [`progress`](Self::progress) reports a failure of the file instead.
    pub fn poll(&mut self) -> Result<(), QueueError> {
        while self.step(Wait::No)? {}
        if self.space.monitor.is_due(self.backend.now()) {
            self.check_names();
            self.space
                .query_room(&*self.backend, self.outstanding.position);
        }
        Ok(())
    }

    /// Processes one completion. Returns false if none arrives in time.
    pub(super) fn step(&mut self, wait: Wait) -> Result<bool, QueueError> {
        let has_completed = self.apply_sums(Wait::No)? || self.apply(wait)?;
        if has_completed {
            self.advance();
        }
        Ok(has_completed)
    }

    fn apply(&mut self, wait: Wait) -> Result<bool, QueueError> {
        // Wait for the data file, unless only the checksum file has running operations.
        let are_sums_busy = self.sums.as_ref().is_some_and(SumsFile::is_busy);
        if self.running == 0 && are_sums_busy && wait != Wait::No {
            return self.apply_sums(wait);
        }
        let Some(Completed { token, result }) = self.backend.completed(wait)? else {
            return Ok(false);
        };
        self.running = self.running.saturating_sub(1);
        match token {
            SYNC => self.apply_sync(result.map(|_| ())),
            token => self.outstanding.apply(token, result),
        }
        Ok(true)
    }

    /// Processes one completion of the checksum file.
    fn apply_sums(&mut self, wait: Wait) -> Result<bool, QueueError> {
        let Some(sums) = &mut self.sums else {
            return Ok(false);
        };
        match sums.apply(wait)? {
            None => return Ok(false),
            Some(SumsCompleted::Sync(result)) => self.apply_sync(result),
            Some(SumsCompleted::Write(Ok(()))) => {}
            Some(SumsCompleted::Write(Err(error))) => self.fail_sums(&error),
        }
        Ok(true)
    }

    /// Records the result of syncing one of the files.
    fn apply_sync(&mut self, result: io::Result<()>) {
        if let Err(error) = result {
            self.fail_next(FailedStep::Sync, &error);
        }
        let is_removed = self.is_removed();
        self.syncing.complete_one(is_removed);
    }

    /// Ends the data file after a failure of the checksum file, because a segment needs its
    /// checksum.
    fn fail_sums(&mut self, error: &io::Error) {
        if let Some(sums) = &mut self.sums {
            sums.abandon();
        }
        self.fail_next(FailedStep::Sums, error);
    }

    /// Records a failure that prevents all further segments.
    pub(super) fn fail_next(&mut self, step: FailedStep, error: &io::Error) {
        self.syncing.has_failed |= step == FailedStep::Sync;
        let position = match step {
            // Data without a checksum does not count; closing the file removes it.
            FailedStep::Sums => self.in_file(),
            _ => self.outstanding.position,
        };
        let next = self.outstanding.next_segment();
        self.outstanding.fail_from(next, step, position, error);
    }

    /// Checks that the names of the data file and the checksum file still refer to them.
    pub(super) fn check_names(&mut self) {
        if self.is_removed() {
            // A removed file cannot get its name back.
            return;
        }
        self.moved_file = self.backend.moved_file();
        self.moved_sums_file = self.sums.as_ref().and_then(SumsFile::moved_file);
        if self.is_removed() {
            self.syncing.durable = 0;
            self.fail_next(FailedStep::Removed, &Errno::NOENT.into());
            if let Some(failure) = &mut self.outstanding.failure {
                // This failure replaces an earlier one, because none of the data is left.
                failure.step = FailedStep::Removed;
                failure.os_error = Errno::NOENT.raw_os_error();
            }
            self.advance();
        }
    }
}
