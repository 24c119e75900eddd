//! The parts of payloads that several frames have, or that are long by themselves.

use serde_json::{Value as Json, json};
use trunkline_proto::message::form::{Configuration, Form, Numbered};
use trunkline_proto::message::open::{OpenOptions, Opened, OpenedVariable};
use trunkline_proto::message::record::UpdateRecord;
use trunkline_proto::message::write::{WriteOptions, WriteRecord, WriteVerb};
use trunkline_proto::{DecodeError, FaultRef};
use trunkline_types::{Properties, Quality, Timestamp};

use super::declared::shown;

pub(super) fn list<T>(
    items: impl Iterator<Item = Result<T, DecodeError>>,
    to_json: impl Fn(T) -> Json,
) -> Result<Vec<Json>, DecodeError> {
    items.map(|item| item.map(&to_json)).collect()
}

pub(super) fn options(options: OpenOptions) -> Json {
    json!({ "read": options.read, "describe": options.describe })
}

pub(super) fn opened(items: Opened<'_>) -> Result<Json, DecodeError> {
    Ok(json!({
        "options": options(items.options()), "first_index": items.first_index(),
        "items": list(items, |item| item.map_or_else(fault, |at| variable(&at)))?,
    }))
}

pub(super) fn variable(item: &OpenedVariable<'_>) -> Json {
    json!({
        "handle": item.handle, "type": item.data_type.to_string(),
        "access": shown(&|to| item.access.show("", to)),
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

pub(super) fn properties(properties: &Properties) -> Json {
    shown(&|to| Configuration::show(properties, "", to))
}

pub(super) fn fault(fault: FaultRef<'_>) -> Json {
    json!({ "code": fault.code.name(), "sentence": fault.sentence })
}

pub(super) fn nanos(time: Timestamp) -> String {
    time.as_nanos().to_string()
}

/// Bytes in lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
