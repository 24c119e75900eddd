//! V10 to V12: one engine and many clients. The cost of unchanging variables; the cost of changes
//! compared with polling; the cost of stopped clients for the others.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::time::{ClockId, clock_gettime};
use trunkline::local::Variable;
use trunkline::types::{Contract, DataType, Value};
use trunkline::{
    Client, Engine, EngineOptions, Event, OpenOptions, SubscribeOptions, Subscription,
};

use crate::Outcome;
use crate::footprint::resident_bytes;
use crate::hosting::{free_port, library, name, names, url};
use crate::record::Row;
use crate::role::{Role, say, wait_for_end};
use crate::settings::Settings;
use crate::statistics::{Summary, median};
use crate::trunkline_calls::{PATIENCE, opened};
use crate::usage::{Loopback, Usage};

pub const IDLE: &str = "idle_clients";
pub const CHANGES: &str = "changes_against_polling";
pub const STALLED: &str = "stopped_clients";
/// Clients of `IDLE`; live and stopped clients of `STALLED`.
pub const CLIENTS: usize = 100;
/// Variables of `IDLE` and `CHANGES`.
pub const VARIABLES: usize = 10_000;
/// Variables per change in `CHANGES`.
const CHANGING: usize = VARIABLES / 100;
/// Time between two changes in `CHANGES`, and between two polls.
const POLL_MS: u64 = 100;
/// Variables and period of `STALLED`.
const LIVE_VARIABLES: usize = 10;
const LIVE_PERIOD_MS: u64 = 10;
/// Longer than any cell: no silent client is disconnected.
const DEADLINE: Duration = Duration::from_secs(600);
/// Time in which a process settles before measuring.
const REST: Duration = Duration::from_millis(500);

/// The far end: an engine, some of whose variables change.
pub fn serve(settings: &Settings) -> Outcome<()> {
    let count: usize = settings.value("vars")?;
    let changing: usize = settings.value_or("changing", 0)?;
    let period = Duration::from_millis(settings.value_or("period_ms", 100)?);
    let engine = Engine::start(EngineOptions {
        listen: vec![free_port().into()],
        deadline: DEADLINE,
        ..EngineOptions::default()
    })?;
    engine.deploy(&library(count, DataType::F64, Duration::ZERO))?;
    let address = engine.local_addrs().first().copied();
    let opened = (0..count).map(|index| engine.variable::<f64>(&name(index)));
    let variables: Vec<Variable<f64>> = opened.collect::<Result<_, _>>()?;
    for result in engine.write_many(variables.iter().map(|variable| (variable, 0.5))) {
        result?;
    }
    say(&format!(
        "LISTENING {}",
        url(address.ok_or("the engine listens nowhere")?)
    ));
    if changing == 0 {
        wait_for_end();
        return Ok(());
    }
    crate::role::end_with_parent();
    let (mut next, mut first) = (Instant::now() + period, 0);
    loop {
        thread::sleep(next.saturating_duration_since(Instant::now()));
        next += period;
        let now = monotonic_ns() as f64;
        let writes = (first..first + changing).map(|index| (&variables[index % count], now));
        for result in engine.write_many(writes) {
            result?;
        }
        first = (first + changing) % count;
    }
}

/// Returns the monotonic clock, which all processes of a machine share.
fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Measures one scenario.
pub fn cell(scenario: &str, settings: &Settings, placement: &str) -> Outcome<Row> {
    let measured = Duration::from_millis(settings.value("ms")?);
    let clients = settings.value_or("clients", CLIENTS)?;
    let (case, vars) = match scenario {
        STALLED => (
            format!("clients={clients} stopped={clients} vars={LIVE_VARIABLES}"),
            LIVE_VARIABLES,
        ),
        IDLE => (format!("clients={clients} vars={VARIABLES}"), VARIABLES),
        _ => (format!("vars={VARIABLES} changing={CHANGING}"), VARIABLES),
    };
    let mut row = Row::new(scenario, crate::cells::TRUNKLINE, case, placement);
    let far = Settings::default().with("vars", vars);
    let far = match scenario {
        IDLE => far,
        CHANGES => far.with("changing", CHANGING).with("period_ms", POLL_MS),
        STALLED => far.with("changing", vars).with("period_ms", LIVE_PERIOD_MS),
        _ => return Err(format!("there is no scenario {scenario}").into()),
    };
    let mut engine = Role::start("clients-engine", &far)?;
    let url = engine.expect("LISTENING")?;
    match scenario {
        IDLE => idle(&url, engine.pid(), clients, measured, &mut row)?,
        CHANGES => changes(&url, engine.pid(), measured, &mut row)?,
        _ => stalled(&url, engine.pid(), clients, measured, &mut row)?,
    }
    Ok(row)
}

/// Returns a client that has subscribed to the first `count` variables and has a reading of each.
fn subscribed(url: &str, count: usize, contract: Contract) -> Outcome<(Client, Subscription)> {
    let client = Client::connect(url)?;
    client.wait_connected(PATIENCE)?;
    let subscription = client.subscribe(&names(count), contract, SubscribeOptions::default())?;
    let mut readings = 0;
    while readings < count {
        let events = subscription.next_many(4096, Some(PATIENCE));
        if events.is_empty() {
            return Err(format!("{readings} of {count} readings came").into());
        }
        let is_reading = |event: &&Event| matches!(event, Event::Reading { .. });
        readings += events.iter().filter(is_reading).count();
    }
    Ok((client, subscription))
}

fn idle(url: &str, engine: u32, clients: usize, measured: Duration, row: &mut Row) -> Outcome<()> {
    let all = (0..clients).map(|_| subscribed(url, VARIABLES, Contract::Latest));
    let all = all.collect::<Outcome<Vec<_>>>()?;
    thread::sleep(REST);
    let (far, near, lo) = (Usage::of(engine)?, Usage::of_self()?, Loopback::now()?);
    let start = Instant::now();
    thread::sleep(measured);
    let (far, near) = (Usage::of(engine)? - far, Usage::of_self()? - near);
    let (lo, seconds) = (Loopback::now()? - lo, start.elapsed().as_secs_f64());
    row.figure("engine_cpu_percent", far.cpu_ns as f64 / 1e7 / seconds);
    row.figure("clients_cpu_percent", near.cpu_ns as f64 / 1e7 / seconds);
    row.figure("engine_wakes_per_s", far.voluntary as f64 / seconds);
    row.figure("loopback_bytes_per_s", lo.bytes as f64 / seconds);
    row.figure("items", (all.len() * VARIABLES) as f64);
    row.figure("engine_mib", resident_bytes(engine)? / f64::from(1 << 20));
    Ok(())
}

fn changes(url: &str, engine: u32, measured: Duration, row: &mut Row) -> Outcome<()> {
    let (client, subscription) = subscribed(url, VARIABLES, Contract::Latest)?;
    thread::sleep(REST);
    let mut cost = Cost::begin(engine)?;
    let mut updates = 0_usize;
    while let Some(left) = measured.checked_sub(cost.start.elapsed()) {
        let events = subscription.next_many(4096, Some(left.max(Duration::from_millis(1))));
        let is_reading = |event: &&Event| matches!(event, Event::Reading { .. });
        updates += events.iter().filter(is_reading).count();
    }
    let seconds = cost.start.elapsed().as_secs_f64();
    let [bytes, near, far] = cost.per_second(engine)?;
    row.figure("change_bytes_per_s", bytes);
    row.figure("change_cpu_us_per_s", near + far);
    row.figure("change_updates_per_s", updates as f64 / seconds);
    let rounds = seconds * 1e3 / POLL_MS as f64;
    row.require((updates as f64) > (rounds - 2.0) * CHANGING as f64, || {
        format!("{updates} updates came in {rounds:.0} rounds")
    });
    drop((subscription, client));
    let client = Client::connect(url)?;
    let variables = opened(client.open(&names(VARIABLES), OpenOptions::default(), PATIENCE)?)?;
    thread::sleep(REST);
    cost = Cost::begin(engine)?;
    let (mut held, mut changed) = (vec![0.0; VARIABLES], 0_usize);
    let mut next = Instant::now();
    while cost.start.elapsed() < measured {
        for (held, result) in held.iter_mut().zip(client.read(&variables, PATIENCE)?) {
            let Value::F64(value) = result.map_err(|fault| fault.to_string())?.sample.value else {
                return Err("a value of another type".into());
            };
            changed += usize::from(*held != value);
            *held = value;
        }
        next += Duration::from_millis(POLL_MS);
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    let [polled_bytes, near, far] = cost.per_second(engine)?;
    row.figure("poll_bytes_per_s", polled_bytes);
    row.figure("poll_cpu_us_per_s", near + far);
    row.figure("bytes_ratio", polled_bytes / bytes);
    row.figure(
        "cpu_ratio",
        (near + far) / row.figures["change_cpu_us_per_s"],
    );
    row.require(changed > VARIABLES, || "polling saw no change".to_owned());
    Ok(())
}

/// Usage of both ends and of the loopback interface.
struct Cost {
    start: Instant,
    near: Usage,
    far: Usage,
    loopback: Loopback,
}

impl Cost {
    fn begin(engine: u32) -> Outcome<Self> {
        Ok(Self {
            near: Usage::of_self()?,
            far: Usage::of(engine)?,
            loopback: Loopback::now()?,
            start: Instant::now(),
        })
    }

    /// Returns bytes, and CPU microseconds of this process and of the engine's, per second.
    fn per_second(&self, engine: u32) -> Outcome<[f64; 3]> {
        let seconds = self.start.elapsed().as_secs_f64();
        let bytes = (Loopback::now()? - self.loopback).bytes as f64;
        let near = (Usage::of_self()? - self.near).cpu_ns as f64 / 1e3;
        let far = (Usage::of(engine)? - self.far).cpu_ns as f64 / 1e3;
        Ok([bytes / seconds, near / seconds, far / seconds])
    }
}

/// The process of the clients that are stopped; every other one has subscribed `all`.
pub fn hold(settings: &Settings) -> Outcome<()> {
    let (url, clients): (String, usize) = (settings.value("url")?, settings.value("clients")?);
    let contract = |number| match number % 2 {
        0 => Contract::Latest,
        _ => Contract::ALL,
    };
    let all = (0..clients).map(|number| subscribed(&url, LIVE_VARIABLES, contract(number)));
    let all = all.collect::<Outcome<Vec<_>>>()?;
    say("SUBSCRIBED");
    wait_for_end();
    drop(all);
    Ok(())
}

/// Measures live clients with and without stopped ones, in turn.
fn stalled(
    url: &str,
    engine: u32,
    clients: usize,
    measured: Duration,
    row: &mut Row,
) -> Outcome<()> {
    let is_measured = Arc::new(AtomicBool::new(false));
    let ends = Arc::new(AtomicBool::new(false));
    let latencies = Arc::new(Mutex::new(Vec::new()));
    let mut live = Vec::new();
    for _ in 0..clients {
        let ends_of = subscribed(url, LIVE_VARIABLES, Contract::Latest)?;
        let shared = (
            Arc::clone(&is_measured),
            Arc::clone(&ends),
            Arc::clone(&latencies),
        );
        live.push(thread::spawn(move || listen(&ends_of.1, &shared)));
    }
    let phase = || -> Outcome<Vec<f64>> {
        // Lets work of the previous phase end.
        thread::sleep(REST);
        is_measured.store(true, Ordering::Release);
        thread::sleep(measured);
        is_measured.store(false, Ordering::Release);
        thread::sleep(Duration::from_millis(50));
        let mut all = latencies.lock().map_err(|_| "a client has failed")?;
        Ok(std::mem::take(&mut *all))
    };
    let (mut alone, mut beside, mut grown) = (Vec::new(), Vec::new(), Vec::new());
    let (mut alone_p99, mut beside_p99) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        alone_p99.extend(Summary::of(&mut phase()?).map(|times| {
            alone.push(times.count as f64);
            times.p99
        }));
        let before = resident_bytes(engine)?;
        let settings = Settings::default()
            .with("url", url)
            .with("clients", clients);
        let mut stopped = Role::start("clients-stopped", &settings)?;
        stopped.expect("SUBSCRIBED")?;
        let connected = resident_bytes(engine)?;
        let pid = Pid::from_raw(stopped.pid() as i32).ok_or("a process without a number")?;
        kill_process(pid, Signal::STOP)?;
        beside_p99.extend(Summary::of(&mut phase()?).map(|times| {
            beside.push(times.count as f64);
            times.p99
        }));
        grown.push((resident_bytes(engine)? - connected) / clients as f64);
        row.figure(
            "engine_bytes_per_client",
            (connected - before) / clients as f64,
        );
        kill_process(pid, Signal::CONT)?;
        drop(stopped);
    }
    ends.store(true, Ordering::Release);
    for client in live {
        client.join().map_err(|_| "a client has failed")?;
    }
    let middle = |values: &[f64]| median(values).unwrap_or(f64::NAN);
    row.figure("alone_p99_us", middle(&alone_p99));
    row.figure("beside_p99_us", middle(&beside_p99));
    row.figure("p99_ratio", middle(&beside_p99) / middle(&alone_p99));
    row.figure("alone_readings", middle(&alone));
    row.figure("beside_readings", middle(&beside));
    row.figure("grown_bytes_per_stopped_client", middle(&grown));
    let rounds = measured.as_millis() as f64 / LIVE_PERIOD_MS as f64;
    let wanted = rounds * (clients * LIVE_VARIABLES) as f64;
    row.require(middle(&beside) > 0.8 * wanted, || {
        format!(
            "the live clients had {} of {wanted} readings",
            middle(&beside)
        )
    });
    Ok(())
}

/// Whether latencies are measured, whether the phase ends, and where the latencies go.
type Shared = (Arc<AtomicBool>, Arc<AtomicBool>, Arc<Mutex<Vec<f64>>>);

fn listen(subscription: &Subscription, (is_measured, ends, latencies): &Shared) {
    let mut own = Vec::new();
    while !ends.load(Ordering::Acquire) {
        let events = subscription.next_many(64, Some(Duration::from_millis(20)));
        if !is_measured.load(Ordering::Acquire) {
            if let (false, Ok(mut all)) = (own.is_empty(), latencies.lock()) {
                all.append(&mut own);
            }
            continue;
        }
        let now = monotonic_ns() as f64;
        for event in events {
            if let Event::Reading { reading, .. } = event
                && let Value::F64(written) = reading.sample.value
            {
                own.push((now - written) / 1e3);
            }
        }
    }
}
