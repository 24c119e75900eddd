//! The writing end.

mod left;
mod resuming;

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

pub use self::left::Left;

/// What the writing end knows. Positions in bytes.
///
/// `freed <= acknowledged <= handed <= written`; on a connection that is up `handed` is also at
/// most the credit.
#[derive(Clone, Debug)]
pub struct Writer {
    pub(super) form: ElementForm,
    pub(super) freed_at: Until,
    pub(super) is_checked: bool,
    /// The reader gives back in the ring itself, which is its own too.
    pub(super) is_shared: bool,
    pub(super) written: u64,
    pub(super) written_elements: u64,
    /// Given to the driver on this connection, or acknowledged.
    pub(super) handed: u64,
    /// The most that ever was: what the reader can have at most.
    pub(super) reached: u64,
    /// Of `handed`, what is with the transport.
    pub(super) sent: u64,
    /// What the reader has said, over all connections.
    pub(super) arrived: u64,
    pub(super) read: u64,
    pub(super) durable: u64,
    pub(super) credit_bytes: u64,
    pub(super) credit_elements: u64,
    pub(super) peer_bytes: u64,
    pub(super) peer_capacity: u64,
    pub(super) peer_has_journal: bool,
    /// Up to here the ring has what was written: the rest of it is in a journal.
    pub(super) at_hand: u64,
    /// Where the stream began: where its first reader was.
    pub(super) begun: u64,
    /// Goes behind what is free; its boundary is where the ring begins.
    pub(super) kept: ElementWalk,
    /// Goes along with `handed`, where elements vary.
    pub(super) ahead: Option<ElementWalk>,
    /// What is to be asked for, by [`Until`], and what was on this connection.
    pub(super) asks: [u64; 3],
    pub(super) asked: [u64; 3],
    pub(super) is_short_of_room: bool,
    pub(super) end: Option<u64>,
    pub(super) is_end_said: bool,
    /// Why the program has destroyed it, for the reader.
    pub(super) abort_reason: String,
    pub(super) is_aborted: bool,
    pub(super) is_abort_said: bool,
    pub(super) has_end: bool,
    /// What it drops for a slow reader.
    pub(super) drops: Drops,
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
            #[cfg(feature = "planted")]
            Until::Read
                if trunkline_types::planted::is(trunkline_types::planted::Bug::FlushTooEarly) =>
            {
                self.arrived
            }
            Until::Read => self.read,
            Until::Durable => self.durable,
        }
    }

    /// The credit as a position; what elements of varying length allow shows only on the way.
    pub(super) fn credit(&self) -> u64 {
        match self.form {
            ElementForm::Fixed(size) => self
                .credit_bytes
                .min(self.credit_elements.saturating_mul(u64::from(size))),
            ElementForm::Variable => self.credit_bytes,
        }
    }

    /// Frees what has come far enough.
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

    /// How far the next frame may go.
    fn next_len(&mut self, ring: &dyn RingBytes) -> u64 {
        let credit = self.credit();
        #[cfg(feature = "planted")]
        let credit = credit.saturating_add(u64::from(trunkline_types::planted::is(
            trunkline_types::planted::Bug::CreditOffByOne,
        )));
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
            // The ring says it itself, and may be further than what was said before.
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

    /// Whether the reader can have the end, as it says: before anything of what it says counts.
    fn check_end(&self, ack: &Ack) -> Result<(), Disconnect> {
        let end = match self.end {
            _ if self.is_abort_said => self.handed,
            // It may know it from an earlier connection, or an earlier life.
            Some(end) => end,
            _ => return Err(malformed("it knows an end that was not said")),
        };
        if ack.arrived != end {
            return Err(malformed("it has the end and not what is before it"));
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
        self.go_on_with(peer, meeting)
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

    fn wants_payload(&self) -> Option<Place> {
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
                _ => self.arrived,
            };
            if ask > reached && ask > *asked {
                let position = ask;
                Ask { until, position }.encode(out);
                *asked = ask;
            }
        }
        self.say_lost(out);
        // One that was closed, and has sent everything, has come to its end: whatever its program
        // waits for after that.
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
            // At most the longest frame.
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
