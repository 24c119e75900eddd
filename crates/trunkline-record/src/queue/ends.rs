//! Makes written data durable, and closes a file.

use std::time::Duration;

use super::sums::SumsFile;
use super::{Closed, Durability, SYNC, WriteQueue};
use crate::backend::{Backend, Wait};
use crate::error::{FailedStep, QueueError, os_error};

impl<B: Backend> WriteQueue<B> {
    /// Begins to make durable what has been written so far. Returns false if a sync is already
    /// running or there is nothing to do. [`progress`](Self::progress) shows when it is done.
    ///
    /// # Errors
    /// [`QueueError::Backend`], [`QueueError::Failed`].
    pub fn begin_sync(&mut self) -> Result<bool, QueueError> {
        self.poll()?;
        self.look_at_place();
        if let Some(failure) = self
            .failure
            .filter(|_| self.is_sync_failed || self.is_removed())
        {
            return Err(failure.into());
        }
        if self.syncing.is_some() || self.durable == self.in_file() {
            return Ok(false);
        }
        self.sync_both()?;
        Ok(true)
    }

    /// Begins to sync the file and its checksums. No sync may be running.
    fn sync_both(&mut self) -> Result<(), QueueError> {
        let made = self.in_file();
        self.backend.submit_sync(SYNC)?;
        self.running += 1;
        self.syncing = Some(made);
        self.syncs = 1;
        self.is_sync_good = true;
        let Some(sums) = &mut self.sums else {
            return Ok(());
        };
        if sums.is_failed() {
            // Without its checksums, no more data counts as durable.
            self.is_sync_good = false;
            return Ok(());
        }
        match sums.begin_sync() {
            Ok(()) => self.syncs = 2,
            Err(error) => {
                self.is_sync_good = false;
                self.fail(self.next, FailedStep::Sync, &error);
            }
        }
        Ok(())
    }

    /// Returns true if everything appended is in the file with its checksums, or never will be.
    fn is_all_done(&self) -> bool {
        let is_running = self.placeholders.iter().any(|part| part.is_running);
        self.outstanding() == 0 && !is_running && self.sums.as_ref().is_none_or(SumsFile::is_idle)
    }

    /// Waits until everything appended has the given durability.
    ///
    /// # Errors
    /// [`QueueError::NotDone`], [`QueueError::Failed`], [`QueueError::Backend`].
    pub fn flush(&mut self, durability: Durability, wait: Duration) -> Result<(), QueueError> {
        let until = self.now().saturating_add(wait);
        loop {
            let is_written = self.is_all_done();
            if is_written && let Some(failure) = self.failure {
                return Err(failure.into());
            }
            if is_written && durability == Durability::InFile {
                return Ok(());
            }
            if is_written && self.durable == self.position {
                self.look_at_place();
                return self.failure.map_or(Ok(()), |failure| Err(failure.into()));
            }
            if is_written {
                // Processes completions first, possibly that of the last sync.
                self.begin_sync()?;
                if self.syncing.is_none() {
                    continue;
                }
            }
            if !self.step(Wait::Until(until))? && self.now() >= until {
                return Err(QueueError::NotDone {
                    outstanding: self.outstanding(),
                    waited: wait,
                });
            }
        }
    }

    /// Ends the file: waits for outstanding writes, makes them durable, and truncates the file
    /// after the last good segment. Of a file that has failed, the complete part is kept and made
    /// as durable as still possible. With checksums, data that has none is cut off too. A file that
    /// cannot be truncated has [failed](FailedStep::Trim).
    ///
    /// # Errors
    /// [`QueueError::NotDone`], after which the call may be repeated; [`QueueError::Backend`].
    pub fn close(&mut self, wait: Duration) -> Result<Closed, QueueError> {
        let until = self.now().saturating_add(wait);
        match self.flush(Durability::InFile, wait) {
            Ok(()) | Err(QueueError::Failed(_)) => {}
            Err(error) => return Err(error),
        }
        self.wait_for_sync(until, wait)?;
        if !self.is_closed {
            // Before the sync, which then also covers the length.
            self.look_at_place();
            if !self.is_removed() {
                self.trim();
            }
            if !self.is_sync_failed && self.in_file() > 0 {
                self.sync_both()?;
            }
            self.is_closed = true;
        }
        self.wait_for_sync(until, wait)?;
        self.look_at_place();
        Ok(Closed {
            length: self.in_file(),
            untrimmed: self.untrimmed,
            durability: match self.durable == self.in_file() && !self.is_removed() {
                true => Durability::OnDisk,
                false => Durability::InFile,
            },
            failure: self.failure,
        })
    }

    /// Truncates the file and its checksums to what is in both. If the system fails to, the file
    /// still ends: it is complete, with extra bytes after its end.
    fn trim(&mut self) {
        let data = self.backend.trim(self.in_file());
        let sums = self.sums.as_mut().map_or(Ok(()), SumsFile::trim);
        if let Err(error) = data.and(sums) {
            self.untrimmed = Some(os_error(&error));
            self.fail(self.next, FailedStep::Trim, &error);
        }
    }

    fn wait_for_sync(&mut self, until: Duration, waited: Duration) -> Result<(), QueueError> {
        while self.syncing.is_some() {
            if !self.step(Wait::Until(until))? && self.now() >= until {
                return Err(QueueError::NotDone {
                    outstanding: 0,
                    waited,
                });
            }
        }
        Ok(())
    }
}
