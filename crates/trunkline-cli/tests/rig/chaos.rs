//! B-11: after any faults of engine, clients and network, each client has the values of the engine,
//! and knows its losses.

use std::collections::HashMap;
use std::time::Duration;

use trunkline::{Client, SubscribeOptions, Subscription};
use trunkline_net::Clock;
use trunkline_types::{Contract, Reading, Value};

use crate::engine::{Engine, Handles, client_at, config, names};
use crate::figures::{is_full, quantile, record, seconds, size};
use crate::process::{Running, command};
use crate::proxy::{Cut, Proxy};
use crate::view::View;
use crate::{CUT_OFF, alone, last, until};

const VARIABLES: usize = 8;

/// Random numbers, the same for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }

    fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.below(to - from))
    }
}

/// One thing that happens, and until when.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
enum Fault {
    KillEngine,
    StopEngine,
    KillMonitor,
    StopMonitor,
    SilenceBoth,
    SilenceToEngine,
    SilenceToClient,
    Delay,
    CutClose,
    CutReset,
    HalfClose,
    CutAtByte,
}

const FAULTS: [Fault; 12] = [
    Fault::KillEngine,
    Fault::StopEngine,
    Fault::KillMonitor,
    Fault::StopMonitor,
    Fault::SilenceBoth,
    Fault::SilenceToEngine,
    Fault::SilenceToClient,
    Fault::Delay,
    Fault::CutClose,
    Fault::CutReset,
    Fault::HalfClose,
    Fault::CutAtByte,
];

/// `trunkline monitor` in a process of its own, and what it has printed last of each variable.
struct Monitor {
    running: Running,
    newest: HashMap<String, serde_json::Value>,
    lines: u64,
}

impl Monitor {
    fn start(proxy: &Proxy) -> Self {
        let url = format!("tl+tcp://{}", proxy.address);
        let mut arguments = vec!["monitor".to_owned()];
        arguments.extend(names(VARIABLES));
        arguments.push("--json".to_owned());
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut monitor = command(&arguments);
        monitor.env("TRUNKLINE_URL", url);
        Self {
            running: Running::spawn(&mut monitor),
            newest: HashMap::new(),
            lines: 0,
        }
    }

    /// Processes its output. Every gap within an epoch must be reported.
    fn take(&mut self) {
        while let Some(line) = self.running.try_line() {
            let reading: serde_json::Value = serde_json::from_str(&line).unwrap();
            let name = reading["name"].as_str().unwrap().to_owned();
            self.lines += 1;
            if let Some(before) = self.newest.get(&name)
                && before["epoch"] == reading["epoch"]
            {
                let number =
                    |value: &serde_json::Value, key: &str| value[key].as_u64().unwrap_or(0);
                let gap = number(&reading, "seq") - number(before, "seq");
                let told = number(&reading, "lost") + number(&reading["lost_by"], "coalesced");
                assert_eq!(gap.saturating_sub(1), told, "{before} then {reading}");
            }
            self.newest.insert(name, reading);
        }
    }

    fn equals(&self, engine: &[Reading]) -> bool {
        names(VARIABLES).iter().zip(engine).all(|(name, theirs)| {
            self.newest.get(name).is_some_and(|ours| {
                let value = Value::F64(ours["value"].as_f64().unwrap_or(f64::NAN));
                ours["seq"].as_u64() == Some(theirs.position.sequence)
                    && ours["epoch"].as_u64() == Some(theirs.position.epoch)
                    && value == theirs.sample.value
            })
        })
    }
}

struct Rig {
    engine: Engine,
    proxy: Proxy,
    monitor: Monitor,
    /// Behind the proxy.
    subscriptions: Vec<(Contract, Subscription, View)>,
    /// Beside it.
    writer: Client,
    value: f64,
    dice: Dice,
    _behind: Client,
}

impl Rig {
    fn start(seed: u64) -> Self {
        let timing = "keep_alive = \"100ms\"\ndeadline = \"400ms\"\n";
        let engine = Engine::start(&config(VARIABLES, "f64", timing));
        let proxy = Proxy::start(engine.address);
        let behind = client_at(proxy.address);
        let contracts = [Contract::Latest, Contract::Last(20), Contract::ALL];
        let subscriptions = contracts.map(|contract| {
            let options = SubscribeOptions::default();
            let subscription = behind.subscribe(&names(VARIABLES), contract, options);
            (contract, subscription.unwrap(), View::default())
        });
        let mut rig = Self {
            monitor: Monitor::start(&proxy),
            subscriptions: subscriptions.into(),
            writer: engine.client(),
            value: 0.0,
            dice: Dice(seed),
            engine,
            proxy,
            _behind: behind,
        };
        rig.settle("the start");
        rig
    }

    /// Some updates of some variables. While the engine is down nothing is written.
    fn write(&mut self) {
        if !self.writer.state().is_connected() {
            return;
        }
        let Ok(opened) = self.writer.open(
            &names(VARIABLES),
            trunkline::OpenOptions::default(),
            Duration::from_millis(20),
        ) else {
            return;
        };
        for opened in opened.into_iter().flatten() {
            for _ in 0..1 + self.dice.below(5) {
                self.value += 1.0;
                let write = trunkline::Write::new(opened.variable, Value::F64(self.value));
                self.writer
                    .write_untracked([write], Duration::from_secs(60))
                    .unwrap();
            }
        }
    }

    fn take(&mut self) {
        for (_, subscription, view) in &mut self.subscriptions {
            while let Some(event) = subscription.try_next() {
                view.take(event);
            }
        }
        self.monitor.take();
    }

    /// Waits until every client has the engine's values. Returns the time it took.
    fn settle(&mut self, what: &str) -> Duration {
        let clock = Clock::new();
        let start = clock.now();
        self.writer.wait_connected(CUT_OFF).unwrap();
        self.write();
        self.writer.flush(CUT_OFF).unwrap();
        let handles = Handles::open(&self.writer, &names(VARIABLES));
        let engine = handles.read(&self.writer);
        until(what, || {
            self.take();
            let views = self.subscriptions.iter();
            let mut views = views.map(|(_, subscription, view)| {
                view.equals(&engine) && is_current(subscription, &engine)
            });
            (views.all(|equal| equal) && self.monitor.equals(&engine)).then_some(())
        });
        let took = clock.now().since(start);
        // Nothing was written since.
        assert_eq!(handles.read(&self.writer), engine);
        took
    }

    fn begin(&mut self, fault: Fault) {
        match fault {
            Fault::KillEngine => self.engine.kill(),
            Fault::StopEngine => self.engine.signal("STOP"),
            Fault::KillMonitor => {
                self.monitor.running.child.kill().unwrap();
            }
            Fault::StopMonitor => self.monitor.running.signal("STOP"),
            Fault::SilenceBoth => self.proxy.silence(true, true),
            Fault::SilenceToEngine => self.proxy.silence(true, false),
            Fault::SilenceToClient => self.proxy.silence(false, true),
            Fault::Delay => self.proxy.delay(self.dice.millis(1, 300)),
            Fault::CutClose => self.proxy.cut(Cut::Close),
            Fault::CutReset => self.proxy.cut(Cut::Reset),
            Fault::HalfClose => self.proxy.cut(Cut::HalfClose),
            Fault::CutAtByte => {
                let bytes = self.dice.below(4000);
                self.proxy
                    .cut_at(bytes, [Cut::Close, Cut::Reset][self.dice.below(2) as usize]);
            }
        }
    }

    fn end(&mut self, fault: Fault) {
        match fault {
            Fault::KillEngine => self.engine.start_again(),
            Fault::StopEngine => self.engine.signal("CONT"),
            Fault::KillMonitor => self.monitor = Monitor::start(&self.proxy),
            Fault::StopMonitor => self.monitor.running.signal("CONT"),
            _ => self.proxy.heal(),
        }
    }

    /// One fault, or two at a time, with writes before, while and after.
    fn cycle(&mut self) -> (Vec<Fault>, Duration) {
        let mut faults = vec![FAULTS[self.dice.below(FAULTS.len() as u64) as usize]];
        if self.dice.below(3) == 0 {
            let second = FAULTS[self.dice.below(FAULTS.len() as u64) as usize];
            if !is_of_same(faults[0], second) {
                faults.push(second);
            }
        }
        self.write();
        for fault in faults.clone() {
            self.begin(fault);
        }
        // Shorter and longer than the deadline.
        for _ in 0..1 + self.dice.below(8) {
            last(self.dice.millis(1, 150));
            self.write();
            self.take();
        }
        // A monitor that finds no engine at its start reports this and ends: it is started last.
        faults.sort_by_key(|fault| (place(*fault) == MONITOR, *fault));
        for fault in faults.clone() {
            self.end(fault);
        }
        let took = self.settle(&format!("equality after {faults:?}"));
        (faults, took)
    }
}

/// Returns true if the client has the engine's values, and they are marked as current. A connection
/// may still be found dead after the fault has ended: then they are not current until it is
/// re-established.
fn is_current(subscription: &Subscription, engine: &[Reading]) -> bool {
    engine.iter().enumerate().all(|(item, theirs)| {
        let ours = subscription.value(item as u32);
        ours.is_some_and(|ours| ours.position == theirs.position && ours.stale.is_none())
    })
}

/// Returns true if both are faults of the same process, of which only one is possible.
fn is_of_same(one: Fault, other: Fault) -> bool {
    place(one) == place(other)
}

/// The location of a fault: the engine, the monitor, the network.
fn place(fault: Fault) -> u32 {
    match fault {
        Fault::KillEngine | Fault::StopEngine => 0,
        Fault::KillMonitor | Fault::StopMonitor => MONITOR,
        _ => 2,
    }
}

const MONITOR: u32 = 1;

/// Behaviour: B-11.
#[test]
fn clients_agree_with_the_engine_after_every_fault() {
    let _alone = alone();
    let seed = std::env::var("TRUNKLINE_RIG_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or(0x7a11_5eed);
    eprintln!("TRUNKLINE_RIG_SEED={seed}");
    let mut rig = Rig::start(seed);
    let cycles = size(25, 500);
    let (mut times, mut slowest): (Vec<_>, HashMap<Fault, Duration>) = Default::default();
    for cycle in 0..cycles {
        let (faults, took) = rig.cycle();
        if took > Duration::from_secs(2) {
            eprintln!("cycle {cycle}: {} after {faults:?}", seconds(took));
        }
        times.push(took);
        for fault in faults {
            let slowest = slowest.entry(fault).or_default();
            *slowest = took.max(*slowest);
        }
    }
    let connections: u64 = rig
        .subscriptions
        .iter()
        .map(|(_, _, view)| view.connects)
        .max()
        .unwrap();
    assert!(connections > 1, "no fault has cut anything");
    for (contract, _, view) in &rig.subscriptions {
        assert!(view.readings > 0, "{contract:?}");
    }
    if is_full() {
        let check = format!("B-11, {cycles} cycles of faults");
        let over = times
            .iter()
            .filter(|time| **time > Duration::from_secs(2))
            .count();
        record(
            &check,
            "time from the heal until all views are equal: longest",
            &seconds(quantile(&mut times, 1.0)),
            "2 s",
        );
        record(
            &check,
            "time from the heal until all views are equal: p99",
            &seconds(quantile(&mut times, 0.99)),
            "2 s",
        );
        record(
            &check,
            "time from the heal until all views are equal: median",
            &seconds(quantile(&mut times, 0.5)),
            "2 s",
        );
        record(
            &check,
            "cycles that took more than 2 s",
            &over.to_string(),
            "0",
        );
        record(&check, "unexplained gaps, or views that differ", "0", "0");
        let mut slowest: Vec<_> = slowest.into_iter().collect();
        slowest.sort();
        for (fault, took) in slowest {
            eprintln!("  slowest with {fault:?}: {}", seconds(took));
        }
    }
}
