//! Last values in memory that an engine shares with programs on its machine.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

#[path = "../../trunkline-net/tests/victim/mod.rs"]
mod victim;

use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use trunkline::types::{
    Access, DataType, LibraryDefinition, Properties, Quality, Reason, SocketPath, Value,
    VariableDefinition,
};
use trunkline::{
    Client, Engine, EngineOptions, LocalReader, OpenOptions, VariableError, VariableRef, Write,
    WriteOutcome,
};
use trunkline_net::Clock;
use victim::Victim;

/// Limit that only a hanging test reaches.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Locked for writing by tests that measure all memory of the process.
static MEMORY: RwLock<()> = RwLock::new(());

fn among_others() -> impl Drop {
    MEMORY.read().unwrap_or_else(PoisonError::into_inner)
}

fn alone() -> impl Drop {
    MEMORY.write().unwrap_or_else(PoisonError::into_inner)
}

fn library() -> LibraryDefinition {
    let variable = |path: &str, data_type| VariableDefinition::new(path, data_type);
    LibraryDefinition {
        name: "rig".into(),
        description: String::new(),
        variables: vec![
            variable("level", DataType::F64),
            variable("count", DataType::I32),
            variable("open", DataType::Bool),
            variable("name", DataType::String),
        ],
    }
}

fn start(socket: &SocketPath) -> Engine {
    let options = EngineOptions {
        listen: vec![socket.clone().into()],
        ..EngineOptions::default()
    };
    let engine = Engine::start(options).expect("a socket");
    engine.deploy(&library()).expect("a plain library");
    engine
}

fn socket(folder: &tempfile::TempDir) -> SocketPath {
    let path = folder.path().join("engine.sock");
    SocketPath::parse(&path.to_string_lossy()).unwrap()
}

/// An engine in this process, and a client that is connected as from another process.
struct Rig {
    engine: Engine,
    client: Client,
    socket: SocketPath,
    _folder: tempfile::TempDir,
}

impl Rig {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = socket(&folder);
        let engine = start(&socket);
        let client = connect(&socket);
        Self {
            engine,
            client,
            socket,
            _folder: folder,
        }
    }

    fn put(&self, name: &str, value: Value) {
        put(&self.client, name, value);
    }

    fn reader(&self, name: &str) -> LocalReader {
        reader(&self.client, name)
    }
}

fn connect(socket: &SocketPath) -> Client {
    let client = Client::connect(&format!("tl+shm://{socket}")).unwrap();
    client.wait_connected(TIMEOUT).unwrap();
    client
}

fn open(client: &Client, name: &str) -> VariableRef {
    let opened = client.open(&[name], OpenOptions::default(), TIMEOUT);
    opened.unwrap().remove(0).unwrap().variable
}

fn put(client: &Client, name: &str, value: Value) {
    let write = Write::new(open(client, name), value);
    let outcomes = client.write([write], TIMEOUT).unwrap();
    assert!(
        matches!(outcomes[0], WriteOutcome::Applied(_)),
        "{outcomes:?}"
    );
}

fn reader(client: &Client, name: &str) -> LocalReader {
    client.local_reader(open(client, name), TIMEOUT).unwrap()
}

/// Repeats `done` until it returns true.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let clock = Clock::new();
    let cut_off = clock.now().saturating_add(TIMEOUT);
    while !done() {
        assert!(clock.now() < cut_off, "{what} did not happen");
        std::thread::yield_now();
    }
}

/// Asserts that the value in memory is the one that the engine returns.
fn check(client: &Client, reader: &LocalReader, name: &str) {
    let local = reader.last().expect("a value in memory");
    let variable = open(client, name);
    let asked = client.read(&[variable], TIMEOUT).unwrap().remove(0);
    assert_eq!(local, asked.unwrap());
}

/// Files of tables that this process has mapped.
fn mapped() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines()
        .filter(|line| line.contains("memfd:trunkline-values"))
        .count()
}

#[test]
fn local_read_equals_the_answer_of_the_engine() {
    let _memory = among_others();
    let rig = Rig::new();
    let (level, count) = (rig.reader("rig/level"), rig.reader("rig/count"));
    let (open, name) = (rig.reader("rig/open"), rig.reader("rig/name"));
    let nothing = level.last().unwrap();
    assert_eq!(nothing.sample.quality, Quality::bad(Reason::NoValue));
    let typed = rig.client.variable::<f64>("rig/level", TIMEOUT).unwrap();
    let none = typed.get(TIMEOUT);
    assert!(
        matches!(none, Err(VariableError::NoValue { .. })),
        "{none:?}"
    );
    check(&rig.client, &level, "rig/level");
    for round in 1..=20 {
        rig.put("rig/level", Value::F64(f64::from(round) / 8.0));
        rig.put("rig/count", Value::I32(-round));
        rig.put("rig/open", Value::Bool(round % 2 == 0));
        rig.put("rig/name", Value::String(format!("pump {round}").into()));
        check(&rig.client, &level, "rig/level");
        check(&rig.client, &count, "rig/count");
        check(&rig.client, &open, "rig/open");
        check(&rig.client, &name, "rig/name");
        assert!(level.last().unwrap().own, "this client wrote it");
    }
    // A write of another client, by the fast path and by the general path.
    let other = Client::connect(&format!("tl+unix://{}", rig.socket)).unwrap();
    put(&other, "rig/level", Value::F64(7.5));
    let read = level.last().unwrap();
    assert_eq!((read.sample.value, read.own), (Value::F64(7.5), false));
}

#[test]
fn values_that_do_not_fit_are_requested() {
    let _memory = among_others();
    let rig = Rig::new();
    let mut name = rig.reader("rig/name");
    for text in ["short", &"long ".repeat(10), "short again"] {
        rig.put("rig/name", Value::String(text.into()));
        let is_short = text.len() + 4 <= 24;
        assert_eq!(name.last().is_some(), is_short, "{text}");
        let read = name.read(TIMEOUT).unwrap();
        assert_eq!(read.sample.value, Value::String(text.into()));
    }
}

#[test]
fn over_other_transports_every_read_asks() {
    let _memory = among_others();
    let rig = Rig::new();
    let client = Client::connect(&format!("tl+unix://{}", rig.socket)).unwrap();
    let mut level = reader(&client, "rig/level");
    rig.put("rig/level", Value::F64(2.5));
    assert!(!level.is_local());
    assert_eq!(level.read(TIMEOUT).unwrap().sample.value, Value::F64(2.5));
}

#[test]
fn forced_values_and_qualities_are_shown() {
    let _memory = among_others();
    let rig = Rig::new();
    let level = rig.reader("rig/level");
    rig.put("rig/level", Value::F64(1.0));
    rig.engine.stop_library("rig").unwrap();
    check(&rig.client, &level, "rig/level");
    assert_ne!(level.last().unwrap().sample.quality, Quality::GOOD);
    rig.engine.start_library("rig").unwrap();
    rig.put("rig/level", Value::F64(3.0));
    check(&rig.client, &level, "rig/level");
}

#[test]
fn removed_values_are_hidden_and_new_ones_shown() {
    let _memory = among_others();
    let rig = Rig::new();
    let mut level = rig.reader("rig/level");
    rig.put("rig/level", Value::F64(1.0));
    assert!(level.is_local());
    rig.engine.undeploy("rig").unwrap();
    assert_eq!(level.last(), None);
    assert!(matches!(level.read(TIMEOUT), Err(VariableError::Fault(_))));
    rig.engine.deploy(&library()).unwrap();
    // The housekeeper adds new variables to the table.
    let mut again = rig.reader("rig/level");
    until("showing a new variable", || {
        again.read(TIMEOUT).unwrap();
        again.is_local()
    });
    rig.put("rig/level", Value::F64(4.0));
    check(&rig.client, &again, "rig/level");
}

#[test]
fn unreadable_variables_are_not_in_the_table() {
    let _memory = among_others();
    let rig = Rig::new();
    let mut secret = Properties::new(DataType::F64);
    secret.access = Access::WriteOnly;
    rig.engine
        .deploy(&LibraryDefinition {
            name: "vault".into(),
            description: String::new(),
            variables: vec![VariableDefinition {
                path: "code".into(),
                properties: secret.into(),
            }],
        })
        .unwrap();
    let _table = rig.reader("rig/level");
    rig.put("vault/code", Value::F64(4711.0));
    let code = open(&rig.client, "vault/code");
    assert!(rig.client.local_reader(code, TIMEOUT).is_err());
}

/// A table is created for the existing variables. When there are more, a larger table replaces it.
#[test]
fn a_table_that_is_full_is_replaced() {
    let _memory = among_others();
    let rig = Rig::new();
    let mut level = rig.reader("rig/level");
    rig.put("rig/level", Value::F64(1.0));
    let many = LibraryDefinition {
        name: "many".into(),
        description: String::new(),
        variables: (0..5000)
            .map(|index| VariableDefinition::new(format!("v{index}"), DataType::F64))
            .collect(),
    };
    rig.engine.deploy(&many).unwrap();
    let mut last = rig.reader("many/v4999");
    until("showing the last variable", || {
        last.read(TIMEOUT).unwrap();
        last.is_local()
    });
    rig.put("many/v4999", Value::F64(9.0));
    check(&rig.client, &last, "many/v4999");
    // The first table has ended, and its readers detect this.
    rig.put("rig/level", Value::F64(2.0));
    until("reading from the new table", || {
        assert_eq!(level.read(TIMEOUT).unwrap().sample.value, Value::F64(2.0));
        level.is_local()
    });
    check(&rig.client, &level, "rig/level");
}

/// The table exists while it has a reader.
#[test]
fn table_without_readers_is_released() {
    let _memory = alone();
    let rig = Rig::new();
    assert_eq!(mapped(), 0);
    let second = connect(&rig.socket);
    let (one, two) = (rig.reader("rig/level"), reader(&second, "rig/level"));
    assert_eq!(mapped(), 3, "the engine's and one for each client");
    drop((second, two));
    until("giving one back", || mapped() == 2);
    rig.put("rig/level", Value::F64(5.0));
    check(&rig.client, &one, "rig/level");
    rig.client.close();
    assert_eq!(one.last(), None, "there is no connection");
    drop(one);
    until("giving all back", || {
        // The housekeeper removes variables from the table.
        mapped() == 0
    });
}

/// A separate engine whose variable changes all the time.
#[test]
#[ignore = "an entry point of the processes that are killed"]
fn victim_engine() {
    let Some(socket) = victim::socket() else {
        return;
    };
    let engine = start(&socket);
    let level = engine.variable("rig/level").unwrap();
    for number in 1_u32.. {
        level.write(f64::from(number)).unwrap();
        // In a debug build, a reader is slower than a writer.
        (0..500).for_each(|_| std::hint::spin_loop());
    }
}

#[test]
#[ignore = "an entry point of the processes that are killed"]
fn victim_reader() {
    let Some(socket) = victim::socket() else {
        return;
    };
    let client = connect(&socket);
    let level = reader(&client, "rig/level");
    loop {
        std::hint::black_box(level.last());
    }
}

#[test]
fn values_of_another_process_are_read_until_it_is_killed() {
    let _memory = among_others();
    let folder = tempfile::tempdir().unwrap();
    let socket = socket(&folder);
    let mut epochs = Vec::new();
    let mut kept: Option<LocalReader> = None;
    for _ in 0..5 {
        let engine = Victim::start("victim_engine", &socket);
        let mut level = match kept.take() {
            Some(level) => level,
            None => reader(
                &Client::connect(&format!("tl+shm://{socket}")).unwrap(),
                "rig/level",
            ),
        };
        // The engine listens before it has the variable.
        until("reading from memory", || {
            level.read(TIMEOUT).is_ok() && level.is_local()
        });
        let mut before = level.last().unwrap();
        let mut seen = 0;
        until("changes", || {
            let now = level.last().unwrap_or_else(|| before.clone());
            assert!(
                now.position.sequence >= before.position.sequence,
                "went back"
            );
            if now.position.sequence > 0 {
                let number = now.position.sequence as f64;
                assert_eq!(now.sample.value, Value::F64(number), "torn");
            }
            seen += u32::from(now.position != before.position);
            before = now;
            seen == 100
        });
        epochs.push(before.position.epoch);
        engine.kill();
        // Its data in the table is not the last value of an existing variable.
        until("noticing that the engine is gone", || {
            level.last().is_none()
        });
        kept = Some(level);
    }
    epochs.dedup();
    assert_eq!(epochs.len(), 5, "five engine starts");
}

#[test]
fn readers_that_are_killed_leave_nothing() {
    let _memory = alone();
    let folder = tempfile::tempdir().unwrap();
    let socket = socket(&folder);
    let engine = start(&socket);
    let level = engine.variable("rig/level").unwrap();
    for number in 0..5 {
        let victim = Victim::start("victim_reader", &socket);
        until("a table", || mapped() == 1);
        level.write(f64::from(number)).unwrap();
        victim.kill();
        until("giving the table back", || {
            level.write(0.0).unwrap();
            mapped() == 0
        });
    }
}
