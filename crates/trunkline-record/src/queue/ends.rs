//! Makes written data durable, and closes a file.

use std::time::Duration;

use super::sums::SumsFile;
use super::{Closed, Durability, SYNC, WriteQueue};
use crate::backend::Wait;
use crate::error::{FailedStep, QueueError, os_error};

/// The running syncs, and the position up to which earlier syncs have made the data durable.
#[derive(Debug, Default)]
pub(super) struct Syncing {
    /// Position up to which the data is durable.
    pub(super) durable: u64,
    /// Position up to which the running syncs make the data durable; `None` if none is running.
    target: Option<u64>,
    /// Number of running syncs.
    running: u8,
    /// True if a sync has failed. A later successful sync would not prove that the data is durable.
    pub(super) has_failed: bool,
}

impl Syncing {
    pub(super) fn complete_one(&mut self, is_removed: bool) {
        self.running = self.running.saturating_sub(1);
        if self.running == 0
            && let Some(target) = self.target.take()
            && !self.has_failed
            && !is_removed
        {
            self.durable = self.durable.max(target);
        }
    }
}

impl WriteQueue {
    /// Starts making the data written so far durable. Returns false if a sync is already running or
    /// there is nothing to do. [`progress`](Self::progress) shows when the data is durable.
    pub fn begin_sync(&mut self) -> Result<bool, QueueError> {
        self.poll()?;
        self.check_names();
        if self.syncing.has_failed || self.is_removed() {
            self.check_failure()?;
        }
        if self.syncing.target.is_some() || self.syncing.durable == self.in_file() {
            return Ok(false);
        }
        self.sync_both()?;
        Ok(true)
    }

    /// Starts syncing the data file and the checksum file. No sync may be running.
    fn sync_both(&mut self) -> Result<(), QueueError> {
        let in_file = self.in_file();
        self.backend.submit_sync(SYNC)?;
        self.running += 1;
        self.syncing.target = Some(in_file);
        self.syncing.running = 1;
        match &mut self.sums {
            None => {}
            // Data without checksums does not count as durable.
            Some(sums) if sums.is_failed() => self.syncing.target = Some(self.syncing.durable),
            Some(sums) => match sums.begin_sync() {
                Ok(()) => self.syncing.running = 2,
                Err(error) => {
                    self.fail_next(FailedStep::Sync, &error);
                    self.advance();
                }
            },
        }
        Ok(())
    }

    /// Returns true if all appended data is in the file with its checksums, or has failed.
    fn has_nothing_to_write(&self) -> bool {
        self.outstanding.is_empty() && self.sums.as_ref().is_none_or(SumsFile::is_idle)
    }

    /// Waits until all appended data has the given durability.
    pub fn flush(&mut self, durability: Durability, wait: Duration) -> Result<(), QueueError> {
        let deadline = self.now().saturating_add(wait);
        loop {
            let is_written = self.has_nothing_to_write();
            if is_written {
                self.check_failure()?;
                if durability == Durability::InFile {
                    return Ok(());
                }
                if self.syncing.durable == self.position() {
                    self.check_names();
                    return self.check_failure();
                }
                // This call first processes completions, possibly the completion of the last sync.
                self.begin_sync()?;
                if self.syncing.target.is_none() {
                    continue;
                }
            }
            if !self.step(Wait::Until(deadline))? && self.now() >= deadline {
                return Err(QueueError::TimedOut {
                    outstanding: self.outstanding(),
                    waited: wait,
                });
            }
        }
    }

    /// Ends the file: waits for outstanding writes, makes them durable, and truncates the file
    /// after the last complete segment. If the file has failed, the complete part is kept and, if
    /// possible, made durable. If the file has checksums, data without a checksum is removed too. A
    /// file that cannot be truncated counts as [failed](FailedStep::Trim).
    ///
    /// # Errors
    /// [`QueueError::TimedOut`], after which the caller may call this again;
    /// [`QueueError::Backend`].
    pub fn close(&mut self, wait: Duration) -> Result<Closed, QueueError> {
        let deadline = self.now().saturating_add(wait);
        match self.flush(Durability::InFile, wait) {
            Ok(()) | Err(QueueError::Failed(_)) => {}
            Err(error) => return Err(error),
        }
        self.wait_for_sync(deadline, wait)?;
        if !self.is_closed {
            // Truncate before the sync, so that the sync also covers the length.
            self.check_names();
            if !self.is_removed() {
                self.truncate();
            }
            if !self.syncing.has_failed && self.in_file() > 0 {
                self.sync_both()?;
            }
            self.is_closed = true;
        }
        self.wait_for_sync(deadline, wait)?;
        self.check_names();
        Ok(Closed {
            length: self.in_file(),
            truncate_error: self.truncate_error,
            durability: match self.syncing.durable == self.in_file() && !self.is_removed() {
                true => Durability::OnDisk,
                false => Durability::InFile,
            },
            failure: self.failure(),
        })
    }

    /// Truncates the file and its checksum file to the data that both cover. If this fails, the
    /// file is complete, but extra bytes follow its end.
    fn truncate(&mut self) {
        let data = self.backend.truncate(self.in_file());
        let sums = self.sums.as_mut().map_or(Ok(()), SumsFile::truncate);
        if let Err(error) = data.and(sums) {
            self.truncate_error = Some(os_error(&error));
            self.fail_next(FailedStep::Trim, &error);
            self.advance();
        }
    }

    fn wait_for_sync(&mut self, deadline: Duration, waited: Duration) -> Result<(), QueueError> {
        while self.syncing.target.is_some() {
            if !self.step(Wait::Until(deadline))? && self.now() >= deadline {
                return Err(QueueError::TimedOut {
                    outstanding: 0,
                    waited,
                });
            }
        }
        Ok(())
    }
}
