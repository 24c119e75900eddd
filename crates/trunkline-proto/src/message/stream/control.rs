//! The frames between the endpoints of a stream, except the hello, the welcome and S_DATA.

use super::Position;
use crate::limits::SENTENCE_BYTES_MAX;
use crate::message::closing::{Goodbye, Refused};
use crate::message::form::{Code, Fixed, Number, Numbered, Text, forms};
use crate::message::keepalive::Keepalive;
use crate::message::layout::{FieldSink, FieldValue, record};
use crate::message::single::{SingleFrame, single_frame};
use crate::{DecodeError, FaultCode, Frame, FrameKind};

/// Flag of S_ACK: the reader knows where the stream ends, and has received everything up to there.
pub const END_ARRIVED: u8 = 4;

record! {
    /// The progress of the reader. All fields are cumulative and never decrease on a connection.
    #[derive(Copy, Eq, Default)]
    pub struct Ack {
        /// Everything before this position has arrived, so the writer no longer needs it.
        pub arrived: u64 = Position,
        /// The reader's program has read up to here.
        pub read: u64 = Position,
        /// Everything before this position is on the reader's disk.
        pub durable: u64 = Position,
        /// The writer may send up to here.
        pub credit_bytes: u64 = Position,
        /// The writer may not send the element with this number or any later one.
        pub credit_elements: u64 = Fixed,
        /// True if the reader knows where the stream ends, and has received everything up to there.
        pub has_end: bool = HeaderFlag<END_ARRIVED>,
    }
}

single_frame! { StreamAck, Ack, unnumbered }

#[derive(Debug)]
pub enum HeaderFlag<const BIT: u8> {}

forms! {
    [const BIT: u8] HeaderFlag<BIT>: bool, 0,
        |_, flag, context| context.header_flags |= if *flag { BIT } else { 0 },
        |_, context| Ok(context.header_flags & BIT != 0),
        |flag, name, to| to.field(name, FieldValue::Flag(*flag)),
        |source, _| source.bool();
}

/// A delivery stage of the bytes of a stream, for which a flush can wait.
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

impl Until {
    /// The stages for which an acknowledgement can be requested.
    pub const REQUESTABLE: [Until; 3] = [Until::Available, Until::Read, Until::Durable];
}

impl Numbered for Until {
    const EXPECTED: &'static str = "1, 2 or 3";

    fn number(self) -> u8 {
        self as u8
    }

    fn from_number(number: u8) -> Option<Self> {
        Self::REQUESTABLE
            .into_iter()
            .find(|until| until.number() == number)
    }

    fn show(self, name: &str, to: &mut dyn FieldSink) {
        to.field(name, FieldValue::Number(self.number().into()));
    }
}

record! {
    /// Requests an acknowledgement as soon as `position` is reached.
    #[derive(Copy, Eq)]
    pub struct Ask {
        /// The stage that the bytes before the position must reach; not [`Until::Sent`].
        pub until: Until = Number,
        pub position: u64 = Position,
    }
}

single_frame! { StreamAsk, Ask, unnumbered }

record! {
    #[derive(Copy, Eq)]
    pub struct End {
        pub position: u64 = Position,
    }
}

single_frame! { StreamEnd, End, unnumbered }

record! {
    #[derive(Eq)]
    pub struct Abort {
        /// The sender's program has written, or read, up to here.
        pub position: u64 = Position,
        /// The writer has sent up to here, or the reader has received up to here. Nothing more is
        /// sent.
        pub transferred: u64 = Position,
        pub code: FaultCode = Code,
        pub sentence: String = Text<SENTENCE_BYTES_MAX>,
    }
}

single_frame! { StreamAbort, Abort, unnumbered }

record! {
    /// Elements that will never be sent, because the writer does not wait for a slow reader.
    #[derive(Copy, Eq)]
    pub struct Lost {
        /// The end of the last whole element that was sent, after which elements are missing. The
        /// receiver discards the bytes of a partial element after this position. The next bytes
        /// continue at this position.
        pub position: u64 = Position,
        /// Total number of elements lost before this position since the reader began.
        pub lost: u64 = Position,
    }
}

single_frame! { StreamLost, Lost, unnumbered }

record! {
    /// A sign of life from the sender: [`Keepalive`] without a record count and a digest.
    #[derive(Copy, Eq)]
    pub struct StreamKeepalive {
        pub sent: u64 = Fixed,
        pub echo: u64 = Fixed,
        pub echo_held_ns: u64 = Fixed,
    }
}

single_frame! { StreamKeepalive, StreamKeepalive, unnumbered }

pub fn encode_end(position: u64, out: &mut Vec<u8>) {
    End { position }.encode(out);
}

pub fn encode_keepalive(keepalive: &Keepalive, out: &mut Vec<u8>) {
    let Keepalive {
        sent,
        echo,
        echo_held_ns,
        ..
    } = *keepalive;
    let keepalive = StreamKeepalive {
        sent,
        echo,
        echo_held_ns,
    };
    keepalive.encode(out);
}

pub fn decode_keepalive(frame: &Frame<'_>) -> Result<Keepalive, DecodeError> {
    let StreamKeepalive {
        sent,
        echo,
        echo_held_ns,
    } = StreamKeepalive::decode(frame)?;
    Ok(Keepalive {
        sent,
        echo,
        echo_held_ns,
        ..Keepalive::default()
    })
}

pub fn encode_refused(refused: &Refused, out: &mut Vec<u8>) {
    refused.encode_as(FrameKind::StreamRefused, 0, out);
}

pub fn encode_goodbye(goodbye: &Goodbye, out: &mut Vec<u8>) {
    goodbye.encode_as(FrameKind::StreamGoodbye, 0, out);
}
