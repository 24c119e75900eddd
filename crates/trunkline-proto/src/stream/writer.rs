//! The writing end of a stream, as a state machine without I/O.

use trunkline_types::Tick;

use super::drops::Drops;
use super::half::{Half, Outcome};
use super::input::malformed;
use super::meeting::{Meeting, Mismatch};
use super::options::{ElementForm, LinkOptions};
use super::output::{Place, RingBytes};
use super::walk::{ElementWalk, walk};
use super::{DATA_BYTES_MAX, Until};
use crate::message::stream::{
    Abort, Ack, Ask, DataHead, EndState, StreamEnd, WriterState, encode_end,
};
use crate::{Disconnect, FaultCode, Frame, FrameKind};

/// The state of the writer. Positions are in bytes.
///
/// `arrived <= handed <= written`. `kept.boundary() <= arrived`, unless elements in flight were
/// dropped for a slow reader. While a connection is up, `handed` is also at most the credit, unless
/// the two ends share a ring.
#[derive(Clone, Debug)]
pub struct Writer {
    pub(super) form: ElementForm,
    pub(super) freed_at: Until,
    pub(super) is_checked: bool,
    /// True if the two ends share a ring, in which the reader itself frees the space.
    pub(super) is_shared: bool,
    pub(super) written: u64,
    pub(super) written_elements: u64,
    /// Position up to which bytes were handed to the driver on this connection, or acknowledged.
    pub(super) handed: u64,
    /// The largest value of `handed` since the two ends last agreed on a position: the reader
    /// cannot have more.
    pub(super) reached: u64,
    /// Position up to which the transport has accepted bytes.
    pub(super) sent: u64,
    /// Positions that the reader has reported, on any connection.
    pub(super) arrived: u64,
    pub(super) read: u64,
    pub(super) durable: u64,
    pub(super) credit_bytes: u64,
    pub(super) credit_elements: u64,
    pub(super) peer_bytes: u64,
    pub(super) peer_capacity: u64,
    pub(super) peer_has_journal: bool,
    /// Position up to which the ring contains the written bytes; the rest is in a journal.
    pub(super) at_hand: u64,
    /// Position at which the stream began: that of its first reader.
    pub(super) begun: u64,
    /// Tracks the freed bytes; its boundary is the start of the ring's content.
    pub(super) kept: ElementWalk,
    /// Tracks `handed` for elements of variable size.
    pub(super) ahead: Option<ElementWalk>,
    /// Requested positions, in the order of [`Until::ASKED`], and the positions already requested
    /// from the reader on this connection.
    pub(super) asks: [u64; 3],
    pub(super) asked: [u64; 3],
    pub(super) is_short_of_room: bool,
    pub(super) end: Option<u64>,
    pub(super) is_end_said: bool,
    /// The program's reason for destroying the writer, for the reader.
    pub(super) abort_reason: String,
    pub(super) is_aborted: bool,
    pub(super) is_abort_said: bool,
    pub(super) has_end: bool,
    /// The elements dropped for a slow reader.
    pub(super) drops: Drops,
}

/// The elements that have not been delivered when a writer ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Left {
    /// Number of written elements that the reader is not known to have.
    pub elements: u64,
    /// Number of these elements that were in flight when the connection was lost; the reader may
    /// have received them. 0 once the two ends have agreed on the reader's position.
    pub in_doubt: u64,
}

impl Writer {
    pub(super) fn new(options: &LinkOptions) -> Self {
        Self {
            form: options.form,
            freed_at: options.freed_at,
            is_checked: options.is_checked,
            is_shared: false,
            written: 0,
            written_elements: 0,
            handed: 0,
            reached: 0,
            sent: 0,
            arrived: 0,
            read: 0,
            durable: 0,
            credit_bytes: 0,
            credit_elements: 0,
            peer_bytes: u64::MAX,
            peer_capacity: 0,
            peer_has_journal: false,
            at_hand: u64::MAX,
            begun: 0,
            kept: ElementWalk::new(options.form, u64::MAX, 0, 0),
            ahead: None,
            asks: [0; 3],
            asked: [0; 3],
            is_short_of_room: false,
            end: None,
            is_end_said: false,
            abort_reason: String::new(),
            is_aborted: false,
            is_abort_said: false,
            has_end: false,
            drops: Drops::new(options.drops),
        }
    }

    pub(super) fn place(&self, until: Until) -> u64 {
        match until {
            Until::Sent => self.sent,
            Until::Available => self.arrived,
            Until::Read => self.read,
            Until::Durable => self.durable,
        }
    }

    /// Returns the credit as a position. For elements of variable size, the element credit is
    /// converted to a position only during the walk.
    pub(super) fn credit(&self) -> u64 {
        match self.form {
            ElementForm::Fixed(size) => self
                .credit_bytes
                .min(self.credit_elements.saturating_mul(u64::from(size))),
            ElementForm::Variable => self.credit_bytes,
        }
    }

    /// Frees the bytes that have reached the stage `freed_at`.
    pub(super) fn free(&mut self, ring: &dyn RingBytes) {
        if self.is_shared {
            return;
        }
        let until = match self.freed_at {
            Until::Sent => Until::Available,
            Until::Durable if !self.peer_has_journal => Until::Available,
            until => until,
        };
        let len = self.place(until).saturating_sub(self.kept.position());
        if len > 0 {
            walk(&mut self.kept, ring, len, u64::MAX);
        }
    }

    /// Returns the number of bytes to send in the next frame.
    fn next_len(&mut self, ring: &dyn RingBytes) -> u64 {
        let credit = self.credit();
        let reach = self.written.min(credit).min(self.at_hand);
        let len = reach.saturating_sub(self.handed).min(DATA_BYTES_MAX);
        if len == 0 || matches!(self.form, ElementForm::Fixed(_)) {
            return len;
        }
        let ahead = self.ahead.get_or_insert_with(|| {
            let kept = &self.kept;
            let (from, elements) = (kept.boundary(), kept.elements());
            let mut ahead = ElementWalk::new(self.form, u64::MAX, from, elements);
            let behind = self.handed.saturating_sub(from);
            walk(&mut ahead, ring, behind, u64::MAX);
            ahead
        });
        walk(ahead, ring, len, self.credit_elements)
    }

    fn handle_ack(&mut self, ack: &Ack) -> Result<(), Disconnect> {
        if self.is_shared {
            // The ring itself holds this information, which may be newer than the frame.
            return Ok(());
        }
        self.check(ack).map_err(malformed)?;
        self.arrived = ack.arrived;
        self.read = ack.read;
        self.durable = ack.durable;
        self.credit_bytes = ack.credit_bytes;
        self.credit_elements = ack.credit_elements;
        if let ElementForm::Fixed(_) = self.form {
            self.free(&());
        }
        Ok(())
    }

    /// Checks, before any field of the acknowledgement is used, that the reader can have reached
    /// the end.
    fn check_end(&self, ack: &Ack) -> Result<(), Disconnect> {
        let end = match self.end {
            _ if self.is_abort_said => self.handed,
            // The reader may have received the end on an earlier connection, or in an earlier
            // incarnation.
            Some(end) => end,
            _ => return Err(malformed("it knows an end that was not said")),
        };
        if ack.arrived != end {
            return Err(malformed("it has the end and not what is before it"));
        }
        Ok(())
    }

    pub(super) fn left(&self, ring: &dyn RingBytes) -> Left {
        let elements_at = |position: u64| {
            if position < self.kept.boundary() {
                return self.elements_behind(position);
            }
            let mut at = self.kept.clone();
            let len = position.saturating_sub(at.position());
            walk(&mut at, ring, len, u64::MAX);
            at.elements()
        };
        let arrived = elements_at(self.arrived);
        let written = match self.form {
            ElementForm::Fixed(_) => elements_at(self.written),
            ElementForm::Variable => self.written_elements,
        };
        let elements = written.saturating_sub(arrived);
        Left {
            elements,
            in_doubt: elements_at(self.reached).saturating_sub(arrived),
        }
    }

    /// Checks an acknowledgement for impossible values.
    fn check(&self, ack: &Ack) -> Result<(), String> {
        let went_back = ack.arrived < self.arrived
            || ack.read < self.read
            || ack.durable < self.durable
            || ack.credit_bytes < self.credit_bytes
            || ack.credit_elements < self.credit_elements;
        if went_back {
            return Err(format!(
                "the acknowledgement of {} bytes goes back behind an earlier one",
                ack.arrived
            ));
        }
        self.check_order(ack, self.handed)
    }

    pub(super) fn check_order(&self, ack: &Ack, handed: u64) -> Result<(), String> {
        let Ack {
            arrived,
            read,
            durable,
            credit_bytes,
            ..
        } = *ack;
        if arrived > handed {
            return Err(format!(
                "it acknowledges {arrived} bytes where {handed} were sent"
            ));
        }
        if read > arrived || durable > arrived {
            return Err(format!(
                "it has read {read} and stored {durable} bytes where {arrived} have arrived"
            ));
        }
        if credit_bytes > read.saturating_add(self.peer_bytes) {
            return Err(format!(
                "its credit goes to {credit_bytes}, beyond its buffer of {} bytes",
                self.peer_bytes
            ));
        }
        if let ElementForm::Fixed(size) = self.form {
            let element = u64::from(size.max(1));
            let read = read.checked_div(element).unwrap_or(0);
            if ack.credit_elements > read.saturating_add(self.peer_capacity) {
                return Err(format!(
                    "its credit goes to element {}, beyond its buffer of {} elements",
                    ack.credit_elements, self.peer_capacity
                ));
            }
        }
        Ok(())
    }

    /// Checks the reader's buffer. Elements of variable size that are written, or about to be
    /// written, may be as long as the previous reader's buffer allowed. A reader with a smaller
    /// buffer might never have room for the next element.
    fn check_buffer(&self, peer: &StreamEnd) -> Result<(), Mismatch> {
        let is_known = self.form == ElementForm::Variable && self.peer_bytes < u64::MAX;
        if !is_known || peer.bytes_max >= self.peer_bytes {
            return Ok(());
        }
        Err(Mismatch::TooSmall(format!(
            "the buffer of {} holds {} bytes, that of the one whose place it takes held {}, and \
             elements may be as long: create it with one as large",
            peer.url, peer.bytes_max, self.peer_bytes
        )))
    }

    /// Checks the report of a returning reader for impossible values.
    pub(super) fn check_again(&self, at: &Ack) -> Result<(), String> {
        if at.arrived < self.arrived || at.read < self.read || at.durable < self.durable {
            return Err(format!(
                "it has {} bytes where it had {} before",
                at.arrived, self.arrived
            ));
        }
        Ok(())
    }
}

impl Half for Writer {
    const WRITES: bool = true;

    fn state(&mut self) -> EndState {
        EndState::Writer(WriterState {
            kept: self.kept.boundary(),
            kept_elements: self.kept.elements(),
            written: self.written,
        })
    }

    fn resume(&mut self, peer: &StreamEnd, meeting: Meeting) -> Result<(), Mismatch> {
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
            // Nothing has been written yet, so the stream begins at the reader's position.
            Meeting::First if self.written == 0 => {
                self.check_order(&at, reader.arrived).map(|()| {
                    let (from, elements) = (reader.arrived, reader.arrived_elements);
                    self.kept = ElementWalk::new(self.form, u64::MAX, from, elements);
                    self.written = from;
                    self.begun = from;
                    self.written_elements = elements;
                })
            }
            // The reader begins with the first byte that the writer still has. A first reader is
            // accepted in the same way if nothing has been freed: an earlier reader may have given
            // up.
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
            // The reader has bytes that the writer's journal has lost, or never had.
            Meeting::NextLife if at.arrived > self.reached => {
                let lost = at.arrived.saturating_sub(self.reached);
                (self.peer_bytes, self.peer_capacity) = (peer_bytes, peer_capacity);
                return Err(Mismatch::Lost(lost));
            }
            Meeting::First | Meeting::NextLife | Meeting::Successor => {
                self.check_order(&at, self.reached)
            }
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

    fn handle_frame(&mut self, frame: &Frame<'_>) -> Result<Outcome, Disconnect> {
        match frame.kind() {
            Some(FrameKind::StreamAck) => {
                let ack = Ack::decode(frame)?;
                if ack.has_end {
                    self.check_end(&ack)?;
                }
                self.handle_ack(&ack)?;
                if !ack.has_end {
                    return Ok(Outcome::Continued);
                }
                self.has_end = true;
                Ok(Outcome::Finished)
            }
            Some(FrameKind::StreamAbort) => {
                let abort = Abort::decode(frame)?;
                let ack = Ack {
                    arrived: abort.transferred,
                    read: abort.position,
                    durable: self.durable,
                    credit_bytes: self
                        .credit_bytes
                        .min(abort.position.saturating_add(self.peer_bytes)),
                    credit_elements: self.credit_elements,
                    has_end: false,
                };
                self.handle_ack(&ack)?;
                self.reached = self.arrived;
                Ok(Outcome::PeerDestroyed(abort.sentence))
            }
            _ => Err(malformed(format!(
                "a writer is sent a frame of kind {}",
                frame.header().kind
            ))),
        }
    }

    fn handle_data(&mut self, _: &DataHead) -> Result<(), Disconnect> {
        Err(malformed("a writer is sent S_DATA"))
    }

    fn next_payload_range(&self) -> Option<Place> {
        None
    }

    fn handle_payload(&mut self, _: &[u8]) -> Result<(), Disconnect> {
        Ok(())
    }

    fn poll_output(&mut self, _: Tick, ring: &dyn RingBytes, out: &mut Vec<u8>) -> Option<Place> {
        self.free(ring);
        for (until, (ask, asked)) in Until::ASKED
            .into_iter()
            .zip(self.asks.into_iter().zip(&mut self.asked))
        {
            let reached = match until {
                Until::Read => self.read,
                Until::Durable => self.durable,
                Until::Sent | Until::Available => self.arrived,
            };
            if ask > reached && ask > *asked {
                let position = ask;
                Ask { until, position }.encode(out);
                *asked = ask;
            }
        }
        self.say_lost(out);
        // A writer that was closed and has sent everything has reached its end, regardless of what
        // its program waits for after that.
        let is_at_end = self.end.is_some_and(|end| end == self.handed);
        if self.is_aborted {
            if !self.is_abort_said {
                if let (Some(end), true, false) = (self.end, is_at_end, self.is_end_said) {
                    encode_end(end, out);
                    self.is_end_said = true;
                }
                let abort = Abort {
                    position: self.written,
                    transferred: self.handed,
                    code: FaultCode::StreamDestroyed,
                    sentence: self.abort_reason.clone(),
                };
                abort.encode(out);
                self.is_abort_said = true;
            }
            return None;
        }
        if let (Some(end), false) = (self.end, self.is_end_said) {
            encode_end(end, out);
            self.is_end_said = true;
        }
        let len = self.next_len(ring);
        if len == 0 {
            return None;
        }
        let position = self.handed;
        self.handed = position.saturating_add(len);
        self.reached = self.reached.max(self.handed);
        let crc32c = self.is_checked.then(|| {
            let [first, rest] = ring.bytes(position, len);
            crc32c::crc32c_append(crc32c::crc32c(first), rest)
        });
        let head = DataHead {
            position,
            // At most the length of the longest frame.
            len: u32::try_from(len).unwrap_or(u32::MAX),
            crc32c,
            is_short_of_room: self.is_short_of_room && self.handed == self.written,
        };
        head.encode(out);
        Some(Place { position, len })
    }

    fn handle_sent(&mut self) {
        self.sent = self.handed;
    }

    fn handle_down(&mut self) {
        self.ahead = None;
        self.asked = [0; 3];
        self.is_end_said = false;
        self.is_abort_said = false;
    }

    fn set_checked(&mut self, is_checked: bool) {
        self.is_checked = is_checked;
    }

    fn leave_shared(&mut self) {
        self.is_shared = false;
    }

    fn poll_timeout(&self) -> Option<Tick> {
        None
    }

    fn left_bytes(&self) -> u64 {
        self.written.saturating_sub(self.arrived)
    }

    fn is_ending(&self) -> bool {
        self.has_end
    }
}

pub(super) fn raised(asks: [u64; 3], until: Until, position: u64) -> [u64; 3] {
    let [available, read, durable] = asks;
    match until {
        Until::Sent => asks,
        Until::Available => [available.max(position), read, durable],
        Until::Read => [available, read.max(position), durable],
        Until::Durable => [available, read, durable.max(position)],
    }
}
