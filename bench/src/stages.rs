//! The cost of each stage of a path without a network: both ends of a connection in one thread,
//! which moves the bytes. Caches are warm and no thread is woken, so this is the minimum for the
//! code of the program. A scenario adds system calls, wake-ups and locks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use trunkline::types::{Contract, DataType, Tick, Value};
use trunkline::{Batch, Event, OpenOptions, ReadingBuffer, SubscribeOptions, VariableRef, Write};
use trunkline_client::{ClientCore, ClientOptions, SubscriptionId};
use trunkline_engine::{Attempt, Caller, Engine, EngineOptions, Variable, Wake, Wakes};
use trunkline_net::Clock;
use trunkline_proto::Endpoint;
use trunkline_serve::{ServeOptions, Session};

use crate::Outcome;
use crate::hosting::{library, name, names};
use crate::record::Row;
use crate::statistics::median;
use crate::trunkline_calls::opened;

/// Name of the scenario in results.
pub const SCENARIO: &str = "stages";
/// Time spent on each path.
const PER_PATH: Duration = Duration::from_millis(150);
/// Bytes per request for output, as in the driver.
const BUDGET: usize = 1 << 16;

/// Paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Path {
    /// Writes with answers.
    Put,
    Get,
    /// Writes and their notifications to the same client.
    RoundTrip,
    /// Updates written in the engine's process, to a subscriber of `all`.
    Update,
    /// The same updates, taken one by one.
    UpdateEvents,
}

const PATHS: [Path; 5] = [
    Path::Put,
    Path::Get,
    Path::RoundTrip,
    Path::Update,
    Path::UpdateEvents,
];

const STAGES: [&str; 6] = [
    "1 write",
    "2 client out",
    "3 engine in",
    "4 engine out",
    "5 client in",
    "6 take",
];

impl Path {
    fn name(self) -> &'static str {
        match self {
            Path::Put => "put",
            Path::Get => "get",
            Path::RoundTrip => "round-trip",
            Path::Update => "update",
            Path::UpdateEvents => "update-events",
        }
    }
}

/// Measures every path.
pub fn measure() -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    for (path, items) in [
        (Path::Put, 1),
        (Path::Put, 1000),
        (Path::Get, 1),
        (Path::Get, 1000),
        (Path::RoundTrip, 1),
        (Path::RoundTrip, 100),
        (Path::RoundTrip, 500),
        (Path::Update, 1),
        (Path::Update, 1000),
        (Path::UpdateEvents, 1000),
    ] {
        rows.extend(measure_path(path, items)?);
    }
    rows.push(clock_row());
    Ok(rows)
}

fn measure_path(path: Path, items: usize) -> Outcome<Vec<Row>> {
    let mut pair = Pair::connect(items, path)?;
    let reading_the_clock = clock_cost_ns();
    let mut costs: [Vec<f64>; STAGES.len()] = Default::default();
    let start = Instant::now();
    while start.elapsed() < PER_PATH {
        let times = pair.once(path)?;
        for (cost, ends) in costs.iter_mut().zip(times.windows(2)) {
            cost.push((ends[1] - ends[0]).as_nanos() as f64);
        }
    }
    let mut rows = Vec::new();
    for (stage, cost) in STAGES.iter().zip(&costs) {
        let case = format!(
            "path={} items={items} stage={}",
            path.name(),
            stage.replace(' ', "-")
        );
        let mut row = Row::new(SCENARIO, "trunkline", case, "one thread");
        row.waiting = "none".to_owned();
        let whole = (median(cost).unwrap_or(0.0) - reading_the_clock).max(0.0);
        row.figure("ns_per_item", whole / items as f64);
        rows.push(row);
    }
    Ok(rows)
}

/// Repeats a path, for a profiler.
pub fn repeat(path: &str, items: usize, passes: u32) -> Outcome<()> {
    let path = PATHS.into_iter().find(|known| known.name() == path);
    let path = path.ok_or_else(|| format!("the paths are {}", PATHS.map(Path::name).join(", ")))?;
    let mut pair = Pair::connect(items, path)?;
    for _ in 0..passes {
        pair.once(path)?;
    }
    Ok(())
}

/// Returns the cost of stamping an update in the facade: a monotonic and a wall clock read.
fn clock_row() -> Row {
    let clock = Clock::new();
    let count = 100_000;
    let start = Instant::now();
    for _ in 0..count {
        std::hint::black_box((clock.now(), clock.wall()));
    }
    let mut row = Row::new(
        SCENARIO,
        "trunkline",
        "path=two-clock-reads".to_owned(),
        "one thread",
    );
    row.waiting = "none".to_owned();
    row.figure(
        "ns_per_item",
        start.elapsed().as_nanos() as f64 / f64::from(count),
    );
    row
}

fn clock_cost_ns() -> f64 {
    let mut costs: Vec<f64> = Vec::new();
    for _ in 0..1000 {
        let start = Instant::now();
        costs.push((Instant::now() - start).as_nanos() as f64);
    }
    median(&costs).unwrap_or(0.0)
}

/// Does nothing: the loop below polls the session itself.
struct NoWake;

impl Wake for NoWake {
    fn wake(&self) {}
}

/// Both ends of a connection.
struct Pair {
    clock: Clock,
    engine: Engine,
    caller: Caller,
    hosted: Vec<Arc<Variable>>,
    session: Session,
    client: ClientCore,
    variables: Vec<VariableRef>,
    subscription: Option<SubscriptionId>,
    bytes: Vec<u8>,
    batch: Batch,
    page: ReadingBuffer,
    value: f64,
}

impl Pair {
    fn connect(items: usize, path: Path) -> Outcome<Self> {
        let clock = Clock::new();
        let engine = Engine::new(EngineOptions::new("bench", 1));
        let library = library(items, DataType::F64, Duration::ZERO);
        engine
            .libraries()
            .deploy(&library, clock.now(), clock.wall())?;
        let caller = Caller::local(1, 0);
        let found = |index| engine.resolve(&caller, &name(index));
        let hosted = (0..items).map(found).collect::<Result<Vec<_>, _>>()?;
        let options = Arc::new(ServeOptions::default());
        let session = Session::new(
            engine.clone(),
            options,
            Caller::local(2, 0),
            Box::new(NoWake),
        );
        let client = ClientCore::new(ClientOptions::default());
        let mut pair = Self {
            clock,
            engine,
            caller,
            hosted,
            session,
            client,
            variables: Vec::new(),
            subscription: None,
            bytes: Vec::new(),
            batch: Batch::new(),
            page: ReadingBuffer::new(),
            value: 0.0,
        };
        let (now, wall) = (clock.now(), clock.wall());
        pair.session.handle_connected(now, wall);
        pair.client.handle_connected(now, wall);
        pair.exchange();
        let request = pair.client.open(&names(items), OpenOptions::default())?;
        pair.exchange();
        let answer = pair
            .client
            .take(request)
            .ok_or("the opening was not answered")?;
        let results = answer.map_err(|fault| fault.to_string())?;
        pair.variables = opened(results)?;
        let contract = match path {
            Path::RoundTrip => Contract::Latest,
            Path::Update | Path::UpdateEvents => Contract::ALL,
            Path::Put => return Ok(pair),
            Path::Get => {
                pair.update(1.0)?;
                return Ok(pair);
            }
        };
        let options = SubscribeOptions::default();
        let subscription = pair.client.subscribe(&names(items), contract, options)?;
        pair.subscription = Some(subscription);
        pair.exchange();
        while pair.client.next_event(now, subscription).is_some() {}
        Ok(pair)
    }

    /// Moves bytes between both ends until neither has any.
    fn exchange(&mut self) {
        while self.client_out() + self.engine_out() > 0 {}
    }

    /// Runs one pass of a path. Returns when each stage began and when the last one ended.
    fn once(&mut self, path: Path) -> Outcome<[Instant; STAGES.len() + 1]> {
        let mut times = [Instant::now(); STAGES.len() + 1];
        self.value += 1.0;
        let value = self.value;
        let (now, wall) = (self.clock.now(), self.clock.wall());
        let writes: Vec<Write> = match path {
            Path::Update | Path::UpdateEvents | Path::Get => Vec::new(),
            _ => self
                .variables
                .iter()
                .map(|v| Write::new(*v, Value::F64(value)))
                .collect(),
        };
        let (mut request, mut batch) = (None, None);
        times[0] = Instant::now();
        match path {
            Path::Put => batch = Some(self.client.write(writes)?),
            Path::Get => {
                let page = std::mem::take(&mut self.page);
                request = Some(self.client.read_into(&self.variables, page)?);
            }
            Path::RoundTrip => self.client.write_untracked(writes, Tick::MAX)?,
            Path::Update | Path::UpdateEvents => self.update(value)?,
        }
        times[1] = Instant::now();
        self.bytes.clear();
        while self.client.poll_output(now, wall, BUDGET, &mut self.bytes) {}
        times[2] = Instant::now();
        self.session.handle_input(now, wall, &self.bytes);
        times[3] = Instant::now();
        self.bytes.clear();
        while self.session.poll_output(now, wall, BUDGET, &mut self.bytes) {}
        times[4] = Instant::now();
        self.client.handle_input(now, wall, &self.bytes);
        times[5] = Instant::now();
        let taken = match (request, batch, self.subscription) {
            (Some(request), _, _) => match self.client.take(request) {
                Some(Ok(page)) => {
                    self.page = page;
                    self.page.values::<f64>().flatten().count()
                }
                other => return Err(format!("instead of readings: {other:?}").into()),
            },
            (_, Some(batch), _) => self
                .client
                .take_outcomes(batch)
                .ok_or("the writes were not answered")?
                .len(),
            (_, _, Some(subscription)) if path == Path::UpdateEvents => {
                self.take_events(now, subscription, value)?
            }
            (_, _, Some(subscription)) => self.take_readings(now, subscription, value)?,
            _ => 0,
        };
        times[6] = Instant::now();
        if taken == self.variables.len() {
            Ok(times)
        } else {
            Err(format!("{taken} of {} items came back", self.variables.len()).into())
        }
    }

    /// Like a program that hosts the variables, with one clock read.
    fn update(&mut self, value: f64) -> Outcome<()> {
        let (now, wall) = (self.clock.now(), self.clock.wall());
        let mut wakes = Wakes::new();
        for variable in &self.hosted {
            let value = Value::F64(value);
            let write = trunkline_engine::Write::value(&value);
            let attempt =
                self.engine
                    .try_write(&self.caller, now, wall, variable, &write, &mut wakes);
            if !matches!(attempt, Attempt::Done(_)) {
                return Err("a write had to wait".into());
            }
        }
        Ok(())
    }

    fn take_readings(
        &mut self,
        now: Tick,
        subscription: SubscriptionId,
        value: f64,
    ) -> Outcome<usize> {
        let mut count = 0;
        while self
            .client
            .take_batch(now, subscription, 1000, &mut self.batch)
        {
            for reading in self.batch.readings() {
                if reading.get::<f64>() != Some(value) {
                    return Err(format!("instead of the reading: {reading:?}").into());
                }
                count += 1;
            }
            if let Some(event) = self.batch.event() {
                return Err(format!("instead of a reading: {event:?}").into());
            }
        }
        Ok(count)
    }

    fn take_events(
        &mut self,
        now: Tick,
        subscription: SubscriptionId,
        value: f64,
    ) -> Outcome<usize> {
        let mut count = 0;
        while let Some(event) = self.client.next_event(now, subscription) {
            match event {
                Event::Reading { reading, .. } if reading.sample.value == Value::F64(value) => {
                    count += 1;
                }
                other => return Err(format!("instead of the reading: {other:?}").into()),
            }
        }
        Ok(count)
    }

    fn client_out(&mut self) -> usize {
        let (now, wall) = (self.clock.now(), self.clock.wall());
        self.bytes.clear();
        while self.client.poll_output(now, wall, BUDGET, &mut self.bytes) {}
        self.session.handle_input(now, wall, &self.bytes);
        self.bytes.len()
    }

    fn engine_out(&mut self) -> usize {
        let (now, wall) = (self.clock.now(), self.clock.wall());
        self.bytes.clear();
        while self.session.poll_output(now, wall, BUDGET, &mut self.bytes) {}
        self.client.handle_input(now, wall, &self.bytes);
        self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_brings_every_item_back() {
        for path in PATHS {
            for items in [1, 30] {
                let mut sut = Pair::connect(items, path).unwrap();
                for _ in 0..3 {
                    sut.once(path)
                        .unwrap_or_else(|e| panic!("{path:?} {items}: {e}"));
                }
            }
        }
    }
}
