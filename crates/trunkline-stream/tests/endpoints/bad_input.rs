//! Tests peers and other programs that violate the protocol. Their connection ends, but the stream
//! continues.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};

use trunkline_proto::frame::HEADER_BYTES;
use trunkline_proto::message::closing::Refused;
use trunkline_proto::message::stream::control::encode_refused;
use trunkline_proto::message::stream::directory::Register;
use trunkline_proto::message::stream::listing::EndpointsQuery;
use trunkline_proto::message::stream::seal::seal;
use trunkline_proto::message::stream::{
    Abort, Ack, Ask, Data, DataHead, EndState, ReaderState, StreamEnd, Until, WriterState,
    encode_end,
};
use trunkline_proto::{FaultCode, FrameKind, VersionRange};
use trunkline_stream::{Options, Reader, StreamError, StreamFault, Writer};

use crate::proxy::{FrameAction, Proxy};
use crate::raw::{Raw, RawEndpoint};
use crate::rig::*;

/// A reader that waits for any writer.
pub fn waiting_reader() -> (SocketAddr, JoinHandle<Reader<f64>>) {
    let address = address();
    let thread =
        thread::spawn(move || Reader::create(&url(address, "passive"), options(10)).unwrap());
    (address, thread)
}

/// A writer that waits for any reader.
pub fn waiting_writer() -> (SocketAddr, JoinHandle<Writer<f64>>) {
    let address = address();
    let thread =
        thread::spawn(move || Writer::create(&url(address, "passive"), options(10)).unwrap());
    (address, thread)
}

/// S_DATA with the elements of a range.
pub fn data(range: std::ops::Range<u64>) -> Vec<u8> {
    data_at(range.start * 8, range)
}

fn data_at(position: u64, range: std::ops::Range<u64>) -> Vec<u8> {
    let bytes: Vec<u8> = elements(range)
        .iter()
        .flat_map(|element| element.to_le_bytes())
        .collect();
    let head = DataHead {
        position,
        len: bytes.len() as u32,
        crc32c: None,
        is_short_of_room: false,
    };
    let mut out = Vec::new();
    Data {
        head,
        bytes: &bytes,
    }
    .encode(&mut out);
    out
}

pub fn ack(arrived: u64, read: u64, credit: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let ack = Ack {
        arrived: arrived * 8,
        read: read * 8,
        durable: 0,
        credit_bytes: credit * 8,
        credit_elements: credit,
        has_end: false,
    };
    ack.encode(&mut out);
    out
}

fn end(position: u64) -> Vec<u8> {
    let mut out = Vec::new();
    encode_end(position, &mut out);
    out
}

fn abort(position: u64, transferred: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let abort = Abort {
        position,
        transferred,
        code: FaultCode::StreamDestroyed,
        sentence: "it".to_owned(),
    };
    abort.encode(&mut out);
    out
}

fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = (payload.len() as u32).to_le_bytes().to_vec();
    out.extend_from_slice(&[kind, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    out.extend_from_slice(payload);
    seal(&mut out, 0);
    out
}

/// Returns invalid first bytes of a connection, which no Trunkline program sends.
fn strange_beginnings() -> Vec<Vec<u8>> {
    let mut huge = frame(106, &[]);
    huge[..4].copy_from_slice(&u32::MAX.to_le_bytes());
    let mut random = fastrand::Rng::with_seed(7);
    let noise: Vec<u8> = (0..10_000).map(|_| random.u8(..)).collect();
    vec![
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
        vec![0; 10_000],
        vec![0xff; 10_000],
        noise,
        huge,
        // Frames that are not allowed here, or whose content is truncated.
        frame(108, &[0; 40]),
        frame(109, &[0; 40]),
        frame(106, b"TRNK"),
        frame(106, b"none"),
        frame(100, b"TRNK\x01\x01\x01\xff"),
        frame(100, &[]),
    ]
}

/// The first bytes that a program of another user receives at this address after it has sent `bytes`;
/// `None` if this test may not become another user.
fn answer_to_other_user(address: SocketAddr, bytes: &[u8]) -> Option<Vec<u8>> {
    let script = "exec 3<>/dev/tcp/$0/$1 && cat >&3 && head -c 1000 <&3";
    let (host, port) = (address.ip().to_string(), address.port().to_string());
    let mut program = Command::new("bash")
        .args(["-c", script, &host, &port])
        .uid(65_534)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    // The connection has already been closed if it was refused.
    let _ = program.stdin.take().unwrap().write_all(bytes);
    let mut answer = Vec::new();
    let mut stdout = program.stdout.take().unwrap();
    let mut chunk = [0; 1000];
    while answer.len() < HEADER_BYTES {
        match stdout.read(&mut chunk).unwrap() {
            0 => break,
            count => answer.extend_from_slice(&chunk[..count]),
        }
    }
    let _ = program.kill();
    program.wait().unwrap();
    Some(answer)
}

/// Behaviour: NS-02, B-80.
#[test]
fn port_of_an_endpoint_is_for_programs_of_its_user_unless_it_is_insecure() {
    for insecure in [false, true] {
        let address = address();
        let create = move || {
            let options = Options {
                insecure,
                ..options(10)
            };
            Reader::<f64>::create(&url(address, "passive"), options).unwrap()
        };
        let reader = thread::spawn(create);
        // It listens.
        drop(Raw::dial(address));
        let mut query = Vec::new();
        if insecure {
            let all = EndpointsQuery {
                versions: VersionRange::OURS,
                ..EndpointsQuery::default()
            };
            all.encode(&mut query);
        }
        match answer_to_other_user(address, &query) {
            None => println!("left out: this test may not become another user"),
            Some(answer) => {
                let kind = answer.get(4).copied().and_then(FrameKind::from_number);
                let expected = match insecure {
                    true => FrameKind::StreamEndpoints,
                    false => FrameKind::StreamRefused,
                };
                assert_eq!(kind, Some(expected), "{}", String::from_utf8_lossy(&answer));
            }
        }
        let own = naming(&url(address, "passive"), options(10));
        let mut writer = Writer::<f64>::create("own", own).unwrap();
        let mut reader = reader.join().unwrap();
        writer.write(&0.5, LONG).unwrap();
        assert_eq!(reader.read(LONG).unwrap(), 0.5);
    }
}

/// An endpoint would otherwise get a port that is open to other users without having asked for it.
///
/// Behaviour: B-80.
#[test]
fn endpoints_of_one_program_share_a_port_only_if_both_are_insecure_or_neither_is() {
    for insecure in [false, true] {
        let address = address();
        let create = move |name: &str, insecure| {
            let options = Options {
                insecure,
                ..options(10)
            };
            Reader::<f64>::create(&url(address, name), options)
        };
        let first = thread::spawn(move || create("first", insecure).unwrap());
        // It listens.
        drop(Raw::dial(address));
        let error = create("other", !insecure).unwrap_err();
        let StreamError::SharedPort { address: port, .. } = &error else {
            panic!("{error}");
        };
        assert_eq!(*port, address);
        assert!(error.to_string().contains("different ports"), "{error}");
        let second = thread::spawn(move || create("second", insecure).unwrap());
        for (name, reader) in [("first", first), ("second", second)] {
            let own = naming(&url(address, name), options(10));
            let mut writer = Writer::<f64>::create(name, own).unwrap();
            let mut reader = reader.join().unwrap();
            writer.write(&0.5, LONG).unwrap();
            assert_eq!(reader.read(LONG).unwrap(), 0.5);
        }
    }
}

/// What a program of another user receives that listens at this address and refuses every connection; `None` if
/// this test may not become another user.
fn listen_as_other_user(address: SocketAddr) -> Option<JoinHandle<Vec<u8>>> {
    let (listens, is_listening) = channel();
    let thread = thread::spawn(move || {
        let uid = rustix::process::Uid::from_raw(65_534);
        // Applies to this thread alone, which ends; its sockets belong to that user.
        if rustix::thread::set_thread_res_uid(uid, uid, uid).is_err() {
            listens.send(false).unwrap();
            return Vec::new();
        }
        let listener = TcpListener::bind(address).unwrap();
        listens.send(true).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        let mut received = vec![0; 1000];
        let count = peer.read(&mut received).unwrap_or(0);
        received.truncate(count);
        let refused = Refused {
            code: FaultCode::Denied,
            versions: VersionRange::OURS,
            retry_after: None,
            sentence: "go away".to_owned(),
        };
        let mut answer = Vec::new();
        encode_refused(&refused, &mut answer);
        // The peer may have gone.
        let _ = peer.write_all(&answer);
        received
    });
    is_listening.recv().unwrap().then_some(thread)
}

/// Behaviour: B-80.
#[test]
fn endpoint_sends_nothing_to_the_port_of_another_user_unless_insecure() {
    for insecure in [false, true] {
        let address = address();
        let Some(impostor) = listen_as_other_user(address) else {
            println!("left out: this test may not become another user");
            return;
        };
        let own = Options {
            insecure,
            ..naming(&url(address, "passive"), options(10))
        };
        let error = Writer::<f64>::create("own", own).unwrap_err();
        let StreamError::Fault(StreamFault::Refused { code, sentence }) = &error else {
            panic!("{error}");
        };
        assert_eq!(*code, FaultCode::Denied);
        let received = impostor.join().unwrap();
        assert_eq!(received.is_empty(), !insecure, "{received:?}");
        if !insecure {
            let fault = format!("the program that listens at {address} runs as user 65534");
            assert!(sentence.starts_with(&fault), "{sentence}");
            assert!(
                sentence.contains("run both programs as the same user"),
                "{sentence}"
            );
        }
    }
}

/// Behaviour: B-80.
#[test]
fn endpoint_sends_nothing_to_the_engine_port_of_another_user_unless_insecure() {
    let folder = tempfile::tempdir().unwrap();
    for insecure in [false, true] {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let Some(impostor) = listen_as_other_user(address) else {
            println!("left out: this test may not become another user");
            return;
        };
        let own = Options {
            insecure,
            directory_port: address.port(),
            sockets: Some(folder.path().to_owned()),
            ..naming("tl://localhost/passive", options(10))
        };
        let error = Writer::<f64>::create("own", own).unwrap_err();
        let StreamError::Fault(StreamFault::Refused { code, sentence }) = &error else {
            panic!("{error}");
        };
        assert_eq!(*code, FaultCode::Denied);
        let received = impostor.join().unwrap();
        assert_eq!(received.is_empty(), !insecure, "{received:?}");
        assert_eq!(
            sentence.contains("runs as user 65534"),
            !insecure,
            "{sentence}"
        );
    }
}

/// Behaviour: NS-09, NS-14.
#[test]
fn foreign_connections_to_an_endpoint_port_are_closed() {
    let address = address();
    let (mut writer, mut reader) =
        meet::<f64>(Dials::Writer, options(4), options(4), address, None);
    let waiting = url(address, "waiting");
    let thread = thread::spawn({
        let waiting = waiting.clone();
        move || Reader::<f64>::create(&waiting, options(4)).unwrap()
    });
    for beginning in strange_beginnings() {
        let mut raw = Raw::dial(address);
        raw.send(&beginning);
        // The connection may end with or without an answer, but not with a ticket.
        while let Some(received) = raw.next() {
            assert_ne!(received.kind(), Some(FrameKind::StreamTicket));
        }
        // The peer disconnects in the middle of a frame.
        Raw::dial(address).send(&beginning[..beginning.len().min(9)]);
    }
    writer.write(&0.5, LONG).unwrap();
    assert_eq!(reader.read(LONG).unwrap(), 0.5);
    assert_eq!(reader.properties().disconnections, 0);
    let mut writer = Writer::<f64>::create(&unique_url("w"), naming(&waiting, options(4))).unwrap();
    writer.write(&1.5, LONG).unwrap();
    assert_eq!(thread.join().unwrap().read(LONG).unwrap(), 1.5);
}

/// Only its own process can register names at an endpoint's port.
///
/// Behaviour: NS-09, NS-10.
#[test]
fn names_at_an_endpoints_port_belong_to_its_process() {
    let address = address();
    let (_writer, _reader) = meet::<f64>(Dials::Writer, options(4), options(4), address, None);
    let mut raw = Raw::dial(address);
    let register = Register {
        versions: VersionRange::OURS,
        url: "tl://localhost/wanted".to_owned(),
        incarnation: RawEndpoint::reader().incarnation,
        program: "raw".to_owned(),
        pid: 1,
        key: None,
    };
    let mut out = Vec::new();
    register.encode(&mut out);
    raw.send(&out);
    assert_eq!(raw.until_refused().code, FaultCode::Denied);
    let wanted = url(address, "wanted");
    let thread = thread::spawn({
        let wanted = wanted.clone();
        move || Reader::<f64>::create(&wanted, options(4)).unwrap()
    });
    let _writer = Writer::<f64>::create(&unique_url("w"), naming(&wanted, options(4))).unwrap();
    thread.join().unwrap();
}

/// Behaviour: NS-13, NS-71.
#[test]
fn ticket_is_valid_once_and_only_for_its_requester() {
    let (address, thread) = waiting_reader();
    let mut endpoint = RawEndpoint::writer();
    endpoint.attempt = 1;
    let url = url(address, "passive");
    let bad = |mut raw: Raw, endpoint: &RawEndpoint, ticket| {
        raw.greet(&endpoint.hello(ticket));
        assert_eq!(raw.until_refused().code, FaultCode::BadTicket);
    };
    // No ticket, one that was not issued, and one that was issued to another program.
    bad(Raw::dial(address), &endpoint, None);
    bad(Raw::dial(address), &endpoint, Some([7; 16]));
    let mut raw = Raw::dial(address);
    let ticket = raw.ask(&url, RawEndpoint::writer().incarnation);
    bad(raw, &endpoint, Some(ticket));
    // That attempt has used up the ticket.
    bad(Raw::dial(address), &endpoint, Some(ticket));
    // The endpoint's own ticket on another connection, then replayed by an observer.
    let ticket = Raw::dial(address).ask(&url, endpoint.incarnation);
    let mut raw = Raw::dial(address);
    raw.greet(&endpoint.hello(Some(ticket)));
    raw.welcome();
    let mut reader = thread.join().unwrap();
    endpoint.attempt += 1;
    bad(Raw::dial(address), &endpoint, Some(ticket));
    raw.send(&data(0..3));
    check_run(&reader.read_many(3, LONG).unwrap(), 0);
    assert_eq!(reader.properties().disconnections, 0);
}

/// An attacker reaches the port, has its own ticket, and knows the incarnation of the peer.
///
/// Behaviour: NS-66, NS-71.
#[test]
fn incarnation_alone_does_not_take_over_a_connected_stream() {
    let (address, thread) = waiting_reader();
    let mut endpoint = RawEndpoint::writer();
    let (mut raw, end) = endpoint.connect(address, "passive");
    let mut reader = thread.join().unwrap();
    raw.send(&data(0..3));
    check_run(&[reader.read(LONG).unwrap()], 0);
    let mut impostor = RawEndpoint::writer();
    impostor.incarnation = endpoint.incarnation;
    impostor.peer = Some(end.incarnation);
    for (attempt, written) in [(100, 0), (101, 24), (102, 8), (103, 800)] {
        impostor.attempt = attempt;
        impostor.state = EndState::Writer(WriterState {
            written,
            ..WriterState::default()
        });
        let refused = impostor.dial(address, "passive").until_refused();
        assert_eq!(refused.code, FaultCode::Denied);
        let has_digits = refused.sentence.contains(|c: char| c.is_ascii_digit());
        assert!(!has_digits, "{}", refused.sentence);
    }
    // Neither end is affected.
    raw.send(&data(3..6));
    check_run(&reader.read_many(5, LONG).unwrap(), 1);
    assert_eq!(reader.properties().disconnections, 0);
}

/// A delayed S_HELLO arrives after the S_HELLO of the connection that replaced it.
///
/// Behaviour: NS-68, NS-71.
#[test]
fn outdated_hello_does_not_replace_the_connection() {
    let (address, thread) = waiting_reader();
    let mut endpoint = RawEndpoint::writer();
    let (_first, _) = endpoint.connect(address, "passive");
    let mut reader = thread.join().unwrap();
    let (mut second, _) = endpoint.connect(address, "passive");
    endpoint.attempt -= 1;
    let mut late = endpoint.dial(address, "passive");
    assert_eq!(late.until_refused().code, FaultCode::StreamOutdated);
    second.send(&data(0..3));
    check_run(&reader.read_many(3, LONG).unwrap(), 0);
}

/// Sends invalid bytes to a reader that has received three elements and read one. Checks that only the
/// connection ends, and that the stream continues from the same position.
pub fn wrong_for_a_reader(wrong: &[u8]) {
    let (address, thread) = waiting_reader();
    let mut endpoint = RawEndpoint::writer();
    let (mut raw, _) = endpoint.connect(address, "passive");
    let mut reader = thread.join().unwrap();
    raw.send(&data(0..3));
    check_run(&[reader.read(LONG).unwrap()], 0);
    until_filled(&reader, 2);
    raw.send(wrong);
    let goodbye = raw.until_closed().expect("a goodbye");
    assert_eq!(goodbye.code, FaultCode::Malformed, "{wrong:?}");
    until_connected(&reader, false);
    let properties = reader.properties();
    assert_eq!(
        (properties.in_buffer, &properties.fault),
        (2, &None),
        "{wrong:?}"
    );
    endpoint.state = EndState::Writer(WriterState {
        kept: 0,
        kept_elements: 0,
        written: 48,
    });
    let (mut raw, end) = endpoint.connect(address, "passive");
    let EndState::Reader(state) = end.state else {
        panic!("{end:?}")
    };
    assert_eq!(state.arrived, 24, "{wrong:?}");
    raw.send(&data(3..6));
    let read = reader.read_many(5, LONG);
    check_run(
        &read.unwrap_or_else(|error| panic!("{error}: {wrong:?}")),
        1,
    );
    timed_out(reader.read(NONE));
    drop(raw);
    until_connected(&reader, false);
}

/// The reader has room for 10 elements, and 1 was read, so positions up to 88 are valid.
///
/// Behaviour: NS-60, NS-62, NS-68.
#[test]
fn writer_that_violates_the_protocol_is_disconnected() {
    let mut long_head = data(3..4);
    long_head.truncate(24);
    long_head[..4].copy_from_slice(&(1_u32 << 30).to_le_bytes());
    seal(&mut long_head, 0);
    let mut unsealed = data(3..4);
    unsealed[8] ^= 1;
    for wrong in [
        // Data beyond the credit by one element or one byte, and before or after the next position.
        data(3..12),
        data_at(24, 3..12),
        data_at(0, 0..3),
        data_at(16, 2..4),
        data_at(32, 4..5),
        data_at(1 << 62, 0..1),
        data_at(u64::MAX, 0..1),
        long_head,
        unsealed,
        // An end of the stream before received data, and more data than was written.
        end(16),
        abort(16, 24),
        abort(8, 8),
        abort(24, 32),
        // Frames that only readers send, and unknown frames.
        ack(0, 0, 10),
        frame(107, b"TRNK"),
        frame(106, b"TRNK"),
        frame(108, &[0; 3]),
        frame(111, &[0; 3]),
        frame(112, &[0xff; 100]),
        frame(113, &[0; 5]),
        frame(110, &[9; 9]),
    ] {
        wrong_for_a_reader(&wrong);
    }
}

/// Sends invalid bytes to a writer that has sent six elements, of which three are acknowledged and
/// two read. Checks that the other three are sent again.
pub fn wrong_for_a_writer(wrong: &[u8]) {
    let (address, thread) = waiting_writer();
    let mut endpoint = RawEndpoint::reader();
    let (mut raw, _) = endpoint.connect(address, "passive");
    let mut writer = thread.join().unwrap();
    writer.write_many(&elements(0..6), LONG).unwrap();
    writer.flush(trunkline_stream::Until::Sent, LONG).unwrap();
    let mut bytes = 0;
    while bytes < 48 {
        bytes += raw.next_of(FrameKind::StreamData).data().1.len();
    }
    raw.send(&ack(3, 2, 102));
    until_filled(&writer, 3);
    raw.send(wrong);
    let goodbye = raw.until_closed().expect("a goodbye");
    assert_eq!(goodbye.code, FaultCode::Malformed, "{wrong:?}");
    until_connected(&writer, false);
    let properties = writer.properties();
    assert_eq!(
        (properties.in_buffer, &properties.fault),
        (3, &None),
        "{wrong:?}"
    );
    // The writer continues without its reader, then sends everything from the reader's position.
    writer.write_many(&elements(6..8), LONG).unwrap();
    endpoint.state = EndState::Reader(ReaderState {
        arrived: 24,
        arrived_elements: 3,
        read: 16,
        durable: 0,
        credit_bytes: 816,
        credit_elements: 102,
        lost: 0,
    });
    let (mut raw, _) = endpoint.connect(address, "passive");
    let (mut next, mut found) = (24, Vec::new());
    while next < 64 {
        let received = raw.next_of(FrameKind::StreamData);
        let (position, bytes) = received.data();
        assert_eq!(position, next);
        next += bytes.len() as u64;
        found.extend_from_slice(bytes);
    }
    let expected: Vec<u8> = elements(3..8)
        .iter()
        .flat_map(|element| element.to_le_bytes())
        .collect();
    assert_eq!(found, expected);
    raw.send(&ack(8, 8, 108));
    writer.flush(trunkline_stream::Until::Read, LONG).unwrap();
    assert_eq!(writer.properties().in_buffer, 0);
    // No peer remains to be notified that the writer closes.
    drop(raw);
    until_connected(&writer, false);
    assert_eq!(writer.abort().elements, 0);
}

/// Behaviour: NS-60, NS-61, NS-62, NS-68.
#[test]
fn reader_that_violates_the_protocol_is_disconnected() {
    let mut ask = Vec::new();
    Ask {
        until: Until::Read,
        position: 8,
    }
    .encode(&mut ask);
    let mut has_end = ack(6, 2, 102);
    has_end[5] |= 4;
    seal(&mut has_end, 0);
    let mut unsealed = ack(4, 2, 102);
    unsealed[17] ^= 1;
    for wrong in [
        // Positions never sent, decreasing positions, positions read but not received, credit for
        // more than the buffer, and an end that was not sent.
        ack(7, 2, 102),
        ack(1 << 50, 2, 102),
        ack(2, 2, 102),
        ack(3, 1, 102),
        ack(3, 4, 102),
        ack(3, 2, 103),
        ack(3, 2, 101),
        has_end,
        unsealed,
        abort(48, 56),
        abort(32, 24),
        // Frames that only writers send, and unknown frames.
        data(0..1),
        end(48),
        ask,
        frame(109, &[0; 39]),
        frame(109, &[0xff; 40]),
        frame(107, b"TRNK"),
    ] {
        wrong_for_a_writer(&wrong);
    }
}

/// The next S_HELLO of a known peer contains impossible positions.
///
/// Behaviour: NS-68, NS-71.
#[test]
fn impossible_hello_is_refused_without_a_change() {
    let (address, thread) = waiting_reader();
    let mut endpoint = RawEndpoint::writer();
    let (mut raw, _) = endpoint.connect(address, "passive");
    let mut reader = thread.join().unwrap();
    raw.send(&data(0..3));
    until_filled(&reader, 3);
    drop(raw);
    until_connected(&reader, false);
    // The writer claims to have written less than has arrived, or to keep bytes that it has not
    // written.
    for (kept, written) in [(0, 16), (48, 24)] {
        let state = WriterState {
            kept,
            kept_elements: kept / 8,
            written,
        };
        endpoint.state = EndState::Writer(state);
        let refused = endpoint.dial(address, "passive").until_refused();
        assert_eq!(refused.code, FaultCode::Malformed, "{}", refused.sentence);
        assert_eq!(reader.properties().fault, None);
    }
    // A peer of another name, type or direction.
    let mut other = endpoint.hello(None).end;
    other.url = "tl://localhost/other".to_owned();
    let mut of_other_type = endpoint.hello(None).end;
    of_other_type.data_type = trunkline_types::DataType::I8;
    let mut empty = endpoint.hello(None).end;
    empty.capacity = 0;
    let mut reads = endpoint.hello(None).end;
    reads.state = RawEndpoint::reader().state;
    let mut forged = endpoint.hello(None).end;
    forged.url = "=cmd|calc,\"x\ny\"".to_owned();
    let mut forged_peer = endpoint.hello(None).end;
    forged_peer.peer_url = "tl://localhost/passive\nerror: run this".to_owned();
    let mut bare = endpoint.hello(None).end;
    bare.url = "other".to_owned();
    for (end, code) in [
        (forged, FaultCode::Malformed),
        (forged_peer, FaultCode::Malformed),
        (bare, FaultCode::Malformed),
        (other, FaultCode::StreamConnected),
        (of_other_type, FaultCode::StreamType),
        (empty, FaultCode::Malformed),
        (reads, FaultCode::StreamDirection),
    ] {
        assert_eq!(dial_as(address, &mut endpoint, end).code, code);
        assert_eq!(reader.properties().fault, None);
    }
    endpoint.state = EndState::Writer(WriterState {
        kept: 0,
        kept_elements: 0,
        written: 32,
    });
    let (mut raw, _) = endpoint.connect(address, "passive");
    raw.send(&data(3..4));
    check_run(&reader.read_many(4, LONG).unwrap(), 0);
}

/// Sends a hello that describes `end`, and returns the refusal.
fn dial_as(
    address: SocketAddr,
    endpoint: &mut RawEndpoint,
    end: StreamEnd,
) -> trunkline_proto::Fault {
    endpoint.attempt += 1;
    let mut raw = Raw::dial(address);
    let ticket = raw.ask(&url(address, "passive"), endpoint.incarnation);
    let mut hello = endpoint.hello(Some(ticket));
    hello.end = end;
    raw.greet(&hello);
    let refused = raw.until_refused();
    trunkline_proto::Fault::new(refused.code, refused.sentence)
}

/// The writer has released elements that the reader never received. The loss is reported.
///
/// Behaviour: NS-71.
#[test]
fn data_missing_at_both_ends_is_reported_as_lost() {
    let (address, thread) = waiting_reader();
    let mut endpoint = RawEndpoint::writer();
    let (mut raw, _) = endpoint.connect(address, "passive");
    let mut reader = thread.join().unwrap();
    raw.send(&data(0..3));
    until_filled(&reader, 3);
    drop(raw);
    until_connected(&reader, false);
    endpoint.state = EndState::Writer(WriterState {
        kept: 40,
        kept_elements: 5,
        written: 48,
    });
    let refused = endpoint.dial(address, "passive").until_refused();
    assert_eq!(
        refused.code,
        FaultCode::StreamDataLost,
        "{}",
        refused.sentence
    );
    check_run(&reader.read_many(10, LONG).unwrap(), 0);
    let lost = reader.read(None).unwrap_err();
    assert!(
        matches!(
            lost,
            StreamError::Fault(trunkline_stream::StreamFault::DataLost { bytes: 16 })
        ),
        "{lost}"
    );
}

/// On each of many connections, one byte is altered in transit, which ends that connection. No element
/// is lost, and no element is read that was not written.
///
/// Behaviour: NS-60, NS-66, NS-68.
#[test]
fn altered_bytes_end_the_connection_and_are_sent_again() {
    // A frame of two elements with its checksum, and the reader's acknowledgement.
    for (kind, len) in [(108, 16 + 8 + 4 + 16), (109, 16 + 40)] {
        for dials in EITHER {
            let checked = Options {
                is_checked: Some(true),
                ..options(200)
            };
            let (proxy, mut writer, mut reader) = proxied_with(dials, checked, options(200));
            let mut next = 0;
            for index in 0..len {
                let (sender, altered) = channel();
                let mut is_done = false;
                proxy.hook(move |_, frame| {
                    if frame[4] == kind && frame.len() == len && !is_done {
                        is_done = true;
                        frame[index] ^= 1 << (index % 8);
                        sender.send(()).unwrap();
                    }
                    FrameAction::Forward
                });
                let before = reader.properties().disconnections;
                writer.write_many(&elements(next..next + 2), LONG).unwrap();
                let flushed = thread::spawn(move || {
                    writer.flush(trunkline_stream::Until::Read, LONG).unwrap();
                    writer
                });
                next = check_run(&reader.read_many(2, LONG).unwrap(), next);
                altered.recv_timeout(TEST_TIMEOUT).unwrap();
                writer = flushed.join().unwrap();
                // Two bytes of the header are unused.
                if !(6..8).contains(&index) {
                    until("a cut", || reader.properties().disconnections > before);
                }
            }
            proxy.unhook();
            assert_eq!(writer.close(LONG).elements, 0);
            assert!(matches!(reader.read(LONG), Err(StreamError::Ended)));
        }
    }
}

/// Each frame that two ends send before they are connected is altered in transit.
///
/// Behaviour: NS-12, NS-66.
#[test]
fn altered_hellos_are_repeated() {
    // S_LOOKUP, S_TICKET, S_HELLO, S_WELCOME.
    for kind in [100, 101, 106, 107] {
        let address = address();
        let proxy = Proxy::to(address);
        let (mut writer, mut reader) =
            meet::<f64>(Dials::Writer, options(4), options(4), address, Some(&proxy));
        let mut random = fastrand::Rng::with_seed(u64::from(kind));
        for cut in 0..12 {
            let place = random.usize(..);
            let (sender, altered) = channel();
            let mut is_done = false;
            proxy.hook(move |_, frame| {
                if frame[4] == kind && !is_done {
                    is_done = true;
                    let address = place % frame.len();
                    frame[address] ^= 1 << (place % 7);
                    sender.send(()).unwrap();
                }
                FrameAction::Forward
            });
            proxy.cut();
            altered.recv_timeout(TEST_TIMEOUT).unwrap();
            writer.write(&element(cut), LONG).unwrap();
            assert_eq!(reader.read(LONG).unwrap(), element(cut));
            assert_eq!(writer.properties().fault, None);
        }
    }
}

/// Invalid URLs of every kind.
///
/// Behaviour: NS-05, NS-08.
#[test]
fn invalid_urls_are_refused_before_any_action() {
    let long = format!("tl://localhost/{}", "x".repeat(2000));
    for url in [
        "",
        "tl://",
        "tl://localhost",
        "tl://localhost/",
        "tl://localhost//x",
        "tl://localhost/x/",
        "tl://localhost:70000/x",
        "tl://localhost:1:2:3/x",
        "tl://localhost/%",
        "tl://localhost/%zz",
        "tl://localhost/%ff",
        "http://localhost/x",
        "tl://localhost/\u{202e}x",
        "tl://localhost/a\nb",
        "tl://[::1/x",
        "tl://ho st/x",
        &long,
    ] {
        let error = Writer::<f64>::create(url, options(4)).unwrap_err();
        assert!(matches!(error, StreamError::Url(_)), "{url}: {error}");
        let named = naming(url, options(4));
        let error = Reader::<f64>::create(&unique_url("r"), named).unwrap_err();
        assert!(matches!(error, StreamError::Url(_)), "{url}: {error}");
    }
}
