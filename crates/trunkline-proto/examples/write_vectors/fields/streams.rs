//! The contents of the frames of a stream, as JSON.

use serde_json::{Value as Json, json};
use trunkline_proto::frame::Frame;
use trunkline_proto::message::stream::{Data, EndState, StreamEnd, StreamHello, StreamWelcome};
use trunkline_proto::{DecodeError, FrameKind};

use super::hex;

/// The payload of a frame of a stream; `None` for other kinds.
pub(super) fn stream(frame: &Frame<'_>) -> Option<Result<Json, DecodeError>> {
    let fields = match frame.kind()? {
        FrameKind::StreamHello => StreamHello::decode(frame).map(|hello| {
            let mut fields = end(&hello.end);
            fields["version_min"] = json!(hello.versions.min);
            fields["version_max"] = json!(hello.versions.max);
            fields["peer_incarnation"] = json!(hello.peer.map(|peer| hex(&peer.0)));
            fields["attempt"] = json!(hello.attempt.to_string());
            fields["ticket"] = json!(hello.ticket.map(|ticket| hex(&ticket)));
            fields["share"] = json!(hello.share.map(|share| hex(&share.0)));
            fields["proof"] = json!(hello.proof.map(|proof| hex(&proof.0)));
            fields
        }),
        FrameKind::StreamWelcome => StreamWelcome::decode(frame).map(|welcome| {
            let mut fields = end(&welcome.end);
            fields["version"] = json!(welcome.version);
            fields["share"] = json!(welcome.share.map(|share| hex(&share.0)));
            fields["proof"] = json!(welcome.proof.map(|proof| hex(&proof.0)));
            fields
        }),
        FrameKind::StreamData => Data::decode(frame).map(|data| {
            json!({
                "position": data.head.position.to_string(),
                "crc32c": data.head.crc32c,
                "is_short_of_room": data.head.is_short_of_room,
                "bytes": hex(data.bytes),
            })
        }),
        _ => return None,
    };
    Some(fields)
}

fn end(end: &StreamEnd) -> Json {
    let state = match end.state {
        EndState::Writer(at) => json!({
            "writer": {
                "kept": at.kept.to_string(), "kept_elements": at.kept_elements.to_string(),
                "written": at.written.to_string(),
            }
        }),
        EndState::Reader(at) => json!({
            "reader": {
                "lost": at.lost.to_string(),
                "arrived": at.arrived.to_string(),
                "arrived_elements": at.arrived_elements.to_string(),
                "read": at.read.to_string(), "durable": at.durable.to_string(),
                "credit_bytes": at.credit_bytes.to_string(),
                "credit_elements": at.credit_elements.to_string(),
            }
        }),
    };
    json!({
        "features": end.features.to_bits().to_string(), "incarnation": hex(&end.incarnation.0),
        "endpoint": end.url, "peer": end.peer_url, "type": end.data_type.to_string(),
        "capacity": end.capacity.to_string(), "bytes_max": end.bytes_max.to_string(),
        "journal": end.has_journal, "program": end.program, "state": state,
    })
}
