//! Reading with a journal.

use super::bytes::ReaderCore;
use crate::error::StreamError;
use crate::journal::{Commit, Durability, JournalError, JournalOptions};
use crate::wait::Waits;

/// When what was read counts as read, and how safe that is then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Commits {
    commit: Commit,
    durability: Durability,
    /// Up to here it counts.
    position: u64,
}

impl ReaderCore {
    pub(crate) fn with_journal(mut self, options: &JournalOptions) -> Self {
        self.journal = Some(Commits {
            commit: options.commit,
            durability: options.durability,
            position: self.ring.read(),
        });
        self
    }

    /// The program reads again, so it is done with what it has.
    pub(super) async fn commit_before_read(
        &mut self,
        waits: &impl Waits,
    ) -> Result<(), StreamError> {
        match self.journal {
            Some(commits) if commits.commit == Commit::ByNextRead => self.commit(waits).await,
            _ => Ok(()),
        }
    }

    /// Everything that was read counts as read.
    pub(crate) async fn commit(&mut self, waits: &impl Waits) -> Result<(), StreamError> {
        let Some(mark) = self.append_commit()? else {
            return Ok(());
        };
        if self
            .journal
            .is_some_and(|commits| commits.durability == Durability::Disk)
        {
            let safe = self
                .link
                .wait(waits, None, |end, _| match end.is_committed(mark) {
                    Ok(true) => Some(Ok(())),
                    Ok(false) => None,
                    Err(error) => Some(Err(error)),
                });
            safe.await.unwrap_or(Err(StreamError::Closed))?;
        }
        Ok(())
    }

    /// The number of what was appended; `None`: there was nothing to say.
    fn append_commit(&mut self) -> Result<Option<u64>, StreamError> {
        let (position, elements) = (self.ring.read(), self.ring.read_elements());
        let Some(commits) = self.journal.as_mut().filter(|c| c.position < position) else {
            return Ok(None);
        };
        let mark = self.link.with(|end, _, _| end.commit(position, elements))?;
        commits.position = position;
        Ok(Some(mark))
    }

    /// The program goes on purpose, so it is done with what it has read.
    pub(super) fn commit_all(&mut self) {
        // If not, it comes again, unless the journal is emptied.
        let _ = self.append_commit();
    }

    /// The end was destroyed.
    ///
    /// # Errors
    /// The journal could not be emptied.
    pub(super) fn finish_journal(&mut self) -> Result<(), JournalError> {
        let lineage = self.link.new_lineage();
        self.link.with(|end, _, _| end.finish_journal(lineage))
    }

    /// Goes without a word: the stream is left to the next life.
    pub(super) fn leave(&mut self) {
        if self.link.is_closed() {
            return;
        }
        self.link.with(|end, _, _| end.leave_journal());
        self.link.close(self.link.now());
        self.registration = None;
    }
}
