//! Fields of variables: `NAME#FIELD` wherever a name is accepted.

use serde_json::Value as Json;

use crate::rig::{RIG, Served};

/// Behaviour: VS-01, VS-08.
#[test]
fn fields_are_read_followed_and_found_like_variables() {
    let rig = Served::rig();
    let names = [
        "rig/level#units",
        "rig/level#range.high",
        "rig/level#library.state",
    ];
    let output = rig.run(&[&["get", "-t"][..], &names].concat());
    assert_eq!(output.out, "%\n100.0\nrunning\n", "{}", output.err);

    let info = rig.run(&["info", "--json", "rig/level"]);
    let info: Json = serde_json::from_str(&info.out).unwrap();
    let fields = info["fields"].as_array().unwrap();
    assert!(fields.contains(&"units".into()) && fields.contains(&"library.state".into()));

    let wrong = rig.run(&["get", "rig/level#unit"]);
    assert_eq!((wrong.code, wrong.out.as_str()), (Some(1), ""));
    assert!(
        wrong
            .err
            .contains("rig/level has no field unit (its fields are access,"),
        "{}",
        wrong.err
    );
    let refused = rig.run(&["put", "rig/level#units", "bar"]);
    assert_eq!(refused.code, Some(6), "{}", refused.err);
    let sentence = "only the engine writes the fields of a variable";
    assert!(refused.err.contains(sentence), "{}", refused.err);

    let found = rig.run(&["find", "rig/level#range.*", "--json"]);
    let lines: Vec<Json> = found
        .out
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    assert_eq!(lines[0]["name"], "rig/level#range.high");
    assert_eq!(lines[1]["type"], "f64");
    let hidden = rig.run(&["find", "rig/**", "--json"]);
    assert!(!hidden.out.contains('#'), "{}", hidden.out);

    let monitor = rig.spawn(&[
        "monitor",
        "-t",
        "rig/level#units",
        "rig/level#library.state",
    ]);
    assert_eq!(
        (monitor.line(), monitor.line()),
        ("%".to_owned(), "running".to_owned())
    );
    let changed = rig.file(
        "rig.toml",
        &RIG.replacen("units = \"%\"", "units = \"l\"", 1),
    );
    assert_eq!(rig.run(&["deploy", "--replace", &changed]).code, Some(0));
    assert_eq!(monitor.line(), "l");
    assert_eq!(rig.run(&["library", "stop", "rig"]).code, Some(0));
    assert_eq!(monitor.line(), "stopped");
    assert_eq!(rig.run(&["library", "start", "rig"]).code, Some(0));
    assert_eq!(monitor.line(), "running");
}

/// Behaviour: VS-08, B-32.
#[test]
fn fields_of_a_pattern_are_followed() {
    let rig = Served::rig();
    let monitor = rig.spawn(&["monitor", "rig/p*/**#quality", "rig/pump/o*#forced", "-t"]);
    let first = [monitor.line(), monitor.line(), monitor.line()];
    assert_eq!(
        first.iter().filter(|line| *line == "false").count(),
        1,
        "{first:?}"
    );
    assert_eq!(rig.run(&["force", "rig/pump/on=false"]).code, Some(0));
    let next = [monitor.line(), monitor.line()];
    assert!(next.contains(&"true".to_owned()), "{next:?}");
}
