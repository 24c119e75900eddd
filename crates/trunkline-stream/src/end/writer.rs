//! The inner end of a writer's ring: what was written, on its way to the reader.

use trunkline_proto::stream::{Link, Place, RingBytes, Writer, WriterLink};
use trunkline_ring::ElementConsumer;
use trunkline_types::Tick;

use super::Inner;

pub(crate) struct WriterEnd {
    pub(crate) ring: ElementConsumer,
    /// The program was told that nobody looks, and has not said since that it wrote.
    is_resting: bool,
}

impl WriterEnd {
    pub(crate) fn new(ring: ElementConsumer) -> Self {
        Self {
            ring,
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
        // What is not there has no more bytes than memory.
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        self.ring.region_at(position, len).unwrap_or_default()
    }
}

impl Inner for WriterEnd {
    type Half = Writer;

    fn look(&mut self, link: &mut Link<Writer>) {
        // Nobody but this program has the memory, so its positions are true.
        if let (Ok(written), Ok(elements)) = (self.ring.written(), self.ring.written_elements()) {
            link.handle_written(written, elements);
        }
    }

    fn settle(&mut self, link: &mut WriterLink) {
        let bytes = link.freed().saturating_sub(self.ring.read());
        if bytes > 0 {
            let elements = link
                .freed_elements()
                .saturating_sub(self.ring.read_elements());
            self.ring.release(bytes, elements);
        }
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

    fn rest(&mut self, link: &WriterLink) -> bool {
        if std::mem::replace(&mut self.is_resting, true) {
            return false;
        }
        // One byte more than what the link knows of.
        let known = link.written().saturating_sub(self.ring.read());
        let has_more = self.ring.wait_for(known.saturating_add(1), 0) == Ok(false);
        self.is_resting = !has_more;
        has_more
    }
}
