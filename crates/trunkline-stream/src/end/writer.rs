//! Implements the inner end of a writer's ring, which takes written data from the ring to send it.

use std::io;
use std::sync::Arc;

use trunkline_net::StreamMemory;
use trunkline_proto::FaultCode;
use trunkline_proto::stream::{Left, Link, RingBytes, Writer, WriterLink};
use trunkline_ring::{Corrupt, ElementConsumer, RingStart};

use super::one_ring::SharedRing;
use super::{EndpointRole, Idle, StopPolling, StreamEndpoint, WriteLock, WriterStore};
use crate::error::StreamError;
use crate::journal::{JournalError, Lineage};

pub(crate) struct WriterEnd {
    pub(crate) ring: ElementConsumer,
    /// The ring shared with the peer's process, if any; used instead of `ring`.
    shared: Option<SharedRing>,
    /// The program was asked to announce its next write, and has not written since.
    awaits_announcement: bool,
    /// The journal and the outer end of the ring, if the endpoint has a journal.
    pub(crate) store: Option<WriterStore>,
    /// The reason why the endpoint's former journal was not emptied.
    unfinished: Option<JournalError>,
    /// Releases unused memory, if elements vary in size.
    pub(crate) idle: Option<Idle>,
}

impl WriterEnd {
    pub(crate) fn new(ring: ElementConsumer) -> Self {
        Self {
            ring,
            shared: None,
            awaits_announcement: false,
            store: None,
            unfinished: None,
            idle: None,
        }
    }

    /// Returns the lock that the program holds while it writes; `None` if it needs no lock.
    pub(crate) fn write_lock(&self) -> Option<WriteLock> {
        self.idle.as_ref().map(Idle::write_lock)
    }

    /// Called when the program, which was asked to announce its writes, has written something.
    pub(super) fn wake(&mut self) {
        self.awaits_announcement = false;
    }

    /// Fills the ring from the journal. Returns true if data was added.
    fn refill(&mut self, link: &mut WriterLink) -> bool {
        let Some(store) = &mut self.store else {
            return false;
        };
        if let Some(bytes) = store.missing(link.freed()) {
            link.lose(bytes);
            return false;
        }
        let is_more = store.refill();
        link.set_sendable_end(store.in_ring());
        if let Some(error) = &store.error {
            // The attempt is repeated when the reader reconnects.
            link.reject_peer(FaultCode::Overloaded, &error.to_string());
        }
        // Updates the consumer's view of the ring before the link reads from it.
        let _ = self.ring.written();
        is_more
    }

    /// [`apply_progress`](EndpointRole::apply_progress) with a journal: frees acknowledged data. All
    /// data passes through the ring, even if the reader already has it.
    fn apply_progress_to_store(&mut self, link: &mut WriterLink) {
        loop {
            link.free(self);
            // Only this program can write to the ring's memory, so the positions are valid.
            let written = self.ring.written().unwrap_or(0);
            let bytes = link
                .freed()
                .min(written)
                .saturating_sub(self.ring.read_position());
            if bytes > 0 {
                // Elements are counted only if they vary in size; in that case everything freed was
                // in the ring.
                let elements = link.freed_elements();
                let elements = elements.saturating_sub(self.ring.read_elements());
                self.ring.release(bytes, elements);
            }
            if !self.refill(link) {
                break;
            }
        }
        if let Some(store) = &mut self.store {
            store.follow(link);
        }
    }
}

impl RingBytes for WriterEnd {
    fn bytes(&self, position: u64, len: u64) -> [&[u8]; 2] {
        if self.shared.is_some() {
            return [&[], &[]];
        }
        let len = match &self.store {
            // Only data in the ring can be sent. The remaining data is in the journal.
            Some(store) => len.min(store.in_ring().saturating_sub(position)),
            None => len,
        };
        // A length that exceeds `usize` cannot be available.
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        self.ring.region_at(position, len).unwrap_or_default()
    }
}

impl EndpointRole for WriterEnd {
    type LinkRole = Writer;

    fn poll_ring(&mut self, link: &mut Link<Writer>) -> Result<(), Corrupt> {
        if self.store.is_some() {
            self.refill(link);
        }
        if let Some(store) = &self.store {
            link.handle_written(store.visible(), store.written_elements());
            return Ok(());
        }
        if let Some(shared) = &mut self.shared {
            let (written, read) = shared.positions()?;
            link.handle_shared(written, read);
            return Ok(());
        }
        // Only this program can write to the ring's memory, so the positions are valid.
        if let (Ok(written), Ok(elements)) = (self.ring.written(), self.ring.written_elements()) {
            link.handle_written(written, elements);
        }
        // The next peer must learn the position of the first element that no reader has received.
        link.free(self);
        Ok(())
    }

    fn apply_progress(&mut self, link: &mut WriterLink) {
        if self.store.is_some() {
            return self.apply_progress_to_store(link);
        }
        if self.shared.is_some() {
            return;
        }
        // An endpoint that has left its journal to the next incarnation may have less in its ring
        // than the reader has freed. Only this program can write to the ring's memory, so the
        // positions are valid.
        let written = self.ring.written().unwrap_or(0);
        let bytes = link
            .freed()
            .min(written)
            .saturating_sub(self.ring.read_position());
        if bytes > 0 {
            let written = self.ring.written_elements().unwrap_or(0);
            let elements = link.freed_elements().min(written);
            let elements = elements.saturating_sub(self.ring.read_elements());
            self.ring.release(bytes, elements);
        }
    }

    fn shared(&self) -> Option<&SharedRing> {
        self.shared.as_ref()
    }

    fn shared_mut(&mut self) -> &mut Option<SharedRing> {
        &mut self.shared
    }

    fn start(link: &WriterLink) -> RingStart {
        RingStart {
            position: link.freed(),
            elements: link.freed_elements(),
        }
    }

    fn take_over(&mut self, memory: &Arc<StreamMemory>, written: RingStart, read: RingStart) {
        let _ = written;
        self.ring = memory.element_memory().starting_at(read).consumer();
        if let Some(idle) = &mut self.idle {
            idle.move_to(memory);
        }
        self.awaits_announcement = false;
        // The program notices the switch at its next write.
        let _ = self.ring.wait_for(u64::MAX, 0);
    }

    fn unpolled_bytes(&mut self, link: &WriterLink) -> u64 {
        let written = match &self.store {
            Some(store) => store.visible(),
            None => self.ring.written().unwrap_or(0),
        };
        written.saturating_sub(link.written())
    }

    fn stop_polling(&mut self, link: &WriterLink) -> StopPolling {
        if self.shared.is_some() || std::mem::replace(&mut self.awaits_announcement, true) {
            return StopPolling::Yes;
        }
        if self.store.is_some() {
            // A program with a journal announces every write.
            return StopPolling::Yes;
        }
        // One byte more than the link knows of.
        let known = link.written().saturating_sub(self.ring.read_position());
        let has_more = self.ring.wait_for(known.saturating_add(1), 0) == Ok(false);
        match has_more {
            true => {
                self.awaits_announcement = false;
                StopPolling::Found
            }
            false => StopPolling::Requested,
        }
    }

    fn releases_idle_memory(&self) -> bool {
        self.idle.is_some()
    }

    fn release_idle_memory(&mut self, _: &WriterLink) {
        let Some(idle) = &mut self.idle else { return };
        let (ring, shared) = (&mut self.ring, &mut self.shared);
        let memory = shared.as_ref().map(|shared| shared.memory.clone());
        idle.check(memory.as_ref(), || match shared {
            // The ring is only checked once the peer's program uses it.
            Some(shared) if !shared.is_confirmed => None,
            Some(shared) => {
                let ((written, _), (read, _)) = shared.positions().ok()?;
                Some((written, read))
            }
            None => Some((ring.written().ok()?, ring.read_position())),
        });
    }
}

impl StreamEndpoint<WriterEnd> {
    /// Called when the program, which was asked to announce its writes, has written something.
    pub(crate) fn wake(&mut self) {
        self.inner.wake();
        self.program_announces_writes = false;
    }

    /// Sends everything now and stops polling the ring, because the program flushes each element.
    /// The writing thread must call this: it then sees the request to announce its writes, so no
    /// final poll is necessary. Returns false if the ring is still polled.
    pub(crate) fn stop_polling_now(&mut self) -> bool {
        if self.inner.shared.is_some() || self.inner.store.is_some() {
            return false;
        }
        self.poll_ring();
        self.program_announces_writes = self.inner.stop_polling(&self.link) != StopPolling::Found;
        if self.program_announces_writes {
            self.gather_until = None;
        }
        self.program_announces_writes
    }

    /// Returns how many elements the reader has not received.
    pub(crate) fn left(&mut self) -> Left {
        self.poll_ring();
        let shared = self.inner.shared.as_mut();
        match shared.map(|shared| (shared.fills, shared.positions())) {
            // Data in the reader's buffer counts as delivered, as it does over a connection.
            Some((fills, Ok(((_, written), (_, read))))) if !self.link.has_end() => Left {
                elements: fills.in_writer(written, read),
                in_doubt: 0,
            },
            Some(_) => Left::default(),
            None => self.link.left(&self.inner),
        }
    }

    /// Writes into the journal. Returns the mark to pass to [`is_written`](Self::is_written), or
    /// `None` if the journal has no room at present.
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
            None => self.poll_ring(),
        }
        Ok(written)
    }

    /// Returns true once the elements with this mark count as written.
    pub(crate) fn is_written(&self, mark: u64) -> Result<bool, StreamError> {
        match &self.inner.store {
            Some(store) => Ok(store.journal.is_safe(mark)?),
            None => Err(StreamError::Closed),
        }
    }

    /// Returns the reason why the journal cannot be read, or why it was not emptied.
    pub(crate) fn journal_error(&self) -> Option<JournalError> {
        match &self.inner.store {
            Some(store) => store.error.clone().or(store.journal.is_safe(0).err()),
            None => self.inner.unfinished.clone(),
        }
    }

    /// Records the end of the stream, after which no later incarnation writes.
    pub(crate) fn end_journal(&mut self) -> Result<(), JournalError> {
        let Some(store) = &mut self.inner.store else {
            return Ok(());
        };
        store.journal.end()?;
        store.is_ended = true;
        Ok(())
    }

    /// Empties the journal if the stream has ended, and otherwise leaves it to the next
    /// incarnation.
    ///
    /// # Errors
    /// The journal could not be emptied. The next incarnation finds nothing left to send.
    pub(crate) fn release_journal(
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
