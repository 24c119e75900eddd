//! What the frames of a stream say, as JSON.

use serde_json::{Value as Json, json};
use trunkline_proto::frame::Frame;
use trunkline_proto::message::stream::control::{
    decode_bell, decode_goodbye, decode_keepalive, decode_refused,
};
use trunkline_proto::message::stream::directory::{
    Arrived, Lookup, Register, Registered, TicketGrant,
};
use trunkline_proto::message::stream::listing::{EndpointStatus, EndpointsPage, EndpointsQuery};
use trunkline_proto::message::stream::{
    Abort, Ack, Ask, Data, EndState, Lost, StreamEnd, StreamHello, StreamWelcome, decode_end,
};
use trunkline_proto::{DecodeError, FrameKind};

use super::hex;

/// The payload of a frame of a stream; `None` for other kinds.
pub(super) fn stream(frame: &Frame<'_>) -> Option<Result<Json, DecodeError>> {
    let fields = match frame.kind()? {
        FrameKind::StreamLookup => Lookup::decode(frame).map(|lookup| {
            json!({
                "version_min": lookup.versions.min, "version_max": lookup.versions.max,
                "endpoint": lookup.url, "incarnation": hex(&lookup.incarnation.0),
                "program": lookup.program,
            })
        }),
        FrameKind::StreamTicket => TicketGrant::decode(frame).map(|grant| {
            json!({
                "ticket": hex(&grant.ticket), "valid_ms": grant.valid_for.as_millis() as u64,
            })
        }),
        FrameKind::StreamRegister => Register::decode(frame).map(|register| {
            json!({
                "version_min": register.versions.min, "version_max": register.versions.max,
                "endpoint": register.url, "incarnation": hex(&register.incarnation.0),
                "program": register.program, "pid": register.pid,
            })
        }),
        FrameKind::StreamRegistered => Registered::decode(frame).map(|registered| {
            json!({
                "lease_ms": registered.lease.as_millis() as u64, "endpoint": registered.url,
            })
        }),
        FrameKind::StreamList => EndpointsQuery::decode(frame).map(|query| {
            json!({
                "version_min": query.versions.min, "version_max": query.versions.max,
                "after": query.after, "only": query.only,
            })
        }),
        FrameKind::StreamEndpoints => EndpointsPage::decode(frame).map(|page| {
            let endpoints: Vec<Json> = page.endpoints.iter().map(status).collect();
            json!({ "endpoints": endpoints, "has_more": page.has_more })
        }),
        FrameKind::StreamStatus => EndpointStatus::decode(frame).map(|found| status(&found)),
        FrameKind::StreamArrived => Arrived::decode(frame)
            .map(|arrived| json!({ "ticket": hex(&arrived.ticket), "bytes": hex(arrived.bytes) })),
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
        FrameKind::StreamRefused => decode_refused(frame).map(|refused| {
            json!({
                "code": refused.code.name(), "sentence": refused.sentence,
                "version_min": refused.versions.min, "version_max": refused.versions.max,
                "retry_after_ms": refused.retry_after.map_or(0, |after| after.as_millis() as u64),
            })
        }),
        FrameKind::StreamGoodbye => decode_goodbye(frame).map(|goodbye| {
            json!({
                "code": goodbye.code.name(), "sentence": goodbye.sentence,
                "retry_after_ms": goodbye.retry_after.map_or(0, |after| after.as_millis() as u64),
            })
        }),
        FrameKind::StreamLost => Lost::decode(frame).map(
            |lost| json!({ "position": lost.position.to_string(), "lost": lost.lost.to_string() }),
        ),
        FrameKind::StreamBell => decode_bell(frame).map(|()| json!({})),
        FrameKind::StreamData => Data::decode(frame).map(|data| {
            json!({
                "position": data.head.position.to_string(),
                "crc32c": data.head.crc32c,
                "is_short_of_room": data.head.is_short_of_room,
                "bytes": hex(data.bytes),
            })
        }),
        FrameKind::StreamAck => Ack::decode(frame).map(|ack| {
            json!({
                "arrived": ack.arrived.to_string(), "read": ack.read.to_string(),
                "durable": ack.durable.to_string(),
                "credit_bytes": ack.credit_bytes.to_string(),
                "credit_elements": ack.credit_elements.to_string(),
                "has_end": ack.has_end,
            })
        }),
        FrameKind::StreamAsk => Ask::decode(frame).map(
            |ask| json!({ "until": ask.until.number(), "position": ask.position.to_string() }),
        ),
        FrameKind::StreamEnd => {
            decode_end(frame).map(|position| json!({ "position": position.to_string() }))
        }
        FrameKind::StreamAbort => Abort::decode(frame).map(|abort| {
            json!({
                "position": abort.position.to_string(),
                "transferred": abort.transferred.to_string(),
                "code": abort.code.name(), "sentence": abort.sentence,
            })
        }),
        FrameKind::StreamKeepalive => decode_keepalive(frame).map(|keepalive| {
            json!({
                "sent": keepalive.sent.to_string(), "echo": keepalive.echo.to_string(),
                "echo_held_ns": keepalive.echo_held_ns.to_string(),
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

fn status(status: &EndpointStatus) -> Json {
    json!({
        "endpoint": status.url,
        "direction": status.is_writer.map(|writes| if writes { "writes" } else { "reads" }),
        "type": status.data_type, "capacity": status.capacity.to_string(),
        "in_buffer": status.in_buffer.to_string(), "total": status.total.to_string(),
        "rate": status.rate.to_string(), "is_connected": status.is_connected,
        "disconnections": status.disconnections.to_string(),
        "away_ms": status.away_for.map(|time| time.as_millis() as u64),
        "stalled_ms": status.stalled_for.map(|time| time.as_millis() as u64),
        "last_disconnect": status.last_disconnect, "peer": status.peer,
        "peer_program": status.peer_program, "transport": status.transport,
        "fault": status.fault, "program": status.program, "pid": status.pid,
    })
}
