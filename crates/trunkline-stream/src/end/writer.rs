//! The inner end of a writer's ring: what was written, on its way to the reader.

use std::sync::Arc;
use trunkline_proto::stream::{Left, Link, Place, RingBytes, Writer, WriterLink};

use trunkline_net::StreamMemory;
use trunkline_ring::{Corrupt, ElementConsumer, RingStart};
use trunkline_types::Tick;

use super::one_ring::SharedRing;
use super::{End, Inner, Rest};

pub(crate) struct WriterEnd {
    pub(crate) ring: ElementConsumer,
    /// The ring that is used instead, with the other end's process.
    shared: Option<SharedRing>,
    /// The program was told that nobody looks, and has not said since that it wrote.
    is_resting: bool,
}

impl WriterEnd {
    pub(crate) fn new(ring: ElementConsumer) -> Self {
        Self {
            ring,
            shared: None,
            is_resting: false,
        }
    }

    /// The program was told that nobody looks, and has written something.
    pub(crate) fn wake(&mut self) {
        self.is_resting = false;
    }
}

impl RingBytes for WriterEnd {
    fn bytes(&self, position: u64, len: u64) -> [&[u8]; 2] {
        if self.shared.is_some() {
            return [&[], &[]];
        }
        // What is not there has no more bytes than memory.
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        self.ring.region_at(position, len).unwrap_or_default()
    }
}

impl Inner for WriterEnd {
    type Half = Writer;

    fn look(&mut self, link: &mut Link<Writer>) -> Result<(), Corrupt> {
        if let Some(shared) = &mut self.shared {
            let (written, read) = shared.look()?;
            link.handle_shared(written, read);
            return Ok(());
        }
        // Nobody but this program has the memory, so its positions are true.
        if let (Ok(written), Ok(elements)) = (self.ring.written(), self.ring.written_elements()) {
            link.handle_written(written, elements);
        }
        Ok(())
    }

    fn settle(&mut self, link: &mut WriterLink) {
        if self.shared.is_some() {
            return;
        }
        let bytes = link.freed().saturating_sub(self.ring.read());
        if bytes > 0 {
            let elements = link
                .freed_elements()
                .saturating_sub(self.ring.read_elements());
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
        self.is_resting = false;
        // The program finds out at its next write.
        let _ = self.ring.wait_for(u64::MAX, 0);
    }

    fn wanted(_: &WriterLink) -> Option<Place> {
        None
    }

    fn space(&mut self, _: Place) -> &mut [u8] {
        &mut []
    }

    fn handle_payload(&mut self, _: &mut WriterLink, _: Tick, _: u64, _: Place, _: u64) {}

    fn unseen(&mut self, link: &WriterLink) -> u64 {
        let written = self.ring.written().unwrap_or(0);
        written.saturating_sub(link.written())
    }

    fn rest(&mut self, link: &WriterLink) -> Rest {
        if self.shared.is_some() || std::mem::replace(&mut self.is_resting, true) {
            return Rest::Yes;
        }
        // One byte more than what the link knows of.
        let known = link.written().saturating_sub(self.ring.read());
        let has_more = self.ring.wait_for(known.saturating_add(1), 0) == Ok(false);
        match has_more {
            true => {
                self.is_resting = false;
                Rest::Found
            }
            false => Rest::Told,
        }
    }
}

impl End<WriterEnd> {
    /// What the reader lacks.
    pub(crate) fn left(&mut self) -> Left {
        self.look();
        let seen = self.inner.shared.as_mut().map(SharedRing::look);
        match seen {
            // It is in the ring, where a reader that is there has it, and one that is gone had not.
            Some(Ok(((_, written), (_, read)))) if !self.link.is_closed() => Left {
                elements: written.saturating_sub(read),
                in_doubt: 0,
            },
            Some(_) => Left::default(),
            None => self.link.left(&self.inner),
        }
    }
}
