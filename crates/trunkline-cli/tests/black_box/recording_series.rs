//! Recordings in several files, and the final reports of recorder and player.

use std::path::Path;

use serde_json::Value as Json;

use crate::rig::Served;
use crate::schema;

/// The last line of JSON, which matches the documentation.
fn last(text: &str, name: &str) -> Json {
    let line: Json = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let schema = &schema::documented()["$defs"][name];
    schema::check(&line, schema).unwrap_or_else(|error| panic!("{name}: {error}: {line}"));
    line
}

fn path(served: &Served, name: &str) -> String {
    let path = served.folder.path().join(name);
    path.to_str().unwrap().to_owned()
}

/// Returns the number of values of a channel or variable in a file; `None` if it does not exist
/// yet.
fn values(served: &Served, file: &str, name: &str) -> Option<u64> {
    let info = served.run(&["record", "info", file, "--json"]);
    let lines = info.out.lines();
    let mut lines = lines.map(|line| serde_json::from_str::<Json>(line).unwrap());
    lines.find(|line| line["name"] == name)?["values"].as_u64()
}

fn wait_for(served: &Served, file: &str, name: &str, count: u64) {
    let is_there = |_| values(served, file, name).is_some_and(|found| found >= count);
    assert!(
        (0..1_000).any(is_there),
        "{file}: {:?}",
        values(served, file, name)
    );
}

/// Behaviour: B-70, B-72.
#[test]
fn variables_continue_in_further_files_that_are_playable_alone() {
    let served = Served::rig();
    let files = ["run.tdms", "run_0002.tdms", "run_0003.tdms"].map(|name| path(&served, name));
    let start = ["record", "start", &files[0], "rig/level", "rig/mode"];
    let rotated = ["--rotate-time", "1ms", "--sums", "--json"];
    let recorder = served.spawn(&[&start[..], &rotated].concat());
    for (turn, file) in files.iter().enumerate() {
        wait_for(&served, file, "rig/level", if turn == 0 { 1 } else { 2 });
        let value = (10 * turn).to_string();
        assert_eq!(served.run(&["put", "rig/level", &value]).code, Some(0));
    }
    let last_file = path(&served, "run_0004.tdms");
    wait_for(&served, &last_file, "rig/level", 2);
    recorder.signal("INT");
    let line = recorder.error_with("\"event\":\"recorded\"");
    assert_eq!(recorder.end().0, Some(0));
    let line = last(&line, "recorded");
    assert_eq!((&line["files"], &line["lost"]), (&4.into(), &0.into()));
    assert_eq!((&line["updates"], &line["on_disk"]), (&5.into(), &5.into()));
    for file in files.iter().chain([&last_file]) {
        let verified = served.run(&["tdms", "verify", file, "--json"]);
        assert_eq!(verified.code, Some(0), "{verified:?}");
    }
    // Each has the values from before it.
    served.run(&["put", "rig/mode", "OFF"]);
    let played = served.run(&["play", &files[2]]);
    assert_eq!(played.code, Some(0), "{played:?}");
    assert_eq!(served.run(&["get", "-t", "rig/level"]).out.trim(), "10.0");
    assert_eq!(served.run(&["get", "-t", "rig/mode"]).out.trim(), "AUTO");

    // The next file of a series is not overwritten either. The requested one is named if it exists
    // too.
    let both = served.run(&[&start[..], &rotated].concat());
    assert_eq!(both.code, Some(1), "{both:?}");
    let name = "run.tdms already exists";
    assert!(both.err.contains(name), "{both:?}");
    std::fs::remove_file(&files[0]).unwrap();
    let again = served.run(&[&start[..], &rotated].concat());
    assert_eq!(again.code, Some(1), "{again:?}");
    assert!(
        again.err.contains("run_0002.tdms already exists"),
        "{again:?}"
    );
    assert!(!Path::new(&files[0]).exists());
    let alone = served.run(&[&start[..], &["--for", "100ms"]].concat());
    assert_eq!(alone.code, Some(0), "{alone:?}");
}

/// Behaviour: B-72.
#[test]
fn series_is_played_from_its_first_file_and_gaps_are_reported() {
    let served = Served::rig();
    let files = [
        "run.tdms",
        "run_0002.tdms",
        "run_0003.tdms",
        "run_0004.tdms",
    ];
    let files = files.map(|name| path(&served, name));
    let start = ["record", "start", &files[0], "rig/level", "rig/mode"];
    let recorder = served.spawn(&[&start[..], &["--rotate-time", "1ms"]].concat());
    for (turn, file) in files.iter().enumerate() {
        wait_for(&served, file, "rig/level", if turn == 0 { 1 } else { 2 });
        if turn < 3 {
            let value = (10 * (turn + 1)).to_string();
            assert_eq!(served.run(&["put", "rig/level", &value]).code, Some(0));
        }
    }
    recorder.signal("INT");
    assert_eq!(recorder.end().0, Some(0));
    served.run(&["put", "rig/level", "0"]);
    let play = |options: &[&str]| {
        let played = served.run(&[&["play", &files[0], "--json"], options].concat());
        let line = last(&played.err, "played");
        (played, line)
    };
    let (played, line) = play(&[]);
    assert_eq!(played.code, Some(0), "{played:?}");
    // Both as they were before, and three more.
    assert_eq!((&line["updates"], &line["applied"]), (&5.into(), &5.into()));
    assert_eq!(served.run(&["get", "-t", "rig/level"]).out.trim(), "30.0");

    // The values of the third file are in the fourth, as earlier values.
    std::fs::remove_file(&files[2]).unwrap();
    let (played, line) = play(&["--full-speed"]);
    assert_eq!((played.code, &line["updates"]), (Some(1), &5.into()));
    let said: Json = serde_json::from_str(played.err.lines().next().unwrap()).unwrap();
    assert_eq!(said["code"], "missing", "{said}");
    let sentence = said["message"].as_str().unwrap();
    assert!(sentence.ends_with("run_0003.tdms is missing"), "{sentence}");
    std::fs::remove_file(&files[1]).unwrap();
    let (played, line) = play(&["--full-speed"]);
    assert_eq!((played.code, &line["updates"]), (Some(1), &4.into()));
    let said = "1 update of 1 variable is missing before";
    assert!(played.err.contains(said), "{played:?}");

    // The last one, cut off.
    let bytes = std::fs::read(&files[3]).unwrap();
    std::fs::write(&files[3], &bytes[..bytes.len() - 1]).unwrap();
    let (played, _) = play(&["--full-speed"]);
    assert_eq!(played.code, Some(1), "{played:?}");
    assert!(played.err.contains("was cut off"), "{played:?}");
    // One of another series.
    std::fs::copy(&files[0], &files[1]).unwrap();
    let refused = served.run(&["play", &files[0], "--full-speed"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(
        refused.err.contains("run_0002.tdms has the name of"),
        "{refused:?}"
    );
    assert!(refused.err.contains("play it separately"), "{refused:?}");
}

/// Behaviour: B-70, B-72.
#[test]
fn stream_continues_in_further_files_and_is_played_as_one() {
    let served = Served::rig();
    let file = path(&served, "raw.tdms");
    let start = ["record", "start", &file, "--stream", "in", "--type", "i32"];
    let options = ["--rotate-size", "1MB", "--sample-rate", "2000000", "--json"];
    let recorder = served.spawn(&[&start[..], &options].concat());
    let numbers: String = (0..700_000).map(|number| format!("{number}\n")).collect();
    let write = ["stream", "write", "out", "--to", "in", "--type", "i32"];
    let written = served.run_with_input(&write, &numbers);
    assert_eq!(written.code, Some(0), "{written:?}");
    let line = recorder.error_with("\"event\":\"recorded\"");
    assert_eq!(recorder.end().0, Some(0));
    let line = last(&line, "recorded");
    let files = line["files"].as_u64().unwrap();
    assert!(files >= 2, "{line}");
    assert_eq!(
        (&line["elements"], &line["lost"]),
        (&700_000.into(), &0.into())
    );
    assert_eq!(line["durability"], "on-disk");
    let names = (1..=files).map(|number| match number {
        1 => file.clone(),
        number => path(&served, &format!("raw_{number:04}.tdms")),
    });
    let found = names.map(|file| values(&served, &file, "stream/value").unwrap());
    assert_eq!(found.sum::<u64>(), 700_000);
    // At the speed of the file.
    let player = served.spawn(&["play", &file, "--stream", "player", "--type", "i32"]);
    let read_back = [
        "stream", "read", "again", "--from", "player", "--type", "i32",
    ];
    let read = served.run(&read_back);
    assert!(read.out == numbers, "{} bytes", read.out.len());
    assert_eq!(player.end().0, Some(0));
    // Without the second: it plays by itself.
    let second = path(&served, "raw_0002.tdms");
    let behind = values(&served, &second, "stream/value").unwrap();
    let alone = path(&served, "alone.tdms");
    std::fs::rename(&second, &alone).unwrap();
    let play = |file: &str, code| {
        let to = ["--full-speed", "--stream", "player", "--type", "i32"];
        let player = served.spawn(&[&["play", file][..], &to].concat());
        let out = served.run(&read_back).out;
        assert_eq!(player.end().0, Some(code));
        out
    };
    assert_eq!(play(&alone, 0).lines().count() as u64, behind);
    // Updates after a missing file are played, and the exit code reports the gap.
    let out = play(&file, 1);
    let in_first = values(&served, &file, "stream/value").unwrap();
    assert!(out.lines().count() as u64 >= in_first);
    assert_eq!(out.lines().count() as u64, 700_000 - behind);
}

/// Behaviour: B-72.
#[test]
fn refused_updates_are_reported_with_variable_and_reason() {
    let served = Served::rig();
    let file = path(&served, "run.tdms");
    let recorder = served.spawn(&["record", "start", &file, "rig/level", "rig/sealed"]);
    wait_for(&served, &file, "rig/sealed", 1);
    wait_for(&served, &file, "rig/level", 1);
    recorder.signal("INT");
    assert_eq!(recorder.end().0, Some(0));
    let played = served.run(&["play", "--full-speed", &file]);
    assert_eq!(played.code, Some(1), "{played:?}");
    assert!(played.err.contains("1 failed"), "{played:?}");
    let line = played.err.lines().find(|line| line.contains("rig/sealed"));
    let line = line.unwrap();
    assert!(
        line.contains("1 update") && line.contains("read-only"),
        "{line}"
    );
    assert!(!played.err.contains("rig/level"), "{played:?}");
    let played = served.run(&["play", "--full-speed", "--json", &file]);
    let lines = played
        .err
        .lines()
        .map(|line| serde_json::from_str::<Json>(line).unwrap());
    let failed: Vec<_> = lines.filter(|line| line["name"] == "rig/sealed").collect();
    assert_eq!(failed.len(), 1, "{played:?}");
    assert_eq!(failed[0]["code"], "not-writable", "{}", failed[0]);
}

/// Behaviour: B-70.
#[test]
fn empty_recording_leaves_no_file_and_is_reported() {
    let served = Served::rig();
    let file = path(&served, "x.tdms");
    let start = [
        "record",
        "start",
        &file,
        "nowhere/**",
        "--sums",
        "--for",
        "50ms",
    ];
    let nothing = served.run(&start);
    assert_eq!(nothing.code, Some(1), "{nothing:?}");
    assert!(nothing.err.contains("nothing was recorded"), "{nothing:?}");
    assert!(nothing.err.contains("no variable matched"), "{nothing:?}");
    assert!(!Path::new(&file).exists() && !Path::new(&format!("{file}.sums")).exists());
    let nothing = served.run(&[&start[..], &["--json"]].concat());
    let recorded = nothing
        .err
        .lines()
        .find(|line| line.contains("\"recorded\""));
    let recorded = last(recorded.unwrap(), "recorded");
    assert_eq!(
        (&recorded["updates"], &recorded["lost"]),
        (&0.into(), &0.into())
    );
    assert_eq!(recorded.get("bytes"), None);

    // Without a writer: it is detected before it waits for one.
    let nowhere = path(&served, "nowhere/x.tdms");
    let refused = served.run(&["record", "start", &nowhere, "--stream", "in"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.err.contains("cannot be created"), "{refused:?}");
}
