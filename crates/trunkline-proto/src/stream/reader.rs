//! The reading end of a stream, as a state machine without I/O.

use std::time::Duration;

use trunkline_types::Tick;

use super::Until;
use super::half::{Half, Outcome};
use super::incoming::{Check, Incoming};
use super::input::malformed;
use super::losses::Losses;
use super::meeting::{Meeting, Mismatch};
use super::options::{ElementForm, LinkOptions};
use super::output::{Place, RingBytes};
use super::walk::ElementWalk;
use crate::message::stream::{
    Abort, Ack, Ask, DataHead, End, EndState, Lost, ReaderState, StreamEnd,
};
use crate::{Disconnect, FaultCode, Features, Frame, FrameKind};

/// The state of the reader. Positions are in bytes.
#[derive(Clone, Debug)]
pub struct Reader {
    pub(super) form: ElementForm,
    pub(super) capacity: u64,
    pub(super) bytes_max: u64,
    pub(super) ack_delay: Duration,
    ack_delay_max: Duration,
    /// Tracks the bytes that have arrived.
    pub(super) arrived: ElementWalk,
    pub(super) read: u64,
    pub(super) read_elements: u64,
    pub(super) durable: u64,
    /// Size of the writer's buffer in bytes.
    pub(super) peer_bytes: u64,
    /// Largest credit granted, in bytes and elements, over all connections.
    pub(super) granted: (u64, u64),
    incoming: Option<Incoming>,
    /// True if the two ends share a ring. The writer then reads the reader's progress from the
    /// ring, without acknowledgements.
    pub(super) is_shared: bool,
    /// The last acknowledgement sent on this connection.
    pub(super) told: Ack,
    pub(super) asks: [u64; 3],
    pub(super) is_writer_short: bool,
    /// Latest time of the next acknowledgement.
    ack_by: Option<Tick>,
    /// Time of the next acknowledgement if nothing changes until then.
    pub(super) ack_at: Option<Tick>,
    waiting: Ack,
    pub(super) close: Option<StreamClose>,
    /// The reason why the writer was aborted before the end of the stream.
    pub(super) abort_reason: Option<String>,
    /// True if the end of the stream may be acknowledged to the writer.
    pub(super) is_end_safe: bool,
    pub(super) is_aborted: bool,
    /// The position at which the writer will begin, if it had written nothing when it last
    /// connected.
    waits_at: Option<u64>,
    pub(super) is_abort_said: bool,
    pub(super) losses: Losses,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamClose {
    /// The end of the stream: no bytes follow this position.
    pub position: u64,
    /// The position up to which the writer's program had written; it is beyond `position` if the
    /// writer gave up the rest.
    pub written: u64,
    /// True if the writer was aborted before the end of the stream. The received data is then
    /// incomplete, regardless of its length.
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
            peer_bytes: options.bytes_max,
            granted: (0, 0),
            incoming: None,
            is_shared: false,
            told: Ack::default(),
            asks: [0; 3],
            is_writer_short: false,
            ack_by: None,
            ack_at: None,
            waiting: Ack::default(),
            close: None,
            abort_reason: None,
            is_end_safe: true,
            is_aborted: false,
            waits_at: None,
            is_abort_said: false,
            losses: Losses::new(options),
        }
    }

    /// Called when the last byte of a frame has arrived. With a checksum, its bytes count only
    /// after the checksum is verified here.
    fn end_of_frame(&mut self) -> Result<(), Disconnect> {
        let Some(incoming) = self.incoming.take() else {
            return Ok(());
        };
        if let Some(check) = incoming.check {
            let is_right = check.crc32c == check.expected;
            if !is_right {
                let sentence = format!(
                    "the bytes before position {} were altered on the way",
                    incoming.position
                );
                return Err(malformed(sentence));
            }
            self.arrived = check.walk;
        }
        Ok(())
    }

    fn handle_end(&mut self, close: StreamClose) -> Result<(), Disconnect> {
        let is_other = self.close.is_some_and(|known| known != close);
        if is_other || close.position < self.arrived.position() || close.written < close.position {
            return Err(malformed(format!(
                "the stream is to end at {} where {} bytes have arrived",
                close.position,
                self.arrived.position()
            )));
        }
        self.close = Some(close);
        Ok(())
    }

    fn forget_ack(&mut self) {
        (self.ack_at, self.ack_by) = (None, None);
    }

    /// Returns the acknowledgement that could be sent now.
    fn now(&self) -> Ack {
        let arrived = self.arrived.position();
        let has_all = self.close.is_some_and(|close| close.position == arrived);
        Ack {
            // While an incomplete element may still be dropped, no part of it counts as arrived.
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

    /// Returns the increase in credit, in bytes, from which an acknowledgement is sent at once: a
    /// quarter of the buffer.
    pub(super) fn credit_step(&self) -> u64 {
        match self.form {
            ElementForm::Fixed(size) => (self.capacity >> 2).max(1).saturating_mul(u64::from(size)),
            ElementForm::Variable => (self.bytes_max >> 2).max(1),
        }
    }

    /// Returns true if the acknowledgement must be sent at once.
    fn is_urgent(&self, now: &Ack) -> bool {
        let told = &self.told;
        let arrived_step = (self.bytes_max.min(self.peer_bytes) >> 2).max(1);
        let more = |now: u64, told: u64, step: u64| now.saturating_sub(told) >= step;
        let is_asked = |ask: u64, now: u64, told: u64| ask > told && now >= ask;
        let [available, read, durable] = self.asks;
        // The writer has no credit left, and this program has no complete element to read.
        let is_starved = now.read == self.arrived.boundary()
            && told.credit_bytes == self.arrived.position()
            && now.credit_bytes > told.credit_bytes;
        more(now.arrived, told.arrived, arrived_step)
            || more(now.credit_bytes, told.credit_bytes, self.credit_step())
            || more(
                now.credit_elements,
                told.credit_elements,
                (self.capacity >> 2).max(1),
            )
            || is_asked(available, now.arrived, told.arrived)
            || is_asked(read, now.read, told.read)
            || is_asked(durable, now.durable, told.durable)
            || (self.is_writer_short && now.arrived > told.arrived)
            || now.has_end != told.has_end
            || is_starved
    }

    /// Returns true if a writer that has written nothing may begin at the position of this reader:
    /// it connects for the first time, or has sent nothing since.
    fn may_begin(&self, meeting: Meeting) -> bool {
        meeting == Meeting::First || self.waits_at == Some(self.arrived.position())
    }

    fn ready_place(&self) -> (u64, u64) {
        (self.arrived.boundary(), self.arrived.elements())
    }
}

impl Half for Reader {
    const WRITES: bool = false;

    fn state(&mut self) -> EndState {
        let now = self.now();
        let (bytes, elements) = self.granted;
        self.granted = (
            bytes.max(now.credit_bytes),
            elements.max(now.credit_elements),
        );
        self.told = Ack {
            has_end: false,
            ..now
        };
        EndState::Reader(ReaderState {
            arrived: now.arrived,
            arrived_elements: self.arrived.elements(),
            read: now.read,
            durable: now.durable,
            credit_bytes: now.credit_bytes,
            credit_elements: now.credit_elements,
            lost: self.losses.total,
        })
    }

    fn resume(&mut self, peer: &StreamEnd, meeting: Meeting) -> Result<(), Mismatch> {
        let EndState::Writer(writer) = peer.state else {
            return Err(Mismatch::Nonsense("it is no writer".to_owned()));
        };
        if writer.written < writer.kept {
            return Err(Mismatch::Nonsense(format!(
                "it keeps bytes from {} on and has written {}",
                writer.kept, writer.written
            )));
        }
        let drops = peer.features.contains(Features::DROPS);
        self.losses
            .handle_writer(drops, meeting == Meeting::First)
            .map_err(Mismatch::Nonsense)?;
        self.forget_part();
        let arrived = self.arrived.position();
        let is_fresh = arrived == 0 && meeting == Meeting::First;
        if is_fresh && writer.kept > 0 {
            // This reader replaces one that is gone. Elements that the previous reader received are
            // not sent again.
            let (from, elements) = (writer.kept, writer.kept_elements);
            self.arrived = ElementWalk::new(self.form, self.bytes_max, from, elements);
            (self.read, self.read_elements, self.durable) = (from, elements, from);
            let now = self.now();
            self.granted = (now.credit_bytes, now.credit_elements);
            self.told = now;
        } else if meeting == Meeting::Successor
            && [0, self.arrived.boundary()].contains(&writer.written)
        {
            // The writer replaces a writer that is gone, and begins after the last whole element of
            // that writer. This position has already been sent to it, or will be.
            let (from, elements) = self.ready_place();
            self.arrived = ElementWalk::new(self.form, self.bytes_max, from, elements);
            self.durable = self.durable.min(from);
            self.close = None;
        } else if writer.kept > arrived {
            return Err(Mismatch::Lost(writer.kept.saturating_sub(arrived)));
        } else if writer.written < arrived && !(writer.written == 0 && self.may_begin(meeting)) {
            let lost = arrived.saturating_sub(writer.written);
            return match meeting {
                Meeting::Again => Err(Mismatch::Nonsense(format!(
                    "it has written {} bytes where {arrived} have arrived",
                    writer.written
                ))),
                Meeting::First | Meeting::NextLife | Meeting::Successor => {
                    Err(Mismatch::Lost(lost))
                }
            };
        }
        self.waits_at = (writer.written == 0).then(|| self.arrived.position());
        self.peer_bytes = peer.bytes_max;
        self.handle_down();
        Ok(())
    }

    fn handle_frame(&mut self, frame: &Frame<'_>) -> Result<Outcome, Disconnect> {
        match frame.kind() {
            Some(FrameKind::StreamAsk) => {
                let Ask { until, position } = Ask::decode(frame)?;
                let [available, read, durable] = &mut self.asks;
                let ask = match until {
                    Until::Read => read,
                    Until::Durable => durable,
                    Until::Sent | Until::Available => available,
                };
                *ask = position.max(*ask);
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
                // The previously announced end is void.
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
                    "a reader is sent a frame of kind {}",
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
                "bytes of position {} come where {arrived} is next",
                head.position
            )));
        }
        let (credit, _) = self.granted;
        if end > credit {
            return Err(malformed(format!(
                "bytes up to {end} come where the credit goes to {credit}"
            )));
        }
        if let Some(close) = self.close.filter(|close| end > close.position) {
            return Err(malformed(format!(
                "bytes up to {end} come where the stream ends at {}",
                close.position
            )));
        }
        self.is_writer_short |= head.is_short_of_room;
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
            return self.end_of_frame();
        }
        Ok(())
    }

    fn next_payload_range(&self) -> Option<Place> {
        self.incoming.as_ref().map(|incoming| Place {
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
        let went = walk.advance(bytes, elements_max).map_err(|long| {
            malformed(format!(
                "an element of {} bytes comes for a buffer of {}",
                long.bytes, self.bytes_max
            ))
        })?;
        if went < len {
            return Err(malformed(format!(
                "element {elements_max} comes where the credit ends before it"
            )));
        }
        incoming.position = incoming.position.saturating_add(len);
        incoming.left = incoming.left.saturating_sub(len);
        if incoming.left == 0 {
            return self.end_of_frame();
        }
        Ok(())
    }

    fn poll_output(&mut self, now: Tick, _: &dyn RingBytes, out: &mut Vec<u8>) -> Option<Place> {
        if self.is_aborted {
            let ack = self.now();
            let is_whole = self
                .close
                .is_some_and(|close| close.position == ack.arrived);
            if !self.is_abort_said && is_whole && ack.read == ack.arrived {
                // The program has read the whole stream and knows its end. This is a regular end,
                // not the end of a reader that stopped early.
                Ack {
                    has_end: true,
                    ..ack
                }
                .encode(out);
                self.is_abort_said = true;
            } else if !self.is_abort_said {
                let abort = Abort {
                    position: self.read,
                    transferred: self.arrived.position(),
                    code: FaultCode::StreamDestroyed,
                    sentence: FaultCode::StreamDestroyed.meaning().to_owned(),
                };
                abort.encode(out);
                self.is_abort_said = true;
            }
            self.forget_ack();
            return None;
        }
        let ack = self.now();
        if ack == self.told || (self.is_shared && ack.has_end == self.told.has_end) {
            self.forget_ack();
            return None;
        }
        let is_due = self.ack_at.is_some_and(|at| now >= at);
        if is_due || self.is_urgent(&ack) {
            ack.encode(out);
            self.granted = (ack.credit_bytes, ack.credit_elements);
            self.told = ack;
            self.forget_ack();
            self.is_writer_short = false;
        } else if self.ack_at.is_none() || self.waiting != ack {
            // Each acknowledgement wakes the writer, so one acknowledgement for many elements is
            // better. It must not be delayed for long, however, if no more bytes arrive.
            let latest = now.saturating_add(self.ack_delay_max);
            let by = *self.ack_by.get_or_insert(latest);
            self.ack_at = Some(now.saturating_add(self.ack_delay).min(by));
            self.waiting = ack;
        }
        None
    }

    fn handle_sent(&mut self) {}

    fn handle_down(&mut self) {
        self.incoming = None;
        self.forget_part();
        self.asks = [0; 3];
        self.is_writer_short = false;
        self.forget_ack();
        self.is_abort_said = false;
    }

    fn leave_shared(&mut self) {
        self.is_shared = false;
    }

    fn poll_timeout(&self) -> Option<Tick> {
        self.ack_at
    }

    fn left_bytes(&self) -> u64 {
        self.arrived.boundary().saturating_sub(self.read)
    }

    fn is_ending(&self) -> bool {
        self.is_aborted || self.now().has_end
    }
}
