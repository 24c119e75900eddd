//! The round trip of 8 bytes over TCP through [`Link`] and [`Server`], beside the same over two
//! blocking sockets, interleaved in one run. Nothing spins, so both sides sleep at every message.
//!
//! ```text
//! cargo run --release -p trunkline-net --example net_speed [-- none|one|two] [blocks]
//! ```
//!
//! The threads are left to the scheduler, pinned to one processor, or client and server each to one
//! of their own.
#![allow(clippy::print_stdout, reason = "a measurement prints its figures")]

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;
use std::{env, fs, thread};

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};
use trunkline_net::{Clock, Dialler, Link, LinkOptions, Notifier, Peer, Server, ServerOptions};
use trunkline_proto::{Disconnect, Endpoint};
use trunkline_types::{Tick, Timestamp};

const BLOCK: usize = 200;
const MESSAGE: [u8; 8] = *b"8 bytes.";
const RAW_SERVER: &str = "raw-server";
const SERVER: &str = "trunkline-conn";
const BACKGROUND: &str = "trunkline-link";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pin = env::args().nth(1).unwrap_or_else(|| "none".to_owned());
    let blocks: usize = env::args()
        .nth(2)
        .map_or(Ok(200), |blocks| blocks.parse())?;
    let mut raw = raw_client()?;
    let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let options = ServerOptions {
        listen: vec![loopback.into()],
        ..ServerOptions::default()
    };
    let factory = |_: Peer, _: Notifier| Ok(Box::new(Echo::default()) as Box<dyn Endpoint>);
    let server = Server::bind(options, Arc::new(factory))?;
    let address = server.local_addrs()[0];
    let dialler = Dialler::tcp(address.ip().to_string(), address.port());
    let link = Link::start(dialler, Caller::default(), LinkOptions::default())?;
    let clock = Clock::new();
    let mut call_raw = || {
        raw.write_all(&MESSAGE)?;
        raw.read_exact(&mut [0; 8])
    };
    let mut call_link = || {
        let sent = link.with(|caller, _, _| {
            caller.output.extend(MESSAGE);
            caller.received
        });
        let until = Some(clock.now().saturating_add(Duration::from_secs(10)));
        link.wait_until(until, |caller, _| (caller.received > sent).then_some(()))
            .ok_or_else(|| io::Error::from(io::ErrorKind::TimedOut))
    };
    // Every thread has its name once it has answered.
    call_raw()?;
    call_link()?;
    pin_threads(&pin)?;

    let mut of_raw = Measurement::default();
    let mut of_link = Measurement::default();
    // The first block of each warms up and is not counted.
    for block in 0..=blocks {
        of_raw.block(block > 0, clock, RAW_SERVER, &mut call_raw)?;
        of_link.block(block > 0, clock, SERVER, &mut call_link)?;
    }
    let of_raw = of_raw.print("raw sockets");
    let of_link = of_link.print("link, server");
    println!("ratio of medians    {:.2}", of_link / of_raw);
    Ok(())
}

#[derive(Default)]
struct Measurement {
    nanos: Vec<u64>,
    client: u64,
    server: u64,
    background: u64,
}

impl Measurement {
    fn block(
        &mut self,
        counts: bool,
        clock: Clock,
        server: &str,
        mut round_trip: impl FnMut() -> io::Result<()>,
    ) -> io::Result<()> {
        let before = [own_sleeps()?, sleeps_of(server)?, sleeps_of(BACKGROUND)?];
        let mut last = clock.now();
        for _ in 0..BLOCK {
            round_trip()?;
            let now = clock.now();
            if counts {
                self.nanos.push(now.since(last).as_nanos() as u64);
            }
            last = now;
        }
        if counts {
            self.client += own_sleeps()? - before[0];
            self.server += sleeps_of(server)? - before[1];
            self.background += sleeps_of(BACKGROUND)? - before[2];
        }
        Ok(())
    }

    fn print(mut self, name: &str) -> f64 {
        self.nanos.sort_unstable();
        let count = self.nanos.len();
        let at = |part: f64| self.nanos[((count - 1) as f64 * part) as usize] as f64 / 1000.0;
        let per_trip = |sleeps: u64| sleeps as f64 / count as f64;
        println!(
            "{name:14} median {:6.2} us   p99 {:7.2} us   voluntary switches per round trip: client \
             {:.3}, server {:.3}, background {:.3}",
            at(0.5),
            at(0.99),
            per_trip(self.client),
            per_trip(self.server),
            per_trip(self.background),
        );
        at(0.5)
    }
}

fn raw_client() -> io::Result<TcpStream> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let client = TcpStream::connect(listener.local_addr()?)?;
    let (mut server, _) = listener.accept()?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let echo = move || {
        let mut message = [0; 8];
        while server.read_exact(&mut message).is_ok() && server.write_all(&message).is_ok() {}
    };
    thread::Builder::new()
        .name(RAW_SERVER.to_owned())
        .spawn(echo)?;
    Ok(client)
}

/// Voluntary context switches of this thread.
fn own_sleeps() -> io::Result<u64> {
    Ok(sleeps_in(&fs::read_to_string("/proc/thread-self/status")?))
}

/// Voluntary context switches of the threads called `name`.
fn sleeps_of(name: &str) -> io::Result<u64> {
    let mut sleeps = 0;
    for task in tasks_called(name)? {
        sleeps += sleeps_in(&fs::read_to_string(format!(
            "/proc/self/task/{task}/status"
        ))?);
    }
    Ok(sleeps)
}

fn sleeps_in(status: &str) -> u64 {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.and_then(|count| count.trim().parse().ok())
        .unwrap_or(0)
}

fn tasks_called(name: &str) -> io::Result<Vec<i32>> {
    let mut tasks = Vec::new();
    for entry in fs::read_dir("/proc/self/task")? {
        let entry = entry?;
        if fs::read_to_string(entry.path().join("comm"))?.trim() == name {
            tasks.extend(entry.file_name().to_string_lossy().parse::<i32>());
        }
    }
    Ok(tasks)
}

fn pin_threads(how: &str) -> io::Result<()> {
    let (client, server) = match how {
        "one" => (0, 0),
        "two" => (0, 1),
        _ => return Ok(()),
    };
    pin(None, client)?;
    for task in tasks_called(BACKGROUND)? {
        pin(Pid::from_raw(task), client)?;
    }
    for task in [tasks_called(SERVER)?, tasks_called(RAW_SERVER)?].concat() {
        pin(Pid::from_raw(task), server)?;
    }
    Ok(())
}

fn pin(thread: Option<Pid>, processor: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(processor);
    Ok(sched_setaffinity(thread, &set)?)
}

#[derive(Default)]
struct Echo {
    output: Vec<u8>,
}

impl Endpoint for Echo {
    fn handle_connected(&mut self, _: Tick, _: Timestamp) {}

    fn handle_input(&mut self, _: Tick, _: Timestamp, bytes: &[u8]) {
        self.output.extend(bytes);
    }

    fn poll_output(&mut self, _: Tick, _: Timestamp, _: usize, out: &mut Vec<u8>) -> bool {
        out.append(&mut self.output);
        false
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

#[derive(Default)]
struct Caller {
    output: Vec<u8>,
    received: u64,
}

impl Endpoint for Caller {
    fn handle_connected(&mut self, _: Tick, _: Timestamp) {}

    fn handle_input(&mut self, _: Tick, _: Timestamp, bytes: &[u8]) {
        self.received += bytes.len() as u64 / MESSAGE.len() as u64;
    }

    fn poll_output(&mut self, _: Tick, _: Timestamp, _: usize, out: &mut Vec<u8>) -> bool {
        out.append(&mut self.output);
        false
    }

    fn poll_timeout(&self) -> Option<Tick> {
        None
    }

    fn handle_timeout(&mut self, _: Tick, _: Timestamp) {}

    fn handle_disconnected(&mut self, _: Tick, _: Disconnect) {}

    fn wants_close(&self) -> Option<Disconnect> {
        None
    }

    fn poll_dial(&self) -> Option<Tick> {
        Some(Tick::ZERO)
    }
}
