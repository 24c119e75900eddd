//! Formats values as text and as JSON, in the style that the options select.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde_json::Value as Json;
use trunkline_types::json::{JsonValue, to_json};
use trunkline_types::text::{Digits, FormatOptions, format_value};
use trunkline_types::{ArrayType, DataType, ElementType, StructType, Value};

use crate::arguments::{GlobalArgs, OutputFormat};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ValueStyle {
    digits: Option<Digits>,
    hex: bool,
    enum_number: bool,
    elements: Option<usize>,
    int_strings: bool,
    for_people: bool,
}

/// Default number of array elements shown in a table.
const TABLE_ELEMENTS: usize = 8;

impl ValueStyle {
    pub(crate) fn new(global: &GlobalArgs, format: OutputFormat) -> Self {
        let elements = match format {
            OutputFormat::Table => Some(global.elements.unwrap_or(TABLE_ELEMENTS)),
            OutputFormat::Plain => global.elements,
            // Programs get all elements.
            OutputFormat::Json | OutputFormat::Jsonl | OutputFormat::Csv => None,
        };
        Self {
            digits: global.digits(),
            hex: global.hex,
            enum_number: global.enum_number,
            elements,
            int_strings: global.int_strings,
            for_people: format.is_for_people(),
        }
    }

    pub(crate) fn for_programs(self) -> Self {
        Self {
            elements: None,
            for_people: false,
            ..self
        }
    }

    /// Formats the value as text. `configured` is the variable's own precision; it applies only to
    /// output for people, and only if no option sets the precision.
    pub(crate) fn text(self, value: &Value, ty: &DataType, configured: Option<u8>) -> String {
        let configured = configured.filter(|_| self.for_people);
        let options = FormatOptions {
            precision: self.digits.or(configured.map(Digits::Fixed)),
            elide: self.elements,
            hex: self.hex,
            enum_number: self.enum_number,
        };
        format_value(value, ty, &options)
    }

    pub(crate) fn json(self, value: &Value, ty: &DataType) -> JsonValue {
        let mut json = match self.enum_number {
            true => to_json(value, &without_labels(ty)),
            false => to_json(value, ty),
        };
        if self.int_strings {
            json.value = with_int_strings(json.value, ty);
        }
        json
    }

    pub(crate) fn int_or_text(self, number: u64) -> WideInt {
        match self.int_strings {
            true => WideInt::Text(number.to_string()),
            false => WideInt::Number(number),
        }
    }
}

/// A 64-bit number in a record; a string with `--int-strings`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum WideInt {
    Number(u64),
    Text(String),
}

impl fmt::Display for WideInt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

impl JsonSchema for WideInt {
    fn schema_name() -> Cow<'static, str> {
        "WideInt".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["integer", "string"], "minimum": 0 })
    }
}

/// A non-negative number in a record, such as seconds or a rate.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct Amount(#[schemars(range(min = 0))] pub(crate) f64);

impl From<Duration> for Amount {
    fn from(time: Duration) -> Self {
        Self(time.as_secs_f64())
    }
}

/// Returns the type with plain numbers in place of enums, so that values are formatted without
/// labels.
fn without_labels(ty: &DataType) -> DataType {
    match ty {
        DataType::Enum(_) => DataType::U32,
        DataType::Struct(ty) => {
            let fields = ty.fields.iter();
            let fields = fields.map(|(name, ty)| (name.clone(), without_labels(ty)));
            DataType::Struct(
                StructType {
                    fields: fields.collect(),
                }
                .into(),
            )
        }
        other => other.clone(),
    }
}

/// Converts all integers of 64-bit types to strings, even small ones, so that programs see a single
/// type.
fn with_int_strings(json: Json, ty: &DataType) -> Json {
    let is_64 = |element| matches!(element, ElementType::I64 | ElementType::U64);
    match (json, ty) {
        (Json::Number(number), DataType::I64 | DataType::U64) => Json::from(number.to_string()),
        (json, DataType::Array(array)) => {
            let ArrayType { element, .. } = **array;
            if is_64(element) {
                numbers_as_strings(json)
            } else {
                json
            }
        }
        (Json::Object(mut object), DataType::Struct(ty)) => {
            for (name, ty) in &ty.fields {
                if let Some(field) = object.get_mut(&**name) {
                    *field = with_int_strings(field.take(), ty);
                }
            }
            Json::Object(object)
        }
        (Json::Object(mut object), DataType::Waveform(element)) if is_64(*element) => {
            if let Some(samples) = object.get_mut("samples") {
                *samples = numbers_as_strings(samples.take());
            }
            Json::Object(object)
        }
        (json, _) => json,
    }
}

fn numbers_as_strings(json: Json) -> Json {
    match json {
        Json::Number(number) => Json::from(number.to_string()),
        Json::Array(list) => list.into_iter().map(numbers_as_strings).collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use trunkline_types::text::parse_type;
    use trunkline_types::{Array, Elements};

    use super::*;

    fn mode() -> DataType {
        parse_type("enum(OFF, AUTO)").unwrap()
    }

    #[test]
    fn people_see_the_configured_precision_and_programs_every_digit() {
        let value = Value::F64(72.41234);
        let people = ValueStyle {
            for_people: true,
            ..ValueStyle::default()
        };
        assert_eq!(people.text(&value, &DataType::F64, Some(1)), "72.4");
        assert_eq!(
            ValueStyle::default().text(&value, &DataType::F64, Some(1)),
            "72.41234"
        );
        let chosen = ValueStyle {
            digits: Some(Digits::Fixed(3)),
            ..people
        };
        assert_eq!(chosen.text(&value, &DataType::F64, Some(1)), "72.412");
    }

    #[test]
    fn enums_are_printed_as_numbers_on_request() {
        let sut = ValueStyle {
            enum_number: true,
            ..ValueStyle::default()
        };
        assert_eq!(sut.text(&Value::Enum(1), &mode(), None), "1");
        assert_eq!(sut.json(&Value::Enum(1), &mode()).value, Json::from(1));
        let ty = parse_type("struct(mode: enum(OFF, AUTO), n: u8)").unwrap();
        let value = Value::Struct(Arc::from([Value::Enum(1), Value::U8(5)]));
        assert_eq!(
            sut.json(&value, &ty).value.to_string(),
            "{\"mode\":1,\"n\":5}"
        );
        let words = ValueStyle::default().json(&value, &ty).value.to_string();
        assert_eq!(words, "{\"mode\":\"AUTO\",\"n\":5}");
    }

    #[test]
    fn all_64_bit_integers_become_strings() {
        let sut = ValueStyle {
            int_strings: true,
            ..ValueStyle::default()
        };
        let big = u64::MAX;
        assert_eq!(
            sut.json(&Value::U64(big), &DataType::U64).value,
            Json::from(big.to_string())
        );
        assert_eq!(
            sut.json(&Value::U32(7), &DataType::U32).value,
            Json::from(7)
        );
        let array = Value::Array(Arc::new(Array::vector(Elements::I64(vec![-1, 2]))));
        let ty = parse_type("array(i64, *)").unwrap();
        assert_eq!(sut.json(&array, &ty).value.to_string(), "[\"-1\",\"2\"]");
        let ty = parse_type("struct(a: u64, b: f64)").unwrap();
        let value = Value::Struct(Arc::from([Value::U64(1), Value::F64(2.0)]));
        assert_eq!(
            sut.json(&value, &ty).value.to_string(),
            "{\"a\":\"1\",\"b\":2.0}"
        );
        assert_eq!(ValueStyle::default().int_or_text(big), WideInt::Number(big));
        assert_eq!(sut.int_or_text(big), WideInt::Text(big.to_string()));
    }
}
