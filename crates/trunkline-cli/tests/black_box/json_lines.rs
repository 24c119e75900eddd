//! JSON output against the documented schema: real output of real commands.

use serde_json::Value as Json;

use crate::rig::Served;
use crate::schema::{check, documented};

/// The lines as objects, each of which keeps to the part of the schema.
pub fn checked(lines: &str, part: Option<&str>) -> Vec<Json> {
    let schema = documented();
    let schema = part.map_or(&schema, |part| &schema["$defs"][part]);
    let objects: Vec<Json> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for object in &objects {
        check(object, schema).unwrap_or_else(|error| panic!("{error}\n{object}"));
    }
    objects
}

#[test]
fn readings_of_every_kind_follow_the_schema() {
    let rig = Served::start(
        "[[io]]\nname = \"sim\"\ndriver = \"sim\"\n[[io]]\nname = \"host\"\ndriver = \"host\"\n",
    );
    let readings = checked(&rig.run(&["get", "--json", "**"]).out, None);
    assert!(readings.len() > 200, "{}", readings.len());
    checked(
        &rig.run(&["monitor", "--json", "boiler/**", "--count", "200"])
            .out,
        None,
    );
    let strings = rig.run(&["get", "--json", "--int-strings", "**"]).out;
    let readings = checked(&strings, None);
    assert!(readings.iter().all(|reading| reading["epoch"].is_string()));
}

#[test]
fn special_numbers_bytes_and_missing_values_follow_the_schema() {
    let rig = Served::start(
        "[library]\nname = \"x\"\n[[variable]]\nname = \"f\"\ntype = \"f32\"\n\
         [[variable]]\nname = \"b\"\ntype = \"bytes\"\n[[variable]]\nname = \"n\"\ntype = \"u64\"\n",
    );
    let empty = checked(&rig.run(&["get", "--json", "x/**"]).out, None);
    assert!(
        empty
            .iter()
            .all(|reading| reading["value"].is_null() && reading.get("ts").is_none())
    );
    for (number, special) in [("NaN", "nan"), ("inf", "inf"), ("-inf", "-inf")] {
        let put = rig.run(&["put", "--json", "--", "x/f", number]);
        assert_eq!(put.code, Some(0), "{}", put.err);
        let reading = &checked(&rig.run(&["get", "--json", "x/f"]).out, None)[0];
        assert_eq!(
            (&reading["value"], &reading["special"]),
            (&Json::Null, &special.into())
        );
    }
    rig.run(&["put", "x/b=0x00ff", "x/n=18446744073709551615"]);
    let readings = checked(&rig.run(&["get", "--json", "x/b", "x/n"]).out, None);
    assert_eq!(
        (&readings[0]["value"], &readings[0]["enc"]),
        (&"AP8=".into(), &"base64".into())
    );
    assert_eq!(
        readings[1]["value"],
        u64::MAX,
        "64-bit integers stay integers"
    );
    let strings = checked(
        &rig.run(&["get", "--json", "--int-strings", "x/n"]).out,
        None,
    );
    assert_eq!(strings[0]["value"], u64::MAX.to_string());
}

#[test]
fn puts_lists_infos_and_steps_follow_the_schema() {
    let rig = Served::rig();
    let put = rig.run(&[
        "put",
        "--json",
        "rig/level=1",
        "rig/mode=OFF",
        "rig/clamped=99",
    ]);
    let put = checked(&put.out, Some("write"));
    assert_eq!(
        (&put[0]["old"], &put[0]["value"], &put[0]["outcome"]),
        (&72.4.into(), &1.0.into(), &"applied".into())
    );
    assert_eq!(put[2]["value"], 10.0);
    checked(
        &rig.run(&["put", "--json", "--no-wait", "rig/level=1"]).out,
        Some("write"),
    );
    checked(&rig.run(&["ls", "--json"]).out, Some("entry"));
    checked(&rig.run(&["ls", "--json", "--tree"]).out, Some("entry"));
    checked(&rig.run(&["find", "--json", "**"]).out, Some("entry"));
    checked(&rig.run(&["info", "--json", "rig/**"]).out, Some("info"));
    checked(&rig.run(&["why", "--json", "rig/empty"]).out, Some("step"));
}

#[test]
fn errors_follow_the_schema_on_standard_error() {
    let rig = Served::rig();
    for arguments in [
        &["get", "rig/lvel", "level", "none/**", "rig/order"][..],
        &["put", "rig/level=high", "rig/sealed=1"],
        &["get", "rig/level", "-t"],
        &["monitor", "rig/level", "--for", "1ms", "--count", "9"],
        &["ls", "rigg"],
        &["serve", "no-such-file.toml"],
        &["get", "--no-such-option"],
    ] {
        let output = rig.run(&[arguments, &["--json"]].concat());
        assert_ne!(output.code, Some(0), "{arguments:?}");
        let errors = checked(&output.err, Some("error"));
        assert!(!errors.is_empty(), "{arguments:?}");
    }
    let output = rig.run(&["get", "--json", "rig/lvel"]);
    let error = &checked(&output.err, Some("error"))[0];
    assert_eq!(
        (&error["code"], &error["name"]),
        (&"unknown-name".into(), &"rig/lvel".into())
    );
    assert_eq!(error["hint"], "did you mean rig/level?");
}

#[test]
fn connection_events_follow_the_schema() {
    let mut rig = Served::rig();
    let follower = rig.spawn(&["monitor", "--json", "rig/level"]);
    follower.line();
    rig.restart();
    for part in ["\"disconnected\"", "\"connected\""] {
        checked(&follower.error_with(part), Some("event"));
    }
    let simulated = Served::start("[[io]]\nname = \"sim\"\ndriver = \"sim\"\n");
    let rates = simulated.spawn(&["monitor", "--rate", "--json", "boiler/level"]);
    checked(&rates.line(), Some("event"));
    let path = rig.folder.path().join("plant.toml");
    let server =
        crate::rig::Running::start(&["serve", path.to_str().unwrap(), "--listen", "0", "--json"]);
    checked(&server.line(), Some("event"));
}

#[test]
fn the_pages_show_what_is_really_printed() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/json.md");
    let page = std::fs::read_to_string(page).unwrap();
    let schema = documented();
    let blocks = page
        .split("```json\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap());
    for line in blocks.flat_map(str::lines) {
        let object: Json = serde_json::from_str(line).unwrap();
        let parts = schema["$defs"].as_object().unwrap().values();
        let mut schemas = parts.chain([&schema]);
        assert!(
            schemas.any(|schema| check(&object, schema).is_ok()),
            "{line}"
        );
    }
}

#[test]
fn audit_entries_follow_the_schema() {
    let rig = Served::start(
        "[library]\nname = \"x\"\n[[variable]]\nname = \"f\"\ntype = \"f64\"\naudit = true\n\
         range = [0, 10]\ndeadband = 20\n",
    );
    for value in ["5", "6", "11"] {
        rig.run(&["put", "x/f", value]);
    }
    rig.run(&["library", "stop", "x"]);
    let lines = checked(&rig.run(&["audit", "--json"]).out, Some("audit"));
    let outcomes: Vec<&str> = lines
        .iter()
        .map(|line| line["outcome"].as_str().unwrap())
        .collect();
    assert_eq!(
        outcomes,
        ["done", "applied", "unchanged", "refused", "done"]
    );
    let strings = rig
        .run(&["audit", "--json", "--int-strings", "--last", "2"])
        .out;
    let lines = checked(&strings, Some("audit"));
    assert_eq!((lines.len(), &lines[1]["number"]), (2, &"5".into()));
    let exported = checked(&rig.run(&["audit", "export"]).out, Some("audit"));
    assert_eq!(exported.len(), 5);
    let verified = rig.run(&["audit", "verify", "--json"]).out;
    let verified = checked(&verified, Some("audit_verified"));
    assert_eq!(verified[0]["fault_count"], 0);
    let other = format!("1:{}", "0".repeat(64));
    let faults = rig
        .run(&["audit", "verify", "--json", "--head", &other])
        .out;
    let faults = checked(&faults, Some("audit_verified"));
    assert_eq!(faults[0]["faults"][0]["fault"], "other-past");
    let info = checked(&rig.run(&["info", "--json", "x/f"]).out, Some("info"));
    assert!(info[0]["audit"].as_str().unwrap().contains("no store"));
}

#[test]
fn library_orders_follow_the_schema() {
    let rig = Served::rig();
    let file = rig.file("more.toml", "[[variable]]\nname = \"a\"\ntype = \"f64\"\n");
    for (arguments, outcome) in [
        (&["deploy", "--json", &file][..], "deployed"),
        (&["library", "stop", "--json", "more"], "stopped"),
        (&["library", "start", "--json", "more"], "started"),
        (&["undeploy", "--yes", "--json", "more"], "undeployed"),
    ] {
        let lines = checked(&rig.run(arguments).out, Some("library"));
        assert_eq!(lines[0]["outcome"], outcome, "{arguments:?}");
    }
    let refused = rig.run(&["undeploy", "--json", "more"]);
    assert_eq!(
        checked(&refused.err, Some("error"))[0]["code"],
        "unknown-library"
    );
}
