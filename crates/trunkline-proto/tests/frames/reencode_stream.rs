//! The frames of a stream, decoded and encoded again.

use trunkline_proto::frame::Frame;
use trunkline_proto::message::stream::control::{
    decode_bell, decode_goodbye, decode_keepalive, decode_refused, encode_bell, encode_goodbye,
    encode_keepalive, encode_refused,
};
use trunkline_proto::message::stream::directory::{
    Arrived, Lookup, Register, Registered, TicketGrant,
};
use trunkline_proto::message::stream::listing::{EndpointStatus, EndpointsPage, EndpointsQuery};
use trunkline_proto::message::stream::{
    Abort, Ack, Ask, Data, Lost, StreamHello, StreamWelcome, decode_end, encode_end,
};
use trunkline_proto::{DecodeError, FrameKind};

/// As `reencode`; `None` for kinds that are no stream's.
pub(super) fn stream(frame: &Frame<'_>, out: &mut Vec<u8>) -> Option<Result<(), DecodeError>> {
    Some(match frame.kind()? {
        FrameKind::StreamLookup => Lookup::decode(frame).map(|m| m.encode(out)),
        FrameKind::StreamTicket => TicketGrant::decode(frame).map(|m| m.encode(out)),
        FrameKind::StreamRegister => Register::decode(frame).map(|m| m.encode(out)),
        FrameKind::StreamRegistered => Registered::decode(frame).map(|m| m.encode(out)),
        FrameKind::StreamArrived => Arrived::decode(frame).map(|m| m.encode(out)),
        FrameKind::StreamList => EndpointsQuery::decode(frame).map(|m| m.encode(out)),
        FrameKind::StreamEndpoints => {
            EndpointsPage::decode(frame).map(|m| m.encode(frame.request(), out))
        }
        FrameKind::StreamStatus => EndpointStatus::decode(frame).map(|m| m.encode(out)),
        FrameKind::StreamRefused => decode_refused(frame).map(|m| encode_refused(&m, out)),
        FrameKind::StreamHello => StreamHello::decode(frame).map(|m| m.encode(out)),
        FrameKind::StreamWelcome => StreamWelcome::decode(frame).map(|m| m.encode(out)),
        FrameKind::StreamData => Data::decode(frame).map(|m| m.encode(out)),
        FrameKind::StreamAck => Ack::decode(frame).map(|m| m.encode(out)),
        FrameKind::StreamAsk => Ask::decode(frame).map(|m| m.encode(out)),
        FrameKind::StreamEnd => decode_end(frame).map(|position| encode_end(position, out)),
        FrameKind::StreamAbort => Abort::decode(frame).map(|m| m.encode(out)),
        FrameKind::StreamKeepalive => decode_keepalive(frame).map(|m| encode_keepalive(&m, out)),
        FrameKind::StreamGoodbye => decode_goodbye(frame).map(|m| encode_goodbye(&m, out)),
        FrameKind::StreamLost => Lost::decode(frame).map(|m| m.encode(out)),
        FrameKind::StreamBell => decode_bell(frame).map(|()| encode_bell(out)),
        _ => return None,
    })
}
