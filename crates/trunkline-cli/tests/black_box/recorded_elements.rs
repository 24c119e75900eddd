//! Streams of text, bytes, arrays, waveforms and structs: recorded and played from the command
//! line.

use std::io::Write;
use std::process::Stdio;

use serde_json::Value as Json;
use trunkline::record::{SegmentFile, VariableRecording};
use trunkline::types::{DataType, Lost, Quality, Reason, Sample, Timestamp, Value};

use crate::rig::{Running, Served};

fn path(served: &Served, name: &str) -> String {
    let path = served.folder.path().join(name);
    path.to_str().unwrap().to_owned()
}

/// Returns the number of values of a type that `record info` finds.
fn values(served: &Served, file: &str, data_type: &str) -> u64 {
    let info = served.run(&["record", "info", file, "--json"]);
    let lines = info.out.lines();
    let mut lines = lines.map(|line| serde_json::from_str::<Json>(line).unwrap());
    let found = lines.find(|line| line["name"] == "stream" && line["type"] == data_type);
    found.map_or(0, |line| line["values"].as_u64().unwrap())
}

/// Records the elements written into a stream. Returns the recorder's last line.
fn record(served: &Served, file: &str, data_type: &str, more: &[&str], input: &str) -> Json {
    let of = ["--stream", "in", "--type", data_type, "--json"];
    let start = [&["record", "start", file][..], &of, more].concat();
    let recorder = served.spawn(&start);
    let write = ["stream", "write", "out", "--to", "in", "--type", data_type];
    let written = served.run_with_input(&write, input);
    assert_eq!(written.code, Some(0), "{written:?}");
    let line = recorder.error_with("\"event\":\"recorded\"");
    assert_eq!(recorder.end().0, Some(0));
    serde_json::from_str(&line).unwrap()
}

/// Plays a recording into a stream; what its reader prints.
fn play(served: &Served, file: &str, data_type: &str) -> String {
    // With the recorded type, which need not be given.
    let to = ["--stream", "player", "--full-speed"];
    let player = served.spawn(&[&["play", file][..], &to].concat());
    let read = [
        "stream", "read", "again", "--from", "player", "--type", data_type,
    ];
    let read = served.run(&read);
    assert_eq!(read.code, Some(0), "{read:?}");
    player.error_with("elements played");
    assert_eq!(player.end().0, Some(0));
    read.out
}

/// Each element is played as it was written, and the other commands read the recording.
///
/// Behaviour: B-70, B-72, ZC-26.
#[test]
fn streams_of_every_kind_are_recorded_and_played_again() {
    let served = Served::rig();
    let wave = r#"{"t0":"2026-01-01T00:00:00.000000001Z","dt":0.5,"samples":[1,2],"attributes":{"unit":"V"}}"#;
    let cases = [
        (
            "string",
            vec!["\"one\"", "\"\"", "\"zwölf, \\\"odd\\\"\""],
            vec!["time", "value"],
        ),
        (
            "bytes",
            vec!["\"AQID\"", "\"\""],
            vec!["time", "value", "value.count"],
        ),
        (
            "array(f64, *)",
            vec!["[1.0,2.0]", "[]", "[3.0]"],
            vec!["time", "value", "value.count"],
        ),
        (
            "struct(n: u8, name: string)",
            vec![r#"{"n":1,"name":"a"}"#, r#"{"n":2,"name":""}"#],
            vec!["time", "value.n", "value.name"],
        ),
        (
            "waveform(i16)",
            vec![wave, wave],
            vec![
                "time",
                "value",
                "value.count",
                "value.t0",
                "value.dt",
                "value.attributes",
            ],
        ),
    ];
    for (number, (data_type, elements, channels)) in cases.into_iter().enumerate() {
        let file = path(&served, &format!("{number}.tdms"));
        let input: String = elements.iter().map(|one| format!("{one}\n")).collect();
        let count = elements.len() as u64;
        let line = record(&served, &file, data_type, &["--sums"], &input);
        assert_eq!(
            (&line["elements"], &line["lost"]),
            (&count.into(), &0.into())
        );
        assert_eq!(line["durability"], "on-disk", "{line}");
        assert_eq!(values(&served, &file, data_type), count);
        let cat = served.run(&["tdms", "cat", &file]);
        let head: Vec<_> = channels.iter().map(|one| format!("stream/{one}")).collect();
        let first = cat.out.lines().next().unwrap();
        assert_eq!(first.split('\t').collect::<Vec<_>>(), head);
        let table = path(&served, &format!("{number}.csv"));
        let converted = served.run(&["tdms", "convert", &file, &table]);
        assert_eq!(converted.code, Some(0), "{converted:?}");
        let verified = served.run(&["tdms", "verify", &file]);
        assert_eq!(verified.code, Some(0), "{verified:?}");
        assert_eq!(play(&served, &file, data_type), input);
    }
    let file = path(&served, "0.tdms");
    let other = served.run(&[
        "play",
        &file,
        "--full-speed",
        "--stream",
        "player",
        "--type",
        "bytes",
    ]);
    assert_eq!(other.code, Some(2), "{other:?}");
    assert!(other.err.contains("--type 'string'"), "{other:?}");
    let gaps = [
        "play",
        &file,
        "--stream",
        "player",
        "--type",
        "string",
        "--skip-gaps",
    ];
    assert_eq!(served.run(&gaps).code, Some(2));
}

/// Behaviour: B-70, B-72.
#[test]
fn text_stream_continues_in_further_files_and_is_played_as_one() {
    let served = Served::rig();
    let file = path(&served, "log.tdms");
    // More than waits in memory, twice.
    let lines = (0..10_000).map(|number| format!("\"{number} {}\"\n", "x".repeat(1_000)));
    let input: String = lines.collect();
    let line = record(&served, &file, "string", &["--rotate-size", "1MB"], &input);
    let files = line["files"].as_u64().unwrap();
    assert!(files >= 2, "{line}");
    assert_eq!(
        (&line["elements"], &line["lost"]),
        (&10_000.into(), &0.into())
    );
    let names = (1..=files).map(|number| match number {
        1 => file.clone(),
        number => path(&served, &format!("log_{number:04}.tdms")),
    });
    let found = names.map(|file| values(&served, &file, "string"));
    assert_eq!(found.sum::<u64>(), 10_000);
    assert!(play(&served, &file, "string") == input);
}

/// A recorder that is killed leaves every element that its file had.
///
/// Behaviour: B-70.
#[test]
fn file_of_a_killed_recorder_is_played() {
    let served = Served::rig();
    for (round, data_type) in ["string", "array(u16, *)"].into_iter().enumerate() {
        let file = path(&served, &format!("{round}.tdms"));
        let start = [
            "record", "start", &file, "--stream", "in", "--type", data_type,
        ];
        let recorder = served.spawn(&start);
        let write = ["stream", "write", "out", "--to", "in", "--type", data_type];
        let mut writer = Running::spawn_reading(&mut served.command(&write), Stdio::piped());
        let mut input = writer.child.stdin.take().unwrap();
        let element = |number: u64| match data_type {
            "string" => format!("\"element {number}\"\n"),
            _ => format!("[{}{number}]\n", "7,".repeat(number as usize % 5)),
        };
        // Until some of them are in the file, in several segments.
        let (mut written, mut found) = (0, 0);
        for _ in 0..1_000 {
            for number in written..written + 100 {
                input.write_all(element(number).as_bytes()).unwrap();
            }
            written += 100;
            found = match std::path::Path::new(&file).exists() {
                true => values(&served, &file, data_type),
                false => 0,
            };
            if found > 1_000 {
                break;
            }
        }
        assert!(found > 1_000, "{found} of {written}");
        recorder.signal("KILL");
        let _ = recorder.end();
        drop((input, writer));
        let played = play(&served, &file, data_type);
        let played: Vec<_> = played.split_inclusive('\n').collect();
        assert!(played.len() as u64 >= found, "{} of {found}", played.len());
        let expected = (0..played.len() as u64).map(element);
        assert!(expected.eq(played.into_iter().map(str::to_owned)));
    }
}

/// A recorded variable is played into a stream as a recorded stream is; of several, the one that is
/// named.
///
/// Behaviour: B-72.
#[test]
fn updates_of_one_recorded_variable_are_played_into_a_stream() {
    let served = Served::rig();
    let file = path(&served, "run.tdms");
    // Before its first value it would not be good.
    assert_eq!(served.run(&["put", "rig/level", "11.5"]).code, Some(0));
    let start = ["record", "start", &file, "rig/level", "rig/mode"];
    let recorder = served.spawn(&start);
    recorder.error_with("recording to");
    for level in ["12.5", "13.5"] {
        assert_eq!(served.run(&["put", "rig/level", level]).code, Some(0));
    }
    let stopped = served.run(&["record", "stop", &file]);
    assert_eq!(stopped.code, Some(0), "{stopped:?}");
    assert_eq!(recorder.end().0, Some(0));
    let unnamed = served.run(&["play", &file, "--full-speed", "--stream", "player"]);
    assert_eq!(unnamed.code, Some(1), "{unnamed:?}");
    assert!(unnamed.err.contains("specify the group"), "{unnamed:?}");
    let to = ["--full-speed", "--stream", "player", "--group", "rig/level"];
    let player = served.spawn(&[&["play", &file][..], &to].concat());
    let read = served.run(&["stream", "read", "again", "--from", "player"]);
    assert_eq!(player.end().0, Some(0));
    let lines: Vec<_> = read.out.lines().collect();
    assert!(lines == ["11.5", "12.5", "13.5"], "{read:?}");
}

/// A stream carries neither qualities nor gaps. Those of the recording are reported, and the
/// command does not succeed.
///
/// Behaviour: B-72.
#[test]
fn bad_values_and_gaps_are_reported_when_played_into_a_stream() {
    let served = Served::rig();
    let path = path(&served, "run.tdms");
    let file = SegmentFile::create(std::path::Path::new(&path)).unwrap();
    let mut recording = VariableRecording::new(file, 1 << 20);
    let level = recording.add("rig/level", &DataType::F64).unwrap();
    let qualities = [
        Quality::GOOD,
        Quality::bad(Reason::SensorFailure),
        Quality::GOOD,
    ];
    for (number, quality) in (0..).zip(qualities) {
        let time = Timestamp::from_nanos(number);
        let sample = Sample {
            value: Value::F64(number as f64),
            source_timestamp: time,
            engine_timestamp: time,
            quality,
        };
        recording.take(level, &sample, &Lost::NONE).unwrap();
        match number {
            0 => recording.record_loss(level, Some(3)).unwrap(),
            1 => recording.record_loss(level, None).unwrap(),
            _ => {}
        }
    }
    recording.finish().unwrap();
    for is_json in [false, true] {
        let form = &["--json"][..usize::from(is_json)];
        let to = ["--full-speed", "--stream", "player"];
        let player = served.spawn(&[&["play", &path][..], &to, form].concat());
        let read = served.run(&["stream", "read", "again", "--from", "player"]);
        assert_eq!(read.out, "0.0\n1.0\n2.0\n");
        if is_json {
            let line = player.error_with("\"event\":\"played\"");
            let line: Json = serde_json::from_str(&line).unwrap();
            let count = |name: &str| line[name].as_u64().unwrap();
            assert_eq!((count("rows"), count("not_good")), (3, 1));
            let gaps = (count("gaps"), count("lost"), count("unknown_gaps"));
            assert_eq!(gaps, (2, 3, 1));
        } else {
            player.error_with("1 element was not of good quality");
            player.error_with("2 gaps");
        }
        assert_eq!(player.end().0, Some(1));
    }
}
