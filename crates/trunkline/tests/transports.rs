//! Throughput mode, several engines and losses, over real sockets and with the threads that drive
//! them.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod following;

use std::io::Read;
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use following::{TIMEOUT, wait_for};
use trunkline::proto::ThroughputMode;
use trunkline::types::{Contract, DataType, LibraryDefinition, Value, VariableDefinition};
use trunkline::{
    Client, ConnectOptions, Engine, EngineOptions, Event, SubscribeOptions, Subscription, Write,
};

fn engine() -> Engine {
    let options = EngineOptions {
        listen: vec!["127.0.0.1:0".parse().expect("an address")],
        ..EngineOptions::default()
    };
    let engine = Engine::start(options).expect("a free port");
    let library = LibraryDefinition {
        name: "rig".into(),
        description: String::new(),
        variables: vec![
            VariableDefinition::new("level", DataType::F64),
            VariableDefinition::new("count", DataType::U64),
        ],
    };
    engine.deploy(&library).expect("a plain library");
    engine
}

fn url(engine: &Engine) -> String {
    format!("tl+tcp://{}", engine.local_addrs()[0])
}

fn gathering(engine: &Engine, delay: Duration) -> Client {
    let mut options = ConnectOptions::new(&url(engine)).unwrap();
    options.throughput_mode = Some(ThroughputMode {
        delay,
        ..ThroughputMode::DEFAULT
    });
    let client = Client::connect_with(&options).unwrap();
    client.wait_connected(TIMEOUT).unwrap();
    assert_eq!(client.throughput_mode(), options.throughput_mode);
    client
}

fn at_once(engine: &Engine) -> Client {
    Client::connect(&url(engine)).unwrap()
}

fn follow(client: &Client, name: &str) -> Subscription {
    let options = SubscribeOptions::default();
    let all = "all".parse().expect("a contract");
    client.subscribe(&[name], all, options).unwrap()
}

fn level(client: &Client) -> trunkline::VariableRef {
    let opened = client.open(&["rig/level"], Default::default(), TIMEOUT);
    opened.unwrap().remove(0).unwrap().variable
}

fn put_untracked(client: &Client, variable: trunkline::VariableRef, value: f64) {
    let write = Write::new(variable, Value::F64(value));
    client
        .write_untracked([write], Duration::from_secs(60))
        .unwrap();
}

/// Behaviour: LX-04.
#[test]
fn gathered_data_is_sent_without_a_waiter() {
    let engine = engine();
    let reader = at_once(&engine);
    let seen = follow(&reader, "rig/level");
    let writer = gathering(&engine, Duration::from_millis(20));
    let level = level(&writer);
    put_untracked(&writer, level, 1.0);
    wait_for(&seen, 1.0);
    // Flushes of the engine itself reach a client in throughput mode.
    let seen = follow(&writer, "rig/level");
    put_untracked(&reader, self::level(&reader), 2.0);
    wait_for(&seen, 2.0);
}

/// Behaviour: LX-08.
#[test]
fn flush_waits_for_every_write_and_reaches_other_readers() {
    let engine = engine();
    // Long enough that no gathered data is sent by its age.
    let delay = Duration::from_secs(1);
    let (writer, reader) = (gathering(&engine, delay), gathering(&engine, delay));
    let seen = follow(&reader, "rig/level");
    let level = level(&writer);
    for value in 1..=100 {
        put_untracked(&writer, level, f64::from(value));
    }
    let counts = writer.flush(TIMEOUT).unwrap();
    assert_eq!((counts.applied, counts.in_flight), (100, 0));
    wait_for(&seen, 100.0);
    engine.flush();
}

#[test]
fn dropped_client_sends_its_gathered_data() {
    let engine = engine();
    let reader = at_once(&engine);
    let seen = follow(&reader, "rig/level");
    let writer = gathering(&engine, Duration::from_secs(1));
    put_untracked(&writer, level(&writer), 5.0);
    drop(writer);
    wait_for(&seen, 5.0);
}

/// Behaviour: LX-13.
#[test]
fn only_bounded_buffers_lose_updates_and_they_report_it() {
    const WRITES: u64 = 20_000;
    for throughput_mode in [None, Some(ThroughputMode::DEFAULT)] {
        let engine = engine();
        let mut options = ConnectOptions::new(&url(&engine)).unwrap();
        options.throughput_mode = throughput_mode;
        let client = Client::connect_with(&options).unwrap();
        // Written once before there is a subscription, so that each begins with this update.
        let count = engine.variable::<u64>("rig/count").unwrap();
        count.write(0).unwrap();
        let all = follow(&client, "rig/count");
        let bounded = Contract::Last(8);
        let options = SubscribeOptions::default();
        let bounded = client.subscribe(&["rig/count"], bounded, options).unwrap();
        let next = |subscription: &Subscription| loop {
            match subscription.next(Some(TIMEOUT)) {
                Some(Event::Reading { reading, .. }) => return reading,
                Some(_) => {}
                None => panic!("no reading"),
            }
        };
        // Both subscriptions exist before the counted writes.
        let first = next(&bounded).position.sequence;
        assert_eq!((first, next(&all).position.sequence), (1, 1));
        for value in 1..=WRITES {
            count.write(value).unwrap();
        }
        for expected in 2..=WRITES + 1 {
            let reading = next(&all);
            assert_eq!(reading.position.sequence, expected);
            assert_eq!(reading.lost.count(), Some(0));
        }
        client.flush(TIMEOUT).unwrap();
        let (mut taken, mut lost) = (0, 0);
        loop {
            let reading = next(&bounded);
            taken += 1;
            lost += reading.lost.count().unwrap();
            if reading.position.sequence == WRITES + 1 {
                break;
            }
        }
        assert_eq!(taken + lost, WRITES, "every one is there or counted");
        assert!(lost > 0, "nobody took them meanwhile");
    }
}

/// Behaviour: DP-09.
#[test]
fn one_program_uses_several_engines() {
    let engines = [engine(), engine(), engine()];
    let clients = engines.each_ref().map(at_once);
    for (client, value) in clients.iter().zip([1.0, 2.0, 3.0]) {
        let level = client.variable::<f64>("rig/level", TIMEOUT).unwrap();
        level.put(value, TIMEOUT).unwrap();
    }
    for (client, expected) in clients.iter().zip([1.0, 2.0, 3.0]) {
        let level = client.variable::<f64>("rig/level", TIMEOUT).unwrap();
        assert_eq!(level.get(TIMEOUT), Ok(expected));
    }
    // An engine that stops does not affect the others.
    engines[0].shutdown(TIMEOUT);
    let level = clients[2].variable::<f64>("rig/level", TIMEOUT).unwrap();
    assert_eq!(level.get(TIMEOUT), Ok(3.0));
}

/// What a program of another user receives that listens on a port and closes each connection, and its port;
/// `None` if this test may not become another user.
fn listen_as_other_user() -> Option<(SocketAddr, thread::JoinHandle<Vec<u8>>)> {
    let (listens, listening) = channel();
    let thread = thread::spawn(move || {
        let uid = rustix::process::Uid::from_raw(65_534);
        // Applies to this thread alone, which ends; its sockets belong to that user.
        if rustix::thread::set_thread_res_uid(uid, uid, uid).is_err() {
            listens.send(None).unwrap();
            return Vec::new();
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listens.send(listener.local_addr().ok()).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        let mut received = vec![0; 1000];
        let count = peer.read(&mut received).unwrap_or(0);
        received.truncate(count);
        received
    });
    let address = listening.recv().unwrap()?;
    Some((address, thread))
}

/// Another user can listen at an engine's port while the engine does not run.
///
/// Behaviour: B-80.
#[test]
fn client_sends_nothing_to_the_port_of_another_user_unless_it_asks_for_the_port() {
    for (scheme, sends) in [("tl", false), ("tl+tcp", true)] {
        let Some((address, impostor)) = listen_as_other_user() else {
            println!("left out: this test may not become another user");
            return;
        };
        let mut options = ConnectOptions::new(&format!("{scheme}://{address}")).unwrap();
        options.fail_fast = true;
        let client = Client::connect_with(&options).unwrap();
        let error = client.wait_connected(TIMEOUT).unwrap_err().to_string();
        drop(client);
        let received = impostor.join().unwrap();
        assert_eq!(!received.is_empty(), sends, "{received:?}");
        let refusal = format!("the program that listens at {address} runs as user 65534");
        assert_eq!(error.contains(&refusal), !sends, "{error}");
        assert_eq!(error.contains("tl+tcp://"), !sends, "{error}");
    }
}
