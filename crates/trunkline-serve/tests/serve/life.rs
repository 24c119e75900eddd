//! Tests the phases of a connection: handshake, versions, keep-alives, back-pressure, GOODBYE, and
//! reconnection.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use trunkline_client::{ClientOptions, ConnectionState, Event, Write, WriteOutcome};
use trunkline_proto::frame::{FrameHeader, HEADER_BYTES};
use trunkline_proto::message::closing::Goodbye;
use trunkline_proto::message::handles::HandlesBuilder;
use trunkline_proto::message::hello::Hello;
use trunkline_proto::message::keepalive::Keepalive;
use trunkline_proto::{
    Disconnect, Endpoint, FaultCode, Features, FrameKind, FrameWriter, Negotiation, VersionRange,
};
use trunkline_serve::{EngineFacts, ServeOptions};
use trunkline_types::{DataType, Value};

use crate::rig::{Heard, Pair, Peer, World, client_options, define, f64_variable, sequences};

const SECOND: Duration = Duration::from_secs(1);

fn of_release(newest: u8) -> Negotiation {
    Negotiation {
        versions: VersionRange::of_release(newest),
        ..Negotiation::OURS
    }
}

/// An engine and a client of these releases, after they have tried to connect.
fn engine_and_client(engine: u8, client: u8) -> Pair {
    let world = World::with_library("rig", vec![f64_variable("x")]);
    let serve = ServeOptions {
        negotiation: of_release(engine),
        ..ServeOptions::default()
    };
    let client = ClientOptions {
        negotiation: of_release(client),
        ..client_options()
    };
    let mut pair = Pair::offline(&world, serve, client);
    pair.connect();
    pair
}

/// Behaviour: B-50.
#[test]
fn peers_of_the_same_and_of_neighbouring_releases_work_together() {
    for (engine, client, spoken) in [(5, 5, 5), (5, 4, 4), (4, 5, 4)] {
        let mut sut = engine_and_client(engine, client);
        assert_eq!(sut.client.session().unwrap().version, spoken);
        let x = sut.variable("rig/x");
        assert_eq!(sut.write([(x, 1.0)]).len(), 1);
        let id = sut.subscribe(&["rig/x"], "all");
        assert_eq!(sut.values(id), [1.0]);
    }
}

/// Behaviour: B-50.
#[test]
fn incompatible_peers_get_both_versions_and_the_remedy() {
    for (engine, client, older) in [(5, 3, "client"), (3, 5, "engine"), (9, 1, "client")] {
        let sut = engine_and_client(engine, client);
        let ConnectionState::Closed { cause } = sut.client.state() else {
            panic!("{:?}", sut.client.state())
        };
        let (e, c) = (
            VersionRange::of_release(engine),
            VersionRange::of_release(client),
        );
        let sentence = cause.to_string();
        let names =
            format!("the engine speaks protocol {e} and the client {c}; update the {older}");
        assert!(sentence.starts_with(&names), "{sentence}");
    }
    // The engine includes the text in the refusal itself, for clients in other languages.
    let world = World::new();
    let negotiation = of_release(5);
    let options = ServeOptions {
        negotiation,
        ..ServeOptions::default()
    };
    let mut peer = Peer::with(&world, options);
    peer.say(|out| {
        Hello {
            versions: VersionRange::of_release(2),
            ..Hello::default()
        }
        .encode(out)
    });
    let Heard::Refused(refused) = peer.last() else {
        panic!("not refused")
    };
    assert_eq!(
        (refused.code, refused.versions),
        (FaultCode::VersionMismatch, negotiation.versions)
    );
    assert!(
        refused.sentence.contains("versions 4 to 5"),
        "{}",
        refused.sentence
    );
    assert!(matches!(peer.cause(), Disconnect::VersionMismatch(_)));
}

/// Behaviour: B-51.
#[test]
fn frames_and_fields_of_a_newer_minor_version_are_skipped() {
    let mut sut = Pair::of(&["x"]);
    let x = sut.variable("rig/x");
    let (now, wall) = sut.world.time();
    let mut bytes = Vec::new();
    let unknown = FrameHeader {
        length: 5,
        kind: 200,
        request: 77,
        ..FrameHeader::default()
    };
    bytes.extend_from_slice(&unknown.to_bytes());
    bytes.extend_from_slice(b"hello");
    // A known frame with an extension block of an unknown field.
    let mut frame = FrameWriter::begin(&mut bytes, FrameKind::Keepalive, 0);
    frame.payload().extend_from_slice(&[0; 40]);
    frame.finish_with_extension(false, &[99, 2, 1, 2]);
    sut.session
        .as_mut()
        .unwrap()
        .handle_input(now, wall, &bytes);
    assert!(sut.session.as_ref().unwrap().wants_close().is_none());
    assert_eq!(sut.write([(x, 1.0)]).len(), 1);

    // The hello of a newer client has fields that this engine does not know.
    let mut peer = Peer::silent(&sut.world);
    let mut hello = Vec::new();
    Hello::default().encode(&mut hello);
    let payload = [&hello[HEADER_BYTES..], &[120, 3, 1, 2, 3]].concat();
    let header = FrameHeader {
        length: payload.len() as u32,
        kind: FrameKind::Hello.number(),
        ..FrameHeader::default()
    };
    peer.send(&[&header.to_bytes()[..], &payload].concat());
    assert!(
        matches!(peer.last(), Heard::Welcome(_)),
        "{:?}",
        peer.last()
    );
}

#[test]
fn welcome_contains_the_agreed_limits() {
    let world = World::new();
    let mut peer = Peer::silent(&world);
    peer.say(|out| {
        Hello {
            frame_max: 8192,
            ..Hello::default()
        }
        .encode(out)
    });
    let Heard::Welcome(welcome) = peer.last() else {
        panic!("no welcome")
    };
    assert_eq!(
        (welcome.epoch, welcome.session, welcome.frame_max),
        (7, 1, 8192)
    );
    assert_eq!(welcome.engine_name, "sut");
    assert_eq!(welcome.write_credit_count, 4096);
    assert!(welcome.features.contains(Features::PROVIDER));
}

#[test]
fn peer_without_a_hello_is_disconnected() {
    let world = World::new();
    let mut peer = Peer::silent(&world);
    assert_eq!(
        peer.session.poll_timeout(),
        Some(world.time().0.saturating_add(5 * SECOND))
    );
    world.advance(5 * SECOND);
    peer.time_out();
    assert!(matches!(
        peer.cause(),
        Disconnect::Slow { what: "hello", .. }
    ));
    assert!(
        peer.last_sentence().contains("silent past the deadline"),
        "{}",
        peer.last_sentence()
    );
}

#[test]
fn a_frame_that_trickles_in_ends_the_connection() {
    let world = World::new();
    let mut peer = Peer::greeted(&world);
    let mut bytes = Vec::new();
    Keepalive::default().encode(&mut bytes);
    for byte in bytes.iter().take(20) {
        peer.send(std::slice::from_ref(byte));
        world.advance(SECOND / 4);
    }
    peer.time_out();
    assert!(matches!(
        peer.cause(),
        Disconnect::Slow { what: "frame", .. }
    ));
}

#[test]
fn silent_peer_is_dead_at_the_deadline_and_an_idle_one_is_not() {
    let mut sut = Pair::of(&["x"]);
    sut.pass(60 * SECOND);
    assert!(sut.client.state().is_connected());
    assert_eq!(sut.client.counters().connections, 1);
    let kept = sut.traffic.to_client.count(FrameKind::Keepalive);
    assert!((58..=61).contains(&kept), "{kept} keep-alives");
    assert!(sut.client.round_trip().is_some());
    // The client's process stalls, so the session ends within the deadline.
    sut.is_stopped = true;
    sut.pass(Duration::from_millis(4500));
    assert!(sut.session.is_none());
}

#[test]
fn goodbye_removes_a_client_with_its_state() {
    let mut sut = Pair::of(&["x"]);
    let (_id, x) = (sut.subscribe(&["rig/x"], "all"), sut.variable("rig/x"));
    assert_eq!(sut.info(x).subscribers, 1);
    sut.client.shut_down();
    sut.exchange();
    assert!(sut.session.is_none());
    let caller = sut.world.caller();
    let engine = sut.world.engine();
    assert_eq!(engine.resolve(&caller, "rig/x").unwrap().subscribers(), 0);
}

/// An engine whose host announces when it stops.
#[derive(Default)]
struct Going(Mutex<bool>);

impl EngineFacts for Going {
    fn sessions(&self) -> u64 {
        3
    }

    fn host(&self) -> String {
        "boiler-house".to_owned()
    }

    fn goodbye(&self) -> Option<Goodbye> {
        let sentence = "the engine is being stopped".to_owned();
        let retry_after = Some(10 * SECOND);
        let goodbye = Goodbye {
            code: FaultCode::ShuttingDown,
            retry_after,
            sentence,
        };
        self.0.lock().unwrap().then_some(goodbye)
    }
}

#[test]
fn stopping_engine_sends_pending_data_and_the_time_to_retry() {
    let world = World::with_library("rig", vec![f64_variable("x")]);
    let facts = Arc::new(Going::default());
    let shared: Arc<dyn EngineFacts> = facts.clone();
    let serve = ServeOptions {
        facts: Some(shared),
        ..ServeOptions::default()
    };
    let mut sut = Pair::offline(&world, serve, client_options());
    sut.connect();
    let id = sut.subscribe(&["rig/x"], "all");
    sut.readings(id);
    let request = sut.client.engine_info().unwrap();
    let info = sut.answer(request).unwrap();
    assert_eq!((info.sessions, info.host.as_str()), (3, "boiler-house"));

    (0..5000).for_each(|n| world.set("rig/x", f64::from(n)));
    *facts.0.lock().unwrap() = true;
    sut.exchange();
    assert!(sut.session.is_none());
    let events = sut.events(id);
    assert_eq!(
        events
            .iter()
            .filter(|e| matches!(e, Event::Reading { .. }))
            .count(),
        5000
    );
    let Some(Event::Disconnected {
        cause,
        reconnecting: true,
    }) = events.last()
    else {
        panic!("{:?}", events.last())
    };
    assert!(
        cause.to_string().ends_with("the engine is being stopped"),
        "{cause}"
    );
    let (now, _) = world.time();
    assert!(sut.client.poll_dial().unwrap() >= now.saturating_add(10 * SECOND));
}

/// Behaviour: B-03.
#[test]
fn subscription_resumes_after_a_cut_and_counts_what_it_missed() {
    for contract in ["latest", "last:100", "sampled:10ms"] {
        let mut sut = Pair::of(&["x", "y"]);
        let id = sut.subscribe(&["rig/x", "rig/y"], contract);
        sut.world.set("rig/x", 1.0);
        sut.pass(SECOND);
        sut.readings(id);
        sut.cut();
        (0..10).for_each(|n| sut.world.set("rig/x", f64::from(n)));
        sut.connect();
        sut.pass(SECOND);
        let readings = sut.readings(id);
        // The client already has the value of y.
        assert_eq!(sequences(&readings), [12], "{contract}");
        assert_eq!(
            readings[0].lost.disconnect, 9,
            "{contract}: {:?}",
            readings[0].lost
        );
    }
}

#[test]
fn after_a_restart_of_the_engine_the_loss_is_unknown() {
    let mut sut = Pair::of(&["x"]);
    let id = sut.subscribe(&["rig/x"], "all");
    assert_eq!(sut.values(id), [0.0]);
    sut.cut();
    sut.world.restart();
    sut.world.deploy("rig", vec![f64_variable("x")]);
    sut.world.set("rig/x", 5.0);
    sut.connect();
    let readings = sut.readings(id);
    assert_eq!((readings.len(), readings[0].lost.unknown), (1, true));
    assert_eq!(readings[0].position.epoch, 8);
}

#[test]
fn requests_unanswered_at_a_cut_are_repeated() {
    let mut sut = Pair::of(&["x"]);
    let x = sut.variable("rig/x");
    let read = sut.client.read(&[x]).unwrap();
    let find = sut.client.find("rig/*", None).unwrap();
    sut.turn_of_client();
    sut.cut();
    sut.connect();
    assert!(sut.client.take(read).is_some() && sut.client.take(find).is_some());
}

#[test]
fn a_client_that_takes_its_answers_slowly_is_not_taken_for_dead() {
    let names: Vec<String> = (0..16).map(|n| format!("b{n}")).collect();
    let variables = names
        .iter()
        .map(|n| define(n, DataType::Bytes, |_| {}))
        .collect();
    let world = World::with_library("rig", variables);
    let mut sut = Pair::on(&world);
    let variables: Vec<_> = names
        .iter()
        .map(|n| sut.variable(&format!("rig/{n}")))
        .collect();
    for name in &names {
        world.write(
            &format!("rig/{name}"),
            &Value::Bytes(vec![1; 1 << 20].into()),
        );
    }
    // 16 MiB over a link of 64 KiB per 100 ms, with a write behind every read.
    let reads: Vec<_> = variables
        .iter()
        .map(|v| sut.client.read(&[*v]).unwrap())
        .collect();
    let batch = sut
        .client
        .write([Write::new(variables[0], Value::Bytes([9].into()))])
        .unwrap();
    for _ in 0..400 {
        sut.turn_of_session();
        sut.turn_of_client();
        world.advance(SECOND / 10);
        if sut
            .client
            .poll_timeout()
            .is_some_and(|due| due <= world.time().0)
        {
            let (now, wall) = world.time();
            sut.client.handle_timeout(now, wall);
        }
    }
    assert_eq!(sut.client.counters().connections, 1);
    assert!(sut.session.is_some(), "{:?}", sut.client.state());
    assert!(
        reads
            .into_iter()
            .all(|read| sut.client.take(read).is_some())
    );
    assert!(matches!(
        sut.client.take_outcomes(batch).unwrap()[..],
        [WriteOutcome::Applied(_)]
    ));
}

#[test]
fn client_that_reads_no_answers_is_bounded_and_disconnected() {
    let world = World::with_library("rig", vec![define("b", DataType::Bytes, |_| {})]);
    world.write("rig/b", &Value::Bytes(vec![1; 1 << 20].into()));
    let mut peer = Peer::greeted(&world);
    let handle = world
        .engine()
        .resolve(&world.caller(), "rig/b")
        .unwrap()
        .handle();
    let mut bytes = Vec::new();
    for request in 0..1000 {
        let mut read = HandlesBuilder::read(&mut bytes, request);
        (0..1000).for_each(|_| read.push(&handle));
        read.finish(false);
    }
    // A million reads of a megabyte each, and no answer is read.
    let (mut now, wall) = world.time();
    let mut said = Vec::new();
    let mut pieces = bytes.chunks(64 << 10);
    while peer.session.wants_input() {
        let Some(piece) = pieces.next() else { break };
        peer.session.handle_input(now, wall, piece);
    }
    peer.session.poll_output(now, wall, 64 << 10, &mut said);
    // The transport is full from here on, so no output is polled.
    let mut wake_ups = 0;
    while peer.session.wants_close().is_none() {
        let due = peer.session.poll_timeout().expect("it is waited for");
        assert!(due > now, "a timer that is due at once again and again");
        now = due;
        peer.session.handle_timeout(now, wall);
        wake_ups += 1;
        assert!(wake_ups < 10, "it is not let go");
    }
    assert!(matches!(peer.cause(), Disconnect::Dead { .. }));
    assert!(said.len() <= 64 << 10);
}

#[test]
fn parked_write_does_not_keep_the_thread_awake() {
    let stall = |p: &mut trunkline_types::Properties| p.stall = SECOND / 2;
    let world = World::with_library("rig", vec![define("x", DataType::F64, stall)]);
    let mut sut = Pair::on(&world);
    let _id = sut.subscribe(&["rig/x"], "all:1");
    let x = sut.variable("rig/x");
    let batch = sut
        .client
        .write((0..4).map(|n| Write::new(x, Value::F64(f64::from(n)))))
        .unwrap();
    sut.turn_of_client();
    sut.turn_of_session();
    // The transport is full, and the parked write is tried again.
    let session = sut.session.as_mut().unwrap();
    let (mut now, wall) = world.time();
    for _ in 0..3 {
        let due = session.poll_timeout().expect("it is waited for");
        assert!(due > now, "a timer that is due at once again and again");
        now = due;
        session.handle_timeout(now, wall);
    }
    // There is room again.
    world.advance_to(now);
    sut.wake_session();
    sut.pass(SECOND);
    assert!(sut.client.is_settled(batch));
}
