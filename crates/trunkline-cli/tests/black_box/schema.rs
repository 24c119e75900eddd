//! Lines of output against `docs/reference/json.schema.json`.

use serde_json::Value as Json;

/// The documented schema.
pub fn documented() -> Json {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/json.schema.json"
    );
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Checks that the value matches the schema, and has no undocumented key.
pub fn check(value: &Json, schema: &Json) -> Result<(), String> {
    let mut schema = schema.clone();
    if let Some(rules) = schema.as_object_mut() {
        rules.remove("$defs");
    }
    close(&mut schema, true);
    let validator = jsonschema::validator_for(&schema).map_err(|error| error.to_string())?;
    let result = validator.validate(value);
    result.map_err(|error| format!("{}: {error}", error.instance_path()))
}

/// Forbids keys that the schema does not describe. The parts of a `oneOf` are closed as a whole.
fn close(schema: &mut Json, is_whole: bool) {
    let Some(rules) = schema.as_object_mut() else {
        return;
    };
    for (word, rule) in rules.iter_mut() {
        match (word.as_str(), rule) {
            ("properties", Json::Object(properties)) => {
                properties.values_mut().for_each(|one| close(one, true));
            }
            ("oneOf" | "anyOf", Json::Array(parts)) => {
                parts.iter_mut().for_each(|one| close(one, false));
            }
            ("items", items) => close(items, true),
            _ => {}
        }
    }
    if is_whole && rules.contains_key("properties") {
        rules.insert("unevaluatedProperties".to_owned(), false.into());
    }
}

#[test]
fn a_key_that_is_not_described_is_found() {
    let schema = serde_json::json!({
        "properties": { "v": { "const": 1 }, "of": { "properties": { "a": {} } } },
        "oneOf": [{ "properties": { "b": { "type": "integer" } }, "required": ["b"] }]
    });
    let is_right = |value: Json| check(&value, &schema).is_ok();
    assert!(is_right(
        serde_json::json!({ "v": 1, "b": 2, "of": { "a": 3 } })
    ));
    assert!(!is_right(
        serde_json::json!({ "v": 1, "b": 2, "of": { "c": 3 } })
    ));
    assert!(!is_right(serde_json::json!({ "v": 1, "b": 2, "c": 3 })));
    assert!(!is_right(serde_json::json!({ "v": 1 })));
    assert!(check(&Json::Null, &Json::Null).is_err());
}
