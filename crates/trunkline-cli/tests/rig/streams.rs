//! The ends of streams as separate processes: this very test, started again in another role.
//!
//! An element follows from its place in the stream, so that the reader knows of each whether it is
//! lost, duplicated, out of order or altered.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use trunkline::stream::{Options, Reader, StreamError, Until, Writer};
use trunkline_net::Clock;

use crate::process::Running;

/// The arguments of a process: its role, and the role's parameters.
const TOLD: &str = "TRUNKLINE_RIG_END";

/// No call of an end waits for longer: something is broken then.
pub const WAIT: Option<Duration> = Some(Duration::from_secs(60));

/// Elements per call, and of a buffer.
pub const CALL: usize = 25_000;
const CAPACITY: usize = 10 * CALL;

/// Elements per call where they come slowly: 1 kB.
pub const FEW: usize = 125;

/// The element at an index below 2^52: a number from 1 to 2, each another one.
pub const fn bits(index: u64) -> u64 {
    0x3ff0_0000_0000_0000 + index
}

/// The elements from an index on.
pub fn fill(elements: &mut [f64], first: u64) {
    for (element, index) in elements.iter_mut().zip(first..) {
        *element = f64::from_bits(bits(index));
    }
}

/// The received elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// The element that is due.
    pub next: u64,
    pub lost: u64,
    /// Elements that were due before: duplicated, or out of order.
    pub again: u64,
    /// Values that were never written.
    pub altered: u64,
}

impl Tally {
    pub fn take(&mut self, elements: &[f64]) {
        let wrong = elements
            .iter()
            .zip(self.next..)
            .fold(0, |wrong, (element, index)| {
                wrong | (element.to_bits() ^ bits(index))
            });
        match wrong {
            0 => self.next += elements.len() as u64,
            _ => elements.iter().for_each(|element| self.take_one(*element)),
        }
    }

    fn take_one(&mut self, element: f64) {
        let index = element.to_bits().checked_sub(bits(0));
        match index.filter(|index| *index < 1 << 52) {
            None => self.altered += 1,
            Some(index) if index < self.next => self.again += 1,
            Some(index) => {
                self.lost += index - self.next;
                self.next = index + 1;
            }
        }
    }
}

/// An unused address: of this process alone, and another one each time.
pub fn address() -> SocketAddr {
    static PORTS: Mutex<u16> = Mutex::new(20_000);
    let mut port = PORTS.lock().unwrap();
    *port += 1;
    let [_, a, b, c] = std::process::id().to_be_bytes();
    // 127.0.0.0/8 is all of this machine; connections come from 127.0.0.1.
    let host = Ipv4Addr::new(127, a | 0x80, b, c | 1);
    SocketAddr::new(host.into(), *port)
}

/// The URL of an endpoint at its own port.
pub fn url(at: SocketAddr, name: &str) -> String {
    format!("tl://{at}/{name}")
}

/// The options of an end that connects over TCP, as between machines.
pub fn far(peer: Option<&str>) -> Options {
    Options {
        peer: peer.map(str::to_owned),
        timeout: WAIT,
        is_checked: Some(true),
        tcp_only: true,
        program: "rig".to_owned(),
        ..Options::default()
    }
}

/// Like [`far`], without checksums.
fn unchecked(peer: Option<&str>) -> Options {
    Options {
        is_checked: Some(false),
        ..far(peer)
    }
}

/// Starts a process in a role.
pub fn start(told: &[&str]) -> Running {
    start_reading(told, Stdio::null())
}

/// Like [`start`], with this as its standard input.
pub fn start_reading(told: &[&str], input: Stdio) -> Running {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([
            "--exact",
            "streams::one_of_the_ends",
            "--ignored",
            "--nocapture",
        ])
        .env(TOLD, told.join("|"));
    // Until it runs its program, a new process has all that this one has open: also the port of an
    // endpoint that another thread closes meanwhile, and wants to open again.
    static STARTING: Mutex<()> = Mutex::new(());
    let _starting = STARTING.lock();
    Running::spawn_reading(&mut command, input)
}

/// The number that a process in a role has printed for a name.
pub fn said(lines: &[String], what: &str) -> u64 {
    let all = lines.iter().flat_map(|line| line.split(' '));
    let numbers: Option<u64> = all
        .filter_map(|word| word.strip_prefix(what)?.strip_prefix('=')?.parse().ok())
        .next();
    numbers.unwrap_or_else(|| panic!("it said no {what}: {lines:#?}"))
}

/// The URL of a peer, or that there is none to name.
fn peer(told: &str) -> Option<&str> {
    Some(told).filter(|told| !told.is_empty())
}

/// This process, when it was started by another one of this test.
#[test]
#[ignore = "an entry point of the processes that the tests start"]
fn one_of_the_ends() {
    let Ok(told) = std::env::var(TOLD) else {
        return;
    };
    let told: Vec<&str> = told.split('|').collect();
    let line = match told[..] {
        ["write", own, to, count] => write(own, far(peer(to)), count.parse().unwrap()),
        ["write unchecked", own, to, count] => {
            write(own, unchecked(peer(to)), count.parse().unwrap())
        }
        ["write plain", to, count] => crate::throughput::write(to, count.parse().unwrap()),
        ["read plain", own] => crate::throughput::read(own),
        ["read", own, from] => read(own, far(peer(from)), CALL),
        ["read few", own, from] => read(own, far(peer(from)), FEW),
        ["write on", own, to] => crate::fans::write_on(own, far(peer(to))),
        ["hold", own, to] => crate::kills::hold(own, far(peer(to))),
        ["write text", own, to] => crate::idle_memory::write(own, far(peer(to))),
        ["read text", own] => crate::idle_memory::read(own, far(None)),
        ["drain", own, rounds] => crate::closes::drain(own, rounds.parse().unwrap()),
        _ => panic!("{told:?}"),
    };
    say(&line);
}

/// Tells the process that has started this one.
#[allow(clippy::print_stdout, reason = "its output is how it tells")]
pub fn say(line: &str) {
    // On a separate line, after the harness has begun the line of this test.
    println!("\n{line}");
}

/// Writes the elements from 0 on.
fn write(own: &str, options: Options, count: u64) -> String {
    let options = Options {
        capacity: CAPACITY,
        ..options
    };
    let mut writer = Writer::<f64>::create(own, options).unwrap();
    let mut next = 0;
    while next < count {
        let some = (count - next).min(CALL as u64);
        // A call is a usize.
        writer
            .write_with(some as usize, WAIT, |elements| fill(elements, next))
            .unwrap();
        next += some;
    }
    writer.flush(Until::Read, WAIT).unwrap();
    let disconnections = writer.properties().disconnections;
    let left = writer.close(WAIT);
    format!(
        "written={next} disconnections={disconnections} left={}",
        left.elements
    )
}

/// Reads until the stream has ended.
fn read(own: &str, options: Options, call: usize) -> String {
    let options = Options {
        capacity: 10 * call,
        ..options
    };
    let mut reader = Reader::<f64>::create(own, options).unwrap();
    let clock = Clock::new();
    let start = clock.now();
    let (mut tally, mut longest, mut last, mut count) =
        (Tally::default(), Duration::ZERO, start, 0);
    loop {
        match reader.acquire(call, WAIT) {
            Ok(elements) => {
                let now = clock.now();
                longest = longest.max(now.since(last));
                last = now;
                count += elements.len() as u64;
                tally.take(&elements);
            }
            Err(StreamError::Ended) => break,
            Err(error) => panic!("{error}"),
        }
    }
    let disconnections = reader.properties().disconnections;
    format!(
        "read={count} lost={} again={} altered={} next={} disconnections={disconnections} \
         longest_us={} elapsed_us={}",
        tally.lost,
        tally.again,
        tally.altered,
        tally.next,
        longest.as_micros(),
        last.since(start).as_micros(),
    )
}
