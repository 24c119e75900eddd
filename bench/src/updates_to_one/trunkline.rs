//! W5 and W6 with Trunkline: the engine is in the writing process; clients subscribe `all`.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use trunkline::local::Variable;
use trunkline::types::{Contract, DataType, Level, Timestamp};
use trunkline::{Batch, Client, Engine, Event, SubscribeOptions};

use super::figures::{Share, Written, enter, take_with, taken_of};
use super::{PER_CALL, Stream, Taken, Window};
use crate::Outcome;
use crate::hosting::{library, name, names, start, url};
use crate::record::Row;
use crate::role::{Role, say};
use crate::trunkline_calls::PATIENCE;
use crate::usage::{others_cpu_ns, process_cpu_ns, thread_cpu_ns};

/// Longest wait of a write for the feed: longer than any subscriber needs unless it is stuck.
const STALL: Duration = Duration::from_secs(20);

/// Maximum number of readings that a subscriber takes at once. It checks each of them.
const AT_ONCE: usize = 1000;

/// The writer: one call per update, each with its own timestamp, or one call for all of them.
#[derive(Debug)]
struct Source {
    engine: Engine,
    variables: Vec<Variable<f64>>,
    batched: bool,
}

impl Source {
    fn new(variables: usize, batched: bool) -> Outcome<Self> {
        let engine = start(&library(variables, DataType::F64, STALL))?;
        let opened = (0..variables).map(|index| engine.variable::<f64>(&name(index)));
        let variables = opened.collect::<Result<_, _>>()?;
        Ok(Self {
            engine,
            variables,
            batched,
        })
    }

    /// Writes the updates in order: variable and value.
    fn write(&self, updates: &[(usize, f64)]) -> Outcome<()> {
        let writes = updates
            .iter()
            .map(|(variable, value)| (&self.variables[*variable], *value));
        if self.batched {
            for result in self.engine.write_many(writes) {
                result?;
            }
            return Ok(());
        }
        for (variable, value) in writes {
            variable.write(value)?;
        }
        Ok(())
    }

    fn url(&self) -> Outcome<String> {
        let address = self.engine.local_addrs().first().copied();
        Ok(url(address.ok_or("the engine listens nowhere")?))
    }
}

/// The near end: hosts the variables and writes them as fast as possible, one by one or, with
/// `batched`, 100 per call.
pub fn write_all(stream: Stream, batched: bool, row: &mut Row) -> Outcome<()> {
    let source = Source::new(stream.variables, batched)?;
    let settings = stream.settings().with("url", source.url()?);
    let mut far = Role::start("updates_to_one-trunkline", &settings)?;
    far.expect("SUBSCRIBED")?;
    let mut window = Window::open(stream.warm_up);
    let mut updates = [(0, 0.0); PER_CALL];
    let (mut count, mut others, mut in_window) = (0, 0, false);
    loop {
        for (at, update) in updates.iter_mut().enumerate() {
            let number = count as usize + at;
            *update = (
                number % stream.variables,
                (number / stream.variables + 1) as f64,
            );
        }
        source.write(&updates)?;
        count += PER_CALL as u64;
        let now = window.poll(count, || {
            in_window = true;
            others = others_cpu_ns();
            thread_cpu_ns()
        });
        if in_window && now >= window.end(stream.measured) {
            break;
        }
    }
    let measured = window.close(count, thread_cpu_ns());
    let others = others_cpu_ns().saturating_sub(others);
    let last = Instant::now();
    let ends: Vec<(usize, f64)> = (0..stream.variables)
        .map(|index| (index, f64::NAN))
        .collect();
    source.write(&ends)?;
    let taken = taken_of(&mut far)?;
    let by_writer = measured.ok_or("the measured time never began")?;
    let backlog = last.elapsed();
    enter(
        row,
        &Written {
            subscribers: stream.subscribers,
            count,
            by_writer,
            others_cpu_ns: others,
            backlog,
        },
        &taken,
    )
}

/// The far end: every subscriber is a client and takes every update, reading by reading.
pub fn take_all(stream: Stream, url: &str) -> Outcome<()> {
    let subscribed = AtomicUsize::new(0);
    take_with(stream.subscribers, |_| {
        take_one(stream, url, &subscribed).map_err(|error| error.to_string())
    })
}

fn take_one(stream: Stream, url: &str, subscribed: &AtomicUsize) -> Outcome<Share> {
    let client = Client::connect(url)?;
    client.wait_connected(PATIENCE)?;
    let subscription = client.subscribe(
        &names(stream.variables),
        Contract::ALL,
        SubscribeOptions::default(),
    )?;
    let mut taken = Taken::new(stream.variables);
    let (mut first_readings, mut ended) = (0, 0);
    let mut window = None;
    let mut newest = Timestamp::UNIX_EPOCH;
    let mut batch = Batch::new();
    while ended < stream.variables {
        if !subscription.next_batch(&mut batch, AT_ONCE, Some(PATIENCE)) {
            return Err("no update came".into());
        }
        for reading in batch.readings() {
            let sequence = reading.position().sequence;
            if sequence == 0 {
                first_readings += 1;
                if first_readings == stream.variables
                    && subscribed.fetch_add(1, Ordering::Relaxed) + 1 == stream.subscribers
                {
                    say("SUBSCRIBED");
                }
                continue;
            }
            let Some(value) = reading.get::<f64>() else {
                return Err(format!("a value of another type: {reading:?}").into());
            };
            if value.is_nan() {
                ended += 1;
                continue;
            }
            let is_right = sequence as f64 == value
                && reading.engine_timestamp() >= newest
                && reading.quality().level() == Level::Good
                && reading.lost().count() == Some(0);
            if !is_right && taken.out_of_order == 0 {
                eprintln!("not as it was written, and behind one of {newest:?}: {reading:?}");
            }
            newest = reading.engine_timestamp();
            taken.out_of_order += u64::from(!is_right);
            taken.take(reading.item() as usize, value);
            let window = window.get_or_insert_with(|| Window::open(stream.warm_up));
            if taken.count.is_multiple_of(256) {
                window.poll(taken.count, process_cpu_ns);
            }
        }
        match batch.event() {
            None | Some(Event::Connected { .. }) => {}
            other => return Err(format!("instead of a reading: {other:?}").into()),
        }
    }
    let measured = window.and_then(|window| window.close(taken.count, process_cpu_ns()));
    Ok(Share { taken, measured })
}
