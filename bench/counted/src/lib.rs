//! Paths whose instructions are counted instead of timed. Each is a function; the counter counts
//! only inside of it. `bench/instructions` runs and compares them. Time is simulated.

#![forbid(unsafe_code)]

pub mod plant;

use std::cell::Cell;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use trunkline_client::{
    ClientCore, ClientOptions, Event, OpenOptions, SubscribeOptions, SubscriptionId,
};
use trunkline_engine::{Attempt, Caller, Engine, EngineOptions, Variable, Wake, Wakes, Write};
use trunkline_proto::Endpoint;
use trunkline_serve::{ServeOptions, Session};
use trunkline_types::alarm::{AlarmDefinition, AlarmKind, LimitLevel, Operand};
use trunkline_types::{Contract, DataType, Tick, Timestamp, Value};

use self::plant::{library, name, names, rights_by_name};

/// The result of anything here. An error is a sentence for the user.
pub type Outcome<T> = Result<T, Box<dyn Error>>;

/// Updates of a run.
const RUN: usize = 1000;
/// Variables that several subscribers share, as in W6.
const SHARED: usize = 100;
/// Passes of a path. The first one fills caches and buffers and is not counted.
const PASSES: usize = 20;
/// Bytes per request for output, as in the driver.
const BUDGET: usize = 1 << 16;

/// Names of the paths.
pub const PATHS: [&str; 7] = [
    "write",
    "write-4-alarms",
    "write-by-rules",
    "encode",
    "decode",
    "fan-out-1",
    "fan-out-32",
];

/// The simulated time: it passes when it is read.
struct Clock(Cell<u64>);

impl Clock {
    fn new() -> Self {
        Self(Cell::new(1))
    }

    fn now(&self) -> Tick {
        self.0.set(self.0.get() + 100);
        Tick::from_nanos(self.0.get())
    }

    fn wall(&self) -> Timestamp {
        Timestamp::from_nanos(1_790_000_000_000_000_000 + self.0.get() as i64)
    }
}

/// Does nothing: the loops here poll the sessions themselves.
struct NoWake;

impl Wake for NoWake {
    fn wake(&self) {}
}

/// One subscriber and its connection.
struct End {
    session: Session,
    client: ClientCore,
    subscription: SubscriptionId,
    bytes: Vec<u8>,
}

/// An engine and its subscribers, in one thread.
struct Rig {
    clock: Clock,
    engine: Engine,
    /// The variables, each with its writer.
    variables: Vec<(Arc<Variable>, Caller)>,
    ends: Vec<End>,
    value: f64,
    /// Writes try the short path first.
    short: bool,
}

/// Counts a path and prints its number of items.
pub fn run(path: &str) -> Outcome<usize> {
    let (variables, contract, subscribers) = match path {
        "write" | "write-4-alarms" | "write-by-rules" => (1, Contract::Latest, 1),
        "encode" | "decode" => (RUN, Contract::ALL, 1),
        "fan-out-1" => (SHARED, Contract::ALL, 1),
        "fan-out-32" => (SHARED, Contract::ALL, 32),
        _ => return Err(format!("the paths are {}", PATHS.join(", ")).into()),
    };
    let has_alarms = path == "write-4-alarms";
    let mut rig = Rig::new(variables, contract, subscribers, has_alarms)?;
    if path == "write-by-rules" {
        let rights = rights_by_name()?;
        for (_, caller) in &mut rig.variables {
            caller.rights = rights.clone();
        }
    }
    for pass in 0..=PASSES {
        let is_counted = pass > 0;
        let writes = match path {
            "write" | "write-4-alarms" | "write-by-rules" if is_counted => counted_write(&mut rig)?,
            "write" | "write-4-alarms" | "write-by-rules" | "encode" | "decode" => {
                rig.write(RUN)?
            }
            _ if is_counted => counted_fan_out(&mut rig)?,
            _ => rig.fan_out()?,
        };
        if path == "encode" && is_counted {
            counted_encode(&mut rig.ends[0], &rig.clock);
        } else {
            rig.ends.iter_mut().for_each(|end| end.encode(&rig.clock));
        }
        if path == "decode" && is_counted {
            counted_decode(&mut rig.ends[0], &rig.clock);
        } else {
            rig.ends.iter_mut().for_each(|end| end.decode(&rig.clock));
        }
        let wanted = if path.starts_with("write") { 1 } else { writes };
        rig.check(wanted)?;
    }
    let each = if path.starts_with("fan-out") {
        SHARED * subscribers
    } else {
        RUN
    };
    Ok(PASSES * each)
}

/// The write path: one variable, one subscriber of the newest value. With four limit alarms, no value
/// changes their states. With rules, the writer has the rights of rules for names.
#[inline(never)]
fn counted_write(rig: &mut Rig) -> Outcome<usize> {
    rig.write(RUN)
}

/// Encoding: from the feed to bytes for the connection.
#[inline(never)]
fn counted_encode(end: &mut End, clock: &Clock) {
    end.encode(clock);
}

/// Decoding: from bytes to queued readings.
#[inline(never)]
fn counted_decode(end: &mut End, clock: &Clock) {
    end.decode(clock);
}

/// Fan-out: all work of the engine for its subscribers.
#[inline(never)]
fn counted_fan_out(rig: &mut Rig) -> Outcome<usize> {
    rig.fan_out()
}

impl End {
    fn new(engine: &Engine, clock: &Clock, variables: usize, contract: Contract) -> Outcome<Self> {
        let options = Arc::new(ServeOptions::default());
        let mut session = Session::new(
            engine.clone(),
            options,
            Caller::local(2, 0),
            Box::new(NoWake),
        );
        let mut client = ClientCore::new(ClientOptions::default());
        session.handle_connected(clock.now(), clock.wall());
        client.handle_connected(clock.now(), clock.wall());
        exchange(&mut session, &mut client, clock);
        let names = names(variables);
        let request = client.open(&names, OpenOptions::default())?;
        exchange(&mut session, &mut client, clock);
        let answer = client.take(request).ok_or("the opening was not answered")?;
        answer.map_err(|fault| fault.to_string())?;
        let subscription = client.subscribe(&names, contract, SubscribeOptions::default())?;
        exchange(&mut session, &mut client, clock);
        while client.next_event(clock.now(), subscription).is_some() {}
        Ok(Self {
            session,
            client,
            subscription,
            bytes: Vec::new(),
        })
    }

    fn encode(&mut self, clock: &Clock) {
        let (now, wall) = (clock.now(), clock.wall());
        while self.session.poll_output(now, wall, BUDGET, &mut self.bytes) {}
    }

    fn decode(&mut self, clock: &Clock) {
        let (now, wall) = (clock.now(), clock.wall());
        self.client.handle_input(now, wall, &self.bytes);
        self.bytes.clear();
    }
}

/// Four limits that no value reaches.
fn limits() -> Vec<AlarmDefinition> {
    let limits = [
        (LimitLevel::HiHi, 2e9),
        (LimitLevel::Hi, 1e9),
        (LimitLevel::Lo, -1e9),
        (LimitLevel::LoLo, -2e9),
    ];
    let alarms = limits.map(|(level, limit)| {
        AlarmDefinition::new(AlarmKind::Limit {
            level,
            limit: Operand::Constant(limit),
            deadband: 1.0,
        })
    });
    alarms.to_vec()
}

/// Moves bytes between both ends until neither has any.
fn exchange(session: &mut Session, client: &mut ClientCore, clock: &Clock) {
    let mut bytes = Vec::new();
    loop {
        let (now, wall) = (clock.now(), clock.wall());
        bytes.clear();
        while client.poll_output(now, wall, BUDGET, &mut bytes) {}
        let mut moved = bytes.len();
        session.handle_input(now, wall, &bytes);
        bytes.clear();
        while session.poll_output(now, wall, BUDGET, &mut bytes) {}
        moved += bytes.len();
        client.handle_input(now, wall, &bytes);
        if moved == 0 {
            return;
        }
    }
}

impl Rig {
    fn new(
        variables: usize,
        contract: Contract,
        subscribers: usize,
        has_alarms: bool,
    ) -> Outcome<Self> {
        let (clock, caller) = (Clock::new(), Caller::local(1, 0));
        let engine = Engine::new(EngineOptions::new("bench", 1));
        let mut library = library(variables, DataType::F64, Duration::ZERO);
        if has_alarms {
            for variable in &mut library.variables {
                Arc::make_mut(&mut variable.properties).alarms = limits();
            }
        }
        engine
            .libraries()
            .deploy(&library, clock.now(), clock.wall())?;
        let found = |index| engine.resolve(&caller, &name(index));
        let opened = (0..variables).map(found).collect::<Result<Vec<_>, _>>()?;
        // Each handle of a program is a separate writer.
        let callers = (1000..).map(|session| Caller::local(session, 0));
        let opened = opened.into_iter().zip(callers).collect();
        let ends = (0..subscribers).map(|_| End::new(&engine, &clock, variables, contract));
        let ends = ends.collect::<Outcome<Vec<_>>>()?;
        Ok(Self {
            clock,
            engine,
            variables: opened,
            ends,
            value: 0.0,
            short: contract == Contract::ALL,
        })
    }

    /// Writes the variables in turn, with one clock read, as a scan does.
    fn write(&mut self, count: usize) -> Outcome<usize> {
        let (now, wall) = (self.clock.now(), self.clock.wall());
        let mut wakes = Wakes::new();
        for (variable, caller) in self.variables.iter().cycle().take(count) {
            self.value += 1.0;
            let value = Value::F64(self.value);
            if self.short {
                // Like a program in the engine's process.
                if variable.is_plain()
                    && self.engine.is_clock_settled()
                    && variable
                        .write_plain(caller, wall, &value, &mut wakes)
                        .is_some()
                {
                    continue;
                }
            }
            let attempt = self.engine.try_write(
                caller,
                now,
                wall,
                variable,
                &Write::value(&value),
                &mut wakes,
            );
            if !matches!(attempt, Attempt::Done(_)) {
                return Err("a write had to wait".into());
            }
        }
        Ok(count)
    }

    fn fan_out(&mut self) -> Outcome<usize> {
        let written = self.write(SHARED)?;
        self.ends.iter_mut().for_each(|end| end.encode(&self.clock));
        Ok(written)
    }

    /// Checks that every subscriber has all readings, and that the last one is the last write.
    fn check(&mut self, wanted: usize) -> Outcome<()> {
        for end in &mut self.ends {
            let (mut count, mut last) = (0, None);
            while let Some(event) = end.client.next_event(self.clock.now(), end.subscription) {
                if let Event::Reading { reading, .. } = event {
                    count += 1;
                    last = Some(reading.sample.value);
                }
            }
            if count != wanted || last != Some(Value::F64(self.value)) {
                return Err(format!("{count} of {wanted} updates came, the last {last:?}").into());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_brings_its_updates_to_the_client() {
        for path in PATHS {
            let items = run(path).unwrap_or_else(|error| panic!("{path}: {error}"));
            assert!(
                items >= PASSES * RUN || path == "fan-out-1",
                "{path}: {items}"
            );
        }
        assert!(run("other").is_err());
    }
}
