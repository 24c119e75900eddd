//! The cost of a sleeping round trip, in voluntary context switches and never in time.
#![cfg(not(shuttle))]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod echo;

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use echo::{CUT_OFF, Caller, CallerLink, LOOPBACK, Over, Rig};
use trunkline_net::{Clock, Dialler, Link, LinkOptions, Notifier, Peer, Server, ServerOptions};
use trunkline_proto::{Disconnect, Endpoint};
use trunkline_types::{Tick, Timestamp};

/// Switches are counted for the whole process: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Voluntary context switches of the threads of this process whose names begin with `name`.
fn sleeps_of(name: &str) -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let read = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    let tasks = tasks.map(|task| task.unwrap().path());
    let tasks = tasks.filter(|task| read(task.join("comm")).starts_with(name));
    tasks
        .map(|task| sleeps_in(&read(task.join("status"))))
        .sum()
}

fn own_sleeps() -> u64 {
    sleeps_in(&std::fs::read_to_string("/proc/thread-self/status").unwrap())
}

fn sleeps_in(status: &str) -> u64 {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.and_then(|count| count.trim().parse().ok())
        .unwrap_or(0)
}

#[test]
fn a_round_trip_costs_one_wake_up_on_each_side() {
    let _alone = alone();
    const TRIPS: u64 = 2000;
    for over in [Over::Tcp, Over::Unix, Over::Shared, Over::Pipe(64 << 10)] {
        let rig = Rig::sleeping(over);
        let sut = rig.link();
        sut.call(b"warm up");
        let clock = Clock::new();
        let before = (
            own_sleeps(),
            sleeps_of("trunkline-link"),
            sleeps_of("trunkline-conn"),
        );
        let start = clock.now();
        for _ in 0..TRIPS {
            sut.call(b"8 bytes.");
        }
        let elapsed = clock.now().since(start);
        let client = own_sleeps() - before.0;
        let background = sleeps_of("trunkline-link") - before.1;
        let server = sleeps_of("trunkline-conn") - before.2;
        // The background thread looks every 5 ms whether it is needed: on a machine so busy that a
        // round trip takes long, that is seen. Everything else it does is part of the round trips.
        let looks = elapsed.as_millis() as u64 / 5 * 2;
        assert!(
            client + background <= TRIPS * 11 / 10 + looks,
            "{over:?}: the client's side slept {client} + {background} times, {looks} are free"
        );
        assert!(
            server <= TRIPS * 11 / 10,
            "{over:?}: the engine's side slept {server} times"
        );
    }
}

/// Two sessions: what one receives, the other one sends.
struct Relay {
    /// Bytes that each has to send.
    waiting: Arc<[AtomicU64; 2]>,
    notifiers: Arc<Mutex<Vec<Notifier>>>,
    own: usize,
    /// Their connection threads.
    threads: Arc<Mutex<HashSet<ThreadId>>>,
}

/// One byte in a frame of the callers.
const FRAME: [u8; 5] = [1, 0, 0, 0, b'x'];

impl Endpoint for Relay {
    /// Runs on its own thread: the first turn of a session belongs to no other.
    fn handle_connected(&mut self, _: Tick, _: Timestamp) {
        self.threads.lock().unwrap().insert(thread::current().id());
    }

    fn handle_input(&mut self, _: Tick, _: Timestamp, bytes: &[u8]) {
        let other = 1 - self.own;
        self.waiting[other].fetch_add(bytes.len() as u64, Ordering::SeqCst);
        self.notifiers.lock().unwrap()[other].send();
    }

    fn poll_output(&mut self, _: Tick, _: Timestamp, _: usize, out: &mut Vec<u8>) -> bool {
        let waiting = self.waiting[self.own].swap(0, Ordering::SeqCst);
        (0..waiting / FRAME.len() as u64).for_each(|_| out.extend(FRAME));
        false
    }

    fn lets_writers_send(&self) -> bool {
        true
    }

    fn poll_timeout(&self) -> Option<Tick> {
        None
    }

    fn handle_timeout(&mut self, _: Tick, _: Timestamp) {}

    fn handle_disconnected(&mut self, _: Tick, _: Disconnect) {}

    fn wants_close(&self) -> Option<Disconnect> {
        None
    }
}

#[test]
fn reading_for_another_connection_thread_does_not_wake_it() {
    let _alone = alone();
    const RELAYED: u64 = 1000;
    let waiting = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let notifiers: Arc<Mutex<Vec<Notifier>>> = Arc::default();
    let options = ServerOptions {
        listen: vec![LOOPBACK.into()],
        threads: Some(2),
        spin: Duration::ZERO,
        ..ServerOptions::default()
    };
    let threads: Arc<Mutex<HashSet<ThreadId>>> = Arc::default();
    let (known, of_sessions) = (notifiers.clone(), threads.clone());
    let factory = move |_: Peer, notifier: Notifier| {
        let mut all = known.lock().unwrap();
        let own = all.len();
        all.push(notifier);
        let relay: Box<dyn Endpoint> = Box::new(Relay {
            waiting: waiting.clone(),
            notifiers: known.clone(),
            own,
            threads: of_sessions.clone(),
        });
        Ok(relay)
    };
    let server = Server::bind(options, Arc::new(factory)).unwrap();
    let dial = || {
        let address = server.local_addrs()[0];
        let dialler = Dialler::tcp(address.ip().to_string(), address.port());
        let link = Link::start(dialler, Caller::default(), LinkOptions::default()).unwrap();
        link.wait_connected();
        link
    };
    let (writer, reader) = (dial(), dial());
    let clock = Clock::new();
    let start = clock.now();
    while notifiers.lock().unwrap().len() < 2 || threads.lock().unwrap().len() < 2 {
        assert!(
            clock.now().since(start) < CUT_OFF,
            "two sessions, each on a thread of its own"
        );
        thread::yield_now();
    }
    let relay = || {
        let before = sleeps_of("trunkline-conn");
        for _ in 0..RELAYED {
            writer.send(b"x");
            assert_eq!(reader.receive(), b"x");
            // One that comes soon after another is its own thread's.
            let arrived = clock.now();
            while clock.now().since(arrived) < Duration::from_micros(100) {
                std::hint::spin_loop();
            }
        }
        sleeps_of("trunkline-conn") - before
    };
    let slept = relay();
    assert!(
        slept <= RELAYED * 3 / 2,
        "{slept} sleeps for {RELAYED} messages, one each is the writer's own"
    );
}
