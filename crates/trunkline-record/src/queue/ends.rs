//! How what is written becomes durable, and how a file ends.

use std::time::Duration;

use super::{Closed, Durability, SYNC, WriteQueue};
use crate::backend::{Backend, Wait};
use crate::error::QueueError;

impl<B: Backend> WriteQueue<B> {
    /// Begins to make durable what is written by now. False when that is running already, or there
    /// is nothing to do. [`progress`](Self::progress) says when it is done.
    ///
    /// # Errors
    /// [`QueueError::Backend`], [`QueueError::Failed`].
    pub fn begin_sync(&mut self) -> Result<bool, QueueError> {
        self.poll()?;
        if let Some(failure) = self.failure.filter(|_| self.is_sync_failed) {
            return Err(failure.into());
        }
        if self.syncing.is_some() || self.durable == self.written {
            return Ok(false);
        }
        self.backend.submit_sync(SYNC)?;
        self.syncing = Some(self.written);
        Ok(true)
    }

    /// Waits until everything that was appended is as safe as said.
    ///
    /// # Errors
    /// [`QueueError::NotDone`], [`QueueError::Failed`], [`QueueError::Backend`].
    pub fn flush(&mut self, durability: Durability, wait: Duration) -> Result<(), QueueError> {
        let until = self.backend.now().saturating_add(wait);
        loop {
            let is_written = self.outstanding() == 0;
            if is_written && let Some(failure) = self.failure {
                return Err(failure.into());
            }
            if is_written && durability == Durability::InFile {
                return Ok(());
            }
            if is_written && self.durable == self.position {
                return Ok(());
            }
            if is_written {
                self.begin_sync()?;
            }
            if !self.step(Wait::Until(until))? && self.backend.now() >= until {
                return Err(QueueError::NotDone {
                    outstanding: self.outstanding(),
                    waited: wait,
                });
            }
        }
    }

    /// Ends the file: waits for what is outstanding, makes it durable, and cuts off what is
    /// reserved or has failed. Of a file that has failed what is whole stays, and is made as
    /// durable as is still possible.
    ///
    /// # Errors
    /// [`QueueError::NotDone`], after which it may be called again; [`QueueError::Backend`].
    pub fn close(&mut self, wait: Duration) -> Result<Closed, QueueError> {
        let until = self.backend.now().saturating_add(wait);
        match self.flush(Durability::InFile, wait) {
            Ok(()) | Err(QueueError::Failed(_)) => {}
            Err(error) => return Err(error),
        }
        self.wait_for_sync(until, wait)?;
        if !self.is_closed {
            // Before the sync, which then covers the length as well.
            self.backend.trim(self.written)?;
            if !self.is_sync_failed && self.written > 0 {
                self.backend.submit_sync(SYNC)?;
                self.syncing = Some(self.written);
            }
            self.is_closed = true;
        }
        self.wait_for_sync(until, wait)?;
        Ok(Closed {
            length: self.written,
            durability: match self.durable == self.written {
                true => Durability::OnDisk,
                false => Durability::InFile,
            },
            failure: self.failure,
        })
    }

    fn wait_for_sync(&mut self, until: Duration, waited: Duration) -> Result<(), QueueError> {
        while self.syncing.is_some() {
            if !self.step(Wait::Until(until))? && self.backend.now() >= until {
                return Err(QueueError::NotDone {
                    outstanding: 0,
                    waited,
                });
            }
        }
        Ok(())
    }
}
