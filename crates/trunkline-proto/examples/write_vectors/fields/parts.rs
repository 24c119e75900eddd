//! The parts of payloads that several frames have, or that are long by themselves.

use serde_json::{Value as Json, json};
use trunkline_proto::message::contract::SubscribeFlags;
use trunkline_proto::message::engine::EngineInfo;
use trunkline_proto::message::forcing::ForcedEntry;
use trunkline_proto::message::hello::{Hello, Welcome};
use trunkline_proto::message::info::VariableInfo;
use trunkline_proto::message::open::{OpenOptions, Opened, OpenedVariable};
use trunkline_proto::message::outcome::{WouldBlock, WriteAnswer};
use trunkline_proto::message::record::UpdateRecord;
use trunkline_proto::message::subscribe::SubscribeTerms;
use trunkline_proto::message::write::{WriteOptions, WriteRecord, WriteVerb};
use trunkline_proto::{DecodeError, FaultRef, Throughput};
use trunkline_types::wire::encode_value;
use trunkline_types::{
    Access, AuditEntry, AuditOutcome, Contract, Position, Properties, Quality, Timestamp,
};

pub(super) fn list<T>(
    items: impl Iterator<Item = Result<T, DecodeError>>,
    to_json: impl Fn(T) -> Json,
) -> Result<Vec<Json>, DecodeError> {
    items.map(|item| item.map(&to_json)).collect()
}

pub(super) fn hello(hello: &Hello) -> Json {
    json!({
        "version_min": hello.versions.min, "version_max": hello.versions.max,
        "features": hello.features.to_bits().to_string(), "client_name": hello.client_name,
        "program": hello.program, "user": hello.user, "pid": hello.pid,
        "frame_max": hello.frame_max, "message_max": hello.message_max,
        "window_records": hello.window_records, "window_bytes": hello.window_bytes,
        "resume": hello.resume.map(|resume| json!({
            "session": resume.session.to_string(), "epoch": resume.epoch.to_string(),
            "engine_id": hex(&resume.engine_id),
        })),
        "throughput": hello.throughput.map(throughput),
    })
}

pub(super) fn welcome(welcome: &Welcome) -> Json {
    json!({
        "version": welcome.version, "features": welcome.features.to_bits().to_string(),
        "epoch": welcome.epoch.to_string(), "engine_id": hex(&welcome.engine_id),
        "session": welcome.session.to_string(), "resumed": welcome.resumed,
        "frame_max": welcome.frame_max, "message_max": welcome.message_max,
        "items_max": welcome.items_max, "write_credit_count": welcome.write_credit_count,
        "write_credit_bytes": welcome.write_credit_bytes,
        "keepalive_ms": welcome.keepalive.as_millis() as u64,
        "deadline_ms": welcome.deadline.as_millis() as u64, "wall": nanos(welcome.wall),
        "engine_name": welcome.engine_name, "engine_version": welcome.engine_version,
        "throughput": welcome.throughput.map(throughput),
    })
}

pub(super) fn throughput(terms: Throughput) -> Json {
    json!({ "bytes": terms.bytes, "delay_us": terms.delay.as_micros() as u64 })
}

pub(super) fn options(options: OpenOptions) -> Json {
    json!({ "read": options.read, "describe": options.describe })
}

pub(super) fn subscribe_terms(terms: SubscribeTerms) -> Json {
    let SubscribeFlags {
        only_changes,
        own_suppressed,
        ..
    } = terms.flags;
    let mut contract = json!({ "name": terms.contract.to_string() });
    match terms.contract {
        Contract::Last(elements) | Contract::First(elements) => {
            contract["elements"] = json!(elements);
        }
        Contract::All { elements, bytes } => {
            contract["elements"] = json!(elements);
            contract["bytes"] = json!(bytes);
        }
        Contract::Sampled(period) => contract["period_ns"] = json!(period.as_nanos().to_string()),
        _ => {}
    }
    json!({
        "subscription": terms.subscription, "contract": contract, "only_changes": only_changes,
        "own_suppressed": own_suppressed,
    })
}

pub(super) fn opened(items: Opened<'_>) -> Result<Json, DecodeError> {
    Ok(json!({
        "options": options(items.options()), "first_index": items.first_index(),
        "items": list(items, |item| item.map_or_else(fault, |at| variable(&at)))?,
    }))
}

pub(super) fn variable(item: &OpenedVariable<'_>) -> Json {
    json!({
        "handle": item.handle, "type": item.data_type.to_string(), "access": access(item.access),
        "reading": item.reading.as_ref().map(record),
        "properties": item.properties.as_ref().map(properties),
    })
}

pub(super) fn record(record: &UpdateRecord<'_>) -> Json {
    json!({
        "handle": record.handle, "sequence": record.sequence.to_string(),
        "engine_timestamp": nanos(record.engine_timestamp),
        "source_timestamp": nanos(record.source_timestamp),
        "quality": record.quality.to_bits(), "own": record.own, "value": record.value.map(hex),
    })
}

pub(super) fn write(write: WriteRecord<'_>) -> Json {
    let WriteOptions {
        source_timestamp,
        quality,
        raw,
        verb,
        expected,
        superseded,
        try_only,
        ..
    } = write.options;
    json!({
        "write": write.write.to_string(), "handle": write.handle,
        "source_timestamp": source_timestamp.map(nanos), "quality": quality.map(Quality::to_bits),
        "raw": raw, "verb": verb_name(verb), "try_only": try_only, "superseded": superseded,
        "expected": expected.map(|at| json!({
            "epoch": at.epoch.to_string(), "sequence": at.sequence.to_string(),
        })),
        "value": hex(write.value),
    })
}

pub(super) fn verb_name(verb: Result<WriteVerb, u8>) -> String {
    match verb {
        Err(number) => number.to_string(),
        Ok(known) => format!("{known:?}").to_lowercase(),
    }
}

pub(super) fn answer((write, outcome): (u64, WriteAnswer<'_>)) -> Json {
    let mut item = match outcome {
        WriteAnswer::Applied(sequence) => {
            json!({ "outcome": "applied", "sequence": sequence.to_string() })
        }
        WriteAnswer::Unchanged(sequence) => {
            json!({ "outcome": "unchanged", "sequence": sequence.to_string() })
        }
        WriteAnswer::Superseded => json!({ "outcome": "superseded" }),
        WriteAnswer::Refused(at) => with("refused", fault(at)),
        WriteAnswer::NotTried(WouldBlock) => json!({ "outcome": "would-block" }),
        WriteAnswer::Unknown(at) => with("unknown", fault(at)),
    };
    item["write"] = json!(write.to_string());
    item
}

pub(super) fn with(outcome: &str, mut item: Json) -> Json {
    item["outcome"] = json!(outcome);
    item
}

pub(super) fn info(info: &VariableInfo) -> Json {
    let upstream = &info.upstream;
    let subscriptions = info.subscriptions.iter().map(|subscription| {
        let ledger = &subscription.ledger;
        json!({
            "terms": subscribe_terms(subscription.terms), "written": ledger.written.to_string(),
            "filtered": ledger.filtered.to_string(), "coalesced": ledger.coalesced.to_string(),
            "dropped_queue": ledger.dropped_queue.to_string(),
            "repaired": ledger.repaired.to_string(),
            "dropped_overrun": ledger.dropped_overrun.to_string(),
            "dropped_disconnect": ledger.dropped_disconnect.to_string(),
            "waiting": ledger.waiting.to_string(),
            "sent_unconfirmed": ledger.sent_unconfirmed.to_string(),
            "received": ledger.received.to_string(),
        })
    });
    json!({
        "name": info.name, "properties": properties(&info.properties),
        "sequence": info.sequence.to_string(), "engine_timestamp": nanos(info.engine_timestamp),
        "upstream": {
            "offered": upstream.offered.to_string(), "written": upstream.written.to_string(),
            "unchanged": upstream.unchanged.to_string(),
            "superseded": upstream.superseded.to_string(), "refused": upstream.refused.to_string(),
            "unknown": upstream.unknown.to_string(),
            "fifo_overflow": upstream.fifo_overflow.to_string(),
            "upstream_lost": upstream.upstream_lost.to_string(),
        },
        "subscribers": info.subscribers.to_string(), "last_writer": info.last_writer,
        "source_state": info.source_state, "audit": info.audit, "held_by": info.held_by,
        "lease_left_ms": info.lease_left.as_millis().to_string(),
        "writers_waiting": info.writers_waiting.to_string(),
        "subscriptions": subscriptions.collect::<Vec<_>>(),
        "readers": info.readers.iter().map(|reader| json!({
            "session": reader.session, "from": reader.from, "transport": reader.transport,
            "repaired": reader.repaired.to_string(),
        })).collect::<Vec<_>>(),
        "forced": info.forced.as_ref().map(forced),
    })
}

pub(super) fn forced(entry: &ForcedEntry) -> Json {
    let value = |value| {
        let mut bytes = Vec::new();
        encode_value(value, &mut bytes);
        hex(&bytes)
    };
    json!({
        "name": entry.name, "type": entry.data_type.to_string(), "value": value(&entry.value),
        "by": entry.by, "since": nanos(entry.since),
        "behind": entry.behind.as_ref().map(|(behind, quality)| json!({
            "value": value(behind), "quality": quality.to_bits(),
        })),
    })
}

pub(super) fn engine(info: &EngineInfo) -> Json {
    let libraries = info.libraries.iter().map(|library| {
        json!({
            "name": library.name, "state": library.state,
            "variables": library.variables.to_string(), "description": library.description,
        })
    });
    json!({
        "name": info.name, "version": info.version, "epoch": info.epoch.to_string(),
        "uptime_ns": info.uptime.as_nanos().to_string(), "pid": info.pid,
        "variables": info.variables.to_string(), "sessions": info.sessions.to_string(),
        "host": info.host, "started": nanos(info.started),
        "libraries": libraries.collect::<Vec<_>>(),
    })
}

/// The properties by which a reader of the vectors can tell that the block was understood.
pub(super) fn properties(properties: &Properties) -> Json {
    json!({
        "type": properties.data_type.to_string(), "description": properties.description,
        "units": properties.units, "range": properties.range.map(|(low, high)| [low, high]),
        "access": access(properties.access),
    })
}

pub(super) fn fault(fault: FaultRef<'_>) -> Json {
    json!({ "code": fault.code.name(), "sentence": fault.sentence })
}

pub(super) fn access(access: Access) -> &'static str {
    match access {
        Access::ReadWrite => "read-write",
        Access::ReadOnly => "read-only",
        Access::WriteOnly => "write-only",
    }
}

pub(super) fn nanos(time: Timestamp) -> String {
    time.as_nanos().to_string()
}

/// Bytes in lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn audited(entry: &AuditEntry) -> Json {
    let position = |position: &Position| {
        let (epoch, sequence) = (position.epoch.to_string(), position.sequence.to_string());
        json!({"epoch": epoch, "sequence": sequence})
    };
    let detail = match &entry.outcome {
        AuditOutcome::Done => Json::Null,
        AuditOutcome::Applied(at) | AuditOutcome::Unchanged(at) => position(at),
        AuditOutcome::Refused(sentence) | AuditOutcome::Unknown(sentence) => json!(sentence),
        AuditOutcome::Lost(count) => json!(count.to_string()),
    };
    json!({
        "number": entry.number.to_string(), "when": entry.when.as_nanos().to_string(),
        "who": entry.who, "from": entry.from, "action": entry.action.name(), "name": entry.name,
        "type": entry.data_type, "old": entry.old, "new": entry.new,
        "outcome": entry.outcome.name(), "detail": detail,
    })
}
