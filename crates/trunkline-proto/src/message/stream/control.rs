//! The frames that the endpoints of a stream exchange, other than its bytes.
//!
//! ```text
//! S_ACK        arrived u64 | read u64 | durable u64 | credit_bytes u64 | credit_elements u64
//! S_ASK        until u8: 1 available, 2 read, 3 durable | position u64
//! S_END        position u64
//! S_ABORT      position u64 | transferred u64 | code u16 | sentence text
//! S_KEEPALIVE  sent u64 | echo u64 | echo_held_ns u64
//! S_REFUSED    as REFUSED
//! S_GOODBYE    as GOODBYE
//! S_BELL       (nothing)
//! S_LOST       position u64 | lost u64
//! ```

use trunkline_types::wire::{put_u8, put_u16, put_u64};

use super::POSITION_MAX;
use super::seal::seal;
use crate::decode::Payload;
use crate::limits::SENTENCE_BYTES_MAX;
use crate::message::closing::{Goodbye, Refused};
use crate::message::fault::put_sentence;
use crate::message::keepalive::Keepalive;
use crate::{DecodeError, FaultCode, Frame, FrameKind, FrameWriter};

/// Flag of S_ACK: the reader knows where the stream ends, and has received everything up to there.
pub const END_ARRIVED: u8 = 4;

/// The progress of the reader. All fields are cumulative and never decrease on a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ack {
    /// Everything before this position has arrived, so the writer need not keep it.
    pub arrived: u64,
    /// The reader's program has read up to here.
    pub read: u64,
    /// Everything before this position is on the reader's disk.
    pub durable: u64,
    /// The writer may send up to here.
    pub credit_bytes: u64,
    /// The writer may not send the element with this number or any later one.
    pub credit_elements: u64,
    /// True if the reader knows where the stream ends, and has received everything up to there.
    pub has_end: bool,
}

/// The event for which a flush waits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Until {
    /// The bytes were handed to the transport.
    Sent,
    /// The bytes are in the reader's buffer, available for reading.
    Available,
    /// The reader's program has read the bytes.
    Read,
    /// The bytes are on the reader's disk.
    Durable,
}

/// Asks for an acknowledgement as soon as `position` is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask {
    /// The event that must reach the position; not [`Until::Sent`].
    pub until: Until,
    /// The position, in bytes.
    pub position: u64,
}

/// The sender was destroyed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Abort {
    /// The sender's program has written, or read, up to here.
    pub position: u64,
    /// The writer has sent up to here, or the reader has received up to here. Nothing more is sent.
    pub transferred: u64,
    /// The reason, for programs.
    pub code: FaultCode,
    /// The reason, for people.
    pub sentence: String,
}

/// Elements that will never be sent, because the writer does not wait for a slow reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lost {
    /// The end of the last whole element that was sent, after which elements are missing. Any bytes
    /// of a partial element after it do not count. The next bytes sent are for this position.
    pub position: u64,
    /// Number of elements lost here and earlier, since the reader began.
    pub lost: u64,
}

impl Lost {
    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let mut frame = FrameWriter::begin(out, FrameKind::StreamLost, 0);
        put_u64(frame.payload(), self.position);
        put_u64(frame.payload(), self.lost);
        frame.finish(false);
        seal(out, start);
    }

    /// Reads the frame.
    ///
    /// # Errors
    /// [`DecodeError`] if the payload does not have the form drawn in the [module](self).
    pub fn decode(frame: &Frame<'_>) -> Result<Self, DecodeError> {
        let mut payload = Payload::of(frame, FrameKind::StreamLost)?;
        let lost = Self {
            position: position(&mut payload)?,
            lost: position(&mut payload)?,
        };
        payload.finish()?;
        Ok(lost)
    }
}

impl Ack {
    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let mut frame = FrameWriter::begin(out, FrameKind::StreamAck, 0);
        for number in [
            self.arrived,
            self.read,
            self.durable,
            self.credit_bytes,
            self.credit_elements,
        ] {
            put_u64(frame.payload(), number);
        }
        frame.finish(false);
        let flags = out.get_mut(start.saturating_add(5));
        if let (true, Some(flags)) = (self.has_end, flags) {
            *flags |= END_ARRIVED;
        }
        seal(out, start);
    }

    /// Reads the frame.
    ///
    /// # Errors
    /// [`DecodeError`] if the payload does not have the form drawn in the [module](self).
    pub fn decode(frame: &Frame<'_>) -> Result<Self, DecodeError> {
        let mut payload = Payload::of(frame, FrameKind::StreamAck)?;
        let ack = Self {
            arrived: position(&mut payload)?,
            read: position(&mut payload)?,
            durable: position(&mut payload)?,
            credit_bytes: position(&mut payload)?,
            credit_elements: payload.u64()?,
            has_end: frame.header().flags & END_ARRIVED != 0,
        };
        payload.finish()?;
        Ok(ack)
    }
}

impl Until {
    /// The events that can be asked for.
    pub const ASKED: [Until; 3] = [Until::Available, Until::Read, Until::Durable];

    /// The number on the wire.
    pub const fn number(self) -> u8 {
        match self {
            Until::Sent => 0,
            Until::Available => 1,
            Until::Read => 2,
            Until::Durable => 3,
        }
    }
}

impl Ask {
    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let mut frame = FrameWriter::begin(out, FrameKind::StreamAsk, 0);
        put_u8(frame.payload(), self.until.number());
        put_u64(frame.payload(), self.position);
        frame.finish(false);
        seal(out, start);
    }

    /// Reads the frame.
    ///
    /// # Errors
    /// [`DecodeError`] if the payload does not have the form drawn in the [module](self).
    pub fn decode(frame: &Frame<'_>) -> Result<Self, DecodeError> {
        let mut payload = Payload::of(frame, FrameKind::StreamAsk)?;
        let number = payload.u8()?;
        let until = Until::ASKED.into_iter().find(|u| u.number() == number);
        let Some(until) = until else {
            return Err(payload.unexpected("1, 2 or 3", u64::from(number)));
        };
        let position = position(&mut payload)?;
        payload.finish()?;
        Ok(Self { until, position })
    }
}

/// Appends S_END: the stream ends at this position.
pub fn encode_end(position: u64, out: &mut Vec<u8>) {
    let start = out.len();
    let mut frame = FrameWriter::begin(out, FrameKind::StreamEnd, 0);
    put_u64(frame.payload(), position);
    frame.finish(false);
    seal(out, start);
}

/// Reads S_END.
///
/// # Errors
/// [`DecodeError`] if the payload does not have the form drawn in the [module](self).
pub fn decode_end(frame: &Frame<'_>) -> Result<u64, DecodeError> {
    let mut payload = Payload::of(frame, FrameKind::StreamEnd)?;
    let position = position(&mut payload)?;
    payload.finish()?;
    Ok(position)
}

impl Abort {
    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let mut frame = FrameWriter::begin(out, FrameKind::StreamAbort, 0);
        let payload = frame.payload();
        put_u64(payload, self.position);
        put_u64(payload, self.transferred);
        put_u16(payload, self.code.number());
        put_sentence(payload, &self.sentence);
        frame.finish(false);
        seal(out, start);
    }

    /// Reads the frame.
    ///
    /// # Errors
    /// [`DecodeError`] if the payload does not have the form drawn in the [module](self).
    pub fn decode(frame: &Frame<'_>) -> Result<Self, DecodeError> {
        let mut payload = Payload::of(frame, FrameKind::StreamAbort)?;
        let abort = Self {
            position: position(&mut payload)?,
            transferred: position(&mut payload)?,
            code: FaultCode::from_number(payload.u16()?),
            sentence: payload.text(SENTENCE_BYTES_MAX)?.to_owned(),
        };
        payload.finish()?;
        Ok(abort)
    }
}

/// Appends S_KEEPALIVE, which has no record count and no digest.
pub fn encode_keepalive(keepalive: &Keepalive, out: &mut Vec<u8>) {
    let start = out.len();
    let mut frame = FrameWriter::begin(out, FrameKind::StreamKeepalive, 0);
    for number in [keepalive.sent, keepalive.echo, keepalive.echo_held_ns] {
        put_u64(frame.payload(), number);
    }
    frame.finish(false);
    seal(out, start);
}

/// Reads S_KEEPALIVE.
///
/// # Errors
/// [`DecodeError`] if the payload does not have the form drawn in the [module](self).
pub fn decode_keepalive(frame: &Frame<'_>) -> Result<Keepalive, DecodeError> {
    let mut payload = Payload::of(frame, FrameKind::StreamKeepalive)?;
    let keepalive = Keepalive {
        sent: payload.u64()?,
        echo: payload.u64()?,
        echo_held_ns: payload.u64()?,
        ..Keepalive::default()
    };
    payload.finish()?;
    Ok(keepalive)
}

/// Appends S_REFUSED.
pub fn encode_refused(refused: &Refused, out: &mut Vec<u8>) {
    let start = out.len();
    refused.encode_as(FrameKind::StreamRefused, out);
    seal(out, start);
}

/// Reads S_REFUSED.
///
/// # Errors
/// [`DecodeError`] if the payload does not have the form of REFUSED.
pub fn decode_refused(frame: &Frame<'_>) -> Result<Refused, DecodeError> {
    Refused::decode_as(frame, FrameKind::StreamRefused)
}

/// Appends S_BELL.
pub fn encode_bell(out: &mut Vec<u8>) {
    let start = out.len();
    FrameWriter::begin(out, FrameKind::StreamBell, 0).finish(false);
    seal(out, start);
}

/// Reads S_BELL.
///
/// # Errors
/// [`DecodeError`] if the payload is not empty.
pub fn decode_bell(frame: &Frame<'_>) -> Result<(), DecodeError> {
    Payload::of(frame, FrameKind::StreamBell)?.finish()
}

/// Appends S_GOODBYE.
pub fn encode_goodbye(goodbye: &Goodbye, out: &mut Vec<u8>) {
    let start = out.len();
    goodbye.encode_as(FrameKind::StreamGoodbye, out);
    seal(out, start);
}

/// Reads S_GOODBYE.
///
/// # Errors
/// [`DecodeError`] if the payload does not have the form of GOODBYE.
pub fn decode_goodbye(frame: &Frame<'_>) -> Result<Goodbye, DecodeError> {
    Goodbye::decode_as(frame, FrameKind::StreamGoodbye)
}

fn position(payload: &mut Payload<'_>) -> Result<u64, DecodeError> {
    match payload.u64()? {
        position if position <= POSITION_MAX => Ok(position),
        nonsense => Err(payload.unexpected("a position of at most 2^62", nonsense)),
    }
}
