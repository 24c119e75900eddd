//! As much of JSON Schema as `docs/reference/json.schema.json` uses. A word that is not known here
//! fails the test: nothing in the schema goes unchecked.

use serde_json::Value as Json;

/// The documented schema.
pub fn documented() -> Json {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/json.schema.json"
    );
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Whether the value is as the schema says, and has no key that it does not describe.
pub fn check(value: &Json, schema: &Json) -> Result<(), String> {
    let Some(rules) = schema.as_object() else {
        return Err(format!("no schema: {schema}"));
    };
    for (word, rule) in rules {
        let holds = match word.as_str() {
            "$schema" | "$defs" | "title" | "description" | "format" => true,
            "const" => value == rule,
            "enum" => rule.as_array().is_some_and(|words| words.contains(value)),
            "type" => is_of_type(value, rule),
            "minimum" => value
                .as_f64()
                .is_none_or(|number| rule.as_f64() <= Some(number)),
            "pattern" => match rule.as_str() {
                Some("^[0-9a-f]{32}$") => value.as_str().is_none_or(is_id),
                other => return Err(format!("the test does not know the pattern {other:?}")),
            },
            "items" => {
                for item in value.as_array().into_iter().flatten() {
                    check(item, rule)?;
                }
                true
            }
            "required" => {
                let names = rule
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(Json::as_str);
                names.into_iter().all(|name| value.get(name).is_some())
            }
            "properties" => {
                for (key, value) in value.as_object().into_iter().flatten() {
                    let rule = rule
                        .get(key)
                        .ok_or_else(|| format!("the key {key} is not documented"))?;
                    check(value, rule).map_err(|error| format!("{key}: {error}"))?;
                }
                true
            }
            other => return Err(format!("the test does not know the word {other}")),
        };
        if !holds {
            return Err(format!("{word} {rule} does not hold for {value}"));
        }
    }
    Ok(())
}

/// 32 hexadecimal digits, in lower case.
fn is_id(text: &str) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    text.len() == 32 && text.bytes().all(is_digit)
}

fn is_of_type(value: &Json, rule: &Json) -> bool {
    let is = |name: &str| match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    };
    match rule {
        Json::String(name) => is(name),
        Json::Array(names) => names.iter().filter_map(Json::as_str).any(is),
        _ => false,
    }
}
