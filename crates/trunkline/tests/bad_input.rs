//! Peers and programs that violate the rules, over real sockets: each gets an error, and no other
//! is affected.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

use std::io::{Read, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use trunkline::types::{Contract, DataType, LibraryDefinition, Value, VariableDefinition};
use trunkline::{
    Client, ConnectOptions, Engine, EngineOptions, LibraryError, OpenOptions, StartError,
    SubscribeOptions,
};
use trunkline_proto::message::closing::{Goodbye, Refused};
use trunkline_proto::message::hello::Hello;
use trunkline_proto::message::open::{OpenBuilder, OpenTerms, Opened};
use trunkline_proto::{
    Frame, FrameBuffer, FrameHeader, FrameKind, FrameLimits, VersionRange, frame::HEADER_BYTES,
};
use trunkline_types::Tick;

/// Limit that only a hanging test reaches.
const TIMEOUT: Duration = Duration::from_secs(60);

fn engine() -> (Engine, SocketAddr) {
    let engine = Engine::start(EngineOptions {
        listen: vec!["127.0.0.1:0".parse().expect("an address")],
        ..EngineOptions::default()
    })
    .expect("a free port");
    let library = LibraryDefinition {
        name: "rig".into(),
        description: String::new(),
        variables: vec![
            VariableDefinition::new("level", DataType::F64),
            VariableDefinition::new("text", DataType::String),
        ],
    };
    engine.deploy(&library).expect("a plain library");
    let address = engine.local_addrs()[0];
    (engine, address)
}

/// A client that other peers must not affect.
fn assert_undisturbed(address: SocketAddr) {
    let client = Client::connect(&format!("tl://{address}")).expect("a client");
    let level = client
        .variable::<f64>("rig/level", TIMEOUT)
        .expect("the variable exists");
    level.put(1.0, TIMEOUT).expect("an answer");
    assert_eq!(level.get(TIMEOUT), Ok(1.0));
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it listens");
    stream
        .set_read_timeout(Some(TIMEOUT))
        .expect("a socket option");
    stream
}

fn hello(versions: VersionRange) -> Vec<u8> {
    let mut bytes = Vec::new();
    Hello {
        versions,
        ..Hello::default()
    }
    .encode(&mut bytes);
    bytes
}

/// The frames that the engine sends until it closes.
fn frames_until_close(stream: &mut TcpStream, mut each: impl FnMut(&Frame<'_>)) {
    let mut bytes = Vec::new();
    // A reset after the last byte counts as a normal close.
    let _ = stream.read_to_end(&mut bytes);
    let mut frames = FrameBuffer::new(FrameLimits::default());
    let mut input = bytes.as_slice();
    while let Ok(Some(frame)) = frames.next_frame(Tick::ZERO, &mut input) {
        each(&frame);
    }
}

fn goodbye_of(stream: &mut TcpStream) -> Option<Goodbye> {
    let mut goodbye = None;
    frames_until_close(stream, |frame| {
        if frame.kind() == Some(FrameKind::Goodbye) {
            goodbye = Goodbye::decode(frame).ok();
        }
    });
    goodbye
}

#[test]
fn invalid_hello_closes_only_its_connection() {
    let (_engine, address) = engine();
    let garbage: [&[u8]; 5] = [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        &[0; 64],
        &[0xff; 64],
        b"TRNK but not as a frame, and longer than a header",
        &FrameHeader {
            length: u32::MAX,
            kind: FrameKind::Hello.number(),
            flags: 0,
            request: 0,
            count: 0,
        }
        .to_bytes(),
    ];
    for bytes in garbage {
        let mut stream = connect(address);
        stream.write_all(bytes).expect("the write is accepted");
        frames_until_close(&mut stream, |frame| {
            assert_ne!(frame.kind(), Some(FrameKind::Welcome));
        });
        assert_undisturbed(address);
    }
}

/// Behaviour: B-50.
#[test]
fn a_peer_of_another_version_is_refused_in_a_sentence_with_both_versions() {
    let (_engine, address) = engine();
    let mut stream = connect(address);
    stream
        .write_all(&hello(VersionRange { min: 7, max: 8 }))
        .expect("the write is accepted");
    let mut refused = None;
    frames_until_close(&mut stream, |frame| refused = Refused::decode(frame).ok());
    let refused = refused.expect("a refusal");
    let sentence = &refused.sentence;
    assert!(
        sentence.contains('1') && sentence.contains('7'),
        "{sentence}"
    );
    assert!(sentence.contains("update"), "{sentence}");
    assert_undisturbed(address);
}

/// Behaviour: B-51.
#[test]
fn a_peer_of_a_newer_minor_version_is_understood() {
    let (_engine, address) = engine();
    let mut stream = connect(address);
    let mut bytes = hello(VersionRange { min: 1, max: 2 });
    let unknown = FrameHeader {
        length: 3,
        kind: 250,
        flags: 0,
        request: 5,
        count: 1,
    };
    bytes.extend_from_slice(&unknown.to_bytes());
    bytes.extend_from_slice(b"new");
    let mut frame = OpenBuilder::begin(&mut bytes, 6, &OpenTerms::default());
    frame.push(&&b"rig/level"[..]);
    frame.finish(false);
    stream.write_all(&bytes).expect("the write is accepted");
    stream
        .shutdown(std::net::Shutdown::Write)
        .expect("a socket");
    let mut opened = 0;
    frames_until_close(&mut stream, |frame| {
        if frame.kind() == Some(FrameKind::Opened) {
            opened = Opened::decode(frame)
                .expect("a frame")
                .filter(|o| matches!(o, Ok(Ok(_))))
                .count();
        }
    });
    assert_eq!(opened, 1);
}

#[test]
fn malformed_frames_after_the_hello_get_a_goodbye_with_the_reason() {
    let (_engine, address) = engine();
    let payloads: [(FrameKind, u32, &[u8]); 5] = [
        (FrameKind::Open, 1_000_000, &[0, 1]),
        (FrameKind::Write, 1, &[0; 8]),
        (FrameKind::Read, 3, &[0xff; 40]),
        (FrameKind::Welcome, 0, &[]),
        (FrameKind::Ack, 0, &[9; 8]),
    ];
    for (kind, count, payload) in payloads {
        let mut stream = connect(address);
        let mut bytes = hello(VersionRange::OURS);
        let length = payload.len() as u32;
        let header = FrameHeader {
            length,
            kind: kind.number(),
            flags: 0,
            request: 1,
            count,
        };
        bytes.extend_from_slice(&header.to_bytes());
        bytes.extend_from_slice(payload);
        stream.write_all(&bytes).expect("the write is accepted");
        let goodbye = goodbye_of(&mut stream).unwrap_or_else(|| panic!("{kind}: no goodbye"));
        assert!(
            goodbye.sentence.contains("protocol"),
            "{kind}: {}",
            goodbye.sentence
        );
        assert_undisturbed(address);
    }
}

#[test]
fn a_length_beyond_the_limit_is_refused_before_it_is_buffered() {
    let (_engine, address) = engine();
    let mut stream = connect(address);
    let mut bytes = hello(VersionRange::OURS);
    let header = FrameHeader {
        length: 1 << 30,
        kind: FrameKind::Open.number(),
        flags: 0,
        request: 1,
        count: 1,
    };
    bytes.extend_from_slice(&header.to_bytes());
    stream.write_all(&bytes).expect("the write is accepted");
    let goodbye = goodbye_of(&mut stream).expect("a goodbye");
    assert!(
        goodbye.sentence.contains("1073741824"),
        "{}",
        goodbye.sentence
    );
    assert_undisturbed(address);
}

/// Behaviour: B-30.
#[test]
fn names_that_break_the_rules_are_refused_one_by_one() {
    let (_engine, address) = engine();
    let client = Client::connect(&format!("tl://{address}")).expect("a client");
    let long = format!("rig/{}", "x".repeat(64 << 10));
    let names = [
        "rig/level",
        &long,
        "rig//level",
        "rig/le*vel",
        "rig/\u{7}",
        "",
        "rig/text",
    ];
    let opened = client
        .open(&names, OpenOptions::default(), TIMEOUT)
        .expect("an answer");
    let good: Vec<bool> = opened.iter().map(Result::is_ok).collect();
    assert_eq!(good, [true, false, false, false, false, false, true]);
    let sentence = opened[1].as_ref().expect_err("too long").to_string();
    assert!(sentence.contains("1024"), "{sentence}");

    // Invalid UTF-8 cannot come from the client; from a socket it can.
    let mut stream = connect(address);
    let mut bytes = hello(VersionRange::OURS);
    let mut payload = vec![0];
    for name in [&b"rig/\xff\xfe"[..], b"rig/level"] {
        payload.push(name.len() as u8);
        payload.extend_from_slice(name);
    }
    let length = payload.len() as u32;
    let kind = FrameKind::Open.number();
    let header = FrameHeader {
        length,
        kind,
        flags: 0,
        request: 1,
        count: 2,
    };
    bytes.extend_from_slice(&header.to_bytes());
    bytes.extend_from_slice(&payload);
    stream.write_all(&bytes).expect("the write is accepted");
    stream
        .shutdown(std::net::Shutdown::Write)
        .expect("a socket");
    let mut results = Vec::new();
    frames_until_close(&mut stream, |frame| {
        if frame.kind() == Some(FrameKind::Opened) {
            for opened in Opened::decode(frame).expect("a frame") {
                results.push(
                    opened
                        .expect("an item")
                        .map(|_| ())
                        .map_err(|f| f.sentence.to_owned()),
                );
            }
        }
    });
    assert_eq!(results.len(), 2);
    assert!(
        results[0]
            .as_ref()
            .is_err_and(|sentence| sentence.contains("UTF-8")),
        "{results:?}"
    );
    assert!(results[1].is_ok());
}

#[test]
fn port_in_use_is_reported_with_a_remedy() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("an address");
    let error = Engine::start(EngineOptions {
        listen: vec![address.into()],
        ..EngineOptions::default()
    })
    .expect_err("the port is taken");
    let sentence = error.to_string();
    assert!(matches!(error, StartError::Bind(_)));
    assert!(sentence.contains(&address.port().to_string()), "{sentence}");
    assert!(sentence.contains("in use"), "{sentence}");
}

#[test]
fn listener_for_other_machines_requires_insecure() {
    let everywhere: SocketAddr = "0.0.0.0:0".parse().expect("an address");
    let options = EngineOptions {
        listen: vec![everywhere.into()],
        ..EngineOptions::default()
    };
    let sentence = Engine::start(options.clone())
        .expect_err("it is not protected")
        .to_string();
    assert!(sentence.contains("insecure"), "{sentence}");
    let engine = Engine::start(EngineOptions {
        insecure: true,
        ..options
    });
    assert!(engine.is_ok(), "the word allows it");
}

#[test]
fn missing_listener_is_reported_at_once() {
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = free.local_addr().expect("an address");
    drop(free);
    let mut options = ConnectOptions::new(&format!("tl://{address}")).expect("a URL");
    options.fail_fast = true;
    let client = Client::connect_with(&options).expect("a client");
    let sentence = client
        .wait_connected(TIMEOUT)
        .expect_err("nobody is there")
        .to_string();
    assert!(sentence.contains("start the engine"), "{sentence}");
}

/// Behaviour: B-06, NV-11.
#[test]
fn client_that_stops_reading_does_not_affect_others() {
    let (engine, address) = engine();
    let mut stopped = connect(address);
    let mut bytes = hello(VersionRange::OURS);
    let terms = OpenTerms {
        subscribe: Some(trunkline_proto::message::subscribe::SubscribeTerms {
            subscription: 1,
            contract: Contract::Last(1000),
            flags: trunkline_proto::message::contract::SubscribeFlags::NONE,
        }),
        ..OpenTerms::default()
    };
    let mut frame = OpenBuilder::begin(&mut bytes, 1, &terms);
    frame.push(&&b"rig/text"[..]);
    frame.finish(false);
    stopped.write_all(&bytes).expect("the write is accepted");
    // Reads one answer, which confirms the subscription, and nothing after that.
    let mut answer = [0; HEADER_BYTES];
    stopped.read_exact(&mut answer).expect("a welcome");

    let reader = Client::connect(&format!("tl://{address}")).expect("a client");
    let updates = reader.subscribe(&["rig/text"], Contract::Latest, SubscribeOptions::default());
    let updates = updates.expect("a subscription");
    let text = engine
        .variable::<String>("rig/text")
        .expect("the variable exists");
    let block = "x".repeat(10_000);
    for i in 0..5_000 {
        // 50 MB in all, far more than the sockets between hold.
        text.write(format!("{i} {block}"))
            .expect("a slow reader never slows a writer");
    }
    let last = loop {
        match updates.next(Some(TIMEOUT)) {
            Some(trunkline::Event::Reading { reading, .. })
                if reading.position.sequence == 5_000 =>
            {
                break reading;
            }
            Some(_) => {}
            None => panic!("the reader got nothing"),
        }
    };
    let Value::String(value) = last.sample.value else {
        panic!("it is text")
    };
    assert!(value.starts_with("4999 "));
    drop(stopped);
}

/// Tests the program and the network, because a configuration file is checked earlier.
#[test]
fn library_with_a_name_of_the_engines_own_is_refused() {
    let (engine, address) = engine();
    let library = LibraryDefinition {
        name: "_mine".into(),
        description: String::new(),
        variables: vec![VariableDefinition::new("level", DataType::F64)],
    };
    let refused = engine.deploy(&library).expect_err("a reserved name");
    assert!(
        matches!(refused, LibraryError::Reserved { .. }),
        "{refused:?}"
    );
    let client = Client::connect(&format!("tl://{address}")).expect("a client");
    let refused = client.deploy(library, false, TIMEOUT);
    let refused = refused.expect_err("a reserved name").to_string();
    assert!(refused.contains("the engine's own libraries"), "{refused}");
    assert_undisturbed(address);
}
