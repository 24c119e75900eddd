//! The inner end of a writer's ring: what was written, on its way to the reader.

use trunkline_proto::stream::{Link, Place, RingBytes, Writer, WriterLink};
use trunkline_ring::{ElementConsumer, RingStart};
use trunkline_types::Tick;

use super::Inner;

pub(crate) struct WriterEnd {
    pub(crate) ring: ElementConsumer,
    /// Where in the stream the ring begins, once the two ends have met.
    start: Option<RingStart>,
    /// The program was told that nobody looks, and has not said since that it wrote.
    is_resting: bool,
}

impl WriterEnd {
    pub(crate) fn new(ring: ElementConsumer) -> Self {
        Self {
            ring,
            start: None,
            is_resting: false,
        }
    }

    /// Where in the stream the ring begins.
    pub(crate) fn start(&self) -> RingStart {
        self.start.unwrap_or_default()
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
        let position = position.checked_sub(self.start().position);
        position
            .and_then(|position| self.ring.region_at(position, len))
            .unwrap_or_default()
    }
}

impl Inner for WriterEnd {
    type Half = Writer;

    fn begin(&mut self, link: &Link<Writer>) {
        if self.start.is_none() && link.peer().is_some() {
            self.start = Some(RingStart {
                position: link.freed(),
                elements: link.freed_elements(),
            });
        }
    }

    fn look(&mut self, link: &mut Link<Writer>) {
        let RingStart { position, elements } = self.start();
        // Nobody but this program has the memory, so its positions are true.
        if let (Ok(written), Ok(count)) = (self.ring.written(), self.ring.written_elements()) {
            link.handle_written(position + written, elements + count);
        }
    }

    fn settle(&mut self, link: &mut WriterLink) {
        let start = self.start();
        let bytes = link
            .freed()
            .saturating_sub(start.position + self.ring.read());
        if bytes > 0 {
            let elements = link
                .freed_elements()
                .saturating_sub(start.elements + self.ring.read_elements());
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
        (self.start().position + written).saturating_sub(link.written())
    }

    fn rest(&mut self, link: &WriterLink) -> bool {
        if std::mem::replace(&mut self.is_resting, true) {
            return false;
        }
        // One byte more than what the link knows of.
        let read = self.start().position + self.ring.read();
        let known = link.written().saturating_sub(read);
        let has_more = self.ring.wait_for(known.saturating_add(1), 0) == Ok(false);
        self.is_resting = !has_more;
        has_more
    }
}
