//! Engines that are not there, do not answer, or vanish: exit codes 3, 4 and 9.

use std::net::TcpListener;

use serde_json::Value as Json;
use trunkline_proto::FrameKind;

use crate::fake_engine::{FakeEngine, Manners};
use crate::rig::{Running, Served, run};

/// An address without a listener.
pub fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("tl://{}", listener.local_addr().unwrap())
}

#[test]
fn missing_engine_is_reported_at_once_with_its_exit_code() {
    let address = free_address();
    for command in [
        &["get", "a/b"][..],
        &["put", "a/b", "1"],
        &["monitor", "--no-wait", "a/b"],
        &["info", "a/b"],
        &["ls"],
        &["find", "**"],
    ] {
        let output = run(&[command, &["--url", &address, "-w", "1h"]].concat());
        assert_eq!(
            (output.code, output.out.as_str()),
            (Some(3), ""),
            "{command:?}"
        );
        assert!(
            output.err.contains("cannot reach the engine"),
            "{}",
            output.err
        );
        assert!(output.err.contains("start the engine"), "{}", output.err);
    }
    let output = run(&["get", "a/b", "--json", "--url", &address]);
    let error: Json = serde_json::from_str(&output.err).unwrap();
    assert_eq!(
        (&error["code"], output.code),
        (&"not-connected".into(), Some(3))
    );
    let message = error["message"].as_str().unwrap();
    assert!(
        message.contains("no program is listening there"),
        "{message}"
    );
    let hint = error["hint"].as_str().unwrap();
    assert!(hint.contains("start the engine"), "{hint}");
}

#[test]
fn option_takes_precedence_over_the_engine_of_the_environment() {
    let rig = Served::rig();
    let mut command = rig.command(&["get", "-t", "rig/level", "--url", &free_address()]);
    assert_eq!(crate::rig::finish(&mut command, "").code, Some(3));
    let mut command = rig.command(&["get", "-t", "rig/level"]);
    assert_eq!(
        crate::rig::finish(command.env("TRUNKLINE_TIMEOUT", "5s"), "").out,
        "72.4\n"
    );
    let mut command = rig.command(&["get", "-t", "rig/level"]);
    assert_eq!(
        crate::rig::finish(command.env("TRUNKLINE_TIMEOUT", "soon"), "").code,
        Some(2)
    );
}

#[test]
fn silent_engine_is_not_reachable() {
    let engine = FakeEngine::start(Manners::Silent);
    let output = run(&["get", "a/b", "--url", &engine.url, "-w", "50ms"]);
    assert_eq!(output.code, Some(3), "{}", output.err);
    assert!(
        output.err.contains("no answer within 50ms"),
        "{}",
        output.err
    );
}

#[test]
fn unresponsive_engine_times_out() {
    let engine = FakeEngine::start(Manners::Mute);
    let output = run(&["get", "a/b", "--url", &engine.url, "-w", "1s"]);
    assert_eq!(output.code, Some(4), "{}", output.err);
    assert!(
        output.err.contains("did not answer within 1s"),
        "{}",
        output.err
    );
}

#[test]
fn foreign_program_is_recognised() {
    let engine = FakeEngine::start(Manners::NotTrunkline);
    let output = run(&["get", "a/b", "--url", &engine.url]);
    assert_eq!(output.code, Some(3), "{}", output.err);
    assert!(
        output.err.contains("does not speak Trunkline's protocol"),
        "{}",
        output.err
    );
}

#[test]
fn other_version_is_refused_with_both_versions_and_the_remedy() {
    let engine = FakeEngine::start(Manners::Newer);
    let output = run(&["get", "--json", "a/b", "--url", &engine.url]);
    let error: Json = serde_json::from_str(&output.err).unwrap();
    assert_eq!(
        (&error["code"], output.code),
        (&"version-mismatch".into(), Some(3))
    );
    let text = output.err;
    assert!(
        text.contains('7') && text.contains('9') && text.contains("update"),
        "{text}"
    );
}

#[test]
fn a_put_whose_answer_is_lost_is_unknown() {
    let engine = FakeEngine::start(Manners::DropsWrites);
    let output = run(&["put", "a/b", "1", "--url", &engine.url]);
    assert_eq!(
        (output.code, output.out.as_str()),
        (Some(9), ""),
        "{}",
        output.err
    );
    assert!(
        output.err.contains("outcome of the write is unknown"),
        "{}",
        output.err
    );
}

#[test]
fn put_without_an_answer_in_time_is_unknown() {
    let engine = FakeEngine::start(Manners::IgnoresWrites);
    let output = run(&["put", "a/b", "1", "--url", &engine.url, "-w", "1s"]);
    assert_eq!(
        (output.code, output.out.as_str()),
        (Some(9), ""),
        "{}",
        output.err
    );
    let mixed = ["put", "a/b=1", "a/c=x", "--url", &engine.url, "-w", "1s"];
    assert_eq!(
        run(&mixed).code,
        Some(1),
        "one refused and one unknown are a mixture"
    );
}

/// Otherwise the command would wait for a reader that gets nothing.
#[cfg(target_os = "linux")]
#[test]
fn play_into_a_stream_fails_at_once_if_the_history_cannot_be_read() {
    let engine = FakeEngine::start(Manners::IgnoresRows);
    let served = Served::rig();
    let history = format!("{}/a/b", engine.url);
    let played = served.run(&["play", "--history", &history, "--stream", "p", "-w", "1s"]);
    assert_eq!(played.code, Some(4), "{played:?}");
    assert!(played.err.contains("did not answer"), "{}", played.err);
}

/// The engine does not answer, so Ctrl-C is noticed when the request times out.
#[cfg(target_os = "linux")]
#[test]
fn ctrl_c_ends_commands_that_read_a_history() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.csv");
    let file = file.to_str().unwrap();
    for (words, requests) in [
        (&["play", "--history", "a/b"][..], 2),
        (&["history", "export", file, "a/b"], 1),
    ] {
        let engine = FakeEngine::start(Manners::IgnoresRows);
        let sut = Running::start(&[words, &["--url", &engine.url, "-w", "2s"]].concat());
        for _ in 0..requests {
            engine.wait_for(FrameKind::History);
        }
        sut.signal("INT");
        assert_eq!(sut.end(), (Some(130), vec![]), "{words:?}");
    }
}

#[test]
fn ctrl_c_ends_a_command_that_waits() {
    let engine = FakeEngine::start(Manners::Mute);
    let sut = Running::start(&["get", "a/b", "--url", &engine.url]);
    engine.wait_for(FrameKind::Open);
    sut.signal("INT");
    assert_eq!(sut.end(), (Some(130), vec![]));
}
