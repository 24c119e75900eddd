//! Shared by the fuzz targets of the protocol: a decoded frame must have the same meaning when it
//! is encoded again.

#![forbid(unsafe_code)]

#[path = "../../crates/trunkline-proto/tests/frames/reencode.rs"]
pub mod reencode;

#[path = "../../crates/trunkline-tdms/tests/exercise/mod.rs"]
pub mod exercise_tdms;

#[path = "../../crates/trunkline-record/tests/play_everything/mod.rs"]
pub mod play_everything;

use trunkline_proto::FrameKind;
use trunkline_proto::frame::{Frame, FrameHeader, HEADER_BYTES};
use trunkline_proto::message::stream::directory::{
    Arrived, ArrivedFrom, Revoked, RevokedFor, Ticket,
};

/// The kinds of the target `hello`.
pub const HELLO: &[FrameKind] = &[
    FrameKind::Hello,
    FrameKind::Welcome,
    FrameKind::Refused,
    FrameKind::Goodbye,
    FrameKind::Keepalive,
    FrameKind::Ack,
    FrameKind::Fault,
];
/// The kinds of the target `open`.
pub const OPEN: &[FrameKind] = &[FrameKind::Open, FrameKind::Opened];
/// The kinds of the target `subscribe`.
pub const SUBSCRIBE: &[FrameKind] = &[
    FrameKind::Subscribe,
    FrameKind::Subscribed,
    FrameKind::Unsubscribe,
    FrameKind::Closed,
    FrameKind::Close,
    FrameKind::Requested,
];
/// The kinds of the target `read`.
pub const READ: &[FrameKind] = &[
    FrameKind::Read,
    FrameKind::Readings,
    FrameKind::RequestValue,
    FrameKind::Gone,
];
/// The kinds of the target `write`.
pub const WRITE: &[FrameKind] = &[FrameKind::Write, FrameKind::WriteAnswers];
/// The kinds of the target `updates`.
pub const UPDATES: &[FrameKind] = &[
    FrameKind::Updates,
    FrameKind::Check,
    FrameKind::Compare,
    FrameKind::Repaired,
];
/// The kinds of the target `lost`.
pub const LOST: &[FrameKind] = &[FrameKind::Lost, FrameKind::Ended];
/// The kinds of the target `find`.
pub const FIND: &[FrameKind] = &[FrameKind::Find, FrameKind::Names];
/// The kinds of the target `watch`.
pub const WATCH: &[FrameKind] = &[
    FrameKind::Watch,
    FrameKind::Appeared,
    FrameKind::Vanished,
    FrameKind::Unwatch,
];
/// The kinds of the target `library`.
pub const LIBRARY: &[FrameKind] = &[
    FrameKind::Deploy,
    FrameKind::Order,
    FrameKind::Report,
    FrameKind::Forcing,
    FrameKind::Forced,
    FrameKind::Audit,
    FrameKind::AuditPage,
];
/// The kinds of the target `group`.
pub const GROUP: &[FrameKind] = &[
    FrameKind::GroupWrite,
    FrameKind::GroupAnswer,
    FrameKind::Snapshot,
    FrameKind::SnapshotAnswer,
    FrameKind::Lease,
    FrameKind::Leased,
    FrameKind::Control,
    FrameKind::Controlled,
];
/// The kinds of the target `info`.
pub const INFO: &[FrameKind] = &[
    FrameKind::Info,
    FrameKind::InfoAnswer,
    FrameKind::Engine,
    FrameKind::EngineAnswer,
    FrameKind::Flush,
    FrameKind::Flushed,
];
/// The kinds of the target `why`.
pub const WHY: &[FrameKind] = &[FrameKind::Why, FrameKind::WhyAnswer];
/// The kinds of the target `provider`.
pub const PROVIDER: &[FrameKind] = &[
    FrameKind::Provide,
    FrameKind::Provided,
    FrameKind::Publish,
    FrameKind::ProviderWrite,
    FrameKind::ProviderRequest,
    FrameKind::ProviderBind,
    FrameKind::ProviderAnswer,
];

/// The kinds of the target `stream`.
pub const STREAM: &[FrameKind] = &[
    FrameKind::StreamLookup,
    FrameKind::StreamTicket,
    FrameKind::StreamRefused,
    FrameKind::StreamRegister,
    FrameKind::StreamRegistered,
    FrameKind::StreamArrived,
    FrameKind::StreamHello,
    FrameKind::StreamWelcome,
    FrameKind::StreamData,
    FrameKind::StreamAck,
    FrameKind::StreamAsk,
    FrameKind::StreamEnd,
    FrameKind::StreamAbort,
    FrameKind::StreamKeepalive,
    FrameKind::StreamGoodbye,
    FrameKind::StreamBell,
    FrameKind::StreamLost,
    FrameKind::StreamList,
    FrameKind::StreamEndpoints,
    FrameKind::StreamStatus,
    FrameKind::StreamLogin,
    FrameKind::StreamPeer,
    FrameKind::StreamVisitor,
    FrameKind::StreamRevoked,
];

/// Every target whose input is a frame, and its kinds.
pub const GROUPS: &[(&str, &[FrameKind])] = &[
    ("hello", HELLO),
    ("open", OPEN),
    ("subscribe", SUBSCRIBE),
    ("read", READ),
    ("write", WRITE),
    ("updates", UPDATES),
    ("lost", LOST),
    ("find", FIND),
    ("watch", WATCH),
    ("library", LIBRARY),
    ("group", GROUP),
    ("info", INFO),
    ("why", WHY),
    ("provider", PROVIDER),
    ("stream", STREAM),
];

/// The extensions of frames that endpoints and directories exchange: read, written, and read again.
pub fn stream_extensions(data: &[u8]) {
    let Some((head, payload)) = data.split_first_chunk::<HEADER_BYTES>() else {
        return;
    };
    let mut header = FrameHeader::from_bytes(head);
    header.length = payload.len() as u32;
    let Ok(frame) = Frame::new(header, payload) else {
        return;
    };
    let ticket = Ticket::default();
    let mut written = Vec::new();
    if let Ok(from) = ArrivedFrom::decode(&frame) {
        let _ = from.identity();
        Arrived { ticket, bytes: &[] }.encode_from(&from, &mut written);
        let again = Frame::take_from(&mut &*written).ok().flatten();
        let again = again.map(|frame| ArrivedFrom::decode(&frame));
        assert_eq!(again, Some(Ok(from)), "what was written means the same");
    }
    written.clear();
    if let Ok(revoked) = RevokedFor::decode(&frame) {
        Revoked { ticket }.encode_for(&revoked, &mut written);
        let again = Frame::take_from(&mut &*written).ok().flatten();
        let again = again.map(|frame| RevokedFor::decode(&frame));
        assert_eq!(again, Some(Ok(revoked)), "what was written means the same");
    }
}

/// `data` is a frame: header, then payload. Its kind is forced into `kinds` and its length is what
/// is there; count, flags and payload are the fuzzer's.
pub fn message(kinds: &[FrameKind], data: &[u8]) {
    let Some((head, payload)) = data.split_first_chunk::<HEADER_BYTES>() else {
        return;
    };
    let mut header = FrameHeader::from_bytes(head);
    if !kinds.iter().any(|kind| kind.number() == header.kind) {
        header.kind = kinds[usize::from(header.kind) % kinds.len()].number();
    }
    header.length = payload.len() as u32;
    let Ok(frame) = Frame::new(header, payload) else {
        return;
    };
    let mut once = Vec::new();
    let Some(Ok(())) = reencode::reencode(&frame, &mut once) else {
        return;
    };
    let mut rest = once.as_slice();
    let Ok(Some(again)) = Frame::take_from(&mut rest) else {
        return;
    };
    assert!(rest.is_empty(), "one frame was written");
    let mut twice = Vec::new();
    let result = reencode::reencode(&again, &mut twice);
    assert_eq!(result, Some(Ok(())), "what was written can be read");
    assert_eq!(once, twice, "and means the same");
}
