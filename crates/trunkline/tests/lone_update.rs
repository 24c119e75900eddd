//! One update from the program that hosts the engine: only its recipient is woken.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod following;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use following::{TIMEOUT, wait_for};
use tempfile::TempDir;
use trunkline::local::Variable;
use trunkline::types::{Contract, DataType, LibraryDefinition, VariableDefinition};
use trunkline::{Client, Engine, EngineOptions, Event, Subscription};
use trunkline_net::{Clock, Housekeeper};

/// Number of updates per measurement.
const UPDATES: u32 = 500;
/// Longer than the pause after which a writer sends an update itself.
const SILENCE: Duration = Duration::from_micros(100);

/// Updates in the 10 ms for which writers leave a connection alone if it was used just before an
/// update: one such interval is not an error.
const BURST_UPDATES: u32 = 100;

/// Switches are counted for the whole process: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Longer than writers leave a connection alone after too frequent updates: earlier traffic does
/// not count.
const LONG_SILENCE: Duration = Duration::from_millis(20);

/// Voluntary context switches of this process's connection threads.
fn sleeps_of_connection_threads() -> u64 {
    let read = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let tasks = tasks.map(|task| task.unwrap().path());
    let tasks = tasks.filter(|task| read(task.join("comm")).starts_with("trunkline-conn"));
    tasks
        .map(|task| {
            let status = read(task.join("status"));
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            line.and_then(|count| count.trim().parse::<u64>().ok())
                .unwrap_or(0)
        })
        .sum()
}

struct Rig {
    engine: Engine,
    _folder: TempDir,
    socket: String,
}

impl Rig {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let socket = folder.path().join("engine.sock").display().to_string();
        let options = EngineOptions {
            listen: vec![
                "127.0.0.1:0".parse().unwrap(),
                format!("unix:{socket}").parse().unwrap(),
            ],
            // A thread that spins takes a mark without being woken.
            spin: Duration::ZERO,
            ..EngineOptions::default()
        };
        let engine = Engine::start(options).unwrap();
        let library = LibraryDefinition {
            name: "rig".into(),
            description: String::new(),
            variables: vec![
                VariableDefinition::new("level", DataType::F64),
                VariableDefinition::new("start", DataType::F64),
            ],
        };
        engine.deploy(&library).unwrap();
        Self {
            engine,
            _folder: folder,
            socket,
        }
    }

    fn level(&self) -> Variable<f64> {
        self.engine.variable("rig/level").unwrap()
    }

    fn urls(&self) -> [String; 3] {
        [
            format!("tl+tcp://{}", self.engine.local_addrs()[0]),
            format!("tl+unix://{}", self.socket),
            format!("tl+shm://{}", self.socket),
        ]
    }
}

/// Writes one value after the other, each when the one before has arrived and the connection has
/// been silent for a while. Returns how often connection threads slept meanwhile.
fn sleeps_of_lone_updates(level: &Variable<f64>, seen: &Subscription) -> u64 {
    let clock = Clock::new();
    let mut before = 0;
    for count in 0..=UPDATES {
        if count == 1 {
            before = sleeps_of_connection_threads();
        }
        level.write(f64::from(count) + 1.0).unwrap();
        wait_for(seen, f64::from(count) + 1.0);
        let arrived = clock.now();
        let silence = if count == 0 { LONG_SILENCE } else { SILENCE };
        while clock.now().since(arrived) < silence {
            std::hint::spin_loop();
        }
    }
    sleeps_of_connection_threads() - before
}

fn follow(client: &Client, contract: &str) -> Subscription {
    let contract: Contract = contract.parse().unwrap();
    client
        .subscribe(&["rig/level"], contract, Default::default())
        .unwrap()
}

#[test]
fn the_connection_thread_sleeps_while_a_lone_update_is_sent() {
    let _alone = alone();
    let rig = Rig::new();
    for url in rig.urls() {
        for contract in ["latest", "all"] {
            let client = Client::connect(&url).unwrap();
            let seen = follow(&client, contract);
            let slept = sleeps_of_lone_updates(&rig.level(), &seen);
            // Keep-alives and confirmations of the client. If one is so close to an update that the
            // connection belongs to its thread for a while, the updates of that while are left to
            // the thread.
            let most = UPDATES / 10 + BURST_UPDATES;
            let most = u64::from(most);
            assert!(slept <= most, "{url}, {contract}: {slept} of {UPDATES}");
        }
    }
}

#[test]
fn callbacks_and_timing_threads_leave_sending_to_others() {
    let _alone = alone();
    let rig = Rig::new();
    let url = &rig.urls()[0];
    let client = Client::connect(url).unwrap();
    let (level, seen) = (rig.level(), follow(&client, "latest"));
    let other = Client::connect(url).unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    let mut is_first = true;
    let calls = other.on_change(&["rig/start"], Contract::Latest, Default::default(), {
        move |event| {
            if matches!(event, Event::Reading { .. }) && std::mem::take(&mut is_first) {
                tell.send(sleeps_of_lone_updates(&level, &seen)).unwrap();
            }
        }
    });
    let by_callback = told.recv_timeout(TIMEOUT).unwrap();
    drop(calls);
    assert!(by_callback >= u64::from(UPDATES) * 9 / 10, "{by_callback}");

    let (level, seen) = (rig.level(), follow(&client, "latest"));
    let (tell, told) = std::sync::mpsc::channel();
    let thread = Housekeeper::start(Clock::new(), move |_, _| {
        tell.send(sleeps_of_lone_updates(&level, &seen)).unwrap();
        None
    });
    let by_housekeeper = told.recv_timeout(TIMEOUT).unwrap();
    drop(thread);
    assert!(
        by_housekeeper >= u64::from(UPDATES) * 9 / 10,
        "{by_housekeeper}"
    );
}

#[test]
fn a_long_batch_does_not_keep_its_beginning_until_its_end() {
    let _alone = alone();
    let rig = Rig::new();
    let client = Client::connect(&rig.urls()[0]).unwrap();
    let (seen, level) = (follow(&client, "all"), rig.level());
    // The subscription exists once its first value has arrived.
    level.write(0.5).unwrap();
    wait_for(&seen, 0.5);
    let writes = (1..=5000).map(|count| {
        if count == 4000 {
            wait_for(&seen, 1000.0);
        }
        (&level, f64::from(count))
    });
    let written = rig.engine.write_many(writes);
    assert!(written.iter().all(Result::is_ok));
    wait_for(&seen, 5000.0);
}
