//! The state machine of the reader, without I/O.

use std::time::Duration;

use trunkline_types::Tick;

use super::Until;
use super::incoming::{Check, Incoming};
use super::input::malformed;
use super::link_role::{LinkRole, Outcome};
use super::losses::Losses;
use super::meeting::{Meeting, Mismatch};
use super::options::{ElementForm, LinkOptions};
use super::output::{ByteRange, RingBytes};
use super::walk::ElementWalk;
use crate::message::stream::{
    Abort, Ack, Ask, DataHead, End, EndState, Lost, ReaderState, StreamEnd,
};
use crate::{Disconnect, FaultCode, Features, Frame, FrameKind};

/// The state of the reader. Positions are in bytes from the beginning of the stream.
#[derive(Clone, Debug)]
pub struct Reader {
    pub(super) form: ElementForm,
    /// Number of elements that the buffer can hold.
    pub(super) capacity: u64,
    /// Size of the buffer in bytes.
    pub(super) bytes_max: u64,
    /// Time without progress after which an unrequested acknowledgement is sent.
    pub(super) ack_delay: Duration,
    /// Longest delay of an unrequested acknowledgement.
    ack_delay_max: Duration,
    /// Walks over the bytes that have arrived.
    pub(super) arrived: ElementWalk,
    /// Position up to which the program has read.
    pub(super) read: u64,
    /// Number of elements before `read`.
    pub(super) read_elements: u64,
    /// Position up to which bytes are stored on disk.
    pub(super) durable: u64,
    /// Size of the writer's buffer in bytes.
    pub(super) peer_buffer_bytes: u64,
    /// Largest credit granted on any connection, in bytes and in elements.
    pub(super) granted: (u64, u64),
    /// The S_DATA frame whose payload is arriving.
    incoming: Option<Incoming>,
    /// True if the two ends share a ring. The writer then reads the reader's progress from the
    /// ring, without acknowledgements.
    pub(super) is_shared: bool,
    /// The last acknowledgement sent on this connection.
    pub(super) last_ack: Ack,
    /// Positions at which the writer requests an acknowledgement, in the order of [`Until::REQUESTABLE`].
    pub(super) ack_requests: [u64; 3],
    /// True if the writer's program waits for space.
    pub(super) is_writer_blocked: bool,
    /// Latest time of the next acknowledgement; `None` if none is delayed.
    ack_deadline: Option<Tick>,
    /// Time of the next acknowledgement, unless there is further progress before.
    pub(super) ack_at: Option<Tick>,
    /// The acknowledgement that `ack_at` was computed for.
    delayed_ack: Ack,
    /// The end of the stream, once the writer has announced it.
    pub(super) close: Option<StreamClose>,
    /// The reason why the writer was aborted before the end of the stream.
    pub(super) abort_reason: Option<String>,
    /// True if the end of the stream may be acknowledged to the writer.
    pub(super) is_end_safe: bool,
    /// True if the program has stopped reading.
    pub(super) is_aborted: bool,
    /// The position at which the writer will begin; `None` if it had already written something when
    /// it last connected.
    expected_start: Option<u64>,
    /// True if S_ABORT, or the final acknowledgement in its place, was sent on this connection.
    pub(super) is_abort_sent: bool,
    pub(super) losses: Losses,
}

/// The end of a stream, as announced by the writer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamClose {
    /// The end of the stream in bytes: no bytes follow this position.
    pub position: u64,
    /// The position up to which the writer's program had written. It is greater than `position` if
    /// the writer was aborted before it had sent everything.
    pub written: u64,
    /// True if the writer was aborted before the end of the stream. The received data is then
    /// incomplete, even if `position` equals `written`.
    pub is_aborted: bool,
}

impl Reader {
    pub(super) fn new(options: &LinkOptions) -> Self {
        Self {
            form: options.form,
            capacity: options.capacity,
            bytes_max: options.bytes_max,
            ack_delay: options.ack_delay,
            ack_delay_max: options.ack_delay_max,
            arrived: ElementWalk::new(options.form, options.bytes_max, 0, 0),
            read: 0,
            read_elements: 0,
            durable: 0,
            peer_buffer_bytes: options.bytes_max,
            granted: (0, 0),
            incoming: None,
            is_shared: false,
            last_ack: Ack::default(),
            ack_requests: [0; 3],
            is_writer_blocked: false,
            ack_deadline: None,
            ack_at: None,
            delayed_ack: Ack::default(),
            close: None,
            abort_reason: None,
            is_end_safe: true,
            is_aborted: false,
            expected_start: None,
            is_abort_sent: false,
            losses: Losses::new(options),
        }
    }

    /// Called when the last byte of an S_DATA frame has arrived. If the frame has a checksum, this
    /// verifies the checksum; only then do the bytes count as arrived.
    fn finish_frame(&mut self) -> Result<(), Disconnect> {
        let Some(incoming) = self.incoming.take() else {
            return Ok(());
        };
        if let Some(check) = incoming.check {
            let is_right = check.crc32c == check.expected;
            if !is_right {
                let sentence = format!(
                    "the bytes before position {} were altered in transit",
                    incoming.position
                );
                return Err(malformed(sentence));
            }
            self.arrived = check.walk;
        }
        self.check_end()
    }

    fn handle_end(&mut self, close: StreamClose) -> Result<(), Disconnect> {
        let has_changed = self.close.is_some_and(|known| known != close);
        if has_changed || close.position < self.arrived.position() || close.written < close.position
        {
            return Err(malformed(format!(
                "the writer announces the end of the stream at {}, but {} bytes have \
                 arrived or another end was announced before",
                close.position,
                self.arrived.position()
            )));
        }
        self.close = Some(close);
        self.check_end()
    }

    /// Checks that the stream does not end within an element, once everything has arrived. An aborted
    /// stream may end anywhere.
    fn check_end(&mut self) -> Result<(), Disconnect> {
        let position = self.arrived.position();
        let ends_here = |close: StreamClose| !close.is_aborted && close.position == position;
        if self.close.is_some_and(ends_here) && self.arrived.boundary() < position {
            self.close = None;
            return Err(malformed(format!(
                "the writer announces the end of the stream at {position}, within an element"
            )));
        }
        Ok(())
    }

    fn cancel_ack(&mut self) {
        (self.ack_at, self.ack_deadline) = (None, None);
    }

    /// Returns the acknowledgement that could be sent now.
    fn current_ack(&self) -> Ack {
        let arrived = self.arrived.position();
        let has_all = self.close.is_some_and(|close| close.position == arrived);
        Ack {
            // The bytes of an incomplete element do not count as arrived while the element may still
            // be dropped.
            arrived: match self.losses.are_possible() && !has_all {
                true => self.arrived.boundary(),
                false => arrived,
            },
            read: self.read,
            durable: self.durable,
            credit_bytes: self.read.saturating_add(self.bytes_max),
            credit_elements: self.read_elements.saturating_add(self.capacity),
            has_end: self.is_end_safe && has_all,
        }
    }

    /// Returns the smallest increase in credit, in bytes, for which an acknowledgement is sent at
    /// once: a quarter of the buffer.
    pub(super) fn credit_step(&self) -> u64 {
        match self.form {
            ElementForm::Fixed(size) => (self.capacity >> 2).max(1).saturating_mul(u64::from(size)),
            ElementForm::Variable => (self.bytes_max >> 2).max(1),
        }
    }

    /// Returns true if `ack` must be sent at once.
    fn is_urgent(&self, ack: &Ack) -> bool {
        let last = &self.last_ack;
        let arrived_step = (self.bytes_max.min(self.peer_buffer_bytes) >> 2).max(1);
        let has_grown = |position: u64, last: u64, step: u64| position.saturating_sub(last) >= step;
        let is_requested =
            |request: u64, position: u64, last: u64| request > last && position >= request;
        let [available, read, durable] = self.ack_requests;
        // The writer has used all of its credit, and the program has no complete element to read.
        let is_starved = ack.read == self.arrived.boundary()
            && last.credit_bytes == self.arrived.position()
            && ack.credit_bytes > last.credit_bytes;
        has_grown(ack.arrived, last.arrived, arrived_step)
            || has_grown(ack.credit_bytes, last.credit_bytes, self.credit_step())
            || has_grown(
                ack.credit_elements,
                last.credit_elements,
                (self.capacity >> 2).max(1),
            )
            || is_requested(available, ack.arrived, last.arrived)
            || is_requested(read, ack.read, last.read)
            || is_requested(durable, ack.durable, last.durable)
            || (self.is_writer_blocked && ack.arrived > last.arrived)
            || ack.has_end != last.has_end
            || is_starved
    }

    /// Returns true if a writer that has written nothing may begin at the position of this reader,
    /// because the writer connects for the first time or has sent nothing since then.
    fn may_start_here(&self, meeting: Meeting) -> bool {
        meeting == Meeting::First || self.expected_start == Some(self.arrived.position())
    }

    /// Returns the end of the last whole element that has arrived, and the number of elements before
    /// that position.
    fn ready_boundary(&self) -> (u64, u64) {
        (self.arrived.boundary(), self.arrived.elements())
    }
}

impl LinkRole for Reader {
    const WRITES: bool = false;

    fn state(&mut self) -> EndState {
        let ack = self.current_ack();
        let (bytes, elements) = self.granted;
        self.granted = (
            bytes.max(ack.credit_bytes),
            elements.max(ack.credit_elements),
        );
        self.last_ack = Ack {
            has_end: false,
            ..ack
        };
        EndState::Reader(ReaderState {
            arrived: ack.arrived,
            arrived_elements: self.arrived.elements(),
            read: ack.read,
            durable: ack.durable,
            credit_bytes: ack.credit_bytes,
            credit_elements: ack.credit_elements,
            lost: self.losses.total,
        })
    }

    fn resume(&mut self, peer: &StreamEnd, meeting: Meeting) -> Result<(), Mismatch> {
        let EndState::Writer(writer) = peer.state else {
            return Err(Mismatch::Nonsense(
                "the peer of a reader must be a writer".to_owned(),
            ));
        };
        if writer.written < writer.kept {
            return Err(Mismatch::Nonsense(format!(
                "the writer keeps bytes from position {} on, but has written only {}",
                writer.kept, writer.written
            )));
        }
        let drops = peer.features.contains(Features::DROPS);
        self.losses
            .handle_writer(drops, meeting == Meeting::First)
            .map_err(Mismatch::Nonsense)?;
        self.discard_partial_element();
        let arrived = self.arrived.position();
        let is_fresh = arrived == 0 && meeting == Meeting::First;
        if is_fresh && writer.kept > 0 {
            // This reader replaces a previous reader. The writer does not resend elements that the
            // previous reader has received.
            let (from, elements) = (writer.kept, writer.kept_elements);
            self.arrived = ElementWalk::new(self.form, self.bytes_max, from, elements);
            (self.read, self.read_elements, self.durable) = (from, elements, from);
            let ack = self.current_ack();
            self.granted = (ack.credit_bytes, ack.credit_elements);
            self.last_ack = ack;
        } else if meeting == Meeting::Successor
            && [0, self.arrived.boundary()].contains(&writer.written)
        {
            // This writer replaces a previous writer, and begins after the last whole element of the
            // previous writer. The hello or the welcome of this reader contains that position.
            let (from, elements) = self.ready_boundary();
            self.arrived = ElementWalk::new(self.form, self.bytes_max, from, elements);
            self.durable = self.durable.min(from);
            self.close = None;
        } else if writer.kept > arrived {
            return Err(Mismatch::Lost(writer.kept.saturating_sub(arrived)));
        } else if writer.written < arrived && !(writer.written == 0 && self.may_start_here(meeting))
        {
            let lost = arrived.saturating_sub(writer.written);
            return match meeting {
                Meeting::Again => Err(Mismatch::Nonsense(format!(
                    "the writer has written {} bytes, but {arrived} have arrived",
                    writer.written
                ))),
                Meeting::First | Meeting::NextIncarnation | Meeting::Successor => {
                    Err(Mismatch::Lost(lost))
                }
            };
        }
        self.expected_start = (writer.written == 0).then(|| self.arrived.position());
        self.peer_buffer_bytes = peer.bytes_max;
        self.handle_down();
        Ok(())
    }

    fn handle_frame(&mut self, frame: &Frame<'_>) -> Result<Outcome, Disconnect> {
        match frame.kind() {
            Some(FrameKind::StreamAsk) => {
                let Ask { until, position } = Ask::decode(frame)?;
                let [available, read, durable] = &mut self.ack_requests;
                let request = match until {
                    Until::Read => read,
                    Until::Durable => durable,
                    Until::Sent | Until::Available => available,
                };
                *request = position.max(*request);
            }
            Some(FrameKind::StreamEnd) => {
                let End { position } = End::decode(frame)?;
                self.handle_end(StreamClose {
                    position,
                    written: position,
                    is_aborted: false,
                })?;
            }
            Some(FrameKind::StreamAbort) => {
                let abort = Abort::decode(frame)?;
                // From a writer that was closed and stopped waiting for the acknowledgement of its
                // end.
                let is_end =
                    |close: StreamClose| !close.is_aborted && close.written == abort.position;
                let is_complete = abort.transferred == abort.position;
                if is_complete && self.close.is_some_and(is_end) {
                    return Ok(Outcome::Continued);
                }
                // The abort replaces an end that was announced before.
                self.close = None;
                self.handle_end(StreamClose {
                    position: abort.transferred,
                    written: abort.position,
                    is_aborted: true,
                })?;
                self.abort_reason = Some(abort.sentence);
            }
            Some(FrameKind::StreamLost) => self.handle_lost(&Lost::decode(frame)?)?,
            _ => {
                return Err(malformed(format!(
                    "the writer sent a frame of kind {}, which a reader does not accept",
                    frame.header().kind
                )));
            }
        }
        Ok(Outcome::Continued)
    }

    fn handle_data(&mut self, head: &DataHead) -> Result<(), Disconnect> {
        let arrived = self.arrived.position();
        let end = head.position.saturating_add(u64::from(head.len));
        if head.position != arrived {
            return Err(malformed(format!(
                "the writer sent bytes for position {}, but the next position is {arrived}",
                head.position
            )));
        }
        let (credit, _) = self.granted;
        if end > credit {
            return Err(malformed(format!(
                "the writer sent bytes up to position {end}, but its credit ends at {credit}"
            )));
        }
        if let Some(close) = self.close.filter(|close| end > close.position) {
            return Err(malformed(format!(
                "the writer sent bytes up to position {end}, but the stream ends at {}",
                close.position
            )));
        }
        self.is_writer_blocked |= head.is_short_of_room;
        self.incoming = Some(Incoming {
            position: head.position,
            left: u64::from(head.len),
            check: head.crc32c.map(|expected| Check {
                expected,
                crc32c: 0,
                walk: self.arrived.clone(),
            }),
        });
        if head.len == 0 {
            return self.finish_frame();
        }
        Ok(())
    }

    fn next_payload_range(&self) -> Option<ByteRange> {
        self.incoming.as_ref().map(|incoming| ByteRange {
            position: incoming.position,
            len: incoming.left,
        })
    }

    fn handle_payload(&mut self, bytes: &[u8]) -> Result<(), Disconnect> {
        let (_, elements_max) = self.granted;
        let Some(incoming) = &mut self.incoming else {
            return Ok(());
        };
        let len = incoming.left.min(bytes.len() as u64);
        // At most the length of the slice, so it fits a `usize`.
        let bytes = bytes.get(..len as usize).unwrap_or_default();
        let walk = match &mut incoming.check {
            Some(check) => {
                check.crc32c = crc32c::crc32c_append(check.crc32c, bytes);
                &mut check.walk
            }
            None => &mut self.arrived,
        };
        let advanced = walk.advance(bytes, elements_max).map_err(|long| {
            malformed(format!(
                "the writer sent an element of {} bytes, but the buffer has only {}",
                long.bytes, self.bytes_max
            ))
        })?;
        if advanced < len {
            return Err(malformed(format!(
                "the writer sent element {elements_max}, but its credit ends before that element"
            )));
        }
        incoming.position = incoming.position.saturating_add(len);
        incoming.left = incoming.left.saturating_sub(len);
        if incoming.left == 0 {
            return self.finish_frame();
        }
        Ok(())
    }

    fn poll_output(
        &mut self,
        now: Tick,
        _: &dyn RingBytes,
        out: &mut Vec<u8>,
    ) -> Option<ByteRange> {
        if self.is_aborted {
            let ack = self.current_ack();
            let is_whole = self
                .close
                .is_some_and(|close| close.position == ack.arrived);
            if !self.is_abort_sent && is_whole && ack.read == ack.arrived {
                // The program has read the whole stream, so this is a regular end rather than an
                // abort.
                Ack {
                    has_end: true,
                    ..ack
                }
                .encode(out);
                self.is_abort_sent = true;
            } else if !self.is_abort_sent {
                let abort = Abort {
                    position: self.read,
                    transferred: self.arrived.position(),
                    code: FaultCode::StreamDestroyed,
                    sentence: FaultCode::StreamDestroyed.meaning().to_owned(),
                };
                abort.encode(out);
                self.is_abort_sent = true;
            }
            self.cancel_ack();
            return None;
        }
        let ack = self.current_ack();
        if ack == self.last_ack || (self.is_shared && ack.has_end == self.last_ack.has_end) {
            self.cancel_ack();
            return None;
        }
        let is_due = self.ack_at.is_some_and(|at| now >= at);
        if is_due || self.is_urgent(&ack) {
            ack.encode(out);
            self.granted = (ack.credit_bytes, ack.credit_elements);
            self.last_ack = ack;
            self.cancel_ack();
            self.is_writer_blocked = false;
        } else if self.ack_at.is_none() || self.delayed_ack != ack {
            // Each acknowledgement wakes the writer, so one acknowledgement for many elements is more
            // efficient. The delay is bounded in case no more bytes arrive.
            let latest = now.saturating_add(self.ack_delay_max);
            let deadline = *self.ack_deadline.get_or_insert(latest);
            self.ack_at = Some(now.saturating_add(self.ack_delay).min(deadline));
            self.delayed_ack = ack;
        }
        None
    }

    fn handle_sent(&mut self) {}

    fn handle_down(&mut self) {
        self.incoming = None;
        self.discard_partial_element();
        self.ack_requests = [0; 3];
        self.is_writer_blocked = false;
        self.cancel_ack();
        self.is_abort_sent = false;
    }

    fn leave_shared(&mut self) {
        self.is_shared = false;
    }

    fn poll_timeout(&self) -> Option<Tick> {
        self.ack_at
    }

    fn remaining_bytes(&self) -> u64 {
        self.arrived.boundary().saturating_sub(self.read)
    }

    fn is_ending(&self) -> bool {
        self.is_aborted || self.current_ack().has_end
    }
}
