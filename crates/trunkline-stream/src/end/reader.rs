//! The inner end of a reader's ring: what has arrived, on its way to the program.

use std::sync::{Arc, OnceLock};

use trunkline_proto::stream::{Link, Place, Reader, ReaderLink, RingBytes};

use trunkline_net::StreamMemory;
use trunkline_ring::{Corrupt, ElementProducer, RingStart};
use trunkline_types::Tick;

use super::one_ring::SharedRing;
use super::{Bell, Idle, Inner, ReaderStore, Rest};
use crate::journal::JournalError;
use crate::sync::{AtomicU64, Ordering};

pub(crate) struct ReaderEnd {
    pub(crate) ring: ElementProducer,
    /// The ring that is used instead, with the other end's process.
    shared: Option<SharedRing>,
    /// Its journal, if it has one.
    pub(crate) store: Option<ReaderStore>,
    /// Why its journal, which it has not any more, was not emptied.
    pub(super) unfinished: Option<JournalError>,
    /// Gives memory back that nobody needs, where elements vary.
    pub(crate) idle: Option<Idle>,
    /// Elements before the next ones that are missing, of a writer that drops some; the most there
    /// can be where it is not known of any.
    pub(crate) lost_at: Arc<AtomicU64>,
    /// Has a value once nothing more comes than what is there: for the program, which asks without
    /// the lock.
    pub(crate) has_end: Arc<OnceLock<()>>,
    /// Who reads from several lanes.
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
            lost_at: Arc::new(AtomicU64::new(u64::MAX)),
            has_end: Arc::default(),
            bell: None,
        }
    }

    /// Says to the program where the next elements are missing: before what is behind them.
    pub(crate) fn note_lost(&self, link: &ReaderLink) {
        let at = link.next_lost().map_or(u64::MAX, |(at, _)| at);
        self.lost_at.store(at, Ordering::Release);
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

impl Inner for ReaderEnd {
    type Half = Reader;

    fn look(&mut self, link: &mut Link<Reader>) -> Result<(), Corrupt> {
        if let Some(store) = &self.store {
            // What the program took out is room, though it does not count as read yet.
            let _ = self.ring.read();
            store.look(link);
            return Ok(());
        }
        if let Some(shared) = &mut self.shared {
            let (written, read) = shared.look()?;
            link.handle_shared(written, read);
            return Ok(());
        }
        // Nobody but this program has the memory, so its positions are true. It may read on in
        // between: elements that are not before the position would be too much credit.
        if let (Ok(elements), Ok(read)) = (self.ring.read_elements(), self.ring.read()) {
            link.handle_read(read, elements);
        }
        Ok(())
    }

    fn settle(&mut self, link: &mut ReaderLink) {
        if self.shared.is_some() {
            return;
        }
        if let Some(store) = &mut self.store
            && !store.store(&mut self.ring, link)
        {
            return;
        }
        if link.lost() > 0 {
            self.note_lost(link);
        }
        let is_end = link.end().is_some_and(|end| end.position <= link.arrived());
        let ends = is_end && self.has_end.get().is_none();
        let (position, elements) = link.ready();
        let bytes = position.saturating_sub(self.ring.written());
        if bytes > 0 {
            let elements = elements.saturating_sub(self.ring.written_elements());
            self.ring.commit(bytes, elements);
        }
        if ends {
            // Behind the last element.
            let _is_set = self.has_end.set(());
        }
        if bytes > 0 || ends {
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
        // The program finds out at its next read.
        let _ = self.ring.wait_for_room(u64::MAX, 0);
    }

    fn wanted(link: &ReaderLink) -> Option<Place> {
        link.wants_payload()
    }

    fn space(&mut self, place: Place) -> &mut [u8] {
        let ahead = place.position.saturating_sub(self.ring.written());
        let bytes = ahead.saturating_add(place.len);
        // The writer was given credit for no more than there is room for.
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
        place: Place,
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

    fn unseen(&mut self, _: &ReaderLink) -> u64 {
        u64::MAX
    }

    fn rest(&mut self, _: &ReaderLink) -> Rest {
        Rest::Yes
    }

    fn gives_back(&self) -> bool {
        self.idle.is_some()
    }

    fn give_back(&mut self, link: &ReaderLink) {
        let Some(idle) = &mut self.idle else { return };
        let ring = &mut self.ring;
        // The program that writes is the one that gives a ring of both back. Bytes that have come
        // and do not count yet are not free.
        if self.shared.is_none() && link.wants_payload().is_none() {
            idle.look(None, || Some((link.arrived(), ring.read().ok()?)));
        }
    }

    fn handle_over(&mut self, _: &mut ReaderLink) {
        let _is_set = self.has_end.set(());
        self.ring_bell();
    }
}
