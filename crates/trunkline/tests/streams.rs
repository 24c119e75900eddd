//! Endpoints whose names this machine's engine keeps.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::thread;
use std::time::Duration;

use trunkline::stream::{Options, Reader, StreamError, Writer};
use trunkline::{Engine, EngineOptions};

const CUT_OFF: Option<Duration> = Some(Duration::from_secs(60));

fn engine() -> Engine {
    let options = EngineOptions {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        ..EngineOptions::default()
    };
    Engine::start(options).unwrap()
}

fn options(engine: &Engine, peer: Option<&str>) -> Options {
    let socket = engine.local_sockets().remove(0);
    let socket = socket.as_path();
    let port = socket.file_stem().unwrap().to_str().unwrap();
    Options {
        peer: peer.map(str::to_owned),
        timeout: CUT_OFF,
        directory_port: port.parse().unwrap(),
        sockets: Some(socket.parent().unwrap().to_owned()),
        ..Options::default()
    }
}

/// Behaviour: NS-02, NS-12, NS-18.
#[test]
fn two_endpoints_meet_by_their_names() {
    let engine = engine();
    let of_reader = options(&engine, None);
    let reader = thread::spawn(move || Reader::<i32>::create("bench/in", of_reader).unwrap());
    let of_writer = options(&engine, Some("bench/in"));
    let mut writer = Writer::<i32>::create("bench/out", of_writer).unwrap();
    let mut reader = reader.join().unwrap();
    assert_eq!(reader.properties().transport, Some("shared memory"));
    for i in 0..100 {
        writer.write(&i, CUT_OFF).unwrap();
    }
    assert_eq!(writer.close(CUT_OFF).elements, 0);
    let all: Vec<i32> = (0..100).collect();
    assert_eq!(reader.read_many(200, CUT_OFF).unwrap(), all);
}

/// Behaviour: NS-09.
#[test]
fn name_is_exclusive_and_released_with_its_owner() {
    let engine = engine();
    let of_reader = options(&engine, None);
    let of_writer = options(&engine, Some("twice/in"));
    let again = options(&engine, None);
    let reader = thread::spawn(move || Reader::<i32>::create("twice/in", of_reader).unwrap());
    let writer = Writer::<i32>::create("twice/out", of_writer.clone()).unwrap();
    let reader = reader.join().unwrap();
    let error = Reader::<i32>::create("Twice/IN", again.clone()).unwrap_err();
    assert!(matches!(error, StreamError::Refused { .. }), "{error}");
    assert!(error.to_string().contains("already exists"), "{error}");
    let error = Reader::<i32>::create("twice/in/deeper", again.clone()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("one name is a prefix of the other"),
        "{error}"
    );
    drop((reader, writer));
    let reader = thread::spawn(move || Reader::<i32>::create("twice/in", again).unwrap());
    let _writer = Writer::<i32>::create("twice/out", of_writer).unwrap();
    drop(reader.join().unwrap());
}

/// Behaviour: NS-14.
#[test]
fn missing_engine_is_reported_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        timeout: CUT_OFF,
        sockets: Some(folder.path().to_owned()),
        ..Options::default()
    };
    let error = Reader::<i32>::create("alone", options).unwrap_err();
    assert!(matches!(error, StreamError::NoDirectory { .. }), "{error}");
    assert!(error.to_string().contains("start an engine"), "{error}");
}
