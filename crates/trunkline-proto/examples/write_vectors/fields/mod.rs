//! The contents of a frame, as JSON: the expected result of decoding a golden frame.
//!
//! Numbers of up to 32 bits are numbers; 64-bit ones are strings of decimal digits, because
//! JavaScript has no integers of that size. Values are their wire form in hexadecimal. Items keep
//! their order.

mod declared;
mod parts;
mod streams;

use serde_json::{Map, Value as Json, json};
use trunkline_proto::frame::Frame;
use trunkline_proto::message::group::GroupWrite;
use trunkline_proto::message::library::Deploy;
use trunkline_proto::message::open::Opened;
use trunkline_proto::message::provider::decode_provided;
use trunkline_proto::message::read::Readings;
use trunkline_proto::message::results::Results;
use trunkline_proto::message::snapshot::decode_snapshot;
use trunkline_proto::message::updates::Updates;
use trunkline_proto::message::write::Writes;
use trunkline_proto::{DecodeError, FrameKind};

pub use parts::hex;
use parts::{fault, list, nanos, opened, properties, record, write};

/// The header and the payload of a frame.
///
/// # Errors
/// [`DecodeError`] when the payload is not what the kind says.
pub fn fields(frame: &Frame<'_>) -> Result<Json, DecodeError> {
    let mut object = Map::new();
    let name = frame.kind().map_or("unknown", FrameKind::name);
    object.insert("kind".into(), json!(name));
    object.insert("number".into(), json!(frame.header().kind));
    object.insert("request".into(), json!(frame.request()));
    object.insert("count".into(), json!(frame.count()));
    object.insert("more".into(), json!(frame.has_more()));
    if !frame.extension().is_empty() {
        object.insert("extension".into(), json!(hex(frame.extension())));
    }
    if let Json::Object(payload) = payload(frame)? {
        object.extend(payload);
    }
    Ok(Json::Object(object))
}

fn payload(frame: &Frame<'_>) -> Result<Json, DecodeError> {
    let Some(kind) = frame.kind() else {
        return Ok(json!({}));
    };
    if let Some(fields) = declared::declared(frame) {
        return fields.map(|fields| with_ids(kind, fields));
    }
    Ok(match kind {
        FrameKind::Opened => opened(Opened::decode(frame)?)?,
        FrameKind::Subscribed | FrameKind::Closed | FrameKind::Requested => {
            let results = Results::decode(frame)?;
            json!({
                "first_index": results.first_index(),
                "exceptions": list(results, |(index, at)| {
                    let mut item = fault(at);
                    item["index"] = json!(index);
                    item
                })?,
            })
        }
        FrameKind::Readings => {
            let readings = Readings::decode(frame)?;
            json!({
                "first_index": readings.first_index(),
                "items": list(readings, |item| item.map_or_else(fault, |at| record(&at)))?,
            })
        }
        FrameKind::Write | FrameKind::Publish | FrameKind::ProviderWrite => {
            let writes = Writes::decode(frame)?;
            json!({
                "first_write": writes.first_write().to_string(), "items": list(writes, write)?,
            })
        }
        FrameKind::GroupWrite => {
            let group = GroupWrite::decode(frame)?;
            json!({ "try": group.try_only(), "items": list(group, write)? })
        }
        FrameKind::SnapshotAnswer => {
            let (head, readings) = decode_snapshot(frame)?;
            json!({
                "first_index": readings.first_index(), "consistent": head.is_consistent,
                "commit": head.commit.to_string(), "instant": nanos(head.instant),
                "items": list(readings, |item| item.map_or_else(fault, |at| record(&at)))?,
            })
        }
        FrameKind::Updates => json!({ "items": list(Updates::decode(frame)?, |at| record(&at))? }),
        FrameKind::Repaired => {
            json!({ "items": list(Updates::decode_repaired(frame)?, |at| record(&at))? })
        }
        FrameKind::Deploy => {
            let deploy = Deploy::decode(frame)?;
            let head = deploy.head();
            json!({
                "library": head.library, "description": head.description, "replace": head.replace,
                "items": list(deploy, |variable| json!({
                    "path": variable.path, "properties": properties(&variable.properties),
                }))?,
            })
        }
        FrameKind::Provided => {
            let (lease, items) = decode_provided(frame)?;
            let mut object = json!({ "lease_ms": lease.as_millis() as u64 });
            if let (Json::Object(object), Json::Object(rest)) = (&mut object, opened(items)?) {
                object.extend(rest);
            }
            object
        }
        _ => match streams::stream(frame) {
            Some(fields) => fields?,
            None => json!({ "payload": hex(frame.payload()) }),
        },
    })
}

/// Adds to each answer the id of its write, which is 0 in a group.
fn with_ids(kind: FrameKind, mut fields: Json) -> Json {
    if let FrameKind::WriteAnswers | FrameKind::GroupAnswer = kind {
        let first = fields["first_write"]
            .as_str()
            .and_then(|first| first.parse().ok());
        let items = fields["items"].as_array_mut().into_iter().flatten();
        for (item, index) in items.zip(0_u64..) {
            let id = first.map_or(0, |first: u64| first.wrapping_add(index));
            item["write"] = json!(id.to_string());
        }
    }
    fields
}
