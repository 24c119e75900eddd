//! Writes that can be trusted: groups, expected positions, and snapshots that are kept in files.

use serde_json::Value as Json;

use crate::rig::Served;
use crate::schema::{check, documented};

fn checked(lines: &str, part: &str) -> Vec<Json> {
    let schema = &documented()["$defs"][part];
    let objects = lines.lines().map(|line| {
        let object: Json = serde_json::from_str(line).unwrap();
        check(&object, schema).unwrap_or_else(|error| panic!("{error}\n{object}"));
        object
    });
    objects.collect()
}

fn value(served: &Served, name: &str) -> String {
    let read = served.run(&["get", "-t", name]);
    assert_eq!(read.code, Some(0), "{read:?}");
    read.out.trim().to_owned()
}

/// Behaviour: B-23.
#[test]
fn values_are_put_together_or_not_at_all() {
    let served = Served::rig();
    let put = served.run(&[
        "put",
        "--atomic",
        "--json",
        "rig/level",
        "10",
        "rig/setpoint",
        "20",
        "rig/mode",
        "HAND",
    ]);
    assert_eq!(put.code, Some(0), "{put:?}");
    let lines = checked(&put.out, "write");
    assert_eq!(lines.len(), 3);
    assert!(
        lines
            .iter()
            .all(|line| line["commit"] == 1 && line["outcome"] == "applied")
    );

    let refused = served.run(&["put", "--atomic", "rig/level=11", "rig/setpoint=200"]);
    assert_eq!(refused.code, Some(6), "{refused:?}");
    assert!(
        refused.err.contains("because of rig/setpoint"),
        "{refused:?}"
    );
    assert!(refused.err.contains("0 to 100"), "{refused:?}");
    let unknown = served.run(&[
        "put",
        "--atomic",
        "rig/level=11",
        "rig/nope=1",
        "rig/mode=OFF",
    ]);
    assert_eq!(unknown.code, Some(1), "{unknown:?}");
    assert!(unknown.err.contains("because of rig/nope"), "{unknown:?}");
    assert_eq!(value(&served, "rig/level"), "10.0");
    assert_eq!(value(&served, "rig/mode"), "HAND");
    let twice = served.run(&["put", "--atomic", "rig/level=1", "rig/level=2"]);
    assert_eq!(twice.code, Some(6));
    assert!(twice.err.contains("twice"), "{twice:?}");
    assert_eq!(
        served
            .run(&["put", "--atomic", "rig/level", "1", "rig/mode"])
            .code,
        Some(2)
    );
    assert_eq!(
        served
            .run(&["put", "--atomic", "--no-wait", "rig/level", "1"])
            .code,
        Some(2)
    );
}

/// Behaviour: B-22.
#[test]
fn value_is_put_only_at_the_expected_position() {
    let served = Served::rig();
    let read = served.run(&["get", "--json", "rig/level"]);
    let read: Json = serde_json::from_str(&read.out).unwrap();
    let (epoch, sequence) = (read["epoch"].to_string(), read["seq"].to_string());
    let put = |expected: &str, value: &str| {
        served
            .run(&["put", "--expect", expected, "rig/level", value])
            .code
    };
    assert_eq!(put(&sequence, "1"), Some(0));
    assert_eq!(put(&sequence, "2"), Some(6), "it has moved");
    assert_eq!(put(&format!("{epoch}:2"), "3"), Some(0));
    assert_eq!(put("7:3", "4"), Some(6), "another start of the engine");
    assert_eq!(put("now", "5"), Some(2));
    let refused = served.run(&["put", "--expect", "99", "rig/level", "6"]);
    assert!(
        refused
            .err
            .contains("sequence number is 3, not 99 as expected"),
        "{refused:?}"
    );
    let several = served.run(&["put", "--expect", "3", "rig/level=1", "rig/mode=OFF"]);
    assert_eq!(several.code, Some(2));
    assert_eq!(value(&served, "rig/level"), "3.0");
}

/// Behaviour: B-23.
#[test]
fn a_snapshot_is_saved_compared_and_written_back() {
    let served = Served::rig();
    let file = served.folder.path().join("before.jsonl");
    let file = file.to_str().unwrap();
    let saved = served.run(&["snapshot", "save", file, "rig/**", "--json"]);
    assert_eq!(saved.code, Some(5), "one can only be written: {saved:?}");
    assert!(saved.err.contains("rig/order"), "{saved:?}");
    let line = &checked(&saved.out, "saved")[0];
    assert_eq!(
        (&line["variables"], &line["instant"]),
        (&11.into(), &true.into())
    );
    let text = std::fs::read_to_string(file).unwrap();
    assert!(
        text.contains("\"name\":\"rig/mode\"") && text.contains("\"AUTO\""),
        "{text}"
    );
    let same = served.run(&["snapshot", "diff", file]);
    assert_eq!((same.code, same.out.as_str()), (Some(0), ""), "{same:?}");
    assert_eq!(same.err, "no differences\n");
    let again = served.run(&["snapshot", "save", file, "rig/level"]);
    assert_eq!(again.code, Some(1), "{again:?}");
    assert!(again.err.contains("already exists"), "{again:?}");
    assert!(again.err.contains("use --force to replace it"), "{again:?}");
    assert_eq!(std::fs::read_to_string(file).unwrap(), text);

    let put = served.run(&["put", "rig/level=1", "rig/mode=OFF", "rig/pump/on=off"]);
    assert_eq!(put.code, Some(0), "{put:?}");
    let changed = served.run(&["snapshot", "diff", file, "--json"]);
    assert_eq!(changed.code, Some(8));
    let lines = checked(&changed.out, "difference");
    let names: Vec<&str> = lines
        .iter()
        .filter_map(|line| line["name"].as_str())
        .collect();
    assert_eq!(names, ["rig/level", "rig/mode", "rig/pump/on"]);
    assert_eq!(
        (&lines[1]["file"], &lines[1]["now"]),
        (&"AUTO".into(), &"OFF".into())
    );
    let part = served.run(&["snapshot", "diff", file, "rig/pump/**"]);
    assert!(
        part.out.lines().count() == 1 && part.out.contains("pump/on"),
        "{part:?}"
    );

    for verb in ["diff", "restore"] {
        for name in ["rig/typo", "rig/typo/**"] {
            let missing = served.run(&["snapshot", verb, file, "rig/level", name]);
            assert_eq!(missing.code, Some(1), "{missing:?}");
            let (start, end) = (missing.err.starts_with(name), "no saved variable matches");
            assert!(start && missing.err.contains(end), "{missing:?}");
        }
    }

    let shown = served.run(&["snapshot", "restore", file]);
    assert_eq!(shown.code, Some(0));
    assert!(
        shown
            .err
            .contains("nothing was written; use --yes to write 3"),
        "{shown:?}"
    );
    assert_eq!(value(&served, "rig/mode"), "OFF");
    let restored = served.run(&["snapshot", "restore", file, "--yes", "--atomic", "--json"]);
    assert_eq!(restored.code, Some(0), "{restored:?}");
    let lines = checked(&restored.out, "restored");
    assert!(lines.len() == 3 && lines.iter().all(|line| line["outcome"] == "applied"));
    assert_eq!(served.run(&["snapshot", "diff", file]).code, Some(0));
    let again = served.run(&["snapshot", "restore", file]);
    assert!(again.err.contains("nothing to write back"), "{again:?}");
}

/// Behaviour: B-23.
#[test]
fn two_files_are_compared_without_an_engine() {
    let served = Served::rig();
    let path = |name: &str| served.folder.path().join(name).to_str().unwrap().to_owned();
    let (before, after) = (path("before.jsonl"), path("after.jsonl"));
    served.run(&["snapshot", "save", &before, "rig/level", "rig/mode"]);
    served.run(&["put", "rig/level", "3"]);
    served.run(&["snapshot", "save", &after, "rig/level", "rig/setpoint"]);
    let run = |arguments: &[&str]| crate::rig::run(arguments);
    let diff = run(&["snapshot", "diff", &before, "--with", &after, "--json"]);
    assert_eq!(diff.code, Some(8), "{diff:?}");
    let lines = checked(&diff.out, "difference");
    let words: Vec<&str> = lines
        .iter()
        .filter_map(|line| line["difference"].as_str())
        .collect();
    assert_eq!(words, ["changed", "gone", "added"]);
    assert_eq!(
        run(&["snapshot", "diff", &before, "--with", &before]).code,
        Some(0)
    );
    for (name, code) in [("rig/setpoint", 8), ("rig/typo", 1), ("rig/typo/**", 1)] {
        let part = run(&["snapshot", "diff", &before, name, "--with", &after]);
        assert_eq!(part.code, Some(code), "{part:?}");
    }
}

/// Values that cannot be restored are reported, and with `--atomic` nothing is written.
/// Behaviour: B-22, B-23.
#[test]
fn values_that_cannot_be_restored_are_reported() {
    let served = Served::rig();
    let file = served.file(
        "old.jsonl",
        "{\"snapshot\":1,\"instant\":true}\n\
         {\"name\":\"rig/gone\",\"type\":\"f64\",\"value\":1}\n\
         {\"name\":\"rig/level\",\"type\":\"f64\",\"value\":5}\n\
         {\"name\":\"rig/mode\",\"type\":\"f64\",\"value\":1}\n\
         {\"name\":\"rig/sealed\",\"type\":\"u8\",\"value\":9}\n",
    );
    let diff = served.run(&["snapshot", "diff", &file]);
    for word in ["gone", "changed", "type"] {
        assert!(diff.out.contains(word), "{diff:?}");
    }
    let whole = served.run(&["snapshot", "restore", &file, "--yes", "--atomic"]);
    assert_eq!(whole.code, Some(1), "{whole:?}");
    assert!(whole.err.contains("because of rig/gone"), "{whole:?}");
    assert_eq!(value(&served, "rig/level"), "72.4");
    let parts = served.run(&["snapshot", "restore", &file, "--yes", "--if-unchanged"]);
    assert_eq!(parts.code, Some(1), "{parts:?}");
    assert!(
        parts.err.contains("type of the variable has changed"),
        "{parts:?}"
    );
    assert!(parts.out.contains("it is read-only"), "{parts:?}");
    assert!(
        parts
            .err
            .contains("rig/sealed is not written: it is read-only"),
        "{parts:?}"
    );
    assert_eq!(value(&served, "rig/level"), "5.0");
}

/// The table before and the table after have the same columns in the same order.
#[test]
fn restore_preview_has_the_format_of_the_result() {
    let served = Served::rig();
    let path = served.folder.path().join("s.jsonl");
    let file = path.to_str().unwrap();
    let saved = served.run(&["snapshot", "save", file, "rig/level", "rig/mode"]);
    assert_eq!(saved.code, Some(0), "{saved:?}");
    assert_eq!(served.run(&["put", "rig/level", "5"]).code, Some(0));
    let preview = served.run(&["snapshot", "restore", file, "-o", "table"]);
    assert_eq!(
        preview.out,
        "NAME        ACTION   NOW   SAVED\nrig/level   write    5.0   → 72.4\n"
    );
    let done = served.run(&["snapshot", "restore", file, "-o", "table", "--yes"]);
    assert_eq!(
        done.out,
        "NAME        OUTCOME   BEFORE   AFTER\nrig/level   applied   5.0      → 72.4\n"
    );
    let replaced = served.run(&["snapshot", "save", "--force", file, "rig/level"]);
    assert_eq!(replaced.code, Some(0), "{replaced:?}");
}

#[test]
fn a_bad_file_is_refused_with_its_place_and_nothing_is_written() {
    let served = Served::rig();
    let head = "{\"snapshot\":1}\n";
    let level = "{\"name\":\"rig/level\",\"type\":\"f64\",\"value\":5}\n";
    for (name, text, place) in [
        (
            "a",
            format!("{head}{level}{{\"name\":"),
            "a.jsonl:3: column",
        ),
        (
            "b",
            format!("{head}{level}{level}"),
            "b.jsonl:3: rig/level is already on line 2",
        ),
        ("c", "name,value\n".to_owned(), "c.jsonl:1: "),
        (
            "d",
            format!("{head}{}", level.replace('5', "\"high\"")),
            "d.jsonl:2: rig/level: ",
        ),
        (
            "e",
            "{\"snapshot\":1,\"variables\":2}\n".to_owned() + level,
            "truncated",
        ),
        ("f", String::new(), "empty"),
    ] {
        let file = served.file(&format!("{name}.jsonl"), &text);
        let refused = served.run(&["snapshot", "restore", &file, "--yes"]);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.err.contains(place), "{place}: {refused:?}");
    }
    assert_eq!(value(&served, "rig/level"), "72.4");
    let none = served.run(&["snapshot", "diff", "no-such-file.jsonl"]);
    assert_eq!(none.code, Some(2), "{none:?}");
    let folder = served.run(&["snapshot", "save", "no/such/folder/x.jsonl", "rig/level"]);
    assert_eq!(folder.code, Some(2), "{folder:?}");
    assert_eq!(served.run(&["snapshot", "save", "x.jsonl"]).code, Some(2));
    assert_eq!(
        served.run(&["snapshot", "diff", "x.jsonl", "--yes"]).code,
        Some(2)
    );
}

/// Behaviour: H-19.
#[test]
fn info_names_the_single_writer() {
    let served = Served::start(
        "[library]\nname = \"x\"\n[[variable]]\nname = \"a\"\ntype = \"f64\"\n\
         single_writer = true\n",
    );
    let info = served.run(&["info", "x/a"]);
    assert!(info.out.contains("the first client to write"), "{info:?}");
    let described = served.run(&["info", "--json", "x/a"]);
    assert_eq!(checked(&described.out, "info")[0]["single_writer"], true);
    // Each command is a separate client.
    assert_eq!(served.run(&["put", "x/a", "1"]).code, Some(0));
}
