//! The JSON output of `info`.

use serde_json::Value as Json;
use trunkline::Opened;
use trunkline::proto::VariableInfo;
use trunkline_types::Value;
use trunkline_types::ledger::WriteLedger;

use super::words::scope_name;
use crate::Context;
use crate::connection::metadata;
use crate::output::reading::Reading;
use crate::output::record::{JsonSchema, Serialize};
use crate::output::values::{Amount, ValueStyle, WideInt};
use crate::output::{Metadata, ReadingView};
use crate::verbs::find::access_name;

/// One line of `info`: the reading, and everything else that the engine knows about the variable.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "Trunkline variable, version 1")]
pub(crate) struct Info {
    #[serde(flatten)]
    reading: Reading,
    /// Description for people. Left out when empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    description: String,
    /// Lowest and highest engineering value.
    #[serde(skip_serializing_if = "Option::is_none")]
    range: Option<(f64, f64)>,
    /// Whether a value outside the range is set to the nearest end of the range. Only with `range`.
    #[serde(skip_serializing_if = "Option::is_none")]
    coerce: Option<bool>,
    /// The variable keeps its newest value across restarts of the engine. Left out when false.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(extend("const" = true))]
    retain: bool,
    /// Register number: `:/NUMBER` is another name of the variable. Left out when it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<u32>,
    /// Where the audit trail of its writes is stored. Left out when they are not audited.
    #[serde(skip_serializing_if = "String::is_empty")]
    audit: String,
    /// Access of clients, independent of their rights.
    #[schemars(extend("enum" = ["read-write", "read-only", "write-only"]))]
    access: &'static str,
    /// Whether the variable can be reached over the network, or only in the engine's own process.
    #[schemars(extend("enum" = ["network", "process"]))]
    scope: &'static str,
    /// Source of its value. Left out when it has none.
    #[serde(skip_serializing_if = "String::is_empty")]
    source: String,
    /// The variable that this alias shows and writes. Left out when it is not an alias.
    #[serde(skip_serializing_if = "String::is_empty")]
    alias: String,
    /// State of the source, in a sentence.
    #[serde(skip_serializing_if = "String::is_empty")]
    source_state: String,
    #[serde(flatten)]
    forced: Option<Forced>,
    /// Number of the last update, 0 when nothing was written yet.
    updates: WideInt,
    /// The last writer. Left out when there is none.
    #[serde(skip_serializing_if = "String::is_empty")]
    last_writer: String,
    /// Only the first client that writes the variable may write it. Left out when false.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    single_writer: bool,
    /// The only client that may write the variable now: the holder of its lease, or its single writer.
    /// Left out when there is none.
    #[serde(skip_serializing_if = "String::is_empty")]
    held_by: String,
    /// Remaining time of the lease, in seconds. Left out when there is no lease.
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_left: Option<Amount>,
    /// Number of clients whose writes were refused because of the single writer, and which may become
    /// its successor. Left out when there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    writers_waiting: Option<u64>,
    /// Number of subscriptions, over all connections.
    subscribers: u64,
    /// The sessions that subscribe to the variable, at most 32. Left out when there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    readers: Vec<Reader>,
    /// Outcomes of all writes: `offered` is the sum of the others.
    writes: Ledger,
    /// File and line of its configuration. Left out when a program created the variable.
    #[serde(skip_serializing_if = "String::is_empty")]
    configured: String,
    /// Fields that can be opened as NAME#FIELD; alarm.hi.* stands for the fields of the alarm hi.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    fields: Vec<String>,
    /// The current value and the values after it; with `--trend` only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    trend: Vec<Json>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Forced {
    /// The forced value. Left out when the variable is not forced.
    forced: Json,
    /// Principal that forced it. Only with `forced`.
    forced_by: String,
    /// Time at which the variable was forced. Only with `forced`.
    #[schemars(extend("format" = "date-time"))]
    forced_since: String,
    /// The current value of its source. Only with `forced`; left out when there is none yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    behind: Option<Json>,
    /// Quality of that value. Only with `behind`.
    #[serde(skip_serializing_if = "Option::is_none")]
    behind_q: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Reader {
    /// Number of the session; 0 is the engine's own process.
    session: u32,
    /// Items of all its subscriptions that were resent because the session held a different value.
    /// Anything above 0 is a fault.
    repaired: WideInt,
    /// Origin of the session. Left out when it is unknown.
    #[serde(skip_serializing_if = "String::is_empty")]
    from: String,
    /// Transport of its connection: TCP, Unix socket, shared memory, memory. Left out when there is
    /// none.
    #[serde(skip_serializing_if = "String::is_empty")]
    transport: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Ledger {
    offered: WideInt,
    written: WideInt,
    unchanged: WideInt,
    superseded: WideInt,
    refused: WideInt,
    unknown: WideInt,
    fifo_overflow: WideInt,
    upstream_lost: WideInt,
}

impl Ledger {
    fn new(ledger: &WriteLedger, values: ValueStyle) -> Self {
        Self {
            offered: values.int_or_text(ledger.offered),
            written: values.int_or_text(ledger.written),
            unchanged: values.int_or_text(ledger.unchanged),
            superseded: values.int_or_text(ledger.superseded),
            refused: values.int_or_text(ledger.refused),
            unknown: values.int_or_text(ledger.unknown),
            fifo_overflow: values.int_or_text(ledger.fifo_overflow),
            upstream_lost: values.int_or_text(ledger.upstream_lost),
        }
    }
}

impl Info {
    pub(super) fn new(
        opened: &Opened,
        info: &VariableInfo,
        fields: Vec<String>,
        trend: &[Value],
        context: &Context,
    ) -> Self {
        let values = context.settings.values;
        let properties = info.properties.clone();
        let data_type = &info.properties.data_type;
        let metadata = Metadata {
            units: properties.units,
            ..metadata(opened)
        };
        let reading = match &opened.reading {
            Some(reading) => {
                let received = context.clock.wall();
                let view = ReadingView::new(&info.name, &metadata, reading, received);
                Reading::new(&view, values)
            }
            None => Reading::unread(&info.name, &metadata),
        };
        let forced = info.forced.as_ref().map(|forced| {
            let json = |value| values.json(value, &forced.data_type).value;
            let behind = forced.behind.as_ref();
            Forced {
                forced: json(&forced.value),
                forced_by: forced.by.clone(),
                forced_since: forced.since.to_string(),
                behind: behind.map(|(value, _)| json(value)),
                behind_q: behind.map(|(_, quality)| quality.to_string()),
            }
        });
        let readers = info.readers.iter().map(|reader| Reader {
            session: reader.session,
            repaired: values.int_or_text(reader.repaired),
            from: reader.from.clone(),
            transport: reader.transport.clone(),
        });
        let lease_left = info.lease_left;
        Self {
            reading,
            description: properties.description,
            range: properties.range,
            coerce: properties.range.map(|_| properties.coerce),
            retain: properties.retain,
            number: properties.number,
            audit: info.audit.clone(),
            access: access_name(properties.access),
            scope: scope_name(properties.scope),
            source: properties.source,
            alias: properties.alias,
            source_state: info.source_state.clone(),
            forced,
            updates: values.int_or_text(info.sequence),
            last_writer: info.last_writer.clone(),
            single_writer: properties.single_writer,
            held_by: info.held_by.clone(),
            lease_left: (!lease_left.is_zero()).then(|| lease_left.into()),
            writers_waiting: Some(info.writers_waiting).filter(|waiting| *waiting > 0),
            subscribers: info.subscribers,
            readers: readers.collect(),
            writes: Ledger::new(&info.write_ledger, values),
            configured: properties.origin,
            fields,
            trend: trend
                .iter()
                .map(|value| values.json(value, data_type).into_plain())
                .collect(),
        }
    }
}
