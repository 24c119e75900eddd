//! Connects a writer's journal to the writer's ring. Written data goes into the journal, and from
//! there into the ring as soon as the ring has room.

use std::sync::mpsc::SyncSender;

use trunkline_proto::FaultCode;
use trunkline_proto::stream::{ElementForm, ElementWalk, Link, Pair, Writer};
use trunkline_ring::ElementProducer;

use super::WriterEnd;
use super::syncing::Syncs;
use crate::error::StreamError;
use crate::journal::{JournalError, SyncJob, Synced, WriterJournal};

/// The journal of a writer, and the outer end of the writer's ring.
pub(crate) struct WriterStore {
    pub(super) journal: WriterJournal,
    ring: ElementProducer,
    form: ElementForm,
    /// Identity of the peer endpoint, as stored in the journal.
    peer: Option<Pair>,
    /// The program has closed the stream.
    pub(super) is_ended: bool,
    /// The reason why the files could not be read back at the last attempt.
    pub(super) error: Option<JournalError>,
    /// Wakes the thread that syncs the journal.
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

    pub(crate) fn written_elements(&self) -> u64 {
        self.journal.written_elements()
    }

    /// Position up to which data may be sent.
    pub(super) fn visible(&self) -> u64 {
        self.journal.visible()
    }

    /// Position up to which data is in the ring.
    pub(super) fn in_ring(&self) -> u64 {
        self.ring.written()
    }

    /// Returns the number of bytes that the reader has but this journal never had. Such bytes belong
    /// to another stream.
    pub(super) fn missing(&self, freed: u64) -> Option<u64> {
        freed
            .checked_sub(self.journal.written())
            .filter(|missing| *missing > 0)
    }

    /// Fills the ring from the journal. Returns true if data was added.
    pub(super) fn refill(&mut self) -> bool {
        let before = self.ring.written();
        self.error = None;
        loop {
            // Only this program can write to the ring's memory, so the positions are valid.
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
            self.journal.note_pushed(len);
        }
        self.ring.written() > before
    }

    /// Appends `bytes` to the journal. Returns the mark to pass to `is_safe`, or `None` if there is
    /// no room.
    pub(super) fn write(
        &mut self,
        bytes: &[u8],
        elements: u64,
    ) -> Result<Option<u64>, StreamError> {
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
            self.journal.note_last_pushed();
        }
        self.wake_sync();
        Ok(Some(self.journal.mark()))
    }

    /// Makes sure that pending data is synced.
    fn wake_sync(&self) {
        if self.journal.sync_job().is_some() {
            // The thread checks again after each sync, so one message is enough.
            let _ = self.sync.try_send(());
        }
    }

    /// Stores the identity of the peer, and trims the journal. Called when the peer has connected or
    /// has acknowledged data.
    pub(super) fn follow(&mut self, link: &mut Link<Writer>) {
        if let Some(pair) = link.peer().and(link.pair()).copied()
            && self.peer != Some(pair)
        {
            match self.journal.set_peer(pair) {
                Ok(()) => self.peer = Some(pair),
                Err(error) => link.reject_peer_unstored(FaultCode::Overloaded, &error.to_string()),
            }
        }
        // If trimming fails, it is repeated the next time.
        let _ = self.journal.trim(link.freed(), link.freed_elements());
    }
}

/// Returns the length in bytes and the number of the complete elements at the start of `bytes` that
/// fit into `room` bytes and `elements` elements.
fn fit(form: ElementForm, bytes: &[u8], room: u64, elements: u64) -> (usize, u64) {
    let len = usize::try_from(room).unwrap_or(usize::MAX).min(bytes.len());
    let mut walk = ElementWalk::new(form, u64::MAX, 0, 0);
    // Cannot fail: there is no bound on the length of an element.
    let _ = walk.advance(&bytes[..len], elements);
    let whole = usize::try_from(walk.boundary()).unwrap_or(0);
    (whole, walk.elements())
}

impl Syncs for WriterEnd {
    fn sync_job(&self) -> Option<SyncJob> {
        self.store.as_ref()?.journal.sync_job()
    }

    fn finish_sync(&mut self, done: Synced) {
        if let Some(store) = &mut self.store {
            // Waiting threads check the result themselves.
            let _ = store.journal.finish_sync(done);
        }
        self.wake();
    }
}
