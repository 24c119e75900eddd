//! Recordings on a disk that becomes full while their progress is watched: on a file system of the
//! test, in a process with its own name space, if programs may create one.

use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};

use rustix::fs::{FallocateFlags, fallocate};
use serde_json::Value as Json;
use trunkline_tdms::{ObjectPath, TdmsFile};

use crate::rig::{Drained, Running, Served, exit_code};
use crate::shown::Shown;

/// How the other process knows its folder.
const FOLDER: &str = "TRUNKLINE_TEST_FULL_DISK";

/// A folder that is a file system of this size. It exists in another process, which runs the test
/// of this name again; here there is none.
#[allow(clippy::print_stderr, reason = "why it was left out")]
fn small_disk(test: &str, bytes: u64) -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return Some(folder.into());
    }
    let folder = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o \"size=$2\" tmpfs \"$1\" || exit 77; shift 2; exec \"$@\"";
    let ran = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount"])
        .args(["sh", "-c", script, "sh"])
        .arg(folder.path())
        .arg(bytes.to_string())
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(FOLDER, folder.path())
        .output();
    let (out, err, is_success) = match &ran {
        Ok(ran) => (
            String::from_utf8_lossy(&ran.stdout),
            String::from_utf8_lossy(&ran.stderr),
            ran.status.success(),
        ),
        Err(error) => ("".into(), error.to_string().into(), false),
    };
    if out.contains("running ") {
        assert!(is_success && out.contains("1 passed"), "{out}\n{err}");
    } else {
        eprintln!("left out: no file system of one's own here: {err}");
    }
    None
}

/// A file that fills a disk.
fn ballast(folder: &Path, bytes: u64) -> PathBuf {
    let path = folder.join("ballast");
    let file = File::create(&path).unwrap();
    fallocate(&file, FallocateFlags::empty(), 0, bytes).unwrap();
    path
}

/// Lines of JSON.
fn lines(text: &str) -> Vec<Json> {
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Returns the number of values that `record info` finds.
fn values(served: &Served, file: &str, name: &str) -> u64 {
    let info = served.run(&["record", "info", file, "--json"]);
    let lines = lines(&info.out);
    let line = lines.iter().find(|line| line["name"] == name);
    line.map_or(0, |line| line["values"].as_u64().unwrap())
}

/// Size of half a disk, in bytes.
const HALF: u64 = 48 << 20;

/// Elements of a stream that come together.
const PIECE: u64 = 1 << 18;

/// Elements of a stream are their own numbers.
fn feed(input: &mut ChildStdin, elements: Range<u64>) {
    let bytes: Vec<u8> = elements.flat_map(u64::to_le_bytes).collect();
    input.write_all(&bytes).unwrap();
}

/// Behaviour: B-70.
#[test]
fn stream_delayed_by_a_full_disk_is_recorded_when_there_is_room() {
    let name = "full_disks::stream_delayed_by_a_full_disk_is_recorded_when_there_is_room";
    let Some(folder) = small_disk(name, 2 * HALF) else {
        return;
    };
    let served = Served::rig();
    let file = folder.join("raw.tdms");
    let path = file.to_str().unwrap();
    let ballast = ballast(&folder, HALF);
    let start = ["record", "start", path, "--stream", "in", "--type", "u64"];
    let recorder = Shown::spawn(&mut served.command(&[&start[..], &["--sums"]].concat()));
    let write = ["stream", "write", "out", "--to", "in", "--type", "u64"];
    let mut writer = served.command(&[&write[..], &["--as", "raw"]].concat());
    let mut writer = Running::spawn_reading(&mut writer, Stdio::piped());
    let mut input = writer.child.stdin.take().unwrap();
    feed(&mut input, 0..PIECE);
    recorder.until("disk nearly full: ");
    let feeding = std::thread::spawn(move || {
        // Until the recorder has taken it; it is more than half of the disk.
        let all = HALF / 8 + 6 * PIECE;
        let starts = (PIECE..all).step_by(PIECE as usize);
        starts.for_each(|from| feed(&mut input, from..from + PIECE));
        (input, all)
    });
    recorder.until("disk full: the stream waits; free some");
    let before = values(&served, path, "stream/value");
    // All of it is used except for less than a segment.
    let used = before * 8;
    assert!(used <= HALF && used > HALF - (8 << 20), "{used}");
    std::fs::remove_file(ballast).unwrap();
    recorder.until("disk nearly full: ");
    let (input, all) = feeding.join().unwrap();
    drop(input);
    assert_eq!(writer.end().0, Some(0));
    let told = recorder.until(&format!("{all} elements recorded"));
    assert!(told.contains("lost 0; flushed to disk"), "{told}");
    assert_eq!(recorder.end(), Some(0));

    let verified = served.run(&["tdms", "verify", path, "--json"]);
    assert_eq!(verified.code, Some(0), "{verified:?}");
    assert_eq!(lines(&verified.err).last().unwrap()["sums"], true);
    assert_eq!(values(&served, path, "stream/value"), all);
    let file = TdmsFile::open(File::open(&file).unwrap()).unwrap();
    let channel = ObjectPath::channel("stream", "value");
    let channel = file.channel(&channel).unwrap();
    let mut piece = vec![0_u64; PIECE as usize];
    for from in (0..all).step_by(piece.len()) {
        let read = channel.read_into(from, &mut piece).unwrap();
        assert!(piece[..read].iter().copied().eq(from..from + read as u64));
    }
}

/// Elements of variable size are collected in memory: a disk that is full for a while loses none of
/// them, and delays their writer.
///
/// Behaviour: B-70.
#[test]
fn text_stream_delayed_by_a_full_disk_is_recorded_later() {
    let name = "full_disks::text_stream_delayed_by_a_full_disk_is_recorded_later";
    let Some(folder) = small_disk(name, HALF) else {
        return;
    };
    const LINES: u64 = 30_000;
    let served = Served::rig();
    let file = folder.join("log.tdms");
    let path = file.to_str().unwrap();
    let ballast = ballast(&folder, HALF - (2 << 20));
    let of = ["--stream", "in", "--type", "string", "--json"];
    let recorder = served.spawn(&[&["record", "start", path][..], &of].concat());
    let write = ["stream", "write", "out", "--to", "in", "--type", "string"];
    let mut writer = Running::spawn_reading(&mut served.command(&write), Stdio::piped());
    let mut input = writer.child.stdin.take().unwrap();
    let text = |number: u64| format!("{number} {}", "x".repeat(1_000));
    let feeding = std::thread::spawn(move || {
        (0..LINES).for_each(|number| writeln!(input, "\"{}\"", text(number)).unwrap());
    });
    recorder.error_with("\"disk-full\"");
    assert!(values(&served, path, "stream") < LINES);
    std::fs::remove_file(ballast).unwrap();
    feeding.join().unwrap();
    assert_eq!(writer.end().0, Some(0));
    let line = recorder.error_with("\"event\":\"recorded\"");
    assert_eq!(recorder.end().0, Some(0), "{line}");
    let line: Json = serde_json::from_str(&line).unwrap();
    assert_eq!(
        (&line["elements"], &line["lost"]),
        (&LINES.into(), &0.into())
    );
    let file = TdmsFile::open(File::open(&file).unwrap()).unwrap();
    let channel = file
        .channel(&ObjectPath::channel("stream", "value"))
        .unwrap();
    let found = channel.read_strings(0, LINES + 1).unwrap();
    let found = found.iter().map(|text| text.to_str().into_owned());
    assert!(found.eq((0..LINES).map(text)));
}

/// Behaviour: B-70.
#[test]
fn text_recording_ended_on_a_full_disk_reports_what_is_missing() {
    let name = "full_disks::text_recording_ended_on_a_full_disk_reports_what_is_missing";
    let Some(folder) = small_disk(name, HALF) else {
        return;
    };
    let served = Served::rig();
    let file = folder.join("log.tdms");
    let path = file.to_str().unwrap();
    let _ballast = ballast(&folder, HALF - (2 << 20));
    let of = ["--stream", "in", "--type", "string", "--json"];
    let recorder = served.spawn(&[&["record", "start", path][..], &of].concat());
    let write = ["stream", "write", "out", "--to", "in", "--type", "string"];
    let mut writer = Running::spawn_reading(&mut served.command(&write), Stdio::piped());
    let mut input = writer.child.stdin.take().unwrap();
    let feeding = std::thread::spawn(move || {
        let line = format!("\"{}\"\n", "x".repeat(1_000));
        // Until no more is accepted.
        while input.write_all(line.as_bytes()).is_ok() {}
    });
    recorder.error_with("\"disk-full\"");
    let stopped = served.run(&["record", "stop", path]);
    assert_eq!(stopped.code, Some(7), "{stopped:?}");
    assert!(stopped.err.contains("not in the recording"), "{stopped:?}");
    assert!(!stopped.err.contains("tried again"), "{stopped:?}");
    assert_eq!(recorder.end().0, Some(7));
    drop(writer);
    feeding.join().unwrap();
    // Its content is whole.
    let info = served.run(&["record", "info", path]);
    assert_eq!(info.code, Some(0), "{info:?}");
}

/// The disk of a writer's journal is full: the command waits for room, reports it, and continues.
///
/// Behaviour: B-60.
#[test]
fn writer_waits_while_its_journal_disk_is_full() {
    let name = "full_disks::writer_waits_while_its_journal_disk_is_full";
    let Some(folder) = small_disk(name, 8 << 20) else {
        return;
    };
    let count = 100_000_u64;
    for form in ["raw", "jsonl"] {
        let served = Served::rig();
        let journal = folder.join(form);
        let ballast = ballast(&folder, 7500 << 10);
        let arguments = ["--type", "u64", "--as", form];
        let write = [
            "stream",
            "write",
            "out",
            "--to",
            "in",
            "--json",
            "--journal",
        ];
        let mut writer = served.command(&[&write[..], &arguments].concat()[..7]);
        writer.arg(&journal).args(arguments);
        let mut writer = Running::spawn_reading(&mut writer, Stdio::piped());
        let mut input = writer.child.stdin.take().unwrap();
        let is_raw = form == "raw";
        let feeding = std::thread::spawn(move || {
            // More than there is room for, and than a pipe holds.
            for number in 0..count {
                match is_raw {
                    true => input.write_all(&number.to_le_bytes()).unwrap(),
                    false => writeln!(input, "{number}").unwrap(),
                }
            }
        });
        let read = ["stream", "read", "in", "--type", "u64"];
        let mut reader = served.command(&read);
        let reader = Drained::start(&mut reader, Stdio::null());
        let told = writer.error_with("stream-disk-full");
        assert!(told.contains("free some space on its disk"), "{told}");
        std::fs::remove_file(ballast).unwrap();
        writer.error_with("stream-disk-back");
        feeding.join().unwrap();
        assert_eq!(writer.end().0, Some(0), "{form}");
        let read = reader.end();
        assert_eq!(read.code, Some(0), "{}", read.err);
        let came = read.out.lines().map(|line| line.parse::<u64>().unwrap());
        assert!(came.eq(0..count), "{form}: each once, and in order");
    }
}

/// Behaviour: B-70.
#[test]
fn record_stop_on_a_full_disk_reports_what_is_missing() {
    let name = "full_disks::record_stop_on_a_full_disk_reports_what_is_missing";
    let Some(folder) = small_disk(name, HALF) else {
        return;
    };
    let served = Served::rig();
    let file = folder.join("raw.tdms");
    let path = file.to_str().unwrap();
    let start = ["record", "start", path, "--stream", "in", "--type", "u64"];
    let recorder = Shown::spawn(&mut served.command(&start));
    let write = ["stream", "write", "out", "--to", "in", "--type", "u64"];
    let mut writer = served.command(&[&write[..], &["--as", "raw"]].concat());
    let mut writer = Running::spawn_reading(&mut writer, Stdio::piped());
    let mut input = writer.child.stdin.take().unwrap();
    let feeding = std::thread::spawn(move || {
        // More than fits, until no more is accepted.
        let elements: Vec<u8> = (0..PIECE).flat_map(u64::to_le_bytes).collect();
        while input.write_all(&elements).is_ok() {}
    });
    recorder.until("disk full: the stream waits; free some");
    let stopped = served.run(&["record", "stop", path]);
    assert_eq!(stopped.code, Some(7), "{stopped:?}");
    let told = recorder.until("are not in the recording");
    let told = told.split("error:\u{1b}[0m ").last().unwrap().trim_end();
    assert!(stopped.err.contains(told), "{told}: {stopped:?}");
    assert_eq!(recorder.end(), Some(7));
    drop(writer);
    feeding.join().unwrap();
}

/// Behaviour: B-70.
#[test]
fn updates_delayed_by_a_full_disk_are_recorded_later() {
    let name = "full_disks::updates_delayed_by_a_full_disk_are_recorded_later";
    let Some(folder) = small_disk(name, 1 << 20) else {
        return;
    };
    let served = Served::rig();
    let file = folder.join("run.tdms");
    let path = file.to_str().unwrap();
    let variable = "rig/Storage Line Control";
    let start = ["record", "start", path, variable, "--sums"];
    let recorder = Shown::spawn(&mut served.command(&start));
    recorder.until("1 update of 1 variable");
    let ballast = ballast(&folder, 960 << 10);
    // More than there is room for.
    let long = "x".repeat(100_000);
    for text in [&long, "short"] {
        assert_eq!(served.run(&["put", variable, text]).code, Some(0));
    }
    recorder.until("No space left on device");
    let is_whole = served.run(&["tdms", "verify", path]);
    assert_eq!(is_whole.code, Some(0), "{is_whole:?}");
    assert_eq!(values(&served, path, variable), 1);
    std::fs::remove_file(ballast).unwrap();
    let is_there = (0..1_000).any(|_| values(&served, path, variable) == 3);
    assert!(is_there, "{}", values(&served, path, variable));
    assert_eq!(served.run(&["record", "stop", path]).code, Some(0));
    let told = recorder.until("3 updates of 1 variable recorded");
    assert!(told.contains("lost 0; flushed to disk"), "{told}");
    assert_eq!(recorder.end(), Some(0));
    let verified = served.run(&["tdms", "verify", path, "--json"]);
    assert_eq!(verified.code, Some(0), "{verified:?}");
    assert_eq!(lines(&verified.err).last().unwrap()["sums"], true);
    served.run(&["put", variable, "another"]);
    assert_eq!(served.run(&["play", "--full-speed", path]).code, Some(0));
    assert_eq!(served.run(&["get", "-t", variable]).out.trim(), "short");
}

/// Behaviour: B-70.
#[test]
fn log_reports_a_full_disk_and_the_losses_add_up() {
    let name = "full_disks::\
                log_reports_a_full_disk_and_the_losses_add_up";
    let Some(folder) = small_disk(name, 8 << 20) else {
        return;
    };
    let served = Served::rig();
    let file = folder.join("run.tdms");
    let path = file.to_str().unwrap();
    let variable = "rig/Storage Line Control";
    // Standard error is a file or a pipe here.
    let recorder = Running::spawn(&mut served.command(&["record", "start", path, variable]));
    recorder.error_with("the disk is nearly full: ");
    let has_begun = (0..1_000).any(|_| values(&served, path, variable) == 1);
    assert!(has_begun, "the first value is not in the file");
    let ballast = ballast(&folder, (8 << 20) - (64 << 10));
    let long = "x".repeat(100_000);
    let text = format!("{long}y");
    // More than the disk and the memory of the recorder have room for.
    let mut put = 0;
    let mut fill = |times: u32| {
        for _ in 0..times {
            for text in [&long, &text] {
                assert_eq!(served.run(&["put", variable, text]).code, Some(0));
                put += 1;
            }
        }
    };
    fill(1);
    recorder.error_with("the disk is full");
    fill(45);
    recorder.error_with(" lost, ");
    let stopped = served.run(&["record", "stop", path, "--json"]);
    assert_eq!(stopped.code, Some(7), "{stopped:?}");
    let told = &lines(&stopped.out)[0];
    let number = |key: &str| told[key].as_u64().unwrap();
    // And the value that it had when it began.
    assert_eq!(number("on_disk") + number("lost"), put + 1, "{told}");
    assert_eq!(values(&served, path, variable), number("on_disk"), "{told}");
    assert_eq!(recorder.end().0, Some(7));
    std::fs::remove_file(ballast).unwrap();
}

/// An engine on a full disk starts, reports that it stores nothing, and stores new values once
/// there is room.
#[test]
fn engine_on_a_full_disk_starts_and_retains_values_later() {
    const TEST: &str = "full_disks::engine_on_a_full_disk_starts_and_retains_values_later";
    let Some(folder) = small_disk(TEST, 4 << 20) else {
        return;
    };
    let config = "[library]\nname = \"bench\"\n[[variable]]\nname = \"x\"\ntype = \"f64\"\n\
                  retain = true\n";
    let elsewhere = tempfile::tempdir().unwrap();
    let bench = elsewhere.path().join("bench.toml");
    std::fs::write(&bench, config).unwrap();
    let store = folder.join("store.db");
    let full = folder.join("full");
    let mut ballast = File::create(&full).unwrap();
    while ballast.write_all(&[1; 4096]).is_ok() {}
    drop(ballast);
    let store = store.to_str().unwrap();
    let arguments = [
        "serve",
        bench.to_str().unwrap(),
        "--listen",
        "127.0.0.1:0",
        "--store",
        store,
    ];
    let start = || {
        let engine = Running::start(&arguments);
        let line = engine.line_with("Listening on tl://");
        let url = line.split(' ').find(|word| word.starts_with("tl://"));
        (url.unwrap().to_owned(), engine)
    };
    let (url, mut engine) = start();
    engine.error_with("will not survive a restart");
    let run = |arguments: &[&str]| {
        crate::rig::finish(
            crate::rig::command(arguments).env("TRUNKLINE_URL", &url),
            "",
        )
    };
    assert_eq!(run(&["put", "bench/x", "7"]).code, Some(0));
    std::fs::remove_file(&full).unwrap();
    engine.error_with("the store works again");
    engine.signal("TERM");
    assert_eq!(exit_code(&mut engine.child, "the engine"), Some(0));
    let (url, _engine) = start();
    let read = crate::rig::finish(
        crate::rig::command(&["get", "-t", "bench/x"]).env("TRUNKLINE_URL", &url),
        "",
    );
    assert_eq!(read.out, "7.0\n");
}

/// An engine whose history has no room at the start serves its variables, raises the alarm, and
/// records as soon as there is room. What it could not record is counted.
///
/// Behaviour: H-14.
#[test]
fn engine_with_a_history_on_a_full_disk_starts_and_records_later() {
    const TEST: &str = "full_disks::engine_with_a_history_on_a_full_disk_starts_and_records_later";
    let Some(folder) = small_disk(TEST, 4 << 20) else {
        return;
    };
    let history = folder.join("plant.history");
    let config = format!(
        "[engine]\nhistory = \"{}\"\n[library]\nname = \"bench\"\n[[variable]]\nname = \"x\"\n\
         type = \"i64\"\n[[history]]\nvariables = \"**\"\n",
        history.display()
    );
    let elsewhere = tempfile::tempdir().unwrap();
    let bench = elsewhere.path().join("bench.toml");
    std::fs::write(&bench, config).unwrap();
    let full = folder.join("full");
    let mut ballast = File::create(&full).unwrap();
    while ballast.write_all(&[1; 4096]).is_ok() {}
    drop(ballast);
    let engine = Running::start(&["serve", bench.to_str().unwrap(), "--listen", "127.0.0.1:0"]);
    let line = engine.line_with("Listening on tl://");
    let url = line
        .split(' ')
        .find(|word| word.starts_with("tl://"))
        .unwrap();
    engine.error_with("updates are not recorded: the history");
    let run = |arguments: &[&str]| {
        crate::rig::finish(crate::rig::command(arguments).env("TRUNKLINE_URL", url), "")
    };
    for value in 1..=3 {
        assert_eq!(run(&["put", "bench/x", &value.to_string()]).code, Some(0));
    }
    let until = [
        "monitor",
        "_engine/history/failing",
        "--until",
        "value = true",
    ];
    assert_eq!(run(&until).code, Some(0));
    let alarms = run(&["alarm", "ls", "_engine/history/failing", "--json"]);
    assert_eq!(lines(&alarms.out)[0]["state"], "unacknowledged");
    let refused = run(&["history", "bench/x"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.err.contains("full"), "{}", refused.err);
    std::fs::remove_file(&full).unwrap();
    engine.error_with("the history is being recorded again");
    assert_eq!(run(&["put", "bench/x", "4"]).code, Some(0));
    let shown = run(&["history", "bench/x", "--json"]);
    let values: Vec<_> = lines(&shown.out)
        .iter()
        .map(|one| one["value"].clone())
        .collect();
    assert_eq!(values, [3, 4]);
    let events: Vec<String> = lines(&shown.err)
        .iter()
        .map(|event| format!("{} {}", event["event"], event["count"]))
        .collect();
    assert!(events.contains(&"\"lost\" 2".to_owned()), "{events:?}");
    let logs = std::fs::read_dir(&history).unwrap();
    let is_log = |entry: &std::fs::DirEntry| entry.path().extension().is_some_and(|e| e == "tlh");
    assert_eq!(logs.filter(|one| is_log(one.as_ref().unwrap())).count(), 1);
}

#[test]
fn backup_without_room_leaves_the_older_one_complete() {
    const TEST: &str = "full_disks::backup_without_room_leaves_the_older_one_complete";
    let Some(folder) = small_disk(TEST, 4 << 20) else {
        return;
    };
    let config = "[engine]\nstore = \"bench.db\"\n[library]\nname = \"bench\"\n[[variable]]\n\
                  name = \"x\"\ntype = \"f64\"\n[[history]]\nvariables = \"**\"\n";
    let elsewhere = tempfile::tempdir().unwrap();
    let bench = elsewhere.path().join("bench.toml");
    std::fs::write(&bench, config).unwrap();
    let bench = bench.to_str().unwrap();
    let engine = Running::start(&["serve", bench, "--listen", "127.0.0.1:0"]);
    engine.line_with("Listening on tl://");
    let place = folder.join("b");
    let place = place.to_str().unwrap();
    let sut =
        |verb: &str, more: &[&str]| crate::rig::run(&[&["backup", verb, place][..], more].concat());
    assert_eq!(sut("create", &[bench]).code, Some(0));
    let full = folder.join("full");
    let mut ballast = File::create(&full).unwrap();
    while ballast.write_all(&[1; 4096]).is_ok() {}
    drop(ballast);
    let refused = sut("create", &[bench]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.err.contains("its disk is full"), "{}", refused.err);
    let verified = sut("verify", &[]);
    assert_eq!(verified.code, Some(0), "{verified:?}");
    let runs = |place: &str| std::fs::read_dir(place).unwrap().count();
    assert_eq!(runs(place), 3, "lock, manifest and the older run");
    std::fs::remove_file(&full).unwrap();
    assert_eq!(sut("create", &[bench]).code, Some(0));
    assert_eq!(runs(place), 3, "lock, manifest and the new run");
}

/// An engine whose history has a spool.
struct Spooling {
    config: PathBuf,
    engine: Running,
    url: String,
}

impl Spooling {
    fn start(config: PathBuf) -> Self {
        let arguments = ["serve", config.to_str().unwrap(), "--listen", "127.0.0.1:0"];
        let engine = Running::start(&arguments);
        let line = engine.line_with("Listening on tl://");
        let mut words = line.split(' ');
        let url = words.find(|word| word.starts_with("tl://")).unwrap();
        let url = url.to_owned();
        Self {
            config,
            engine,
            url,
        }
    }

    fn killed_and_started(mut self) -> Self {
        self.engine.signal("KILL");
        self.engine.child.wait().unwrap();
        Self::start(self.config)
    }

    fn run(&self, arguments: &[&str]) -> crate::rig::Output {
        let mut command = crate::rig::command(arguments);
        crate::rig::finish(command.env("TRUNKLINE_URL", &self.url), "")
    }

    fn put(&self, name: &str, value: &str) {
        let put = self.run(&["put", name, value]);
        assert_eq!(put.code, Some(0), "{put:?}");
    }

    fn wait(&self, name: &str, condition: &str) {
        let waited = self.run(&["monitor", name, "--until", condition]);
        assert_eq!(waited.code, Some(0), "{waited:?}");
    }

    /// The recorded values of `bench/x`, and what standard error says.
    fn recorded(&self) -> (Vec<Json>, String) {
        let shown = self.run(&["history", "bench/x", "--json"]);
        let readings = lines(&shown.out).into_iter();
        let values = readings.map(|one| one["value"].clone());
        (values.collect(), shown.err)
    }
}

/// Updates are recorded in the spool while the disk of the history is full, also by an engine that
/// is killed and started meanwhile, and come back when there is room.
///
/// Behaviour: H-14.
#[test]
fn updates_are_in_the_spool_while_the_disk_of_the_history_is_full() {
    const TEST: &str = "full_disks::updates_are_in_the_spool_while_the_disk_of_the_history_is_full";
    let Some(folder) = small_disk(TEST, 4 << 20) else {
        return;
    };
    let elsewhere = tempfile::tempdir().unwrap();
    let spool = elsewhere.path().join("spool");
    let config = format!(
        "[engine]\nhistory = \"{}\"\nhistory_spool = \"{}\"\n[library]\nname = \"bench\"\n\
         [[variable]]\nname = \"x\"\ntype = \"i64\"\n[[variable]]\nname = \"text\"\n\
         type = \"string\"\n[[history]]\nvariables = \"**\"\n",
        folder.join("plant.history").display(),
        spool.display()
    );
    let bench = elsewhere.path().join("bench.toml");
    std::fs::write(&bench, config).unwrap();
    let logs = || {
        let files = std::fs::read_dir(&spool).unwrap();
        let is_log = |path: &Path| path.extension().is_some_and(|found| found == "tlh");
        files
            .filter(|file| is_log(&file.as_ref().unwrap().path()))
            .count()
    };
    let sut = Spooling::start(bench);
    for value in ["1", "2", "3"] {
        sut.put("bench/x", value);
    }
    assert_eq!(sut.recorded().0, [1, 2, 3]);
    assert_eq!(logs(), 0);

    let full = folder.join("full");
    let mut ballast = File::create(&full).unwrap();
    while ballast.write_all(&[1; 4096]).is_ok() {}
    drop(ballast);
    // More than the room that is left in the last page of the log.
    sut.put("bench/text", &"long ".repeat(10_000));
    for value in ["4", "5"] {
        sut.put("bench/x", value);
    }
    sut.wait("_engine/history/state", "value = spooling");
    sut.wait("_engine/history/failing", "value = true");
    sut.wait("_engine/history/spooled", "value >= 3");
    sut.engine.error_with("updates are recorded in the spool ");
    let (values, told) = sut.recorded();
    assert_eq!(values, [1, 2, 3, 4, 5], "{told}");
    assert!(
        told.contains("updates are recorded in the spool "),
        "{told}"
    );
    assert!(told.contains("its disk is full"), "{told}");
    let why = sut.run(&["why", "bench/x"]);
    assert!(why.out.contains("it is recorded in the spool "), "{why:?}");
    let alarms = sut.run(&["alarm", "ls", "_engine/history/failing", "--json"]);
    assert_eq!(lines(&alarms.out)[0]["state"], "unacknowledged");
    assert_eq!(logs(), 1);

    let sut = sut.killed_and_started();
    sut.put("bench/text", &"long ".repeat(10_000));
    sut.put("bench/x", "6");
    sut.wait("_engine/history/state", "value = spooling");
    let (values, told) = sut.recorded();
    assert_eq!(values[..5], [1, 2, 3, 4, 5], "{told}");
    assert_eq!(values.last(), Some(&Json::from(6)), "{told}");

    std::fs::remove_file(&full).unwrap();
    sut.wait("_engine/history/failing", "value = false");
    sut.wait("_engine/history/spooled", "value = 0");
    sut.engine.error_with("the history is being recorded again");
    let (values, told) = sut.recorded();
    assert_eq!(values, [1, 2, 3, 4, 5, 6], "{told}");
    let sut = sut.killed_and_started();
    assert_eq!(sut.recorded().0, [1, 2, 3, 4, 5, 6]);
    assert_eq!(logs(), 0);
    let lost = sut.run(&["get", "-t", "_engine/history/lost"]);
    assert_eq!(lost.out, "0\n");
}
