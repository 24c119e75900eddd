//! The record that programs get for a reading, as JSON or CSV.

use serde_json::Value as Json;
use trunkline_types::{Lost, Position, Reason};

use super::record::{JsonSchema, Serialize};
use super::values::{Amount, ValueStyle, WideInt};
use super::{Metadata, ReadingView};

/// One reading: a line of `get` or `monitor` with --json. The output of other commands is under
/// $defs. Within version 1, no key changes its meaning; new keys may appear.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[schemars(title = "Trunkline reading, version 1")]
pub(crate) struct Reading {
    /// Full name of the variable.
    name: String,
    /// Source timestamp: when the value was measured. RFC 3339, nanoseconds, UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    ts: Option<String>,
    /// Engine timestamp: when the engine accepted the value. Left out when equal to `ts`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    engine_ts: Option<String>,
    /// The value. An enum is its label, bytes are base64, a timestamp is RFC 3339, an array is
    /// nested by its shape, a struct is an object. An array without elements is `[]`, or an object
    /// such as `{"shape": [0, 3]}` if its type allows several shapes and `[]` does not determine
    /// the shape. Null when nothing was written yet, or when `special` has the value.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Json>,
    /// The number if JSON cannot represent it: `nan`, `inf` or `-inf`. `value` is null then.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["nan", "inf", "-inf"]))]
    special: Option<&'static str>,
    /// Encoding of `value`, if it has one: `base64`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["base64"]))]
    enc: Option<&'static str>,
    /// Data type, as in a configuration: `f64`, `enum(OFF, AUTO)`, `array(f64, 3, 4)`.
    #[serde(rename = "type")]
    data_type: String,
    /// Engineering unit. Left out when there is none.
    #[serde(skip_serializing_if = "String::is_empty")]
    units: String,
    /// Level of the quality: `good`, `uncertain` or `bad`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["good", "uncertain", "bad"]))]
    q: Option<String>,
    /// Reason of the quality, such as `sensor-failure`. Left out when there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Identifies the run of the engine; it changes at each start. Compare for equality only. A string
    /// with `--int-strings`.
    #[serde(skip_serializing_if = "Option::is_none")]
    epoch: Option<WideInt>,
    /// Number of the update within the epoch; 0 when nothing was written yet. A string with
    /// `--int-strings`.
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<WideInt>,
    /// Number of updates since the previous reading that the contract promises, but that were not
    /// received. Null when the number is unknown, because the engine was restarted in the meantime. A
    /// string with `--int-strings`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-nullable" = true))]
    lost: Option<Option<WideInt>>,
    /// Number of missing updates by cause: `queue`, `overrun`, `disconnect`; and `coalesced`,
    /// which is not a loss. Left out when empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    lost_by: Option<LostBy>,
    /// The value may no longer be the current one. Left out when false.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(extend("const" = true))]
    stale: bool,
    /// Age of a stale value, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    age: Option<Amount>,
    /// This client itself wrote the update. Left out when false.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(extend("const" = true))]
    own: bool,
}

/// The lost updates by cause; causes without losses are left out.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct LostBy {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    queue: Option<WideInt>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    overrun: Option<WideInt>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    disconnect: Option<WideInt>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    coalesced: Option<WideInt>,
}

impl LostBy {
    fn new(lost: &Lost, values: ValueStyle) -> Option<Self> {
        let count = |count| (count > 0).then(|| values.int_or_text(count));
        let all = [lost.queue, lost.overrun, lost.disconnect, lost.coalesced];
        all.iter().any(|count| *count > 0).then(|| Self {
            queue: count(lost.queue),
            overrun: count(lost.overrun),
            disconnect: count(lost.disconnect),
            coalesced: count(lost.coalesced),
        })
    }
}

impl Reading {
    pub(crate) fn new(view: &ReadingView<'_>, values: ValueStyle) -> Self {
        let (reading, sample) = (view.reading, &view.reading.sample);
        let (source, engine) = (sample.source_timestamp, sample.engine_timestamp);
        let reason = sample.quality.reason();
        Self {
            ts: view.is_written().then(|| source.to_string()),
            engine_ts: (view.is_written() && engine != source).then(|| engine.to_string()),
            q: Some(sample.quality.level().to_string()),
            reason: (reason != Reason::None).then(|| reason.to_string()),
            epoch: Some(values.int_or_text(reading.position.epoch)),
            seq: Some(values.int_or_text(reading.position.sequence)),
            lost: Some(reading.lost.count().map(|lost| values.int_or_text(lost))),
            lost_by: LostBy::new(&reading.lost, values),
            stale: reading.stale.is_some(),
            age: reading.stale.map(Amount::from),
            own: reading.own,
            ..Self::of_value(view, None, values)
        }
    }

    /// Returns the record of a variable whose value is not known.
    pub(crate) fn unread(name: &str, metadata: &Metadata) -> Self {
        Self {
            name: name.to_owned(),
            data_type: metadata.data_type.to_string(),
            units: metadata.units.clone(),
            ..Self::default()
        }
    }

    /// Returns the record of a value that was written, with the position of its update if known.
    pub(crate) fn of_value(
        view: &ReadingView<'_>,
        position: Option<Position>,
        values: ValueStyle,
    ) -> Self {
        let (metadata, sample) = (view.metadata, &view.reading.sample);
        let value = values.json(&sample.value, &metadata.data_type);
        Self {
            value: Some(match view.has_value {
                true => value.value,
                false => Json::Null,
            }),
            special: value.special.filter(|_| view.has_value),
            enc: value.enc.filter(|_| view.has_value),
            epoch: position.map(|position| values.int_or_text(position.epoch)),
            seq: position.map(|position| values.int_or_text(position.sequence)),
            ..Self::unread(view.name, metadata)
        }
    }
}

#[cfg(test)]
mod tests {
    use trunkline_types::{Lost, Value};

    use super::*;
    use crate::output::fixtures::{T, metadata, reading as reading_fixture, with_bad_quality};
    use crate::output::record::json;

    fn text(reading: &trunkline_types::Reading) -> String {
        let metadata = metadata();
        let view = ReadingView::new("boiler/level", &metadata, reading, T);
        json(&super::Reading::new(&view, ValueStyle::default()))
    }

    #[test]
    fn a_good_reading_has_the_documented_keys_in_their_order() {
        assert_eq!(
            text(&reading_fixture()),
            "{\"v\":1,\"name\":\"boiler/level\",\"ts\":\"2026-11-20T21:39:04.123456789Z\",\
             \"value\":72.41,\"type\":\"f64\",\"units\":\"%\",\"q\":\"good\",\"epoch\":12,\
             \"seq\":48213,\"lost\":0}"
        );
    }

    #[test]
    fn a_reading_of_bad_quality_has_all_optional_keys() {
        assert_eq!(
            text(&with_bad_quality()),
            "{\"v\":1,\"name\":\"boiler/level\",\"ts\":\"2026-11-20T21:39:04.123456789Z\",\
             \"engine_ts\":\"2026-11-20T21:39:04.123456790Z\",\"value\":null,\"special\":\"nan\",\
             \"type\":\"f64\",\"units\":\"%\",\"q\":\"bad\",\"reason\":\"sensor-failure\",\
             \"epoch\":12,\"seq\":48213,\"lost\":3,\
             \"lost_by\":{\"queue\":2,\"overrun\":1,\"coalesced\":4},\"stale\":true,\"age\":3.25,\
             \"own\":true}"
        );
    }

    #[test]
    fn an_unknown_number_of_lost_updates_is_null() {
        let reading = trunkline_types::Reading {
            lost: Lost {
                unknown: true,
                ..Lost::NONE
            },
            ..reading_fixture()
        };
        assert!(
            text(&reading).contains("\"lost\":null"),
            "{}",
            text(&reading)
        );
    }

    #[test]
    fn source_without_a_value_is_not_shown_as_zero() {
        let mut reading = reading_fixture();
        reading.sample.quality = trunkline_types::Quality::bad(Reason::NoValue);
        let text = text(&reading);
        assert!(
            text.contains("\"value\":null") && text.contains("\"ts\""),
            "{text}"
        );
        assert!(text.contains("\"reason\":\"no-value\""), "{text}");
    }

    #[test]
    fn nothing_written_yet_is_null_without_a_time() {
        let mut reading = reading_fixture();
        reading.position = Position {
            epoch: 12,
            sequence: 0,
        };
        reading.sample.value = Value::F64(0.0);
        let text = text(&reading);
        assert!(
            text.contains("\"value\":null") && !text.contains("\"ts\""),
            "{text}"
        );
        assert!(text.contains("\"seq\":0"), "{text}");
    }
}
