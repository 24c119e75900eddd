//! Implements the inner end of a reader's ring, which puts received data into the ring.

use std::io;
use std::sync::{Arc, OnceLock};

use trunkline_proto::stream::{ByteRange, Link, Reader, ReaderLink, RingBytes};

use trunkline_net::StreamMemory;
use trunkline_ring::{Corrupt, ElementProducer, RingStart};
use trunkline_types::Tick;

use super::one_ring::SharedRing;
use super::{Bell, EndpointRole, Idle, ReaderStore, StopPolling, StreamEndpoint};
use crate::error::StreamError;
use crate::journal::{JournalError, Lineage};
use crate::sync::{AtomicU64, Ordering};

pub(crate) struct ReaderEnd {
    pub(crate) ring: ElementProducer,
    /// The ring shared with the peer's process, if any; used instead of `ring`.
    shared: Option<SharedRing>,
    /// The journal, if the endpoint has one.
    pub(crate) store: Option<ReaderStore>,
    /// The reason why the endpoint's former journal was not emptied.
    unfinished: Option<JournalError>,
    /// Releases unused memory, if elements vary in size.
    pub(crate) idle: Option<Idle>,
    /// Number of elements before the next gap, if the writer drops elements; `u64::MAX` if no gap
    /// is known.
    pub(crate) gap_at: Arc<AtomicU64>,
    /// Set once no more data will arrive; the program reads it without the lock.
    pub(crate) has_end: Arc<OnceLock<()>>,
    /// Wakes the program if it reads from several lanes.
    pub(crate) bell: Option<Arc<Bell>>,
}

impl ReaderEnd {
    pub(crate) fn new(ring: ElementProducer) -> Self {
        Self {
            ring,
            shared: None,
            store: None,
            unfinished: None,
            idle: None,
            gap_at: Arc::new(AtomicU64::new(u64::MAX)),
            has_end: Arc::default(),
            bell: None,
        }
    }

    /// Publishes the position of the next gap; must run before elements after the gap are
    /// committed.
    pub(crate) fn note_gap(&self, link: &ReaderLink) {
        let at = link.next_loss().map_or(u64::MAX, |(at, _)| at);
        self.gap_at.store(at, Ordering::Release);
    }

    fn ring_bell(&self) {
        if let Some(bell) = &self.bell {
            bell.ring();
        }
    }
}

/// A reader sends no bytes of its ring.
impl RingBytes for ReaderEnd {
    fn bytes(&self, _: u64, _: u64) -> [&[u8]; 2] {
        [&[], &[]]
    }
}

impl EndpointRole for ReaderEnd {
    type LinkRole = Reader;

    fn poll_ring(&mut self, link: &mut Link<Reader>) -> Result<(), Corrupt> {
        if let Some(store) = &self.store {
            // Elements that the program has removed free room in the ring, even if they do not count
            // as read yet.
            let _ = self.ring.read_position();
            store.poll(link);
            return Ok(());
        }
        if let Some(shared) = &mut self.shared {
            let (written, read) = shared.positions()?;
            link.handle_shared(written, read);
            return Ok(());
        }
        // Only this program can write to the ring's memory, so the positions are valid. The elements
        // come first because the program may read between the two calls: elements beyond the
        // position would grant too much credit.
        if let (Ok(elements), Ok(read)) = (self.ring.read_elements(), self.ring.read_position()) {
            link.handle_read(read, elements);
        }
        Ok(())
    }

    fn apply_progress(&mut self, link: &mut ReaderLink) {
        if self.shared.is_some() {
            return;
        }
        if let Some(store) = &mut self.store
            && !store.store(&mut self.ring, link)
        {
            return;
        }
        if link.lost() > 0 {
            self.note_gap(link);
        }
        let is_end = link.end().is_some_and(|end| end.position <= link.arrived());
        let is_new_end = is_end && self.has_end.get().is_none();
        let (position, elements) = link.ready();
        let bytes = position.saturating_sub(self.ring.written());
        if bytes > 0 {
            let elements = elements.saturating_sub(self.ring.written_elements());
            self.ring.commit(bytes, elements);
        }
        if is_new_end {
            // The end is set after the last element is committed.
            let _is_set = self.has_end.set(());
        }
        if bytes > 0 || is_new_end {
            self.ring_bell();
        }
    }

    fn shared(&self) -> Option<&SharedRing> {
        self.shared.as_ref()
    }

    fn shared_mut(&mut self) -> &mut Option<SharedRing> {
        &mut self.shared
    }

    fn start(link: &ReaderLink) -> RingStart {
        let (position, elements) = link.ready();
        RingStart { position, elements }
    }

    fn take_over(&mut self, memory: &Arc<StreamMemory>, written: RingStart, read: RingStart) {
        let _ = read;
        self.ring = memory.element_memory().starting_at(written).producer();
        if let Some(idle) = &mut self.idle {
            idle.move_to(memory);
        }
        // The program notices the switch at its next read.
        let _ = self.ring.wait_for_room(u64::MAX, 0);
    }

    fn payload_place(link: &ReaderLink) -> Option<ByteRange> {
        link.next_payload_range()
    }

    fn space(&mut self, place: ByteRange) -> &mut [u8] {
        let offset = place.position.saturating_sub(self.ring.written());
        let bytes = offset.saturating_add(place.len);
        // A correct writer has no credit beyond the room.
        if !self.ring.has_room(bytes, 0).unwrap_or(false) {
            return &mut [];
        }
        let len = usize::try_from(place.len).unwrap_or(0);
        match self.ring.free_at(place.position, len) {
            Some([piece, _]) => piece,
            None => &mut [],
        }
    }

    fn handle_payload(
        &mut self,
        link: &mut ReaderLink,
        now: Tick,
        transport: u64,
        place: ByteRange,
        count: u64,
    ) {
        if let Some(store) = &mut self.store {
            store.handle_payload(place.position, count);
        }
        let len = usize::try_from(count).unwrap_or(0);
        let bytes: &[u8] = match self.ring.free_at(place.position, len) {
            Some([piece, _]) => piece,
            None => &[],
        };
        link.handle_payload(now, transport, bytes);
    }

    fn unpolled_bytes(&mut self, _: &ReaderLink) -> u64 {
        u64::MAX
    }

    fn stop_polling(&mut self, _: &ReaderLink) -> StopPolling {
        StopPolling::Yes
    }

    fn releases_idle_memory(&self) -> bool {
        self.idle.is_some()
    }

    fn release_idle_memory(&mut self, link: &ReaderLink) {
        let Some(idle) = &mut self.idle else { return };
        let ring = &mut self.ring;
        // The writing program releases the memory of a shared ring. Bytes of a payload that is still
        // arriving do not count as arrived, but their memory is in use.
        if self.shared.is_none() && link.next_payload_range().is_none() {
            idle.check(None, || Some((link.arrived(), ring.read_position().ok()?)));
        }
    }

    fn handle_over(&mut self, _: &mut ReaderLink) {
        let _is_set = self.has_end.set(());
        self.ring_bell();
    }
}

impl StreamEndpoint<ReaderEnd> {
    /// Commits everything up to this position. Returns the mark to pass to
    /// [`is_committed`](Self::is_committed).
    pub(crate) fn commit(&mut self, position: u64, elements: u64) -> Result<u64, StreamError> {
        let Some(store) = &mut self.inner.store else {
            return Err(StreamError::Closed);
        };
        store.journal.commit(position, elements)?;
        let mark = store.journal.mark();
        store.wake_sync();
        self.poll_ring();
        Ok(mark)
    }

    /// Returns true once the commit with this mark is as durable as configured.
    pub(crate) fn is_committed(&self, mark: u64) -> Result<bool, StreamError> {
        match &self.inner.store {
            Some(store) => Ok(store.journal.is_safe(mark)?),
            None => Err(StreamError::Closed),
        }
    }

    /// Tries again to store data that the journal has not accepted. Returns the reason if that fails.
    pub(crate) fn journal_error(&mut self) -> Option<JournalError> {
        self.inner.store.as_ref()?.error.as_ref()?;
        self.inner.apply_progress(&mut self.link);
        self.inner.store.as_ref()?.error.clone()
    }

    /// Returns the last known reason why the journal does not accept data, or why it was not
    /// emptied.
    pub(crate) fn last_journal_error(&self) -> Option<JournalError> {
        match &self.inner.store {
            Some(store) => store.error.clone().or(store.journal.is_safe(0).err()),
            None => self.inner.unfinished.clone(),
        }
    }

    /// Empties the journal after the program has destroyed the endpoint.
    ///
    /// # Errors
    /// The journal was not emptied, and the next incarnation finds the old contents.
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

    pub(crate) fn release_journal(&mut self) {
        self.inner.store = None;
    }
}
