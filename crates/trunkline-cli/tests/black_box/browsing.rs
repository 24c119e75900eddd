//! `ls`, `find`, `info`.

use serde_json::Value as Json;

use crate::rig::{Served, columns};

#[test]
fn ls_shows_one_level_and_a_tree_all_of_them() {
    let rig = Served::rig();
    let roots = rig.run(&["ls"]);
    assert_eq!(roots.out, "rig/\tlibrary\t\t12 variables\tTest rig\n");
    let names = |arguments: &[&str]| -> Vec<String> {
        let output = rig.run(arguments);
        output
            .out
            .lines()
            .map(|line| columns(line)[0].to_owned())
            .collect()
    };
    let inside = names(&["ls", "rig/"]);
    assert_eq!((inside.len(), inside[0].as_str()), (11, "rig/level"));
    assert!(inside.contains(&"rig/pump/".to_owned()), "{inside:?}");
    assert_eq!(
        names(&["ls", "rig/pump"]),
        ["rig/pump/on", "rig/pump/starts"]
    );
    assert_eq!(names(&["ls", "rig/level"]), ["rig/level"]);
    let tree = names(&["ls", "--tree", "--exclude", "rig/*"]);
    assert_eq!(tree, ["rig/", "  pump/", "    on", "    starts"]);
    let tree = names(&["ls", "--tree"]);
    assert!(
        tree.contains(&"  level".to_owned()) && tree.contains(&"    on".to_owned()),
        "{tree:?}"
    );
    assert_eq!(tree.len(), 14);
}

#[test]
fn ls_suggests_a_folder_that_was_probably_meant() {
    let rig = Served::rig();
    for (path, suggestion) in [("rigg", "rig"), ("rig/pmp", "rig/pump")] {
        let output = rig.run(&["ls", path]);
        assert_eq!((output.code, output.out.as_str()), (Some(1), ""));
        assert!(
            output
                .err
                .contains(&format!("(did you mean {suggestion}?)")),
            "{}",
            output.err
        );
    }
    assert_eq!(rig.run(&["ls", "rig/*"]).code, Some(2));
    assert_eq!(rig.run(&["ls", "rig//x"]).code, Some(1));
}

#[test]
fn find_searches_by_pattern_by_word_and_by_type() {
    let rig = Served::rig();
    let found = |arguments: &[&str]| rig.run(&[&["find", "-t"], arguments].concat()).out;
    assert_eq!(found(&["rig/pump/*"]), "rig/pump/on\nrig/pump/starts\n");
    assert_eq!(found(&["pump"]), "rig/pump/on\nrig/pump/starts\n");
    assert_eq!(found(&["**", "--type", "enum"]), "rig/mode\n");
    assert_eq!(found(&["**", "--type", "u64"]), "rig/pump/starts\n");
    assert_eq!(found(&["tl:///rig/mode"]), "rig/mode\n");
    let all = rig.run(&["find", "**"]).out;
    assert_eq!(all.lines().count(), 12);
    assert_eq!(all.lines().next(), Some("rig/level\tf64\tread-write"));
    let nothing = rig.run(&["find", "nothing"]);
    assert_eq!((nothing.code, nothing.out.as_str()), (Some(1), ""));
    assert!(nothing.err.contains("no name matches"), "{}", nothing.err);
    let filtered = |filter: &[&str]| rig.run(&[&["find", "rig/pump/*"], filter].concat()).err;
    let bad = filtered(&["--bad", "--type", "f64"]);
    assert!(
        bad.contains("2 names match, but none of them meets --type f64 --bad"),
        "{bad}"
    );
    let one = filtered(&["--exclude", "rig/pump/*", "--where", "units=%"]);
    assert!(
        one.contains("meets --where units=%, or --exclude rig/pump/* leaves"),
        "{one}"
    );
    let misspelled = rig.run(&["find", "**", "--type", "f46"]);
    assert_eq!(misspelled.code, Some(2));
    assert!(
        misspelled.err.contains("did you mean f64?"),
        "{}",
        misspelled.err
    );
    let field = rig.run(&["find", "**", "--where", "unit=%"]).err;
    assert!(field.contains("did you mean \"units\"?"), "{field}");
    let negative = rig.run(&["find", "**", "--timeout", "-3s"]);
    assert_eq!(negative.code, Some(2));
    assert!(
        negative.err.contains("cannot be negative"),
        "{}",
        negative.err
    );
    assert!(!negative.err.contains("tip"), "{}", negative.err);
    let wrong = rig.run(&["find", &"*/".repeat(17)]);
    assert_eq!(wrong.code, Some(1), "{}", wrong.err);
    assert_eq!(rig.run(&["find", "**", "--format", "{name}"]).code, Some(2));
}

#[test]
fn lists_are_printed_in_every_format() {
    let rig = Served::rig();
    let table = rig.run(&["find", "-o", "table", "rig/pump/*"]).out;
    assert_eq!(
        table,
        "rig/pump/on       bool   read-write\nrig/pump/starts   u64    read-write\n"
    );
    let csv = rig.run(&["find", "-o", "csv", "rig/pump/on"]).out;
    assert_eq!(csv, "name,type,access\nrig/pump/on,bool,read-write\n");
    let lines = rig.run(&["find", "--json", "rig/pump/on"]).out;
    let expected = "{\"v\":1,\"name\":\"rig/pump/on\",\"type\":\"bool\",\"access\":\"read-write\"}";
    assert_eq!(lines, format!("{expected}\n"));
    assert_eq!(
        rig.run(&["find", "-o", "json", "rig/pump/on"]).out,
        format!("[\n{expected}\n]\n")
    );
    assert_eq!(rig.run(&["find", "-o", "json", "nothing"]).out, "[]\n");
}

#[test]
fn info_shows_all_properties_and_the_outcomes_of_writes() {
    let rig = Served::rig();
    rig.run(&["put", "rig/setpoint", "75"]);
    rig.run(&["put", "rig/setpoint", "75"]);
    rig.run(&["put", "rig/setpoint", "500"]);
    let output = rig.run(&["info", "--json", "rig/setpoint"]);
    let info: Json = serde_json::from_str(&output.out).unwrap();
    let file = rig.folder.path().join("plant.toml");
    assert_eq!(info["value"], 75.0);
    assert_eq!(info["range"], serde_json::json!([0.0, 100.0]));
    assert_eq!(info["access"], "read-write");
    let configured = info["configured"].as_str().unwrap();
    assert_eq!(configured, format!("{}:15", file.display()));
    let writes = &info["writes"];
    assert_eq!(writes["refused"], 1);
    let count = |key: &str| writes[key].as_u64().unwrap();
    let parts = [
        "written",
        "unchanged",
        "superseded",
        "refused",
        "unknown",
        "fifo_overflow",
    ];
    let sum: u64 = parts.iter().map(|key| count(key)).sum();
    assert_eq!(sum + count("upstream_lost"), count("offered"));
}

#[test]
fn info_as_text_shows_all_properties() {
    let rig = Served::rig();
    let output = rig.run(&["info", "-o", "table", "rig/level", "rig/x", "rig/coarse"]);
    assert_eq!(output.code, Some(1));
    for line in [
        "rig/level",
        "  description  Tank level",
        "  value        72.4 %, uncertain: initial",
        "  type         f64",
        "  range        0 to 100",
        "  access       read-write",
        "  source       none: only clients write it",
        "  subscribers  0",
        "  deadband     5 % for clients, 0 % for its source",
    ] {
        assert!(
            output.out.lines().any(|printed| printed == line),
            "{line}\n{}",
            output.out
        );
    }
    assert_eq!(output.err, "rig/x   *** not found\n");
}

/// Behaviour: SP-05.
#[test]
fn configuration_alone_describes_a_variable() {
    let config = |line: &str| {
        format!("[library]\nname = \"rig\"\n[[variable]]\nname = \"x\"\ninitial = 7\n{line}\n")
    };
    for (line, ty, get) in [
        ("type = \"u8\"", "u8", Some(0)),
        ("type = \"f64\"", "f64", Some(0)),
        (
            "type = \"f64\"\nfifo = { kind = \"multi\", capacity = 4 }",
            "f64",
            Some(0),
        ),
        ("type = \"f64\"\nscope = \"process\"", "", Some(1)),
    ] {
        let rig = Served::start(&config(line));
        let output = rig.run(&["get", "--json", "rig/x"]);
        assert_eq!(output.code, get, "{line}: {}", output.err);
        let told: Json = serde_json::from_str(&output.out).unwrap_or_default();
        assert_eq!(told["type"].as_str().unwrap_or_default(), ty, "{line}");
    }
}

/// Behaviour: VS-02, API-10.
#[test]
fn variables_are_found_by_fields_and_state() {
    let rig = Served::rig();
    let names = |arguments: &[&str]| {
        let output = rig.run(&[&["find", "rig/**", "--json"][..], arguments].concat());
        let name = |line: &str| {
            let object: serde_json::Value = serde_json::from_str(line).unwrap();
            object["name"].as_str().unwrap().to_owned()
        };
        output.out.lines().map(name).collect::<Vec<_>>()
    };
    assert_eq!(
        names(&["--where", "units=%"]),
        ["rig/level", "rig/setpoint"]
    );
    assert_eq!(names(&["--where", "*~TANK"]), ["rig/level"]);
    assert_eq!(
        names(&[
            "--where",
            "units=%",
            "--where",
            "precision>0",
            "--type",
            "f64"
        ])
        .len(),
        2
    );
    assert_eq!(names(&["--where", "access=read-only"]), ["rig/sealed"]);
    assert!(names(&["--bad"]).contains(&"rig/empty".to_owned()));
    assert_eq!(names(&["--forced"]), [""; 0]);
    rig.run(&["force", "rig/level=5"]);
    assert_eq!(names(&["--forced"]), ["rig/level"]);
    let wrong = rig.run(&["find", "rig/**", "--where", "colour=red"]);
    assert_eq!(wrong.code, Some(1));
    assert!(wrong.err.contains("no field \"colour\""), "{}", wrong.err);
    let none = rig.run(&["find", "rig/**", "--where", "units"]);
    assert_eq!(none.code, Some(2), "{}", none.err);
}

/// Behaviour: H-26.
#[test]
fn probe_shows_a_variable_and_writes_a_value() {
    let rig = Served::rig();
    assert_eq!(rig.run(&["put", "rig/level", "10"]).code, Some(0));
    let one = rig.run(&["info", "rig/level", "--trend", "1"]);
    for part in [
        "value\t10.0 %, good",
        "trend\t",
        "type\tf64",
        "updated\t",
        "access\tread-write",
    ] {
        assert!(
            one.out.contains(&format!("rig/level\t{part}")),
            "{part}: {}",
            one.out
        );
    }
    let mut probe = rig.spawn(&["info", "--json", "--trend", "3", "rig/level"]);
    // Until it has seen three values, whenever it began to look.
    let mut next = 20;
    while probe.child.try_wait().unwrap().is_none() {
        rig.run(&["put", "rig/level", &next.to_string()]);
        next = 20 + (next + 1) % 50;
    }
    let (code, lines) = probe.end();
    let info: Json = serde_json::from_str(&lines[0]).unwrap();
    let trend = info["trend"].as_array().unwrap();
    assert_eq!((code, trend.len()), (Some(0), 3));
    assert!(trend[0] != trend[1] && trend[1] != trend[2], "{trend:?}");
    for key in ["value", "type", "access", "ts", "q"] {
        assert!(!info[key].is_null(), "{key}: {info}");
    }
}
