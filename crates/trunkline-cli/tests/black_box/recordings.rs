//! Recordings made and played from the command line.

use std::path::Path;
use std::process::Command;

use serde_json::Value as Json;

use crate::rig::{Running, Served, run};
use crate::schema;

/// Asserts that a line matches the documentation.
fn check(line: &Json, name: &str) {
    let schema = &schema::documented()["$defs"][name];
    schema::check(line, schema).unwrap_or_else(|error| panic!("{name}: {error}: {line}"));
}

/// The last line of JSON.
fn last(text: &str) -> Json {
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

fn path(served: &Served, name: &str) -> String {
    let path = served.folder.path().join(name);
    path.to_str().unwrap().to_owned()
}

/// The properties of a variable in `record info`; `None` if it is not in the file yet.
fn info(served: &Served, file: &str, name: &str) -> Option<Json> {
    let info = served.run(&["record", "info", file, "--json"]);
    let lines = info.out.lines();
    let lines = lines.map(|line| serde_json::from_str::<Json>(line).unwrap());
    let lines = lines.inspect(|line| check(line, "record_content"));
    lines.into_iter().find(|line| line["name"] == name)
}

/// Waits until this number of updates of a variable is in the file.
fn wait_for(served: &Served, file: &str, name: &str, updates: u64) {
    for _ in 0..1_000 {
        let found = info(served, file, name);
        if found.is_some_and(|found| found["values"].as_u64().unwrap() >= updates) {
            return;
        }
    }
    panic!("{:?}", info(served, file, name));
}

fn started(served: &Served, arguments: &[&str]) -> Running {
    let recorder = served.spawn(arguments);
    recorder.error_with("recording to");
    recorder
}

/// Behaviour: B-72.
#[test]
fn variables_are_recorded_until_ctrl_c_and_played_again() {
    let served = Served::rig();
    let file = path(&served, "run.tdms");
    let recorder = started(
        &served,
        &["record", "start", &file, "rig/level", "rig/mode"],
    );
    wait_for(&served, &file, "rig/mode", 1);
    for value in ["10", "20", "30"] {
        assert_eq!(served.run(&["put", "rig/level", value]).code, Some(0));
    }
    assert_eq!(served.run(&["put", "rig/mode", "HAND"]).code, Some(0));
    wait_for(&served, &file, "rig/level", 4);
    wait_for(&served, &file, "rig/mode", 2);
    recorder.signal("INT");
    recorder.error_with("6 updates of 2 variables recorded");
    assert_eq!(recorder.end().0, Some(0));

    let level = info(&served, &file, "rig/level").unwrap();
    assert_eq!((&level["values"], &level["gaps"]), (&4.into(), &0.into()));
    assert_eq!(level["type"], "f64");
    let folder = served.folder.path().to_str().unwrap();
    let list = served.run(&["record", "ls", folder]);
    assert_eq!(list.code, Some(0));
    assert!(
        list.out.contains("run.tdms") && list.out.contains("complete"),
        "{list:?}"
    );

    // Nothing is written over.
    let again = served.run(&["record", "start", &file, "rig/level"]);
    assert_eq!(again.code, Some(1), "{again:?}");

    served.run(&["put", "rig/level", "99"]);
    served.run(&["put", "rig/mode", "OFF"]);
    let played = served.run(&["play", "--full-speed", &file]);
    assert_eq!(played.code, Some(0), "{played:?}");
    assert!(played.err.contains("6 updates played"), "{played:?}");
    assert_eq!(served.run(&["get", "-t", "rig/level"]).out.trim(), "30.0");
    assert_eq!(served.run(&["get", "-t", "rig/mode"]).out.trim(), "HAND");
    // Into others: of another type, or not there.
    let other = served.run(&[
        "play",
        "--full-speed",
        "--as",
        "rig/level=rig/setpoint",
        &file,
    ]);
    assert_eq!(other.code, Some(0), "{other:?}");
    assert_eq!(
        served.run(&["get", "-t", "rig/setpoint"]).out.trim(),
        "30.0"
    );
    let wrong = served.run(&["play", "--full-speed", "--as", "rig/mode=rig/level", &file]);
    assert_eq!(wrong.code, Some(1), "{wrong:?}");
    assert!(
        wrong
            .err
            .contains("the recorded values have the type enum(OFF, AUTO, HAND)"),
        "{wrong:?}"
    );
}

/// Behaviour: B-72.
#[test]
fn recording_contains_units_and_descriptions() {
    let served = Served::rig();
    let file = path(&served, "run.tdms");
    let start = ["record", "start", &file, "rig/**", "--for", "200ms"];
    let recorded = served.run(&start);
    assert!(recorded.err.contains("recorded in"), "{recorded:?}");
    let info = served.run(&["tdms", "info", &file, "--json"]);
    let info: Json = serde_json::from_str(&info.out).unwrap();
    let of = |list: &str, name: &str| {
        let list = info[list].as_array().unwrap();
        let found = list.iter().find(|one| one["name"] == name);
        found.unwrap_or_else(|| panic!("{name}: {info}")).clone()
    };
    assert_eq!(of("channels", "rig%2Flevel/value")["unit"], "%");
    assert_eq!(of("channels", "rig%2Flevel/quality").get("unit"), None);
    assert_eq!(of("channels", "rig%2Fmode/value").get("unit"), None);
    let level = of("groups", "rig/level");
    assert_eq!(level["properties"]["description"], "Tank level");
    let shown = served.run(&["tdms", "info", &file]);
    let line = shown.out.lines().find(|line| line.contains("level/value"));
    assert!(line.unwrap().contains('%'), "{shown:?}");
}

/// Behaviour: B-72.
#[test]
fn a_stream_is_recorded_and_played_into_a_stream() {
    let served = Served::rig();
    let file = path(&served, "stream.tdms");
    let start = ["record", "start", &file, "--stream", "in", "--type", "i32"];
    let recorder = served.spawn(&start);
    let numbers: String = (0..5_000).map(|number| format!("{number}\n")).collect();
    let written = served.run_with_input(
        &["stream", "write", "out", "--to", "in", "--type", "i32"],
        &numbers,
    );
    assert_eq!(written.code, Some(0), "{written:?}");
    recorder.error_with("recording with");
    recorder.error_with("5000 elements recorded");
    assert_eq!(recorder.end().0, Some(0));
    let info = info(&served, &file, "stream/value").unwrap();
    assert_eq!((&info["values"], &info["lost"]), (&5_000.into(), &0.into()));

    let player = served.spawn(&[
        "play",
        &file,
        "--full-speed",
        "--stream",
        "player",
        "--type",
        "i32",
    ]);
    let read = served.run(&[
        "stream", "read", "again", "--from", "player", "--type", "i32",
    ]);
    assert_eq!((read.code, read.out), (Some(0), numbers));
    assert_eq!(player.end().0, Some(0));
    // It does not contain the times of its rows, nor their rate.
    let unpaced = served.run(&["play", &file, "--stream", "player", "--type", "i32"]);
    assert!(unpaced.err.contains("wf_increment"), "{unpaced:?}");
    assert!(unpaced.err.contains("--times"), "{unpaced:?}");
}

#[test]
fn json_output_is_as_documented_and_checksums_are_optional() {
    let served = Served::rig();
    let file = path(&served, "run.tdms");
    let start = ["record", "start", &file, "rig/level", "--sums", "--json"];
    let recorded = served.run(&[&start[..], &["--for", "200ms"]].concat());
    assert_eq!(recorded.code, Some(0), "{recorded:?}");
    let first = recorded.err.lines().next().unwrap();
    check(&serde_json::from_str(first).unwrap(), "recording");
    let line = last(&recorded.err);
    check(&line, "recorded");
    assert_eq!(
        (&line["backend"], &line["is_direct"], &line["durability"]),
        (&"plain writes".into(), &false.into(), &"on-disk".into())
    );
    let verified = served.run(&["tdms", "verify", &file, "--json"]);
    assert_eq!(verified.code, Some(0), "{verified:?}");
    assert_eq!(last(&verified.err)["sums"], true, "{verified:?}");
    let played = served.run(&["play", "--full-speed", "--json", &file]);
    assert_eq!(played.code, Some(0), "{played:?}");
    check(&last(&played.err), "played");

    let stream = path(&served, "stream.tdms");
    let recorder = served.spawn(&[
        "record", "start", &stream, "--stream", "in", "--type", "i32", "--sums", "--json",
    ]);
    let numbers = "7\n".repeat(1_000);
    let write = ["stream", "write", "out", "--to", "in", "--type", "i32"];
    assert_eq!(served.run_with_input(&write, &numbers).code, Some(0));
    let line = recorder.error_with("\"event\":\"recorded\"");
    let line: Json = serde_json::from_str(&line).unwrap();
    check(&line, "recorded");
    assert_eq!(
        (&line["elements"], &line["lost"]),
        (&1_000.into(), &0.into())
    );
    assert_eq!(line["bytes_copied"], 4_000, "its odd end alone");
    assert_eq!(recorder.end().0, Some(0));
    let verified = served.run(&["tdms", "verify", &stream, "--json"]);
    assert_eq!(last(&verified.err)["sums"], true, "{verified:?}");
    let player = served.spawn(&[
        "play",
        &stream,
        "--full-speed",
        "--stream",
        "player",
        "--type",
        "i32",
        "--json",
    ]);
    let read = [
        "stream", "read", "again", "--from", "player", "--type", "i32",
    ];
    assert_eq!(served.run(&read).out, numbers);
    let line = player.error_with("\"event\":\"played\"");
    check(&serde_json::from_str(&line).unwrap(), "played");
    assert_eq!(player.end().0, Some(0));
}

/// Behaviour: B-72.
#[test]
fn a_variable_that_cannot_be_read_is_named_and_not_counted() {
    let served = Served::rig();
    let record = |name: &str, more: &[&str]| {
        let file = path(&served, name);
        let start = ["record", "start", &file, "rig/**", "--for", "300ms"];
        let recorded = served.run(&[&start[..], more].concat());
        assert_eq!(recorded.code, Some(1), "{recorded:?}");
        (file, recorded.err)
    };
    let (file, said) = record("one.tdms", &[]);
    // One of the twelve.
    assert!(said.contains("of 11 variables recorded"), "{said}");
    let refused = said.lines().last().unwrap();
    assert!(refused.starts_with("rig/order "), "{said}");
    assert!(refused.contains("the variable is write-only"), "{said}");
    assert_eq!(said.lines().count(), 3, "{said}");
    assert!(info(&served, &file, "rig/order").is_none());
    // It was never written, which is reported.
    assert_eq!(info(&served, &file, "rig/empty").unwrap()["values"], 0);
    let (_, said) = record("two.tdms", &["--json"]);
    assert_eq!(last(&said)["name"], "rig/order", "{said}");
    let mut lines = said.lines();
    let ended = lines.find(|line| line.contains("\"recorded\"")).unwrap();
    assert_eq!(last(ended)["variables"], 11, "{said}");
    for contract in ["latest", "last:5", "first:2", "sampled:10ms"] {
        let name = format!("{}.tdms", contract.replace(':', "_"));
        let (_, said) = record(&name, &["--contract", contract]);
        assert!(said.contains("of 11 variables recorded"), "{said}");
    }
}

/// Behaviour: B-72.
#[test]
fn unmatched_names_are_reported_at_start_and_end() {
    let served = Served::rig();
    let record = |name: &str, names: &[&str], more: &[&str]| {
        let file = path(&served, name);
        let start = ["record", "start", &file, "--for", "300ms"];
        served.run(&[&start[..], names, more].concat())
    };
    let names = ["rig/level", "rig/levle", "spare/**"];
    let recorded = record("one.tdms", &names, &[]);
    assert_eq!(recorded.code, Some(1), "{recorded:?}");
    let lines: Vec<&str> = recorded.err.lines().collect();
    let [begin, misspelled, pattern, end] = lines[..] else {
        panic!("{recorded:?}");
    };
    assert!(begin.starts_with("recording to"), "{recorded:?}");
    assert!(misspelled.starts_with("rig/levle "), "{recorded:?}");
    assert!(
        misspelled.contains("did you mean rig/level?"),
        "{recorded:?}"
    );
    assert!(pattern.contains("no name matches spare/**"), "{recorded:?}");
    assert!(end.contains("of 1 variable recorded"), "{recorded:?}");
    assert!(
        end.ends_with("no match for rig/levle, spare/**"),
        "{recorded:?}"
    );
    let recorded = record("two.tdms", &names, &["--json"]);
    assert_eq!(recorded.code, Some(1), "{recorded:?}");
    let line = last(&recorded.err);
    check(&line, "recorded");
    let unmatched = serde_json::json!(["rig/levle", "spare/**"]);
    assert_eq!(line["unmatched"], unmatched);
    // As with `monitor`, a pattern may match variables that do not exist yet.
    let recorded = record("three.tdms", &["rig/level", "spare/**"], &[]);
    assert_eq!(recorded.code, Some(0), "{recorded:?}");
    // Excluded variables are not reported as missing.
    let recorded = record("four.tdms", &["rig/level", "x/y"], &["--exclude", "x/**"]);
    assert_eq!(recorded.code, Some(0), "{recorded:?}");
    assert!(!recorded.err.contains("x/y"), "{recorded:?}");
    let alone = record("five.tdms", &["rig/levle"], &[]);
    assert_eq!(alone.code, Some(1), "{alone:?}");
    assert!(alone.err.contains("did you mean rig/level?"), "{alone:?}");
    assert!(alone.err.contains("nothing was recorded"), "{alone:?}");
}

#[test]
fn unsupported_recordings_and_playbacks_are_reported() {
    let served = Served::rig();
    let file = path(&served, "x.tdms");
    let nothing = served.run(&["record", "start", &file]);
    assert_eq!(nothing.code, Some(2), "{nothing:?}");
    let missing = served.run(&["play", &file]);
    assert_eq!(missing.code, Some(1), "{missing:?}");
    let unmatched = path(&served, "unmatched.tdms");
    let start = [
        "record",
        "start",
        &unmatched,
        "nowhere/**",
        "--for",
        "100ms",
    ];
    let unmatched = served.run(&start);
    assert_eq!(unmatched.code, Some(1), "{unmatched:?}");
    assert!(
        unmatched.err.contains("no variable matched"),
        "{unmatched:?}"
    );
    // A struct of more channels than a file may have for it.
    let fields = (0..1024).map(|number| format!("f{number}:waveform(u8)"));
    let fields = format!("struct({})", fields.collect::<Vec<_>>().join(","));
    let wide = ["a", "b", "c", "d"].map(|name| format!("{name}:{fields}"));
    let wide = format!("struct({})", wide.join(","));
    let wide = served.run(&["record", "start", &file, "--stream", "in", "--type", &wide]);
    assert_eq!(wide.code, Some(2), "{wide:?}");
    assert!(wide.err.contains("more than 16384 channels"), "{wide:?}");
    let no_file = served.file(
        "no.tdms",
        "this is no recording, and long enough to be looked at",
    );
    assert_eq!(served.run(&["record", "info", &no_file]).code, Some(1));
    let folder = served.folder.path().to_str().unwrap();
    let list = served.run(&["record", "ls", folder]);
    assert_eq!(list.code, Some(1), "{list:?}");
    assert!(list.out.contains("no.tdms"), "{list:?}");
}

/// Behaviour: ZC-18, ZC-21.
#[test]
fn simulated_devices_are_recorded_and_every_value_is_checked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let bench = [
        "record",
        "bench",
        path,
        "--devices",
        "2",
        "--for",
        "300ms",
        "--rate",
        "8MB",
        "--json",
    ];
    let done = run(&bench);
    assert_eq!(done.code, Some(0), "{done:?}");
    let line: Json = serde_json::from_str(&done.out).unwrap();
    check(&line, "record_bench");
    check(&last(&done.err), "recording");
    let memory = last(&done.err)["memory"].to_string();
    assert!(memory.contains("pages"), "{memory}");
    assert_eq!(
        (&line["lost"], &line["overflows"], &line["devices"]),
        (&0.into(), &0.into(), &2.into())
    );
    assert!(line["bytes"].as_u64().unwrap() > 0);
    assert!(done.err.contains("backend"), "{done:?}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let nowhere = run(&["record", "bench", "/nowhere/at/all", "--for", "10ms"]);
    assert_eq!(nowhere.code, Some(1), "{nowhere:?}");
    let sentence = "there is no folder /nowhere/at/all\n  create it, or specify another one";
    assert!(nowhere.err.contains(sentence), "{nowhere:?}");
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

/// A recording that fails or is interrupted leaves no file, and modifies no existing one.
#[test]
fn failed_or_empty_recording_leaves_no_file() {
    let served = Served::rig();
    let file = path(&served, "stream.tdms");
    let start = ["record", "start", &file, "--stream", "in"];
    let unheard = [&start[..], &["--from", "nobody", "--timeout", "100ms"]].concat();
    for _ in 0..2 {
        let late = served.run(&unheard);
        assert_eq!(late.code, Some(4), "{late:?}");
        assert!(!Path::new(&file).exists());
    }

    let folder = tempfile::tempdir().unwrap();
    let bench = ["record", "bench", folder.path().to_str().unwrap()];
    let mine = folder.path().join("bench0.tdms");
    std::fs::write(&mine, "mine").unwrap();
    let two = ["--devices", "2", "--rate", "8MB", "--for", "100ms"];
    let refused = run(&[&bench[..], &two].concat());
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert_eq!(names(folder.path()), ["bench0.tdms"]);
    assert_eq!(std::fs::read_to_string(&mine).unwrap(), "mine");

    std::fs::remove_file(&mine).unwrap();
    let long = ["--rate", "8MB", "--for", "1h"];
    let running = Running::start(&[&bench[..], &long].concat());
    let mine = mine.to_str().unwrap();
    let is_there = (0..1_000).any(|_| run(&["record", "info", mine]).code == Some(0));
    assert!(is_there, "no file is begun");
    running.signal("INT");
    assert_eq!(running.end().0, Some(130));
    assert!(names(folder.path()).is_empty());
}

/// Neither a special file nor an invalid rate is accepted.
#[test]
fn special_files_and_invalid_rates_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe.tdms");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    // Both ends are open, so that neither waits for the other.
    let mut ends = std::fs::OpenOptions::new();
    let _ends = ends.read(true).write(true).open(&pipe).unwrap();
    let (folder, pipe) = (folder.path().to_str().unwrap(), pipe.to_str().unwrap());
    let arguments: [&[&str]; 4] = [
        &["record", "ls", folder],
        &["record", "info", pipe],
        &["play", pipe],
        &["play", pipe, "--stream", "player"],
    ];
    for arguments in arguments {
        let refused = run(arguments);
        assert_eq!(refused.code, Some(1), "{refused:?}");
        let told = refused.out.clone() + &refused.err;
        assert!(told.contains("not a regular file"), "{refused:?}");
    }
    let slow = run(&["record", "bench", folder, "--for", "1ms", "--rate", "7"]);
    assert_eq!(slow.code, Some(2), "{slow:?}");
    assert!(slow.err.contains("8 bytes"), "{slow:?}");
}
