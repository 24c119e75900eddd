//! Readings as JSON objects, with the keys that `docs/reference/json.schema.json` describes.

use serde_json::{Map, Value as Json};
use trunkline_types::{Lost, Reason};

use super::Shown;
use super::values::ValueStyle;

/// An object with its keys in insertion order.
#[derive(Debug, Default)]
pub(crate) struct Object(Map<String, Json>);

impl Object {
    /// Returns an object that begins with the version of the structure.
    pub(crate) fn new() -> Self {
        let mut object = Self::default();
        object.put("v", 1);
        object
    }

    pub(crate) fn put(&mut self, key: &str, value: impl Into<Json>) {
        self.0.insert(key.to_owned(), value.into());
    }

    /// Adds a text unless it is empty.
    pub(crate) fn put_text(&mut self, key: &str, text: &str) {
        if !text.is_empty() {
            self.put(key, text);
        }
    }

    pub(crate) fn into_json(self) -> Json {
        Json::Object(self.0)
    }
}

/// Formats a reading.
pub(crate) fn reading(shown: &Shown<'_>, values: ValueStyle) -> Object {
    let (reading, sample) = (shown.reading, &shown.reading.sample);
    let mut object = Object::new();
    object.put("name", shown.name);
    if shown.is_written() {
        object.put("ts", sample.source_timestamp.to_string());
        if sample.engine_timestamp != sample.source_timestamp {
            object.put("engine_ts", sample.engine_timestamp.to_string());
        }
    }
    put_value(&mut object, shown, values);
    object.put("q", sample.quality.level().to_string());
    if sample.quality.reason() != Reason::None {
        object.put("reason", sample.quality.reason().to_string());
    }
    object.put("epoch", values.json_u64(reading.position.epoch));
    object.put("seq", values.json_u64(reading.position.sequence));
    object.put(
        "lost",
        reading
            .lost
            .count()
            .map_or(Json::Null, |lost| values.json_u64(lost)),
    );
    let lost_by = lost_by(&reading.lost, values);
    if !lost_by.is_empty() {
        object.put("lost_by", lost_by);
    }
    if let Some(age) = reading.stale {
        object.put("stale", true);
        object.put("age", age.as_secs_f64());
    }
    if reading.own {
        object.put("own", true);
    }
    object
}

/// Formats a value that was written, when nothing else is known about it.
pub(crate) fn value(shown: &Shown<'_>, values: ValueStyle) -> Object {
    let mut object = Object::new();
    object.put("name", shown.name);
    put_value(&mut object, shown, values);
    object
}

/// Adds the value, its type and its units.
fn put_value(object: &mut Object, shown: &Shown<'_>, values: ValueStyle) {
    let (facts, sample) = (shown.facts, &shown.reading.sample);
    let value = values.json(&sample.value, &facts.data_type);
    object.put(
        "value",
        if shown.has_value {
            value.value
        } else {
            Json::Null
        },
    );
    if let Some(special) = value.special.filter(|_| shown.has_value) {
        object.put("special", special);
    }
    if let Some(enc) = value.enc.filter(|_| shown.has_value) {
        object.put("enc", enc);
    }
    object.put("type", facts.data_type.to_string());
    object.put_text("units", &facts.units);
}

/// Returns the lost updates by cause; causes without losses are left out.
pub(crate) fn lost_by(lost: &Lost, values: ValueStyle) -> Map<String, Json> {
    let causes = [
        ("queue", lost.queue),
        ("overrun", lost.overrun),
        ("disconnect", lost.disconnect),
        ("coalesced", lost.coalesced),
    ];
    let present = causes.into_iter().filter(|(_, count)| *count > 0);
    present
        .map(|(cause, count)| (cause.to_owned(), values.json_u64(count)))
        .collect()
}

#[cfg(test)]
mod tests {
    use trunkline_types::{Lost, Position, Value};

    use super::*;
    use crate::output::specimen::{T, facts, reading as specimen, troubled};

    fn text(reading: &trunkline_types::Reading) -> String {
        let facts = facts();
        let shown = Shown::new("boiler/level", &facts, reading, T);
        super::reading(&shown, ValueStyle::default())
            .into_json()
            .to_string()
    }

    #[test]
    fn a_good_reading_has_the_documented_keys_in_their_order() {
        assert_eq!(
            text(&specimen()),
            "{\"v\":1,\"name\":\"boiler/level\",\"ts\":\"2026-11-20T21:39:04.123456789Z\",\
             \"value\":72.41,\"type\":\"f64\",\"units\":\"%\",\"q\":\"good\",\"epoch\":12,\
             \"seq\":48213,\"lost\":0}"
        );
    }

    #[test]
    fn everything_worth_saying_is_said() {
        assert_eq!(
            text(&troubled()),
            "{\"v\":1,\"name\":\"boiler/level\",\"ts\":\"2026-11-20T21:39:04.123456789Z\",\
             \"engine_ts\":\"2026-11-20T21:39:04.123456790Z\",\"value\":null,\"special\":\"nan\",\
             \"type\":\"f64\",\"units\":\"%\",\"q\":\"bad\",\"reason\":\"sensor-failure\",\
             \"epoch\":12,\"seq\":48213,\"lost\":3,\
             \"lost_by\":{\"queue\":2,\"overrun\":1,\"coalesced\":4},\"stale\":true,\"age\":3.25,\
             \"own\":true}"
        );
    }

    #[test]
    fn loss_that_cannot_be_counted_is_null_and_not_zero() {
        let reading = trunkline_types::Reading {
            lost: Lost {
                unknown: true,
                ..Lost::NONE
            },
            ..specimen()
        };
        assert!(
            text(&reading).contains("\"lost\":null"),
            "{}",
            text(&reading)
        );
    }

    #[test]
    fn a_source_without_a_value_says_so_and_not_zero() {
        let mut reading = specimen();
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
        let mut reading = specimen();
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
