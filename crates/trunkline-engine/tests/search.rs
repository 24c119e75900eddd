//! Searching by name, type, fields and state.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]
#![cfg(not(shuttle))]

mod rig;

use rig::{Rig, define};
use trunkline_engine::search::Matcher;
use trunkline_engine::{Write, WriteVerb};
use trunkline_types::{Comparison, Condition, DataType, Pattern, Properties, StepBudget, Value};

fn plant() -> Rig {
    let of = |units: &str, description: &str, range| Properties {
        units: units.to_owned(),
        description: description.to_owned(),
        range,
        ..Properties::new(DataType::F64)
    };
    Rig::with(vec![
        define("a", of("degC", "Feed water inlet", Some((0.0, 120.0)))),
        define("b", of("degC", "Flue gas", Some((0.0, 400.0)))),
        define("c", of("%", "Feed pump speed", None)),
        define("d", Properties::new(DataType::Bool)),
    ])
}

fn found(rig: &Rig, conditions: &[(&str, Comparison, &str)]) -> Vec<String> {
    let conditions: Vec<Matcher> = conditions
        .iter()
        .map(|(field, comparison, value)| {
            Matcher::new(&Condition::new(field, *comparison, value)).unwrap()
        })
        .collect();
    let (mut names, mut cursor) = (Vec::new(), Some(0));
    let pattern = Pattern::parse("rig/*").unwrap();
    while let Some(from) = cursor {
        // The smallest possible slices: one match, one name examined.
        let mut budget = StepBudget::new(0);
        let visit = |variable: &std::sync::Arc<trunkline_engine::Variable>| {
            names.push(variable.name().trim_start_matches("rig/").to_owned());
        };
        cursor = rig.engine.queries().search(
            &rig.caller,
            &pattern,
            &conditions,
            from,
            1,
            &mut budget,
            visit,
        );
    }
    names
}

/// Behaviour: VS-02, API-10.
#[test]
fn variables_are_found_by_their_fields() {
    use Comparison::{Above, Below, Contains, Differs, Equal};
    let rig = plant();
    for (conditions, expected) in [
        (&[][..], &["a", "b", "c", "d"][..]),
        (&[("units", Equal, "degC")], &["a", "b"]),
        (&[("units", Differs, "degC")], &["c", "d"]),
        (&[("description", Contains, "feed")], &["a", "c"]),
        (&[("*", Contains, "FEED")], &["a", "c"]),
        (&[("*", Equal, "%")], &["c"]),
        (&[("*", Differs, "feed")], &["b", "d"]),
        (&[("name", Contains, "g/d")], &["d"]),
        (&[("type", Equal, "bool")], &["d"]),
        (&[("range.high", Above, "120")], &["b"]),
        (&[("range.high", Below, "120.5")], &["a"]),
        (&[("range.high", Equal, "")], &["c", "d"]),
        (
            &[("units", Equal, "degC"), ("description", Contains, "gas")],
            &["b"],
        ),
    ] {
        assert_eq!(found(&rig, conditions), expected, "{conditions:?}");
    }
}

/// Behaviour: VS-02.
#[test]
fn variables_are_found_by_their_state() {
    let rig = plant();
    let (a, b) = (rig.variable("rig/a"), rig.variable("rig/b"));
    rig.write(&a, 1.0);
    let of = |field: &str, value: &str| found(&rig, &[(field, Comparison::Equal, value)]);
    assert_eq!(of("quality.level", "bad"), ["b", "c", "d"]);
    assert_eq!(of("quality.reason", "no-value"), ["b", "c", "d"]);
    assert_eq!(of("quality.level", "good"), ["a"]);
    assert_eq!(of("sequence", "1"), ["a"]);
    let mut force = Write::value(&Value::F64(4.0));
    force.verb = WriteVerb::Force;
    rig.attempt(&b, &force);
    assert_eq!(of("forced", "true"), ["b"]);
    assert_eq!(of("stale", "true"), [""; 0]);
    assert_eq!(of("library.state", "running").len(), 4);
}

/// Behaviour: VS-02.
#[test]
fn invalid_conditions_are_refused() {
    let error = |field, comparison, value| {
        let condition = Matcher::new(&Condition::new(field, comparison, value));
        condition.expect_err("the condition is invalid").to_string()
    };
    let sentence = error("colour", Comparison::Equal, "red");
    assert!(
        sentence.contains("no field \"colour\"") && sentence.contains("units"),
        "{sentence}"
    );
    let sentence = error("range.high", Comparison::Above, "much");
    assert!(sentence.contains("range.high is a number"), "{sentence}");
    for (field, comparison, value) in [
        ("units", Comparison::Above, "3"),
        ("range.high", Comparison::Contains, "3"),
        ("forced", Comparison::Equal, "perhaps"),
        ("forced", Comparison::Below, "true"),
        ("timestamp", Comparison::Above, "2020-01-01"),
    ] {
        error(field, comparison, value);
    }
}
