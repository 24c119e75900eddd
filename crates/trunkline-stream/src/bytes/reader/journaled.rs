//! Reads from a stream with a journal.

use super::ReaderCore;
use crate::error::StreamError;
use crate::journal::{Commit, Durability, JournalError, JournalOptions};
use crate::wait::Waiter;

/// The commit settings of a reader with a journal, and the position of its last commit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Commits {
    commit: Commit,
    durability: Durability,
    /// Position up to which elements count as read, in bytes.
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

    /// With [`Commit::ByNextRead`], commits before the next read, because a program that reads again
    /// has processed the previous elements.
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
            let durable = self.link.wait(waiter, None, |end, _| {
                let is_durable = end.is_committed(mark);
                let is_durable = is_durable.map(|is_durable| is_durable.then_some(()));
                is_durable.transpose()
            });
            durable.await.unwrap_or(Err(StreamError::Closed))?;
        }
        Ok(())
    }

    /// Appends a commit to the journal. Returns the number of the commit, which is needed to check whether
    /// it is durable, or `None` if there was nothing to commit.
    fn append_commit(&mut self) -> Result<Option<u64>, StreamError> {
        let (position, elements) = (self.ring.read_position(), self.ring.read_elements());
        let Some(commits) = self.journal.as_mut().filter(|c| c.position < position) else {
            return Ok(None);
        };
        let number = self.link.with(|end, _, _| end.commit(position, elements))?;
        commits.position = position;
        Ok(Some(number))
    }

    /// Commits everything that was read, because the program is closing the reader.
    pub(super) fn commit_all(&mut self) {
        // On failure the elements are delivered again, unless the journal is emptied.
        let _ = self.append_commit();
    }

    /// Empties the journal after the reader has been destroyed. The empty journal has a new identity, so
    /// that the writer does not continue the old one.
    pub(super) fn finish_journal(&mut self) -> Result<(), JournalError> {
        let lineage = self.link.new_lineage();
        self.link.with(|end, _, _| end.finish_journal(lineage))
    }

    /// Closes the reader. The next incarnation of the endpoint can continue the stream.
    pub(super) fn suspend(&mut self) {
        if self.link.is_closed() {
            return;
        }
        self.link.with(|end, _, _| end.release_journal());
        self.link.close(self.link.now());
        self.registration = None;
    }
}
