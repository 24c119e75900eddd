//! Histories exported to files and played, from an engine and from its folder.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, RecordBatch};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Value as Json;
use trunkline::{Client, OpenOptions, Write};
use trunkline_types::{Elements, Timestamp, Value, Waveform};

use crate::history::{PLANT, Recorded};
use crate::history_folders::plant;
use crate::json_lines::checked;
use crate::rig::Running;

fn rows_of(path: &str) -> Vec<RecordBatch> {
    let file = File::open(path).unwrap();
    match path.ends_with(".parquet") {
        true => {
            let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
            reader.build().unwrap().collect::<Result<_, _>>().unwrap()
        }
        false => {
            let reader = arrow_ipc::reader::FileReader::try_new(file, None).unwrap();
            reader.collect::<Result<_, _>>().unwrap()
        }
    }
}

/// The events and the numbers of `rig/level`, in the order of the file.
fn of_level(batches: &[RecordBatch]) -> (Vec<String>, Vec<f64>) {
    let (mut events, mut values) = (Vec::new(), Vec::new());
    for batch in batches {
        let column = |name: &str| batch.column_by_name(name).unwrap();
        let names = column("variable").as_string::<i32>();
        let types = column("type").as_string::<i32>();
        let units = column("units").as_string::<i32>();
        let event = column("event").as_string::<i32>();
        let value = column("value").as_primitive::<Float64Type>();
        let sequence = column("sequence").as_primitive::<Int64Type>();
        for row in (0..batch.num_rows()).filter(|row| names.value(*row) == "rig/level") {
            assert_eq!((types.value(row), units.value(row)), ("f64", "%"));
            assert_eq!(event.is_null(row), value.is_valid(row));
            assert!(event.is_valid(row) || sequence.value(row) > 0);
            match event.is_valid(row) {
                true => events.push(event.value(row).to_owned()),
                false => values.push(value.value(row)),
            }
        }
    }
    (events, values)
}

/// Behaviour: H-16.
#[test]
fn export_has_every_reading_and_event_from_engine_and_folder() {
    let plant = plant();
    let folder = plant.path("plant.history");
    let csv = plant.done(&["history", "rig/**", "-o", "csv"]);
    for source in [&[][..], &["--folder", &folder]] {
        let export = |file: &str, more: &[&str]| {
            let file = plant.path(file);
            let words = ["history", "export", &file, "rig/**", "--force"];
            (plant.run(&[&words, source, more].concat()), file)
        };
        let (output, file) = export("x.csv", &[]);
        assert_eq!(output.code, Some(0), "{output:?}");
        assert_eq!(fs::read_to_string(file).unwrap(), csv.out);
        assert!(output.err.contains("rig/level: the engine was interrupted"));
        for file in ["x.parquet", "x.arrow"] {
            let (output, file) = export(file, &["--json"]);
            let done = checked(&output.err, Some("history_done")).remove(0);
            assert_eq!(done["event"], "history-exported");
            assert_eq!((&done["rows"], &done["variables"]), (&7.into(), &3.into()));
            let (events, values) = of_level(&rows_of(&file));
            assert_eq!(events, ["started", "added", "interrupted", "started"]);
            assert_eq!(values, [2.0, 8.0, 5.0, 6.0, 9.0]);
        }
        // Standard output, with the format named.
        let words = ["history", "export", "-", "rig/**", "--as", "csv"];
        assert_eq!(plant.done(&[&words[..], source].concat()).out, csv.out);
    }
}

/// Plays the file, then the history without a file, each into an engine with this configuration, and
/// expects the 8 readings of the history.
fn assert_played_back(plant: &Recorded, file: &str, config: &str, names: &[&str]) {
    let folder = plant.path("plant.history");
    for source in [&[file][..], &["--history", "rig/**", "--folder", &folder]] {
        let other = Recorded::start(config);
        let words = ["--full-speed", "--keep-times", "--json"];
        let played = other.done(&[&["play"], source, &words].concat());
        let played = checked(&played.err, Some("played")).remove(0);
        assert_eq!(
            (&played["updates"], &played["failed"]),
            (&8.into(), &0.into())
        );
        for name in names {
            let shown = |plant: &Recorded| -> Vec<[Json; 3]> {
                let readings = plant.history(name).0.into_iter();
                let keys = ["ts", "value", "q"];
                readings
                    .map(|one| keys.map(|key| one[key].clone()))
                    .collect()
            };
            assert_eq!(shown(&other), shown(plant), "{source:?}: {name}");
        }
    }
}

/// What is exported as TDMS is played into another engine, with the same values and times.
#[cfg(target_os = "linux")]
#[test]
fn exported_recording_is_played_with_the_same_values() {
    let plant = plant();
    plant.done(&["put", "rig/text", "weiß %2F 'x'"]);
    let file = plant.path("x.tdms");
    plant.done(&["history", "export", &file, "rig/**"]);
    let info = plant.done(&["tdms", "info", &file, "--json"]);
    for part in ["rig/level", "event_1", "interrupted", "gap_1_lost"] {
        assert!(info.out.contains(part), "{part}: {}", info.out);
    }
    let rows = plant.done(&[
        "tdms",
        "cat",
        &file,
        "--channel",
        "rig/level/*",
        "-o",
        "csv",
    ]);
    assert_eq!(rows.out.lines().count(), 6, "{}", rows.out);

    assert_played_back(
        &plant,
        &file,
        PLANT,
        &["rig/level", "rig/count", "rig/text"],
    );
    for words in [
        &["play"][..],
        &["play", &file, "--history", "rig/**"],
        &["play", &file, "--since", "1m"],
        &[
            "play",
            "--history",
            "rig/**",
            "--since",
            "1m",
            "--until",
            "2m",
        ],
    ] {
        let refused = plant.run(words);
        assert_eq!(refused.code, Some(2), "{words:?}: {refused:?}");
    }
}

/// Arrays and waveforms are exported and played like other values, also those without a value
/// because they were too long to be recorded.
#[cfg(target_os = "linux")]
#[test]
fn exported_arrays_and_waveforms_are_played_with_the_same_values() {
    let config = r#"
[engine]
store = "plant.db"

[library]
name = "rig"

[[variable]]
name = "array"
type = "array(f64, *)"

[[variable]]
name = "grid"
type = "array(i16, 2, 3)"

[[variable]]
name = "wave"
type = "waveform(f32)"

[[history]]
variables = "**"
array_bytes_max = "1 KiB"
"#;
    let plant = Recorded::start(config);
    let long = format!("[{}]", vec!["1.5"; 500].join(", "));
    let values = [
        ("rig/array", "[1.5, -2.25]"),
        ("rig/array", "[]"),
        ("rig/array", &long),
        ("rig/array", "[3]"),
        ("rig/grid", "[[1, 2, 3], [4, 5, 6]]"),
    ];
    for (name, value) in values {
        plant.done(&["put", name, value]);
    }
    let client = Client::connect(&plant.url).unwrap();
    let timeout = std::time::Duration::from_secs(60);
    let opened = client.open(&["rig/wave"], OpenOptions::default(), timeout);
    let wave = opened.unwrap().remove(0).unwrap().variable;
    for length in [3, 0, 5] {
        let value = Value::Waveform(Arc::new(Waveform {
            t0: Timestamp::from_nanos(1_790_000_000_000_000_000),
            dt: 0.001,
            samples: Elements::F32((0..length).map(|n| n as f32 / 2.0).collect()),
            attributes: BTreeMap::new(),
        }));
        client.write([Write::new(wave, value)], timeout).unwrap();
    }
    let file = plant.path("x.tdms");
    let exported = plant.done(&["history", "export", &file, "rig/**", "--json"]);
    let exported = checked(&exported.err, Some("history_done")).remove(0);
    assert_eq!(
        (&exported["rows"], &exported["variables"]),
        (&8.into(), &3.into())
    );
    let info = plant.done(&["tdms", "info", &file]);
    for part in ["value.count", "value.dim_1", "value.t0"] {
        assert!(info.out.contains(part), "{part}: {}", info.out);
    }
    assert_played_back(
        &plant,
        &file,
        config,
        &["rig/array", "rig/grid", "rig/wave"],
    );
}

/// Many readings at few times, few readings at many times, and two variables whose readings
/// alternate: all are played, in the order of their times, from the engine and from its folder.
#[cfg(target_os = "linux")]
#[test]
fn history_is_played_in_the_order_of_times_over_many_windows() {
    const COUNT: i64 = 50_000;
    let plant = Recorded::start(PLANT);
    let client = Client::connect(&plant.url).unwrap();
    let timeout = std::time::Duration::from_secs(60);
    let open = |client: &Client, name: &str| {
        let opened = client.open(&[name], OpenOptions::default(), timeout);
        opened.unwrap().remove(0).unwrap().variable
    };
    let (level, count) = (open(&client, "rig/level"), open(&client, "rig/count"));
    let start = Timestamp::from_nanos(1_790_000_000_000_000_000);
    // A day for the readings of even blocks, a millisecond for those of odd ones.
    let time = |n: i64| {
        let block = n / 10_000;
        let step = if block % 2 == 0 { 8_640_000_000 } else { 100 };
        let before = (block + 1) / 2 * 86_400_000_000_000 + block / 2 * 1_000_000;
        Timestamp::from_nanos(start.as_nanos() + before + n % 10_000 * step)
    };
    for n in 0..COUNT {
        assert!(n == 0 || time(n) > time(n - 1), "{n}");
    }
    for first in (0..COUNT).step_by(5000) {
        let writes = (first..first + 5000).map(|n| {
            let (variable, value) = match n % 2 {
                0 => (level, Value::F64(n as f64)),
                _ => (count, Value::I64(n)),
            };
            let mut write = Write::new(variable, value);
            write.options.source_timestamp = Some(time(n));
            write
        });
        client.write(writes, timeout).unwrap();
    }
    let folder = plant.path("plant.history");
    for source in [&[][..], &["--folder", &folder]] {
        let other = Recorded::start(PLANT);
        let words = [
            "--full-speed",
            "--keep-times",
            "--json",
            "--since",
            "2026-01-01",
        ];
        // The command plays into one engine, and reads the other one, or its folder.
        let pattern = match source.is_empty() {
            true => format!("{}/rig/*", plant.url),
            false => "rig/*".to_owned(),
        };
        let played = ["play", "--history", &pattern];
        let played = other.done(&[&played[..], source, &words].concat());
        let played = checked(&played.err, Some("played")).remove(0);
        assert_eq!(
            (&played["updates"], &played["failed"]),
            (&COUNT.into(), &0.into())
        );
        for name in ["rig/level", "rig/count"] {
            let shown = |plant: &Recorded| -> Vec<(Json, Json)> {
                let shown = plant.done(&["history", name, "--since", "2026-01-01", "--json"]);
                let lines = shown.out.lines();
                let readings = lines.map(|line| serde_json::from_str::<Json>(line).unwrap());
                readings
                    .map(|one| (one["ts"].clone(), one["value"].clone()))
                    .collect()
            };
            assert_eq!(shown(&other).len(), COUNT as usize / 2);
            assert!(shown(&other) == shown(&plant), "{source:?}: {name}");
        }
    }
}

/// The command says that updates are missing, because the stream does not show it.
#[cfg(target_os = "linux")]
#[test]
fn history_of_one_variable_is_played_into_a_stream() {
    let plant = plant();
    let play = [
        "play",
        "--history",
        "rig/**",
        "--full-speed",
        "--stream",
        "p",
    ];
    let several = plant.run(&play);
    assert_eq!(several.code, Some(2), "{several:?}");
    assert!(several.err.contains("--group"), "{}", several.err);
    let none = plant.run(&[&play[..], &["--group", "rig/none"]].concat());
    assert_eq!(none.code, Some(1), "{none:?}");
    assert!(none.err.contains("rig/none"), "{}", none.err);
    let spawn = |words: &[&str]| Running::spawn(&mut plant.command(words));
    let player = spawn(&[&play[..], &["--group", "rig/level"]].concat());
    let reader = spawn(&["stream", "read", "r", "--from", "p"]);
    let read = reader.end();
    assert_eq!(read.1, ["2.0", "8.0", "5.0", "6.0", "9.0"], "{read:?}");
    player.error_with("in 1 gap, and an unknown number in 1 of them");
    assert_eq!(player.end().0, Some(1));
}

/// The command counts the readings of five days, and reads those of the first one. The others are removed
/// while it waits for its reader.
#[cfg(target_os = "linux")]
#[test]
fn readings_removed_while_they_are_played_are_reported() {
    const DAYS: i64 = 5;
    let mut plant = Recorded::start(PLANT);
    let client = Client::connect(&plant.url).unwrap();
    let timeout = std::time::Duration::from_secs(60);
    let opened = client.open(&["rig/level"], OpenOptions::default(), timeout);
    let level = opened.unwrap().remove(0).unwrap().variable;
    let time =
        |day: i64| Timestamp::from_nanos(1_790_000_000_000_000_000 + day * 86_400_000_000_000);
    let writes = (0..DAYS).map(|day| {
        let mut write = Write::new(level, Value::F64(day as f64));
        write.options.source_timestamp = Some(time(day));
        write
    });
    client.write(writes, timeout).unwrap();
    // A query records what has happened.
    plant.done(&["history", "rig/level"]);
    plant.kill();
    plant.done_with_folder(&["compact"]);

    let other = Recorded::start(PLANT);
    let folder = plant.path("plant.history");
    let since = time(0).to_string();
    let play = ["play", "--history", "rig/level", "--folder", &folder];
    let options = ["--since", &since, "--full-speed", "--stream", "p", "--json"];
    let mut player = Running::spawn(&mut other.command(&[&play[..], &options].concat()));
    while !other.done(&["stream", "ls"]).out.starts_with("p\t") {
        assert!(player.child.try_wait().unwrap().is_none(), "it waits");
    }
    let config = plant.path("keep.toml");
    let rules = "variables = \"**\"\nkeep = \"1h\"\n";
    fs::write(&config, PLANT.replace("variables = \"**\"\n", rules)).unwrap();
    plant.done_with_folder(&["compact", "--config", &config]);
    let reader = Running::spawn(&mut other.command(&["stream", "read", "r", "--from", "p"]));
    assert_eq!(reader.end().1, ["0.0"]);
    let loss = player.error_with("removed");
    assert!(loss.contains("4 of 5 updates were not played"), "{loss}");
    assert_eq!(player.end().0, Some(7));
}

/// It is not reported as a history without readings.
#[cfg(target_os = "linux")]
#[test]
fn history_whose_files_are_missing_is_not_played_or_exported() {
    let mut plant = plant();
    plant.kill();
    plant.done_with_folder(&["compact"]);
    for file in plant.files("samples") {
        fs::remove_file(file).unwrap();
    }
    let other = Recorded::start(PLANT);
    let folder = plant.path("plant.history");
    let file = plant.path("x.csv");
    for words in [
        &["history", "rig/**"][..],
        &["history", "export", &file, "rig/**"],
        &["play", "--history", "rig/**"],
        &[
            "play",
            "--history",
            "rig/**",
            "--stream",
            "p",
            "--group",
            "rig/level",
        ],
    ] {
        let output = other.run(&[words, &["--folder", &folder, "--json"]].concat());
        assert_eq!(output.code, Some(7), "{words:?}: {output:?}");
        for part in ["history-fault", ".parquet cannot be read"] {
            assert!(output.err.contains(part), "{words:?}: {}", output.err);
        }
    }
    assert!(!fs::exists(file).unwrap());
}

/// More readings than a page of an answer has.
#[test]
fn export_of_many_readings_is_complete_in_every_format() {
    const COUNT: usize = 150_000;
    let plant = Recorded::start(PLANT);
    let client = Client::connect(&plant.url).unwrap();
    let timeout = std::time::Duration::from_secs(60);
    let opened = client.open(&["rig/level"], OpenOptions::default(), timeout);
    let level = opened.unwrap().remove(0).unwrap().variable;
    for start in (0..COUNT).step_by(10_000) {
        let values = start..start + 10_000;
        let writes = values.map(|value| Write::new(level, Value::F64(value as f64)));
        client.write(writes, timeout).unwrap();
    }
    let expected: Vec<f64> = (0..COUNT).map(|value| value as f64).collect();
    let folder = plant.path("plant.history");
    for source in [&[][..], &["--folder", &folder]] {
        let export = |file: &str| {
            let file = plant.path(file);
            let words = ["history", "export", &file, "rig/level", "--force"];
            plant.done(&[&words[..], source].concat());
            file
        };
        for file in ["x.parquet", "x.arrow"] {
            assert!(of_level(&rows_of(&export(file))).1 == expected, "{file}");
        }
        let csv = fs::read_to_string(export("x.csv")).unwrap();
        assert_eq!(csv.lines().count(), COUNT + 1);
        #[cfg(target_os = "linux")]
        {
            let tdms = plant.done(&["tdms", "verify", &export("x.tdms"), "--json"]);
            let verified = checked(&tdms.err, Some("tdms_event")).remove(0);
            // Times, values and qualities.
            assert_eq!(verified["values"], 3 * COUNT);
        }
    }
}

#[test]
fn export_leaves_no_half_file_and_replaces_none_without_force() {
    let plant = plant();
    let file = plant.path("x.csv");
    fs::write(&file, "mine").unwrap();
    let export = |words: &[&str]| plant.run(&[&["history", "export"], words].concat());
    let refused = export(&[&file, "rig/**"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.err.contains("--force"), "{}", refused.err);
    for (words, code, part) in [
        (
            &[file.as_str(), "nope/**", "--force"][..],
            1,
            "no updates of these variables were recorded",
        ),
        (&["x.xlsx", "rig/**"], 2, "--as csv, parquet, arrow or tdms"),
        (&["x", "rig/**"], 2, "--as"),
        (
            &[file.as_str(), "rig/**", "--since", "1m", "--until", "2m"],
            2,
            "is not before --until",
        ),
        (
            &[file.as_str(), "rig/**", "--folder", "/none"],
            1,
            "there is no history in /none",
        ),
        (&["x.csv"], 2, "NAME"),
    ] {
        let refused = export(words);
        assert_eq!(refused.code, Some(code), "{words:?}: {refused:?}");
        assert!(refused.err.contains(part), "{words:?}: {}", refused.err);
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    let left: Vec<PathBuf> = fs::read_dir(plant.folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.display().to_string().contains(".trunkline-"))
        .collect();
    assert_eq!(left, Vec::<PathBuf>::new());
}
