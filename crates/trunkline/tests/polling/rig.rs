//! Engines to poll, the rhythms of polling programs, and a machine that is busy.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use trunkline::types::{DataType, LibraryDefinition, SocketPath, VariableDefinition};
use trunkline::{Client, Engine, EngineOptions};

/// Limit that only a hanging test reaches.
pub const CUT_OFF: Duration = Duration::from_secs(60);

/// Limit on the cost of polling for one event, in processor time and requested pauses. It is not a
/// wall time, because on a busy machine every thread gets less processor time, including the
/// threads that the test waits for.
const POLLING_MAX: Duration = Duration::from_millis(500);

pub const NO_WAITING: Option<Duration> = Some(Duration::ZERO);

/// The pause between two polls.
#[derive(Clone, Copy, Debug)]
pub enum Between {
    Work(Duration),
    Pause(Duration),
}

/// Pauses around the interval after which the background thread drives the connection.
pub const RHYTHMS: [Between; 8] = [
    Between::Work(Duration::ZERO),
    Between::Work(Duration::from_millis(1)),
    Between::Work(Duration::from_micros(4900)),
    Between::Work(Duration::from_millis(7)),
    Between::Pause(Duration::from_micros(300)),
    Between::Pause(Duration::from_millis(1)),
    Between::Pause(Duration::from_micros(4900)),
    Between::Pause(Duration::from_millis(7)),
];

/// Number of runs of each scenario.
pub fn runs() -> u32 {
    let runs = std::env::var("POLLING_RUNS");
    runs.map_or(1, |runs| runs.parse().expect("POLLING_RUNS is a number"))
}

/// Runs with idle and with busy processors: both unless one is chosen.
fn loads() -> &'static [bool] {
    match std::env::var("POLLING_LOAD").as_deref() {
        Ok("quiet") => &[false],
        Ok("busy") => &[true],
        Ok(other) => panic!("POLLING_LOAD is quiet or busy, not {other}"),
        Err(_) => &[false, true],
    }
}

/// A program that polls.
pub struct Poller {
    between: Between,
    longest: Duration,
}

impl Poller {
    pub fn new(between: Between) -> Self {
        Self {
            between,
            longest: Duration::ZERO,
        }
    }

    /// Calls `poll` until it has something.
    pub fn until<R>(&mut self, what: &str, mut poll: impl FnMut() -> Option<R>) -> R {
        let (start, processor) = (Instant::now(), processor_time());
        let mut paused = Duration::ZERO;
        loop {
            if let Some(found) = poll() {
                self.longest = self.longest.max(start.elapsed());
                return found;
            }
            assert!(
                processor_time() - processor + paused < POLLING_MAX,
                "{what} did not come to a program that has polled for {:?}, with {:?} between",
                start.elapsed(),
                self.between
            );
            match self.between {
                Between::Work(duration) => work(duration),
                Between::Pause(duration) => {
                    thread::park_timeout(duration);
                    paused += duration;
                }
            }
        }
    }

    /// The longest time until a poll returned something.
    pub fn longest(&self) -> Duration {
        self.longest
    }
}

/// Processor time of this thread so far.
fn processor_time() -> Duration {
    let schedule = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    let nanos = schedule.split(' ').next().unwrap();
    Duration::from_nanos(nanos.parse().unwrap())
}

/// Keeps this thread busy.
pub fn work(duration: Duration) {
    let start = Instant::now();
    while start.elapsed() < duration {
        std::hint::spin_loop();
    }
}

/// Runs a scenario the requested number of times, on a quiet and on a busy machine. Returns the
/// longest time that a step took.
pub fn quiet_and_busy(name: &str, scenario: impl Fn() -> Duration) {
    // Only one test runs at a time, because otherwise the machine is never quiet.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for &is_busy in loads() {
        let mut times: Vec<_> = (0..runs())
            .map(|_| match is_busy {
                true => with_busy_processors(&scenario),
                false => scenario(),
            })
            .collect();
        times.sort();
        println!(
            "{name}, {}: {} runs, the longest wait in the median run {:?}, in the worst {:?}",
            if is_busy { "busy" } else { "quiet" },
            times.len(),
            times[times.len() / 2],
            times[times.len() - 1]
        );
    }
}

fn with_busy_processors<R>(run: impl FnOnce() -> R) -> R {
    let stop = AtomicBool::new(false);
    let spinning = thread::available_parallelism().map_or(2, |count| count.get());
    /// Ends the load threads even if the scenario panics.
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    thread::scope(|scope| {
        for _ in 0..spinning {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let _stop = Stop(&stop);
        run()
    })
}

/// How a program reaches its engine.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Over {
    Tcp,
    Unix,
    Shared,
    Memory,
}

pub const EVERY_WAY: [Over; 4] = [Over::Tcp, Over::Unix, Over::Shared, Over::Memory];

pub struct Place {
    pub engine: Engine,
    pub socket: SocketPath,
    _folder: TempDir,
}

impl Place {
    pub fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let socket = folder.path().join("engine.sock");
        let socket = SocketPath::parse(socket.to_str().unwrap()).unwrap();
        let options = EngineOptions {
            listen: vec!["127.0.0.1:0".parse().unwrap(), socket.clone().into()],
            ..EngineOptions::default()
        };
        let engine = Engine::start(options).unwrap();
        let variable = |name: &str| VariableDefinition::new(name, DataType::F64);
        let library = LibraryDefinition {
            name: "rig".into(),
            description: String::new(),
            variables: vec![variable("level"), variable("flow")],
        };
        engine.deploy(&library).unwrap();
        Self {
            engine,
            socket,
            _folder: folder,
        }
    }

    pub fn client(&self, over: Over) -> Client {
        let socket = &self.socket;
        let client = match over {
            Over::Tcp => Client::connect(&format!("tl+tcp://{}", self.engine.local_addrs()[0])),
            Over::Unix => Client::connect(&format!("tl+unix://{socket}")),
            Over::Shared => Client::connect(&format!("tl+shm://{socket}")),
            Over::Memory => self.engine.client(),
        };
        let client = client.unwrap();
        client.wait_connected(CUT_OFF).unwrap();
        // The background thread leaves the connection to waiting calls that follow each other
        // closely.
        for _ in 0..3 {
            client.engine_info(CUT_OFF).unwrap();
        }
        client
    }
}
