//! The state machine of the writer, without I/O.

use trunkline_types::Tick;

use super::drops::Drops;
use super::input::malformed;
use super::link_role::{LinkRole, Outcome};
use super::meeting::{Meeting, Mismatch};
use super::options::{ElementForm, LinkOptions};
use super::output::{ByteRange, RingBytes};
use super::walk::{ElementWalk, walk};
use super::{DATA_BYTES_MAX, Until};
use crate::message::stream::{
    Abort, Ack, Ask, DataHead, EndState, StreamEnd, WriterState, encode_end,
};
use crate::{Disconnect, FaultCode, Frame, FrameKind};

/// The state of the writer. Positions are in bytes from the beginning of the stream.
///
/// Invariants:
/// - `arrived <= handed <= written`
/// - `kept.boundary() <= arrived`, unless elements in flight were dropped for a slow reader
/// - `handed <= credit()` while connected, unless the two ends share a ring
#[derive(Clone, Debug)]
pub struct Writer {
    pub(super) form: ElementForm,
    /// The delivery stage at which bytes may be overwritten in the ring.
    pub(super) freed_at: Until,
    /// True if S_DATA frames carry a checksum.
    pub(super) is_checked: bool,
    /// True if the two ends share a ring; the reader then frees space directly in the ring.
    pub(super) is_shared: bool,
    /// Position up to which the program has written.
    pub(super) written: u64,
    /// Number of elements before `written`.
    pub(super) written_elements: u64,
    /// Position up to which bytes were handed to the driver on this connection, or acknowledged.
    pub(super) handed: u64,
    /// The largest value of `handed` since the two ends last agreed on a position. The reader cannot
    /// have received bytes beyond it.
    pub(super) reached: u64,
    /// Position up to which the transport has accepted bytes.
    pub(super) sent: u64,
    /// Position up to which bytes have arrived at the reader, as last reported on any connection.
    pub(super) arrived: u64,
    /// Position up to which the reader's program has read, as last reported.
    pub(super) read: u64,
    /// Position up to which the reader has stored bytes on disk, as last reported.
    pub(super) durable: u64,
    /// Position up to which the reader allows sending.
    pub(super) credit_bytes: u64,
    /// Number of elements, from the beginning of the stream, that the reader allows sending.
    pub(super) credit_elements: u64,
    /// Size of the reader's buffer in bytes; `u64::MAX` before the first connection.
    pub(super) peer_buffer_bytes: u64,
    /// Number of elements that the reader's buffer can hold.
    pub(super) peer_capacity: u64,
    pub(super) peer_has_journal: bool,
    /// Position up to which the ring contains the written bytes; a journal contains later bytes.
    pub(super) at_hand: u64,
    /// Position at which the stream began: the position of the first reader.
    pub(super) start_position: u64,
    /// Walks over the freed bytes; the boundary of the walk is the first byte that the ring keeps.
    pub(super) kept: ElementWalk,
    /// Walks over the bytes before `handed`, for elements of variable size.
    pub(super) handed_walk: Option<ElementWalk>,
    /// Positions for which acknowledgements are requested, in the order of [`Until::REQUESTABLE`].
    pub(super) ack_requests: [u64; 3],
    /// The `ack_requests` already sent to the reader on this connection.
    pub(super) sent_ack_requests: [u64; 3],
    /// True while the program waits for space in the ring.
    pub(super) is_short_of_room: bool,
    /// Position at which the stream ends; `None` until the writer is closed.
    pub(super) end: Option<u64>,
    /// True if S_END was sent on this connection.
    pub(super) is_end_sent: bool,
    /// The program's reason for aborting the writer, which is sent to the reader.
    pub(super) abort_reason: String,
    pub(super) is_aborted: bool,
    /// True if S_ABORT was sent on this connection.
    pub(super) is_abort_sent: bool,
    /// True if the reader has acknowledged the end of the stream.
    pub(super) is_end_acknowledged: bool,
    /// The elements dropped for a slow reader.
    pub(super) drops: Drops,
}

/// The elements that were not delivered when a writer ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Left {
    /// Number of written elements that the reader has not acknowledged.
    pub elements: u64,
    /// Number of unacknowledged elements that were in flight when the connection was lost, so that
    /// the reader may have received them. 0 once the two ends have agreed on the reader's position.
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
            peer_buffer_bytes: u64::MAX,
            peer_capacity: 0,
            peer_has_journal: false,
            at_hand: u64::MAX,
            start_position: 0,
            kept: ElementWalk::new(options.form, u64::MAX, 0, 0),
            handed_walk: None,
            ack_requests: [0; 3],
            sent_ack_requests: [0; 3],
            is_short_of_room: false,
            end: None,
            is_end_sent: false,
            abort_reason: String::new(),
            is_aborted: false,
            is_abort_sent: false,
            is_end_acknowledged: false,
            drops: Drops::new(options.drops),
        }
    }

    /// Returns the position up to which bytes have reached a delivery stage.
    pub(super) fn position_of(&self, until: Until) -> u64 {
        match until {
            Until::Sent => self.sent,
            Until::Available => self.arrived,
            Until::Read => self.read,
            Until::Durable => self.durable,
        }
    }

    /// Returns the position up to which the reader's credit allows sending. For elements of variable
    /// size, this covers only the byte credit; the walk in `next_data_len` applies the element
    /// credit.
    pub(super) fn credit(&self) -> u64 {
        match self.form {
            ElementForm::Fixed(size) => self
                .credit_bytes
                .min(self.credit_elements.saturating_mul(u64::from(size))),
            ElementForm::Variable => self.credit_bytes,
        }
    }

    /// Frees the bytes that have reached the delivery stage `freed_at`.
    pub(super) fn free(&mut self, ring: &dyn RingBytes) {
        if self.is_shared {
            return;
        }
        let until = match self.freed_at {
            Until::Sent => Until::Available,
            Until::Durable if !self.peer_has_journal => Until::Available,
            until => until,
        };
        let len = self.position_of(until).saturating_sub(self.kept.position());
        if len > 0 {
            walk(&mut self.kept, ring, len, u64::MAX);
        }
    }

    /// Returns the number of bytes to send in the next S_DATA frame.
    fn next_data_len(&mut self, ring: &dyn RingBytes) -> u64 {
        let credit = self.credit();
        let reach = self.written.min(credit).min(self.at_hand);
        let len = reach.saturating_sub(self.handed).min(DATA_BYTES_MAX);
        if len == 0 || matches!(self.form, ElementForm::Fixed(_)) {
            return len;
        }
        let handed_walk = self.handed_walk.get_or_insert_with(|| {
            let kept = &self.kept;
            let (from, elements) = (kept.boundary(), kept.elements());
            let mut handed_walk = ElementWalk::new(self.form, u64::MAX, from, elements);
            let behind = self.handed.saturating_sub(from);
            walk(&mut handed_walk, ring, behind, u64::MAX);
            handed_walk
        });
        walk(handed_walk, ring, len, self.credit_elements)
    }

    fn handle_ack(&mut self, ack: &Ack) -> Result<(), Disconnect> {
        if self.is_shared {
            // The shared ring contains the reader's progress, which may be newer than the frame.
            return Ok(());
        }
        self.check_ack(ack).map_err(malformed)?;
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

    /// Checks that an acknowledgement of the end is valid, before any of its fields are used.
    fn check_end_ack(&self, ack: &Ack) -> Result<(), Disconnect> {
        let end = match self.end {
            _ if self.is_abort_sent => self.handed,
            // S_END may have been sent on an earlier connection or by an earlier incarnation.
            Some(end) => end,
            _ => {
                return Err(malformed(
                    "the reader acknowledges an end that the writer has not announced",
                ));
            }
        };
        if ack.arrived != end {
            return Err(malformed(format!(
                "the reader acknowledges the end of the stream at {end} bytes, but only {} have \
                 arrived",
                ack.arrived
            )));
        }
        Ok(())
    }

    /// Counts the elements that were not delivered.
    pub(super) fn left(&self, ring: &dyn RingBytes) -> Left {
        let elements_at = |position: u64| {
            if position < self.kept.boundary() {
                return self.elements_before(position);
            }
            let mut steps = self.kept.clone();
            let len = position.saturating_sub(steps.position());
            walk(&mut steps, ring, len, u64::MAX);
            steps.elements()
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
    fn check_ack(&self, ack: &Ack) -> Result<(), String> {
        let went_back = ack.arrived < self.arrived
            || ack.read < self.read
            || ack.durable < self.durable
            || ack.credit_bytes < self.credit_bytes
            || ack.credit_elements < self.credit_elements;
        if went_back {
            return Err(format!(
                "the reader's acknowledgement of {} bytes goes back behind an earlier acknowledgement",
                ack.arrived
            ));
        }
        self.check_bounds(ack, self.handed)
    }

    /// Checks that the positions in an acknowledgement are in the right order and within the sent
    /// bytes and the reader's buffer.
    pub(super) fn check_bounds(&self, ack: &Ack, handed: u64) -> Result<(), String> {
        let Ack {
            arrived,
            read,
            durable,
            credit_bytes,
            ..
        } = *ack;
        if arrived > handed {
            return Err(format!(
                "the reader acknowledges {arrived} bytes, but only {handed} were sent"
            ));
        }
        if read > arrived || durable > arrived {
            return Err(format!(
                "the reader has read {read} and stored {durable} bytes, but only {arrived} have arrived"
            ));
        }
        if credit_bytes > read.saturating_add(self.peer_buffer_bytes) {
            return Err(format!(
                "the reader grants credit up to byte {credit_bytes}, beyond its buffer of {} bytes",
                self.peer_buffer_bytes
            ));
        }
        if let ElementForm::Fixed(size) = self.form {
            let element_bytes = u64::from(size.max(1));
            let read_elements = read.checked_div(element_bytes).unwrap_or(0);
            if ack.credit_elements > read_elements.saturating_add(self.peer_capacity) {
                return Err(format!(
                    "the reader grants credit up to element {}, beyond its buffer of {} elements",
                    ack.credit_elements, self.peer_capacity
                ));
            }
        }
        Ok(())
    }

    /// Checks that the reader's buffer is not smaller than the buffer of the previous reader. The
    /// next element may be as long as the previous buffer allowed, so it might never fit into a
    /// smaller buffer.
    fn check_buffer(&self, peer: &StreamEnd) -> Result<(), Mismatch> {
        let has_limit = self.form == ElementForm::Variable && self.peer_buffer_bytes < u64::MAX;
        if !has_limit || peer.bytes_max >= self.peer_buffer_bytes {
            return Ok(());
        }
        Err(Mismatch::TooSmall(format!(
            "the buffer of {} has {} bytes, but elements may be as long as the previous reader's \
             buffer of {} bytes; create the reader with a buffer at least that large",
            peer.url, peer.bytes_max, self.peer_buffer_bytes
        )))
    }

    /// Checks that no position of a returning reader has decreased.
    pub(super) fn check_monotonic(&self, at: &Ack) -> Result<(), String> {
        if at.arrived < self.arrived || at.read < self.read || at.durable < self.durable {
            return Err(format!(
                "the reader reports {} bytes, but it reported {} before",
                at.arrived, self.arrived
            ));
        }
        Ok(())
    }
}

impl LinkRole for Writer {
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
            return Err(Mismatch::Nonsense(
                "the peer of a writer must be a reader".to_owned(),
            ));
        };
        self.check_buffer(peer)?;
        let (peer_buffer_bytes, peer_capacity) = (self.peer_buffer_bytes, self.peer_capacity);
        self.peer_buffer_bytes = peer.bytes_max;
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
            Meeting::First if self.drops.is_enabled && (reader.arrived, reader.lost) != (0, 0) => {
                Err(format!(
                    "the reader reports {} bytes of a stream that has not begun",
                    reader.arrived
                ))
            }
            Meeting::Again if self.drops.is_enabled => self.locate_reader(&reader, &at),
            // Nothing has been written yet, so the stream begins at the reader's position.
            Meeting::First if self.written == 0 => {
                self.check_bounds(&at, reader.arrived).map(|()| {
                    let (from, elements) = (reader.arrived, reader.arrived_elements);
                    self.kept = ElementWalk::new(self.form, u64::MAX, from, elements);
                    self.written = from;
                    self.start_position = from;
                    self.written_elements = elements;
                })
            }
            // A new reader begins with the first byte that the writer still has. A first reader may
            // also connect after bytes were written, if none of them has been freed: an earlier
            // dial may have received no answer.
            Meeting::First | Meeting::Successor
                if reader.arrived == 0
                    && (meeting == Meeting::Successor
                        || self.kept.boundary() == self.start_position) =>
            {
                let from = self.kept.boundary();
                at.arrived = from;
                at.read = from;
                at.durable = from;
                at.credit_bytes = at.credit_bytes.saturating_add(from);
                at.credit_elements = at.credit_elements.saturating_add(self.kept.elements());
                self.check_bounds(&at, from)
            }
            Meeting::Again => self
                .check_bounds(&at, self.reached)
                .and_then(|()| self.check_monotonic(&at)),
            // The reader has bytes that the writer's journal does not contain.
            Meeting::NextIncarnation if at.arrived > self.reached => {
                let lost = at.arrived.saturating_sub(self.reached);
                (self.peer_buffer_bytes, self.peer_capacity) = (peer_buffer_bytes, peer_capacity);
                return Err(Mismatch::Lost(lost));
            }
            Meeting::First | Meeting::NextIncarnation | Meeting::Successor => {
                self.check_bounds(&at, self.reached)
            }
        };
        if let Err(sentence) = checked {
            (self.peer_buffer_bytes, self.peer_capacity) = (peer_buffer_bytes, peer_capacity);
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
                    self.check_end_ack(&ack)?;
                }
                self.handle_ack(&ack)?;
                if !ack.has_end {
                    return Ok(Outcome::Continued);
                }
                self.is_end_acknowledged = true;
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
                        .min(abort.position.saturating_add(self.peer_buffer_bytes)),
                    credit_elements: self.credit_elements,
                    has_end: false,
                };
                self.handle_ack(&ack)?;
                self.reached = self.arrived;
                Ok(Outcome::PeerDestroyed(abort.sentence))
            }
            _ => Err(malformed(format!(
                "the reader sent a frame of kind {}, which a writer does not accept",
                frame.header().kind
            ))),
        }
    }

    fn handle_data(&mut self, _: &DataHead) -> Result<(), Disconnect> {
        Err(malformed(
            "the reader sent S_DATA, which a writer does not accept",
        ))
    }

    fn next_payload_range(&self) -> Option<ByteRange> {
        None
    }

    fn handle_payload(&mut self, _: &[u8]) -> Result<(), Disconnect> {
        Ok(())
    }

    fn poll_output(
        &mut self,
        _: Tick,
        ring: &dyn RingBytes,
        out: &mut Vec<u8>,
    ) -> Option<ByteRange> {
        self.free(ring);
        for (until, (requested, sent)) in Until::REQUESTABLE.into_iter().zip(
            self.ack_requests
                .into_iter()
                .zip(&mut self.sent_ack_requests),
        ) {
            let acknowledged = match until {
                Until::Read => self.read,
                Until::Durable => self.durable,
                Until::Sent | Until::Available => self.arrived,
            };
            if requested > acknowledged && requested > *sent {
                let position = requested;
                Ask { until, position }.encode(out);
                *sent = requested;
            }
        }
        self.report_losses(out);
        // A closed writer that has sent everything is at its end, even while its program still waits
        // for acknowledgements.
        let is_at_end = self.end.is_some_and(|end| end == self.handed);
        if self.is_aborted {
            if !self.is_abort_sent {
                if let (Some(end), true, false) = (self.end, is_at_end, self.is_end_sent) {
                    encode_end(end, out);
                    self.is_end_sent = true;
                }
                let abort = Abort {
                    position: self.written,
                    transferred: self.handed,
                    code: FaultCode::StreamDestroyed,
                    sentence: self.abort_reason.clone(),
                };
                abort.encode(out);
                self.is_abort_sent = true;
            }
            return None;
        }
        if let (Some(end), false) = (self.end, self.is_end_sent) {
            encode_end(end, out);
            self.is_end_sent = true;
        }
        let len = self.next_data_len(ring);
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
            // `DATA_BYTES_MAX` fits into a `u32`.
            len: u32::try_from(len).unwrap_or(u32::MAX),
            crc32c,
            is_short_of_room: self.is_short_of_room && self.handed == self.written,
        };
        head.encode(out);
        Some(ByteRange { position, len })
    }

    fn handle_sent(&mut self) {
        self.sent = self.handed;
    }

    fn handle_down(&mut self) {
        self.handed_walk = None;
        self.sent_ack_requests = [0; 3];
        self.is_end_sent = false;
        self.is_abort_sent = false;
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

    fn remaining_bytes(&self) -> u64 {
        self.written.saturating_sub(self.arrived)
    }

    fn is_ending(&self) -> bool {
        self.is_end_acknowledged
    }
}

/// Returns `requests` with the request for `until` raised to at least `position`.
pub(super) fn with_request(requests: [u64; 3], until: Until, position: u64) -> [u64; 3] {
    let [available, read, durable] = requests;
    match until {
        Until::Sent => requests,
        Until::Available => [available.max(position), read, durable],
        Until::Read => [available, read.max(position), durable],
        Until::Durable => [available, read, durable.max(position)],
    }
}
