//! The journal behind a writer's ring, which is a window of it: what was written goes into the
//! journal, and from there into the ring as that has room.

use std::io;
use std::sync::mpsc::SyncSender;

use trunkline_proto::FaultCode;
use trunkline_proto::stream::{ElementForm, ElementWalk, Link, Pair, Writer};
use trunkline_ring::ElementProducer;

use super::{End, WriterEnd};
use crate::error::StreamError;
use crate::journal::{JournalError, Lineage, SyncJob, Synced, WriterJournal};

/// The journal of a writing end, and the outer end of its ring.
pub(crate) struct WriterStore {
    journal: WriterJournal,
    ring: ElementProducer,
    form: ElementForm,
    /// Who is known to be at the other end.
    peer: Option<Pair>,
    is_ended: bool,
    /// The files could not be read back the last time.
    error: Option<JournalError>,
    /// Tells the thread that syncs.
    sync: SyncSender<()>,
}

impl WriterStore {
    pub(crate) fn new(
        journal: WriterJournal,
        ring: ElementProducer,
        form: ElementForm,
        peer: Option<Pair>,
        is_ended: bool,
        sync: SyncSender<()>,
    ) -> Self {
        Self {
            journal,
            ring,
            form,
            peer,
            is_ended,
            error: None,
            sync,
        }
    }

    /// Elements that the program has written.
    pub(crate) fn written_elements(&self) -> u64 {
        self.journal.written_elements()
    }

    /// Bytes that the program has written and that may be sent.
    pub(super) fn visible(&self) -> u64 {
        self.journal.visible()
    }

    /// Up to here the ring has them.
    pub(super) fn at_hand(&self) -> u64 {
        self.ring.written()
    }

    /// Bytes that the reader has and the journal never had: it is another one's stream.
    pub(super) fn missing(&self, freed: u64) -> Option<u64> {
        freed
            .checked_sub(self.journal.written())
            .filter(|missing| *missing > 0)
    }

    /// Fills the ring from the journal. True when something went into it.
    pub(super) fn refill(&mut self) -> bool {
        let before = self.ring.written();
        self.error = None;
        loop {
            // Nobody but this program has the memory, so its positions are true.
            let (bytes, elements) = self.ring.room().unwrap_or((0, 0));
            let next = match self.journal.next_bytes() {
                Ok(next) => next,
                Err(error) => {
                    self.error = Some(error);
                    break;
                }
            };
            let (len, count) = fit(self.form, next, bytes, elements);
            if len == 0 || !self.ring.push(&next[..len], count).unwrap_or(false) {
                break;
            }
            self.journal.pushed(len);
        }
        self.ring.written() > before
    }

    /// Why nothing comes out of the journal.
    pub(super) fn error(&self) -> Option<&JournalError> {
        self.error.as_ref()
    }

    /// The program writes `bytes`; the number to ask [`is_safe`](Self::is_safe) for. `None`: there
    /// is no room.
    fn write(&mut self, bytes: &[u8], elements: u64) -> Result<Option<u64>, StreamError> {
        if let Some(error) = &self.error {
            return Err(error.clone().into());
        }
        if self.is_ended {
            return Err(StreamError::Closed);
        }
        if !self.journal.has_room(bytes.len())? {
            return Ok(None);
        }
        self.journal.append(bytes, elements)?;
        let is_next = self.journal.is_next(bytes.len());
        if is_next && self.ring.push(bytes, elements).unwrap_or(false) {
            self.journal.pushed_last();
        }
        self.wake_sync();
        Ok(Some(self.journal.mark()))
    }

    /// Sees to it that what there is to sync is.
    fn wake_sync(&self) {
        if self.journal.sync_job().is_some() {
            // It looks again after each time, so one is enough.
            let _ = self.sync.try_send(());
        }
    }

    /// The other end is known, or has acknowledged something.
    pub(super) fn follow(&mut self, link: &mut Link<Writer>) {
        if let Some(pair) = link.peer().and(link.pair()).copied()
            && self.peer != Some(pair)
        {
            match self.journal.set_peer(pair) {
                Ok(()) => self.peer = Some(pair),
                Err(error) => link.turn_away_unstored(FaultCode::Overloaded, &error.to_string()),
            }
        }
        #[cfg(feature = "planted")]
        if trunkline_types::planted::is(trunkline_types::planted::Bug::TrimmedTooEarly) {
            let _ = self.journal.trim(link.handed(), link.freed_elements());
        }
        // What could not be trimmed is trimmed the next time.
        let _ = self.journal.trim(link.freed(), link.freed_elements());
    }
}

/// How much of `bytes`, which are whole elements, there is room for, and how many elements that is.
fn fit(form: ElementForm, bytes: &[u8], room: u64, elements: u64) -> (usize, u64) {
    let len = usize::try_from(room).unwrap_or(usize::MAX).min(bytes.len());
    let mut walk = ElementWalk::new(form, u64::MAX, 0, 0);
    // No element is too long for a bound that there is not.
    let _ = walk.advance(&bytes[..len], elements);
    let whole = usize::try_from(walk.boundary()).unwrap_or(0);
    (whole, walk.elements())
}

impl End<WriterEnd> {
    /// The program writes into the journal; the number to ask
    /// [`is_written`](Self::is_written) for. `None`: there is no room now.
    pub(crate) fn write(
        &mut self,
        bytes: &[u8],
        elements: u64,
    ) -> Result<Option<u64>, StreamError> {
        let Some(store) = &mut self.inner.store else {
            return Err(StreamError::Closed);
        };
        let written = store.write(bytes, elements)?;
        self.link.set_short_of_room(written.is_none());
        match written {
            Some(_) => self.inner.wake(),
            None => self.look(),
        }
        Ok(written)
    }

    /// Whether what has this number counts as written.
    pub(crate) fn is_written(&self, mark: u64) -> Result<bool, StreamError> {
        match &self.inner.store {
            Some(store) => Ok(store.journal.is_safe(mark)?),
            None => Err(StreamError::Closed),
        }
    }

    /// Why nothing comes out of the journal any more, or why it was not emptied.
    pub(crate) fn journal_error(&self) -> Option<JournalError> {
        match &self.inner.store {
            Some(store) => store.error.clone().or(store.journal.is_safe(0).err()),
            None => self.inner.unfinished.clone(),
        }
    }

    /// The program writes nothing more, in no later life either.
    pub(crate) fn end_journal(&mut self) -> Result<(), JournalError> {
        let Some(store) = &mut self.inner.store else {
            return Ok(());
        };
        store.journal.end()?;
        store.is_ended = true;
        Ok(())
    }

    /// The endpoint goes. Its journal is emptied when the stream is at its end, and otherwise left
    /// to the next life.
    ///
    /// # Errors
    /// It could not be emptied: the next life finds that there is nothing left to send.
    pub(crate) fn leave_journal(
        &mut self,
        new_lineage: io::Result<Lineage>,
    ) -> Result<(), JournalError> {
        let Some(mut store) = self.inner.store.take() else {
            return Ok(());
        };
        let is_over = self.link.is_closed() && self.link.fault().is_none();
        if !is_over {
            return Ok(());
        }
        let emptied = new_lineage
            .map_err(|cause| store.journal.error("emptied", cause))
            .and_then(|lineage| store.journal.finish(lineage));
        self.inner.unfinished = emptied.as_ref().err().cloned();
        emptied
    }
}

impl super::syncing::Syncs for WriterEnd {
    fn sync_job(&self) -> Option<SyncJob> {
        self.store.as_ref()?.journal.sync_job()
    }

    fn finish_sync(&mut self, done: Synced) {
        if let Some(store) = &mut self.store {
            // Whoever waits for it asks, and is told.
            let _ = store.journal.finish_sync(done);
        }
        self.wake();
    }
}
