//! Determines where a writer continues with a reader.

use crate::message::stream::{Ack, EndState, StreamEnd};
use crate::stream::half::Half;
use crate::stream::meeting::{Meeting, Mismatch};
use crate::stream::walk::ElementWalk;
use crate::stream::writer::Writer;

impl Writer {
    /// Called when a connection to this reader is up: determines where to continue.
    pub(super) fn go_on_with(
        &mut self,
        peer: &StreamEnd,
        meeting: Meeting,
    ) -> Result<(), Mismatch> {
        let EndState::Reader(reader) = peer.state else {
            return Err(Mismatch::Nonsense("it is no reader".to_owned()));
        };
        self.check_buffer(peer)?;
        let (peer_bytes, peer_capacity) = (self.peer_bytes, self.peer_capacity);
        self.peer_bytes = peer.bytes_max;
        self.peer_capacity = peer.capacity;
        self.peer_has_journal = peer.has_journal;
        let mut at = Ack {
            arrived: reader.arrived,
            read: reader.read,
            durable: reader.durable,
            credit_bytes: reader.credit_bytes,
            credit_elements: reader.credit_elements,
            has_end: false,
        };
        let checked = match meeting {
            Meeting::First if self.drops.may && (reader.arrived, reader.lost) != (0, 0) => Err(
                format!("it has {} bytes of a stream that begins", reader.arrived),
            ),
            Meeting::Again if self.drops.may => self.find_reader(&reader, &at),
            // Nothing was written yet, so the stream begins where the reader is.
            Meeting::First if self.written == 0 => {
                self.check_order(&at, reader.arrived).map(|()| {
                    let (from, elements) = (reader.arrived, reader.arrived_elements);
                    self.kept = ElementWalk::new(self.form, u64::MAX, from, elements);
                    self.written = from;
                    self.begun = from;
                    self.written_elements = elements;
                })
            }
            // The reader begins with the first kept byte. If nothing was freed, the previous reader
            // may have given up.
            Meeting::First | Meeting::Successor
                if reader.arrived == 0
                    && (meeting == Meeting::Successor || self.kept.boundary() == self.begun) =>
            {
                let from = self.kept.boundary();
                at.arrived = from;
                at.read = from;
                at.durable = from;
                at.credit_bytes = at.credit_bytes.saturating_add(from);
                at.credit_elements = at.credit_elements.saturating_add(self.kept.elements());
                self.check_order(&at, from)
            }
            Meeting::Again => self
                .check_order(&at, self.reached)
                .and_then(|()| self.check_again(&at)),
            // The reader has bytes that the journal here has lost, or never had.
            Meeting::NextLife if at.arrived > self.reached => {
                let lost = at.arrived.saturating_sub(self.reached);
                (self.peer_bytes, self.peer_capacity) = (peer_bytes, peer_capacity);
                return Err(Mismatch::Lost(lost));
            }
            _ => self.check_order(&at, self.reached),
        };
        if let Err(sentence) = checked {
            (self.peer_bytes, self.peer_capacity) = (peer_bytes, peer_capacity);
            return Err(Mismatch::Nonsense(sentence));
        }
        if at.arrived < self.kept.boundary() {
            let lost = self.kept.boundary().saturating_sub(at.arrived);
            return Err(Mismatch::Lost(lost));
        }
        self.arrived = at.arrived;
        self.read = at.read;
        self.durable = at.durable;
        self.credit_bytes = at.credit_bytes;
        self.credit_elements = at.credit_elements;
        if self.kept.position() > at.arrived {
            let (from, elements) = (self.kept.boundary(), self.kept.elements());
            self.kept = ElementWalk::new(self.form, u64::MAX, from, elements);
        }
        self.handed = at.arrived;
        self.sent = at.arrived;
        self.reached = at.arrived;
        self.handle_down();
        Ok(())
    }
}
