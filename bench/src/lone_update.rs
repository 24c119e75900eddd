//! One update at a time from the program that hosts the engine to a subscriber in another process.
//! A writer that sends by itself and one that only marks take turns.
//!
//! For each turn: the median and the 90th percentile of the time from the write to the subscriber's
//! notification, the time of the writer's call, and voluntary context switches and CPU time of the
//! engine's process per update.

#![allow(clippy::print_stdout)]

use std::io::{BufRead, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::Outcome;
use rustix::time::{ClockId, clock_gettime};
use trunkline::types::{Contract, DataType, LibraryDefinition, Value, VariableDefinition};
use trunkline::{Client, ConnectOptions, Engine, EngineOptions, Event, SubscribeOptions};

const PATIENCE: Duration = Duration::from_secs(60);

fn nanos(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns the voluntary context switches of this process: of the connection threads, and of all
/// threads.
fn switches() -> (u64, u64) {
    let read = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    let (mut connection, mut all) = (0, 0);
    for task in std::fs::read_dir("/proc/self/task").into_iter().flatten() {
        let Ok(task) = task else { continue };
        let status = read(task.path().join("status"));
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        let count = line.and_then(|count| count.trim().parse::<u64>().ok());
        let count = count.unwrap_or(0);
        all += count;
        if read(task.path().join("comm")).starts_with("trunkline-conn") {
            connection += count;
        }
    }
    (connection, all)
}

/// Measures, or runs the far end, as the arguments request.
pub fn run(mut arguments: impl Iterator<Item = String>) -> Outcome<()> {
    let first = arguments.next().unwrap_or_else(|| "1000".to_owned());
    if first == "far" {
        let url = arguments.next().ok_or("no url")?;
        return take(&url, arguments.next().ok_or("no spin")?.parse()?);
    }
    let period = Duration::from_micros(first.parse()?);
    let updates: u32 = arguments.next().map_or(Ok(500), |count| count.parse())?;
    let turns: u32 = arguments.next().map_or(Ok(6), |count| count.parse())?;
    for spin_us in [0, 50] {
        for way in ["tcp", "unix", "shm"] {
            measure(way, spin_us, period, updates, turns)?;
        }
    }
    Ok(())
}

/// The far end: prints the delay of each update in nanoseconds, one per line.
fn take(url: &str, spin_us: u64) -> Outcome<()> {
    let mut options = ConnectOptions::new(url)?;
    options.spin = Duration::from_micros(spin_us);
    let client = Client::connect_with(&options)?;
    let options = SubscribeOptions::default();
    let seen = client.subscribe(&["rig/at"], Contract::Latest, options)?;
    let mut out = std::io::stdout().lock();
    let mut delays = Vec::new();
    loop {
        let Some(event) = seen.next(Some(PATIENCE)) else {
            return Ok(());
        };
        let now = nanos(ClockId::Monotonic);
        let Event::Reading { reading, .. } = event else {
            continue;
        };
        match reading.sample.value {
            Value::I64(0) => writeln!(out, "ready")?,
            Value::I64(-1) => {
                let delays: Vec<String> =
                    delays.drain(..).map(|one: u64| one.to_string()).collect();
                writeln!(out, "{}", delays.join(" "))?;
            }
            Value::I64(at) => delays.push(now - at as u64),
            _ => {}
        }
        out.flush()?;
    }
}

fn measure(way: &str, spin_us: u64, period: Duration, updates: u32, turns: u32) -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let socket = folder.path().join("engine.sock").display().to_string();
    let engine = Engine::start(EngineOptions {
        listen: vec!["127.0.0.1:0".parse()?, format!("unix:{socket}").parse()?],
        spin: Duration::from_micros(spin_us),
        ..EngineOptions::default()
    })?;
    engine.deploy(&LibraryDefinition {
        name: "rig".into(),
        description: String::new(),
        variables: vec![VariableDefinition::new("at", DataType::I64)],
    })?;
    let at = engine.variable::<i64>("rig/at")?;
    let url = match way {
        "tcp" => format!("tl+tcp://{}", engine.local_addrs()[0]),
        way => format!("tl+{way}://{socket}"),
    };
    let mut far = Command::new(std::env::current_exe()?)
        .args(["far", &url, &spin_us.to_string()])
        .stdout(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::new(far.stdout.take().ok_or("no output")?).lines();
    at.write(0)?;
    lines.next().ok_or("no far end")??;
    for turn in 0..turns {
        let sends = turn % 2 == 0;
        // `never_send_on_this_thread` applies to the thread, so each turn has its own.
        let (calls, switched, cpu) = thread::scope(|scope| {
            let body = || {
                if !sends {
                    trunkline_net::never_send_on_this_thread();
                }
                let (switches_before, cpu) = (switches(), nanos(ClockId::ProcessCPUTime));
                let mut calls = Vec::new();
                for _ in 0..updates {
                    thread::sleep(period);
                    let before = nanos(ClockId::Monotonic);
                    let _written = at.write(before as i64);
                    calls.push(nanos(ClockId::Monotonic) - before);
                }
                thread::sleep(Duration::from_millis(20));
                let cpu = nanos(ClockId::ProcessCPUTime) - cpu;
                let after = switches();
                let switched = (after.0 - switches_before.0, after.1 - switches_before.1);
                (calls, switched, cpu)
            };
            scope.spawn(body).join()
        })
        .map_err(|_| "the writer panicked")?;
        at.write(-1)?;
        let line = lines.next().ok_or("the far end has ended")??;
        let delays: Vec<u64> = line.split(' ').filter_map(|one| one.parse().ok()).collect();
        println!(
            "{way:4} spin {spin_us:2} us, {:9}: arrived {:4}, notified after {}, call {}, switches \
             of connection threads {:.3}, of all {:.3}, CPU {:.1} us",
            if sends { "sends" } else { "only marks" },
            delays.len(),
            shown(delays),
            shown(calls),
            switched.0 as f64 / f64::from(updates),
            switched.1 as f64 / f64::from(updates),
            cpu as f64 / f64::from(updates) / 1e3,
        );
    }
    drop(engine);
    far.kill()?;
    far.wait()?;
    Ok(())
}

/// Returns the median and the 90th percentile.
fn shown(mut times: Vec<u64>) -> String {
    times.sort_unstable();
    let at = |part: usize| times.get(times.len() * part / 10).copied().unwrap_or(0) as f64 / 1e3;
    format!("{:.1} us ({:.1})", at(5), at(9))
}
