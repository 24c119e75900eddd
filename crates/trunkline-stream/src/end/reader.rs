//! The inner end of a reader's ring: what has arrived, on its way to the program.

use trunkline_proto::stream::{Link, Place, Reader, ReaderLink, RingBytes};
use trunkline_ring::{ElementProducer, RingStart};
use trunkline_types::Tick;

use super::Inner;

pub(crate) struct ReaderEnd {
    pub(crate) ring: ElementProducer,
    /// Where in the stream the ring begins, once the two ends have met.
    start: Option<RingStart>,
}

impl ReaderEnd {
    pub(crate) fn new(ring: ElementProducer) -> Self {
        Self { ring, start: None }
    }

    /// Where in the stream the ring begins.
    pub(crate) fn start(&self) -> RingStart {
        self.start.unwrap_or_default()
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

    fn begin(&mut self, link: &Link<Reader>) {
        if self.start.is_none() && link.peer().is_some() {
            let (position, elements) = link.ready();
            self.start = Some(RingStart { position, elements });
        }
    }

    fn look(&mut self, link: &mut Link<Reader>) {
        let RingStart { position, elements } = self.start();
        // Nobody but this program has the memory, so its positions are true.
        if let (Ok(read), Ok(count)) = (self.ring.read(), self.ring.read_elements()) {
            link.handle_read(position + read, elements + count);
        }
    }

    fn settle(&mut self, link: &mut ReaderLink) {
        let (position, elements) = link.ready();
        let start = self.start();
        let bytes = position.saturating_sub(start.position + self.ring.written());
        if bytes > 0 {
            let elements = elements.saturating_sub(start.elements + self.ring.written_elements());
            self.ring.commit(bytes, elements);
        }
    }

    fn wanted(link: &ReaderLink) -> Option<Place> {
        link.wants_payload()
    }

    fn space(&mut self, place: Place) -> &mut [u8] {
        let position = place.position.saturating_sub(self.start().position);
        let ahead = position.saturating_sub(self.ring.written());
        let bytes = ahead.saturating_add(place.len);
        // The writer was given credit for no more than there is room for.
        if !self.ring.has_room(bytes, 0).unwrap_or(false) {
            return &mut [];
        }
        let len = usize::try_from(place.len).unwrap_or(0);
        match self.ring.free_at(position, len) {
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
        let len = usize::try_from(count).unwrap_or(0);
        let position = place.position.saturating_sub(self.start().position);
        let bytes: &[u8] = match self.ring.free_at(position, len) {
            Some([piece, _]) => piece,
            None => &[],
        };
        link.handle_payload(now, transport, bytes);
    }

    fn unseen(&mut self, _: &ReaderLink) -> u64 {
        u64::MAX
    }

    fn rest(&mut self, _: &ReaderLink) -> bool {
        false
    }
}
