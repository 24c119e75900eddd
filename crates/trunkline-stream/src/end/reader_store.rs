//! The journal behind a reader's ring: what has arrived goes into both before the program sees it.

use std::io;
use std::sync::mpsc::SyncSender;

use trunkline_proto::FaultCode;
use trunkline_proto::stream::{Link, Pair, Reader};
use trunkline_ring::ElementProducer;

use super::{End, Inner, ReaderEnd};
use crate::error::StreamError;
use crate::journal::{JournalError, Lineage, ReaderJournal, SyncJob, Synced};

/// The journal of a reading end.
pub(crate) struct ReaderStore {
    journal: ReaderJournal,
    /// Who is known to be at the other end.
    peer: Option<Pair>,
    /// Up to here bytes of the stream lie in the ring, or have.
    filled: u64,
    /// Some came behind that.
    has_gap: bool,
    /// What has arrived last is not in the journal.
    error: Option<JournalError>,
    /// Tells the thread that syncs.
    sync: SyncSender<()>,
}

impl ReaderStore {
    pub(crate) fn new(journal: ReaderJournal, peer: Option<Pair>, sync: SyncSender<()>) -> Self {
        Self {
            filled: journal.arrived(),
            has_gap: false,
            journal,
            peer,
            error: None,
            sync,
        }
    }

    /// Bytes of the stream came into the ring.
    pub(super) fn handle_payload(&mut self, position: u64, count: u64) {
        self.has_gap |= position > self.filled;
        self.filled = self.filled.max(position.saturating_add(count));
    }

    /// Tells the link how far the program is, and the disk.
    pub(super) fn look(&self, link: &mut Link<Reader>) {
        let (read, elements) = self.journal.read();
        link.handle_read(read, elements);
        link.handle_durable(self.journal.durable());
        let end = link.end();
        link.set_end_safe(end.is_some() && self.journal.safe_end() == end);
    }

    /// Puts into the journal what has arrived. True when it is there; otherwise the writer was told
    /// why not, and it is tried again when it is back.
    pub(super) fn store(&mut self, ring: &mut ElementProducer, link: &mut Link<Reader>) -> bool {
        let stored = self.try_store(ring, link);
        if let Err(error) = &stored {
            if link.pair().is_some_and(|pair| self.peer != Some(*pair)) {
                link.turn_away_unstored(FaultCode::Overloaded, &error.to_string());
            }
            link.turn_away(FaultCode::Overloaded, &error.to_string());
        }
        self.error = stored.err();
        if self.journal.sync_job().is_some() {
            // It looks again after each time, so one is enough.
            let _ = self.sync.try_send(());
        }
        self.error.is_none() && self.journal.arrived() == link.ready().0
    }

    fn try_store(
        &mut self,
        ring: &mut ElementProducer,
        link: &mut Link<Reader>,
    ) -> Result<(), JournalError> {
        if let Some(pair) = link.peer().and(link.pair()).copied()
            && self.peer != Some(pair)
        {
            self.journal.set_peer(pair)?;
            self.peer = Some(pair);
        }
        // A failed sync is said here too.
        self.journal.is_safe(0)?;
        let (ready, _) = link.ready();
        let begin = self.journal.arrived();
        if ready > begin {
            let len = usize::try_from(ready - begin).unwrap_or(0);
            if self.has_gap || ready > self.filled {
                // The writer is in the middle of what another reader had.
                link.lose(ready - begin);
                return Ok(());
            }
            // It has arrived there.
            let [bytes, _] = ring.free_at(begin, len).unwrap_or_default();
            self.journal.append(bytes)?;
        }
        match link.end() {
            Some(end) if end.position == link.arrived() => self.journal.end(end),
            _ => Ok(()),
        }
    }
}

impl End<ReaderEnd> {
    /// The program is done with everything up to there; the number to ask
    /// [`is_committed`](Self::is_committed) for.
    pub(crate) fn commit(&mut self, position: u64, elements: u64) -> Result<u64, StreamError> {
        let Some(store) = &mut self.inner.store else {
            return Err(StreamError::Closed);
        };
        store.journal.commit(position, elements)?;
        let mark = store.journal.mark();
        if store.journal.sync_job().is_some() {
            let _ = store.sync.try_send(());
        }
        self.look();
        Ok(mark)
    }

    /// Whether what has this number is as safe as it is to be.
    pub(crate) fn is_committed(&self, mark: u64) -> Result<bool, StreamError> {
        match &self.inner.store {
            Some(store) => Ok(store.journal.is_safe(mark)?),
            None => Err(StreamError::Closed),
        }
    }

    /// Why what has arrived last cannot be read, after another attempt.
    pub(crate) fn journal_error(&mut self) -> Option<JournalError> {
        self.inner.store.as_ref()?.error.as_ref()?;
        self.inner.settle(&mut self.link);
        self.inner.store.as_ref()?.error.clone()
    }

    /// Why its journal does not take what has arrived, as far as is known, or was not emptied.
    pub(crate) fn last_journal_error(&self) -> Option<JournalError> {
        match &self.inner.store {
            Some(store) => store.error.clone().or(store.journal.is_safe(0).err()),
            None => self.inner.unfinished.clone(),
        }
    }

    /// The program has destroyed the endpoint: its journal is emptied.
    ///
    /// # Errors
    /// It was not: the next life finds what there is.
    pub(crate) fn finish_journal(
        &mut self,
        new_lineage: io::Result<Lineage>,
    ) -> Result<(), JournalError> {
        let Some(mut store) = self.inner.store.take() else {
            return Ok(());
        };
        let emptied = new_lineage
            .map_err(|cause| store.journal.error("emptied", cause))
            .and_then(|lineage| store.journal.finish(lineage));
        self.inner.unfinished = emptied.as_ref().err().cloned();
        emptied
    }

    /// The endpoint goes, and leaves its journal to the next life.
    pub(crate) fn leave_journal(&mut self) {
        self.inner.store = None;
    }
}

impl super::syncing::Syncs for ReaderEnd {
    fn sync_job(&self) -> Option<SyncJob> {
        self.store.as_ref()?.journal.sync_job()
    }

    fn finish_sync(&mut self, done: Synced) {
        if let Some(store) = &mut self.store {
            // Said at the next attempt to store something.
            let _ = store.journal.finish_sync(done);
        }
    }
}
