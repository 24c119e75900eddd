//! Recording and playing where a person looks: standard output and standard error are a terminal.

use std::io::Write;
use std::process::Stdio;

use trunkline_tdms::{Arrangement, Data, ObjectPath, TdmsTime, Writer, WriterOptions};
use trunkline_types::Timestamp;

use crate::rig::{Running, Served};
use crate::shown::Shown;

fn path(served: &Served, name: &str) -> String {
    let path = served.folder.path().join(name);
    path.to_str().unwrap().to_owned()
}

/// Behaviour: B-70.
#[test]
fn recording_and_playing_variables_show_progress_on_a_terminal() {
    let served = Served::rig();
    let file = path(&served, "run.tdms");
    let start = ["record", "start", &file, "rig/level"];
    let recorder = Shown::spawn_all(&mut served.command(&start), 0);
    let line = recorder.until("1 update of 1 variable \u{b7} ");
    for part in ["/s \u{b7} ", "queue ", " left"] {
        assert!(line.contains(part), "{line}");
    }
    for updates in [2, 3] {
        assert_eq!(served.run(&["put", "rig/level", "12"]).code, Some(0));
        recorder.until(&format!("{updates} updates of 1 variable \u{b7} "));
    }
    recorder.signal("INT");
    // The progress is taken away before.
    let (code, rest) = recorder.rest();
    let last = rest.iter().find(|line| line.contains("recorded in"));
    assert!(last.unwrap().starts_with("\u{1b}[K3 updates"), "{rest:?}");
    assert_eq!(code, Some(0));

    let play = ["play", &file, "--speed", "0.0001"];
    let player = Shown::spawn_all(&mut served.command(&play), 0);
    player.until("2 of 3 updates \u{b7} ");
    player.signal("INT");
    player.until("2 updates played");
    assert_eq!(player.end(), Some(130));
}

/// A terminal that cannot renew a line gets the first and the last one.
///
/// Behaviour: B-70.
#[test]
fn a_dumb_terminal_is_shown_no_progress() {
    let served = Served::rig();
    let folder = served.folder.path().to_str().unwrap();
    let bench = ["record", "bench", folder, "--rate", "1MB", "--for", "1s"];
    let mut command = served.command(&bench);
    command.env("TERM", "dumb");
    let (code, all) = Shown::spawn_all(&mut command, 0).rest();
    assert_eq!(code, Some(0), "{all:?}");
    let all = all.concat();
    assert!(all.contains("1 device in "), "{all}");
    assert!(!all.contains('\u{1b}') && !all.contains("queue "), "{all}");
}

/// Behaviour: B-70.
#[test]
fn stream_recording_shows_progress_on_a_terminal() {
    let served = Served::rig();
    let file = path(&served, "raw.tdms");
    let start = ["record", "start", &file, "--stream", "in", "--type", "u64"];
    let recorder = Shown::spawn_all(&mut served.command(&start), 0);
    let write = ["stream", "write", "out", "--to", "in", "--type", "u64"];
    let mut writer = Running::spawn_reading(&mut served.command(&write), Stdio::piped());
    let mut input = writer.child.stdin.take().unwrap();
    input.write_all(b"1\n2\n3\n").unwrap();
    let line = recorder.until("3 elements \u{b7} ");
    assert!(line.contains("queue ") && line.contains(" left"), "{line}");
    drop(input);
    recorder.until("3 elements recorded");
    assert_eq!((recorder.end(), writer.end().0), (Some(0), Some(0)));
}

/// Behaviour: B-70.
#[test]
fn progress_of_simulated_devices_fits_the_terminal_width() {
    let served = Served::rig();
    let folder = served.folder.path().to_str().unwrap();
    let bench = ["record", "bench", folder, "--rate", "1MB", "--for", "1h"];
    let recorder = Shown::spawn_all(&mut served.command(&bench), 0);
    let line = recorder.until(" of 1 device \u{b7} ");
    assert!(line.contains("queue ") && line.contains(" left"), "{line}");
    recorder.signal("INT");
    assert_eq!(recorder.end(), Some(130));

    let recorder = Shown::spawn_all(&mut served.command(&bench), 30);
    let line = recorder.until(" of 1 device");
    let shown = line.trim_start_matches("\u{1b}[K").trim_end_matches('\r');
    assert_eq!(shown.chars().count(), 29, "{line:?}");
    recorder.signal("INT");
    assert_eq!(recorder.end(), Some(130));
}

/// A stream of numbers, recorded.
fn recorded_stream(served: &Served) -> String {
    let file = path(served, "stream.tdms");
    let start = ["record", "start", &file, "--stream", "in", "--type", "i32"];
    let recorder = served.spawn(&start);
    let write = ["stream", "write", "out", "--to", "in", "--type", "i32"];
    let written = served.run_with_input(&write, "1\n2\n3\n");
    assert_eq!(written.code, Some(0), "{written:?}");
    assert_eq!(recorder.end().0, Some(0));
    file
}

/// Behaviour: B-72.
#[test]
fn playing_into_an_unread_stream_is_reported_and_can_be_stopped() {
    let served = Served::rig();
    let file = recorded_stream(&served);
    let play = [
        "play",
        &file,
        "--full-speed",
        "--stream",
        "p",
        "--type",
        "i32",
    ];
    for signal in ["INT", "TERM"] {
        let player = Shown::spawn_all(&mut served.command(&play), 0);
        player.until("waiting for the peer of p; ");
        player.signal(signal);
        let (code, rest) = player.rest();
        assert_eq!(code, Some(130), "{rest:?}");
        let told = |part: &str| rest.iter().filter(|line| line.contains(part)).count();
        assert_eq!(told("waiting"), 0, "{rest:?}");
        assert_eq!(told("no reader connected to the stream"), 1, "{rest:?}");
    }
}

/// A variable of this name, in a recording of another program.
fn named(group: &str) -> Vec<u8> {
    let mut writer = Writer::new(WriterOptions::default());
    let object = ObjectPath::group(group);
    writer.set(&object, "variable_type", "f64").unwrap();
    let times = [TdmsTime::from(Timestamp::from_nanos(1))];
    let channels = [
        ("time", Data::from(&times)),
        ("value", Data::from(&[1.5_f64])),
    ];
    let data = channels.map(|(name, data)| {
        let channel = writer.channel(group, name, data.data_type()).unwrap();
        (channel, data)
    });
    let mut bytes = Vec::new();
    let written = writer.write(&data, Arrangement::Contiguous, &mut bytes);
    written.unwrap();
    bytes
}

/// Behaviour: B-70, B-72.
#[test]
fn names_of_recordings_and_files_never_move_the_cursor() {
    let served = Served::rig();
    let named = named("a/\u{1b}[31m\u{7}b\tc\nd");
    let escaped = "a/\\u001b[31m\\u0007b\\tc\\nd";
    let file = path(&served, "x\u{1b}[2J\n.tdms");
    std::fs::write(&file, &named[..named.len() - 1]).unwrap();
    let whole = path(&served, "whole.tdms");
    std::fs::write(&whole, &named).unwrap();
    let folder = served.folder.path().to_str().unwrap();
    let text = "x\\u001b[2J\\n.tdms";
    for (arguments, told) in [
        (&["record", "info", &whole][..], escaped),
        (&["record", "info", &whole, "-o", "table"], escaped),
        (&["record", "info", &whole, "-t"], escaped),
        (&["record", "info", &file], text),
        (&["record", "ls", folder], text),
        (&["record", "ls", folder, "-o", "table"], text),
        (&["record", "start", &file, "rig/level"], text),
        (&["play", &whole], escaped),
        (&["play", &file], text),
    ] {
        let said = served.run(arguments);
        let all = format!("{}{}", said.out, said.err);
        assert!(all.contains(told), "{arguments:?}: {said:?}");
        assert!(
            !all.contains(['\u{1b}', '\u{7}']),
            "{arguments:?}: {said:?}"
        );
        // A tab is between columns, and a line ends where its row does.
        assert!(
            !all.contains("b\tc") && !all.contains("\n.tdms"),
            "{said:?}"
        );
        assert!(!all.contains("\nd"), "{said:?}");
    }
    // The JSON output says what it is.
    let said = served.run(&["record", "info", &whole, "--json"]);
    assert!(
        said.out.contains("a/\\u001b[31m\\u0007b\\tc\\nd"),
        "{said:?}"
    );
}
