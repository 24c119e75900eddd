//! Connects a reader's journal to the reader's ring. Received data goes into both before the program
//! gets it.

use std::sync::mpsc::SyncSender;

use trunkline_proto::FaultCode;
use trunkline_proto::stream::{Link, Pair, Reader};
use trunkline_ring::ElementProducer;

use super::ReaderEnd;
use super::syncing::Syncs;
use crate::journal::{JournalError, ReaderJournal, SyncJob, Synced};

pub(crate) struct ReaderStore {
    pub(super) journal: ReaderJournal,
    /// Identity of the peer endpoint, as stored in the journal.
    peer: Option<Pair>,
    /// Position up to which bytes of the stream are, or were, in the ring.
    received_until: u64,
    /// Bytes before `received_until` have not arrived.
    has_gap: bool,
    /// The reason why the latest data is not in the journal.
    pub(super) error: Option<JournalError>,
    /// Wakes the thread that syncs the journal.
    sync: SyncSender<()>,
}

impl ReaderStore {
    pub(crate) fn new(journal: ReaderJournal, peer: Option<Pair>, sync: SyncSender<()>) -> Self {
        Self {
            received_until: journal.arrived(),
            has_gap: false,
            journal,
            peer,
            error: None,
            sync,
        }
    }

    /// Called when bytes of the stream arrive in the ring.
    pub(super) fn handle_payload(&mut self, position: u64, count: u64) {
        self.has_gap |= position > self.received_until;
        self.received_until = self.received_until.max(position.saturating_add(count));
    }

    /// Updates the link with the positions up to which the stream has been read and is durable.
    pub(super) fn poll(&self, link: &mut Link<Reader>) {
        let (read, elements) = self.journal.read();
        link.handle_read(read, elements);
        link.handle_durable(self.journal.durable());
        let end = link.end();
        link.set_end_acknowledgeable(end.is_some() && self.journal.durable_end() == end);
    }

    /// Writes received data to the journal. Returns true if all of it is stored. On failure, the
    /// writer gets the reason, and the attempt is repeated when the writer reconnects.
    pub(super) fn store(&mut self, ring: &mut ElementProducer, link: &mut Link<Reader>) -> bool {
        let stored = self.try_store(ring, link);
        if let Err(error) = &stored {
            if link.pair().is_some_and(|pair| self.peer != Some(*pair)) {
                link.reject_peer_unstored(FaultCode::Overloaded, &error.to_string());
            }
            link.reject_peer(FaultCode::Overloaded, &error.to_string());
        }
        self.error = stored.err();
        self.wake_sync();
        self.error.is_none() && self.journal.arrived() == link.ready().0
    }

    /// Makes sure that pending data is synced.
    pub(super) fn wake_sync(&self) {
        if self.journal.sync_job().is_some() {
            // The thread checks again after each sync, so one message is enough.
            let _ = self.sync.try_send(());
        }
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
        // This also reports a failed sync.
        self.journal.is_safe(0)?;
        let (ready, _) = link.ready();
        let begin = self.journal.arrived();
        if ready > begin {
            let len = usize::try_from(ready - begin).unwrap_or(0);
            if self.has_gap || ready > self.received_until {
                // The writer is in the middle of a stream, whose beginning another reader received.
                link.lose(ready - begin);
                return Ok(());
            }
            // These bytes are in the ring, but are not committed yet.
            let [bytes, _] = ring.free_at(begin, len).unwrap_or_default();
            self.journal.append(bytes)?;
        }
        match link.end() {
            Some(end) if end.position == link.arrived() => self.journal.end(end),
            _ => Ok(()),
        }
    }
}

impl Syncs for ReaderEnd {
    fn sync_job(&self) -> Option<SyncJob> {
        self.store.as_ref()?.journal.sync_job()
    }

    fn finish_sync(&mut self, done: Synced) {
        if let Some(store) = &mut self.store {
            // The error is reported at the next attempt to store something.
            let _ = store.journal.finish_sync(done);
        }
    }
}
