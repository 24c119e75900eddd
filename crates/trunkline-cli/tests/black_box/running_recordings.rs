//! Recordings that run, as other commands see and end them.

use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value as Json;

use crate::rig::{Output, RIG, Running, Served, command, finish};
use crate::schema;

/// An engine, and a folder for what runs that no other test uses.
struct Rig {
    served: Served,
    runtime: tempfile::TempDir,
}

impl Rig {
    fn new() -> Self {
        let (folder, runtime) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let plant = folder.path().join("plant.toml");
        std::fs::write(&plant, RIG).unwrap();
        let plant = plant.to_str().unwrap();
        let serve = ["serve", plant, "--listen", "127.0.0.1:0", "--store", "none"];
        let engine = Running::spawn(command(&serve).env("XDG_RUNTIME_DIR", runtime.path()));
        let line = engine.line_with("Listening on tl://");
        let url = line.split(' ').find(|word| word.starts_with("tl://"));
        let url = url.unwrap().to_owned();
        let served = Served {
            engine,
            url,
            folder,
        };
        Self { served, runtime }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.served.command(arguments);
        command
            .env("XDG_RUNTIME_DIR", self.runtime.path())
            .env_remove("TRUNKLINE_TIMEOUT");
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        finish(&mut self.command(arguments), "")
    }

    fn path(&self, name: &str) -> String {
        let path = self.served.folder.path().join(name);
        path.to_str().unwrap().to_owned()
    }

    /// A recorder of the level, which has begun.
    fn recorder(&self, file: &str) -> Running {
        let recorder = Running::spawn(&mut self.command(&["record", "start", file, "rig/level"]));
        recorder.error_with("recording to");
        recorder
    }

    /// The entry of a file in `record ls`.
    fn listed(&self, file: &str) -> Option<Json> {
        let folder = self.served.folder.path().to_str().unwrap();
        let list = self.run(&["record", "ls", folder, "--json"]);
        let lines = list.out.lines().map(serde_json::from_str::<Json>);
        let mut lines = lines.map(Result::unwrap);
        let found = lines.find(|line| line["file"] == file)?;
        check(&found, "record_listed");
        Some(found)
    }

    /// The names by which recordings that run are found.
    fn names(&self) -> Vec<PathBuf> {
        let folder = self.runtime.path().join("trunkline/recordings");
        let entries = std::fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

fn check(line: &Json, name: &str) {
    let schema = &schema::documented()["$defs"][name];
    schema::check(line, schema).unwrap_or_else(|error| panic!("{name}: {error}: {line}"));
}

/// Behaviour: B-70.
#[test]
fn a_recording_is_seen_and_ended_by_another_command() {
    let rig = Rig::new();
    let file = rig.path("run.tdms");
    let recorder = rig.recorder(&file);
    let listed = rig.listed("run.tdms").unwrap();
    assert_eq!(listed["is_recorded"], true);
    assert_eq!(listed["pid"], recorder.child.id());
    assert!(listed["disk_left"].as_u64().unwrap() > 0, "{listed}");
    assert_eq!(listed["lost"], 0);
    assert_eq!(rig.run(&["put", "rig/level", "12"]).code, Some(0));
    let stopped = rig.run(&["record", "stop", &file, "--json"]);
    assert_eq!(stopped.code, Some(0), "{stopped:?}");
    let line: Json = serde_json::from_str(&stopped.out).unwrap();
    check(&line, "recorded");
    assert_eq!(
        (&line["updates"], &line["on_disk"], &line["lost"]),
        (&2.into(), &2.into(), &0.into())
    );
    assert_eq!(line["durability"], "on-disk");
    // The recorder itself reports the same, as text.
    recorder.error_with("2 updates of 1 variable recorded");
    assert_eq!(recorder.end().0, Some(0));
    assert_eq!(rig.names(), Vec::<PathBuf>::new());
    let listed = rig.listed("run.tdms").unwrap();
    assert_eq!(
        (&listed["is_whole"], &listed["pid"]),
        (&true.into(), &Json::Null)
    );
    let again = rig.run(&["record", "stop", &file]);
    assert_eq!(again.code, Some(1), "{again:?}");
    assert!(again.err.contains("is not being recorded"), "{again:?}");
}

#[test]
fn second_recorder_of_a_file_is_refused_with_its_owner() {
    let rig = Rig::new();
    let file = rig.path("run.tdms");
    let recorder = rig.recorder(&file);
    let folder = rig.served.folder.path().file_name().unwrap();
    let around = rig.path(&format!("../{}/run.tdms", folder.to_str().unwrap()));
    let who = format!("process {}", recorder.child.id());
    for arguments in [
        &["record", "start", around.as_str(), "rig/level"][..],
        &["record", "start", file.as_str(), "--stream", "in"],
    ] {
        let second = rig.run(arguments);
        assert_eq!(second.code, Some(1), "{second:?}");
        assert!(second.err.contains(&who), "{second:?}");
    }
    let stopped = rig.run(&["record", "stop", &around]);
    assert_eq!(stopped.code, Some(0), "{stopped:?}");
    assert!(
        stopped.out.contains("lost 0; flushed to disk"),
        "{stopped:?}"
    );
    assert_eq!(recorder.end().0, Some(0));
    // It has ended, and nothing is written over.
    let there = rig.run(&["record", "start", &file, "rig/level"]);
    assert_eq!(there.code, Some(1), "{there:?}");
    assert!(there.err.contains("already exists"), "{there:?}");
}

/// Behaviour: B-70.
#[test]
fn leftovers_of_a_killed_recorder_block_no_other() {
    let rig = Rig::new();
    let file = rig.path("run.tdms");
    let recorder = rig.recorder(&file);
    recorder.signal("KILL");
    recorder.end();
    assert_eq!(rig.names().len(), 2);
    let gone = rig.run(&["record", "stop", &file]);
    assert_eq!(gone.code, Some(1), "{gone:?}");
    assert_eq!(rig.names(), Vec::<PathBuf>::new(), "it is tidied up");

    let recorder = rig.recorder(&rig.path("other.tdms"));
    recorder.signal("KILL");
    recorder.end();
    std::fs::remove_file(rig.path("other.tdms")).unwrap();
    let next = rig.recorder(&rig.path("other.tdms"));
    let stopped = rig.run(&["record", "stop", "--all"]);
    assert_eq!(stopped.code, Some(0), "{stopped:?}");
    assert_eq!(next.end().0, Some(0));
}

#[test]
fn reused_process_id_is_never_signalled() {
    let rig = Rig::new();
    let file = rig.path("run.tdms");
    let recorder = rig.recorder(&file);
    recorder.signal("KILL");
    recorder.end();
    // As if its process id now belonged to another process: this one.
    let names = rig.names();
    let lock = names
        .iter()
        .find(|name| name.extension().unwrap() == "lock");
    let about = serde_json::json!({"file": file, "pid": std::process::id(), "started": "now"});
    std::fs::write(lock.unwrap(), about.to_string()).unwrap();
    let gone = rig.run(&["record", "stop", "--all"]);
    assert_eq!(gone.code, Some(0), "{gone:?}");
    assert!(gone.err.contains("no recording is running"), "{gone:?}");
}

#[test]
fn all_recordings_are_ended_with_one_command() {
    let rig = Rig::new();
    let first = rig.recorder(&rig.path("first.tdms"));
    let stream = rig.path("stream.tdms");
    let mut start = rig.command(&["record", "start", &stream, "--stream", "in", "--sums"]);
    let second = Running::spawn(&mut start);
    while rig.listed(&stream).is_none() && rig.listed("stream.tdms").is_none() {}
    let stopped = rig.run(&["record", "stop", "--all"]);
    assert_eq!(stopped.code, Some(0), "{stopped:?}");
    assert!(stopped.out.contains("first.tdms"), "{stopped:?}");
    assert!(stopped.out.contains("no writer connected"), "{stopped:?}");
    assert_eq!((first.end().0, second.end().0), (Some(0), Some(0)));
    let left: Vec<_> = std::fs::read_dir(rig.served.folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .filter(|name| name.to_str().unwrap().starts_with("stream"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn record_stop_waits_no_longer_than_its_timeout() {
    let rig = Rig::new();
    let file = rig.path("run.tdms");
    let recorder = rig.recorder(&file);
    recorder.signal("STOP");
    let listed = rig.listed("run.tdms").unwrap();
    assert_eq!(listed["problem"], "the recorder does not answer");
    let stopped = rig.run(&["record", "stop", &file, "--timeout", "50ms"]);
    assert_eq!(stopped.code, Some(4), "{stopped:?}");
    recorder.signal("CONT");
    assert_eq!(recorder.end().0, Some(0), "it was told");
}

#[test]
fn stream_recording_is_stopped_by_another_command() {
    let rig = Rig::new();
    let file = rig.path("stream.tdms");
    let start = [
        "record", "start", &file, "--stream", "in", "--type", "i32", "--json",
    ];
    let recorder = Running::spawn(&mut rig.command(&start));
    // It writes on for as long as it has input, which is forever.
    let mut write = rig.command(&["stream", "write", "out", "--to", "in", "--type", "i32"]);
    let (input, feeding) = std::io::pipe().unwrap();
    let writer = Running::spawn_reading(&mut write, input.into());
    // It has the read end of the pipe.
    drop(write);
    let fed = std::thread::spawn(move || {
        let mut feeding = feeding;
        while feeding.write_all(b"7\n7\n7\n7\n").is_ok() {}
    });
    let begun = recorder.error_with("\"event\":\"recording\"");
    check(&serde_json::from_str(&begun).unwrap(), "recording");
    while rig.listed("stream.tdms").unwrap()["values"] == 0 {}
    let stopped = rig.run(&["record", "stop", &file, "--json"]);
    assert_eq!(stopped.code, Some(0), "{stopped:?}");
    let line: Json = serde_json::from_str(&stopped.out).unwrap();
    check(&line, "recorded");
    assert!(line["elements"].as_u64().unwrap() > 0, "{line}");
    assert_eq!(
        (&line["lost"], &line["durability"]),
        (&0.into(), &"on-disk".into())
    );
    let same = recorder.error_with("\"event\":\"recorded\"");
    assert_eq!(serde_json::from_str::<Json>(&same).unwrap(), line);
    assert_eq!(recorder.end().0, Some(0));
    drop(writer);
    fed.join().unwrap();
    assert_eq!(rig.run(&["tdms", "verify", &file]).code, Some(0));
}

/// A recorder ends with the same code as the command that has ended it.
#[test]
fn a_recording_that_lost_rows_ends_its_command_with_that() {
    let rig = Rig::new();
    let file = rig.path("run.tdms");
    let recorder = rig.recorder(&file);
    recorder.signal("KILL");
    recorder.end();
    // In its place a socket with the prescribed answer.
    let names = rig.names();
    let socket = names
        .iter()
        .find(|name| name.extension().unwrap() == "sock")
        .unwrap();
    std::fs::remove_file(socket).unwrap();
    let listener = UnixListener::bind(socket).unwrap();
    let answering = std::thread::spawn(move || {
        let mut answers = [(7, "2 lost"), (1, "it has failed"), (0, "all there")].into_iter();
        let mut answer = answers.next();
        while let Some((exit, text)) = answer {
            let (mut stream, _) = listener.accept().unwrap();
            let mut word = [0; 16];
            let length = stream.read(&mut word).unwrap();
            // A client that only checks the socket sends nothing.
            if &word[..length] == b"stop\n" {
                let line = serde_json::json!({"exit": exit, "text": text, "object": {}});
                writeln!(stream, "{line}").unwrap();
                answer = answers.next();
            }
        }
    });
    for (code, text) in [(7, "2 lost"), (1, "it has failed"), (0, "all there")] {
        let stopped = rig.run(&["record", "stop", &file]);
        assert_eq!(stopped.code, Some(code), "{stopped:?}");
        assert!(stopped.out.contains(text), "{stopped:?}");
    }
    answering.join().unwrap();
}

#[test]
fn incompatible_options_are_refused() {
    let rig = Rig::new();
    let file = rig.path("x.tdms");
    for wrong in [
        &["record", "stop"][..],
        &["record", "stop", &file, "--all"],
        &["record", "stop", &file, "rig/level"],
        &["record", "start", &file, "rig/level", "--all"],
        &["record", "ls", "--sums"],
        &["record", "info", &file, "--for", "1s"],
        &["record", "start", &file, "rig/level", "--for", "0"],
        &["record", "bench", "--for", "0s"],
        &["record", "start", &file, "rig/level", "--rotate-time", "0"],
        &["record", "start", &file, "rig/level", "--rotate-size", "0"],
    ] {
        let refused = rig.run(wrong);
        assert_eq!(refused.code, Some(2), "{wrong:?}: {refused:?}");
    }
}
