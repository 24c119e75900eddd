//! Reading with a journal.

use super::ReaderCore;
use crate::error::StreamError;
use crate::journal::{Commit, Durability, JournalError, JournalOptions};
use crate::wait::Waiter;

/// When elements count as read, and how durable a commit is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Commits {
    commit: Commit,
    durability: Durability,
    /// Position up to which elements count as read.
    position: u64,
}

impl ReaderCore {
    pub(crate) fn with_journal(mut self, options: &JournalOptions) -> Self {
        self.journal = Some(Commits {
            commit: options.commit,
            durability: options.durability,
            position: self.ring.read_position(),
        });
        self
    }

    /// In the mode `ByNextRead`, commits before the next read: reading again means that the program
    /// is done with the previous elements.
    pub(super) async fn commit_before_read(
        &mut self,
        waiter: &impl Waiter,
    ) -> Result<(), StreamError> {
        match self.journal {
            Some(commits) if commits.commit == Commit::ByNextRead => self.commit(waiter).await,
            _ => Ok(()),
        }
    }

    pub(crate) async fn commit(&mut self, waiter: &impl Waiter) -> Result<(), StreamError> {
        let Some(mark) = self.append_commit()? else {
            return Ok(());
        };
        if self
            .journal
            .is_some_and(|commits| commits.durability == Durability::Disk)
        {
            let safe = self.link.wait(waiter, None, |end, _| {
                let is_safe = end.is_committed(mark);
                is_safe.map(|is_safe| is_safe.then_some(())).transpose()
            });
            safe.await.unwrap_or(Err(StreamError::Closed))?;
        }
        Ok(())
    }

    /// Returns the mark of the appended commit; `None` if there was nothing to commit.
    fn append_commit(&mut self) -> Result<Option<u64>, StreamError> {
        let (position, elements) = (self.ring.read_position(), self.ring.read_elements());
        let Some(commits) = self.journal.as_mut().filter(|c| c.position < position) else {
            return Ok(None);
        };
        let mark = self.link.with(|end, _, _| end.commit(position, elements))?;
        commits.position = position;
        Ok(Some(mark))
    }

    /// Commits everything that was read, because the program closes the reader deliberately.
    pub(super) fn commit_all(&mut self) {
        // On failure the elements are delivered again, unless the journal is emptied.
        let _ = self.append_commit();
    }

    /// Releases the journal after the reader has been destroyed.
    pub(super) fn finish_journal(&mut self) -> Result<(), JournalError> {
        let lineage = self.link.new_lineage();
        self.link.with(|end, _, _| end.finish_journal(lineage))
    }

    /// Closes the reader, and leaves the stream to the next incarnation.
    pub(super) fn leave(&mut self) {
        if self.link.is_closed() {
            return;
        }
        self.link.with(|end, _, _| end.release_journal());
        self.link.close(self.link.now());
        self.registration = None;
    }
}
