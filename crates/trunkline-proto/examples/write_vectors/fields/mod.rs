//! What a frame says, as JSON: the expected result of decoding a golden frame.
//!
//! Numbers of up to 32 bits are numbers; 64-bit ones are strings of decimal digits, because
//! JavaScript has no integers of that size. Values are their wire form in hexadecimal. Items keep
//! their order.

mod declared;
mod parts;
mod streams;

use serde_json::{Map, Value as Json, json};
use trunkline_proto::frame::Frame;
use trunkline_proto::message::audit::{Audit, AuditPageFrame};
use trunkline_proto::message::closing::{Goodbye, Refused};
use trunkline_proto::message::convergence::{Check, Compare};
use trunkline_proto::message::engine::{EngineInfo, decode_engine_request};
use trunkline_proto::message::fault::FaultMessage;
use trunkline_proto::message::find::Find;
use trunkline_proto::message::flush::{decode_flush, decode_flushed};
use trunkline_proto::message::forcing::{Forced, Forcing, ForcingVerb};
use trunkline_proto::message::group::{GroupAnswer, GroupWrite};
use trunkline_proto::message::handles::{Handles, Unsubscribe};
use trunkline_proto::message::hello::{Hello, Welcome};
use trunkline_proto::message::info::InfoAnswer;
use trunkline_proto::message::keepalive::{Ack, Keepalive};
use trunkline_proto::message::library::{
    Deploy, LibraryAfter, LibraryOrder, LibraryReport, LibraryVerb,
};
use trunkline_proto::message::lost::LostRecords;
use trunkline_proto::message::open::{Open, Opened};
use trunkline_proto::message::provider::{
    Provide, ProviderAnswers, ProviderBind, ProviderOutcome, decode_provided,
    decode_provider_request,
};
use trunkline_proto::message::read::Readings;
use trunkline_proto::message::results::Results;
use trunkline_proto::message::snapshot::decode_snapshot;
use trunkline_proto::message::subscribe::Subscribe;
use trunkline_proto::message::updates::Updates;
use trunkline_proto::message::watch::{Appeared, Vanished};
use trunkline_proto::message::write::Writes;
use trunkline_proto::message::write_answers::WriteAnswers;
use trunkline_proto::{DecodeError, FrameKind};
use trunkline_types::Quality;

pub use parts::hex;
use parts::{
    access, answer, audited, engine, fault, forced, hello, info, list, nanos, opened, options,
    properties, record, subscribe_terms, welcome, with, write,
};

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
        return fields;
    }
    Ok(match kind {
        FrameKind::Hello => hello(&Hello::decode(frame)?),
        FrameKind::Welcome => welcome(&Welcome::decode(frame)?),
        FrameKind::Refused => {
            let refused = Refused::decode(frame)?;
            json!({
                "code": refused.code.name(), "sentence": refused.sentence,
                "version_min": refused.versions.min, "version_max": refused.versions.max,
                "retry_after_ms": refused.retry_after.map_or(0, |after| after.as_millis() as u64),
            })
        }
        FrameKind::Goodbye => {
            let goodbye = Goodbye::decode(frame)?;
            json!({
                "code": goodbye.code.name(), "sentence": goodbye.sentence,
                "retry_after_ms": goodbye.retry_after.map_or(0, |after| after.as_millis() as u64),
            })
        }
        FrameKind::Keepalive => {
            let keepalive = Keepalive::decode(frame)?;
            json!({
                "sent": keepalive.sent.to_string(), "echo": keepalive.echo.to_string(),
                "echo_held_ns": keepalive.echo_held_ns.to_string(),
                "records_received": keepalive.records_received.to_string(),
                "digest": keepalive.digest.to_string(),
            })
        }
        FrameKind::Ack => {
            let ack = Ack::decode(frame)?;
            json!({
                "records_received": ack.records_received().to_string(),
                "items": list(ack, |grant| json!({
                    "subscription": grant.subscription, "more": grant.more.to_string(),
                }))?,
            })
        }
        FrameKind::Open => {
            let open = Open::decode(frame)?;
            let terms = open.terms();
            json!({
                "options": options(terms.options),
                "subscribe": terms.subscribe.map(subscribe_terms),
                "items": list(open, |name| json!(String::from_utf8_lossy(name)))?,
            })
        }
        FrameKind::Opened => opened(Opened::decode(frame)?)?,
        FrameKind::Subscribe => {
            let subscribe = Subscribe::decode(frame)?;
            json!({
                "terms": subscribe_terms(subscribe.terms()),
                "resume_epoch": subscribe.resume_epoch().map(|epoch| epoch.to_string()),
                "items": list(subscribe, |item| json!({
                    "handle": item.handle, "last_sequence": item.last_sequence.to_string(),
                }))?,
            })
        }
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
        FrameKind::Unsubscribe => {
            let message = Unsubscribe::decode(frame)?;
            json!({
                "subscription": message.subscription,
                "items": list(message.handles, |handle| json!(handle))?,
            })
        }
        FrameKind::Read
        | FrameKind::Snapshot
        | FrameKind::Close
        | FrameKind::Info
        | FrameKind::RequestValue
        | FrameKind::Gone => json!({ "items": list(Handles::decode(frame)?, |at| json!(at))? }),
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
        FrameKind::GroupAnswer => {
            let group = GroupAnswer::decode(frame)?;
            let head = group.head();
            json!({
                "commit": head.commit.map(|commit| commit.to_string()), "culprit": head.culprit,
                "items": list(group, |outcome| answer((0, outcome)))?,
            })
        }
        FrameKind::SnapshotAnswer => {
            let (head, readings) = decode_snapshot(frame)?;
            json!({
                "first_index": readings.first_index(), "consistent": head.is_consistent,
                "commit": head.commit.to_string(), "instant": nanos(head.instant),
                "items": list(readings, |item| item.map_or_else(fault, |at| record(&at)))?,
            })
        }
        FrameKind::WriteAnswers => {
            let answers = WriteAnswers::decode(frame)?;
            json!({
                "first_write": answers.first_write().to_string(), "items": list(answers, answer)?,
            })
        }
        FrameKind::Updates => json!({ "items": list(Updates::decode(frame)?, |at| record(&at))? }),
        FrameKind::Repaired => {
            json!({ "items": list(Updates::decode_repaired(frame)?, |at| record(&at))? })
        }
        FrameKind::Check => json!({
            "items": list(Check::decode(frame)?, |chunk| json!({
                "subscription": chunk.subscription, "handles": chunk.handles,
                "digest": chunk.digest.to_string(),
            }))?,
        }),
        FrameKind::Compare => {
            let compare = Compare::decode(frame)?;
            json!({
                "records_received": compare.records_received().to_string(),
                "items": list(compare, |item| json!({
                    "subscription": item.subscription, "handle": item.handle,
                    "sequence": item.sequence.to_string(), "digest": item.digest.to_string(),
                }))?,
            })
        }
        FrameKind::Lost => json!({
            "items": list(LostRecords::decode(frame)?, |lost| json!({
                "handle": lost.handle, "filtered": lost.filtered.to_string(),
                "queue": lost.queue.to_string(), "overrun": lost.overrun.to_string(),
                "disconnect": lost.disconnect.to_string(), "unknown": lost.unknown,
            }))?,
        }),
        FrameKind::Find => {
            let (find, conditions) = Find::decode(frame)?;
            let mut fields = json!({
                "cursor": find.cursor.to_string(), "limit": find.limit, "pattern": find.pattern,
            });
            if frame.count() > 0 {
                let conditions = list(conditions, |condition| {
                    json!({
                        "field": condition.field, "comparison": condition.comparison,
                        "value": condition.value,
                    })
                })?;
                fields["conditions"] = conditions.into();
            }
            fields
        }
        FrameKind::Appeared => {
            let appeared = Appeared::decode(frame)?;
            json!({
                "watch": appeared.watch(), "revision": appeared.revision().to_string(),
                "listed": appeared.is_listed(), "anew": appeared.begins_anew(),
                "items": list(appeared, |item| json!({
                    "handle": item.handle, "name": item.name,
                    "type": item.data_type.to_string(), "access": access(item.access),
                }))?,
            })
        }
        FrameKind::Vanished => {
            let vanished = Vanished::decode(frame)?;
            json!({
                "watch": vanished.watch, "revision": vanished.revision.to_string(),
                "handles": list(vanished.handles, |handle| json!(handle))?,
            })
        }
        FrameKind::InfoAnswer => {
            let answer = InfoAnswer::decode(frame)?;
            json!({
                "first_index": answer.first_index(),
                "items": list(answer, |item| item.map_or_else(fault, |at| info(&at)))?,
            })
        }
        FrameKind::Engine => {
            decode_engine_request(frame)?;
            json!({})
        }
        FrameKind::Flush => {
            decode_flush(frame)?;
            json!({})
        }
        FrameKind::Flushed => {
            decode_flushed(frame)?;
            json!({})
        }
        FrameKind::EngineAnswer => engine(&EngineInfo::decode(frame)?),
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
        FrameKind::Order => {
            let order = LibraryOrder::decode(frame)?;
            let (verb, force) = match order.verb {
                LibraryVerb::Undeploy { force } => ("undeploy", force),
                LibraryVerb::Start => ("start", false),
                LibraryVerb::Stop => ("stop", false),
            };
            json!({ "verb": verb, "force": force, "library": order.library })
        }
        FrameKind::Forcing => {
            let forcing = Forcing::decode(frame)?;
            let verb = match forcing.verb {
                ForcingVerb::List => "list",
                ForcingVerb::On => "on",
                ForcingVerb::Off => "off",
                ForcingVerb::Clear => "clear",
            };
            json!({ "verb": verb, "cursor": forcing.cursor, "limit": forcing.limit })
        }
        FrameKind::Forced => {
            let list_of = Forced::decode(frame)?;
            let head = list_of.head();
            json!({
                "is_on": head.is_on, "total": head.total, "next_cursor": head.next_cursor,
                "items": list(list_of, |entry| forced(&entry))?,
            })
        }
        FrameKind::Report => {
            let report = LibraryReport::decode(frame)?;
            let after = match report.after {
                LibraryAfter::Undeployed => "undeployed",
                LibraryAfter::Running => "running",
                LibraryAfter::Stopped => "stopped",
            };
            json!({
                "after": after, "added": report.added.to_string(),
                "changed": report.changed.to_string(), "kept": report.kept.to_string(),
                "removed": report.removed.to_string(),
            })
        }
        FrameKind::Audit => {
            let audit = Audit::decode(frame)?;
            json!({
                "from": audit.from.map(|from| from.to_string()),
                "since": audit.since.map(|since| since.as_nanos().to_string()),
                "pattern": audit.pattern, "who": audit.who,
                "newest_first": audit.newest_first, "limit": audit.limit,
            })
        }
        FrameKind::AuditPage => {
            let page = AuditPageFrame::decode(frame)?;
            let head = page.head();
            json!({
                "next": head.next.unwrap_or(0).to_string(), "removed": head.removed.to_string(),
                "state": head.state, "items": list(page, |entry| audited(&entry))?,
            })
        }
        FrameKind::Fault => fault(FaultMessage::decode(frame)?.fault),
        FrameKind::Provide => {
            let provide = Provide::decode(frame)?;
            json!({
                "lease_ms": provide.lease().as_millis() as u64, "provider": provide.provider(),
                "items": list(provide, |name| json!(String::from_utf8_lossy(name)))?,
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
        FrameKind::ProviderRequest => {
            let (first_ticket, handles) = decode_provider_request(frame)?;
            json!({
                "first_ticket": first_ticket.to_string(),
                "items": list(handles, |handle| json!(handle))?,
            })
        }
        FrameKind::ProviderBind => json!({
            "items": list(ProviderBind::decode(frame)?, |bound| json!({
                "handle": bound.handle, "type": bound.data_type.to_string(),
                "access": access(bound.access), "item": bound.item,
            }))?,
        }),
        FrameKind::ProviderAnswer => json!({
            "items": list(ProviderAnswers::decode(frame)?, |answer| {
                let mut item = match answer.outcome {
                    ProviderOutcome::Applied(back) => json!({
                        "outcome": "applied", "source_timestamp": back.source_timestamp.map(nanos),
                        "quality": back.quality.map(Quality::to_bits), "value": back.value.map(hex),
                    }),
                    ProviderOutcome::Refused(at) => with("refused", fault(at)),
                    ProviderOutcome::Unknown(at) => with("unknown", fault(at)),
                };
                item["ticket"] = json!(answer.ticket.to_string());
                item
            })?,
        }),
        _ => match streams::stream(frame) {
            Some(fields) => fields?,
            None => json!({ "payload": hex(frame.payload()) }),
        },
    })
}
