//! The engine's calls alone, in one thread: writes and reads by form, options and subscription.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use trunkline::types::ledger::EndedItem;
use trunkline::types::{Contract, DataType, Properties, Tick, Timestamp, Value};
use trunkline_engine::{
    Attempt, Caller, Consumer, Delivery, Engine, EngineOptions, Sink, Subscribe, Variable, Wake,
    Wakes, Write,
};

use super::{Cell, Contender, Timed};
use crate::Outcome;
use crate::hosting::{library, name};

const NOW: Tick = Tick::from_nanos(1);
const WALL: Timestamp = Timestamp::from_nanos(1_767_225_600_000_000_000);
/// Writes between two drains of a subscription.
const DRAIN_EVERY: u64 = 100;

/// Writes to and reads from an engine without connections.
pub(super) fn cell() -> Outcome<Cell> {
    let subscribe = |contract| Subscribe::new(1, contract);
    let only_changes = Subscribe {
        only_changes: true,
        ..subscribe(Contract::Latest)
    };
    Ok(Cell {
        case: "op=engine".to_owned(),
        waiting: "none",
        contenders: vec![
            write("write", Sut::new(1, |_| {})?),
            write("write-unstamped", Sut::new(1, |p| p.timestamps = false)?),
            write(
                "write-deadband",
                Sut::new(1, |p| p.deadband.user_percent = 0.1)?,
            ),
            write("write-1000-variables", Sut::new(1000, |_| {})?),
            write_encoded(Sut::new(1, |_| {})?),
            write_fast(Sut::new(1, |_| {})?),
            write_subscribed("write-latest", subscribe(Contract::Latest))?,
            write_subscribed("write-latest-changes", only_changes)?,
            write_subscribed("write-last-100", subscribe(Contract::Last(100)))?,
            write_subscribed("write-all", subscribe(Contract::ALL))?,
            read("read", Sut::new(1, |_| {})?, |sut| {
                black_box(sut.variables[0].sample());
            }),
            read("read-encoded", Sut::new(1, |_| {})?, |sut| {
                black_box(sut.variables[0].update());
            }),
            read("read-fast-path", Sut::new(1, |_| {})?, |sut| {
                black_box(sut.variables[0].read_plain(&sut.caller));
            }),
        ],
    })
}

/// An engine, its variables, and the state of a writer.
struct Sut {
    engine: Engine,
    variables: Vec<Arc<Variable>>,
    caller: Caller,
    wakes: Wakes,
}

impl Sut {
    fn new(count: usize, change: impl FnOnce(&mut Properties)) -> Outcome<Self> {
        let engine = Engine::new(EngineOptions::new("bench", 1));
        let mut properties = Properties::new(DataType::F64);
        change(&mut properties);
        let properties = Arc::new(properties);
        let mut library = library(count, DataType::F64, Duration::ZERO);
        for variable in &mut library.variables {
            variable.properties = Arc::clone(&properties);
        }
        engine.libraries().deploy(&library, NOW, WALL)?;
        let caller = Caller::local(1, 0);
        let variables = (0..count)
            .map(|index| engine.resolve(&caller, &name(index)))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            engine,
            variables,
            caller,
            wakes: Wakes::new(),
        })
    }

    /// Writes to the variables in turn. Returns true if the write was carried out.
    fn write(&mut self, number: u64, write: &Write<'_>) -> bool {
        let variable = &self.variables[number as usize % self.variables.len()];
        let wakes = &mut self.wakes;
        let attempt = self
            .engine
            .try_write(&self.caller, NOW, WALL, variable, write, wakes);
        matches!(black_box(attempt), Attempt::Done(_))
    }
}

/// Calls `call` with the numbers of a round; it returns true if it did what it should.
fn contender(system: &'static str, mut call: impl FnMut(u64) -> bool + 'static) -> Contender {
    Contender::new(system, move |count| {
        let start = Instant::now();
        let done = (0..count).filter(|number| call(*number)).count() as u64;
        Timed {
            elapsed: start.elapsed(),
            wrong: count - done,
        }
    })
}

fn write(system: &'static str, mut sut: Sut) -> Contender {
    contender(system, move |number| {
        sut.write(number, &Write::value(&Value::F64(black_box(number as f64))))
    })
}

fn write_encoded(mut sut: Sut) -> Contender {
    contender("write-encoded", move |number| {
        let bytes = black_box(number as f64).to_le_bytes();
        sut.write(number, &Write::wire(&bytes))
    })
}

fn write_fast(mut sut: Sut) -> Contender {
    contender("write-fast-path", move |number| {
        let value = Value::F64(black_box(number as f64));
        let Sut {
            variables,
            caller,
            wakes,
            ..
        } = &mut sut;
        black_box(variables[0].write_plain(caller, WALL, &value, wakes)).is_some()
    })
}

fn write_subscribed(system: &'static str, subscribe: Subscribe) -> Outcome<Contender> {
    let mut sut = Sut::new(1, |_| {})?;
    let mut consumer = Consumer::new(sut.engine.clone(), Box::new(Silent));
    consumer.subscribe(&sut.caller, &sut.variables[0], subscribe)?;
    Ok(contender(system, move |number| {
        let value = Value::F64(black_box(number as f64));
        let is_done = sut.write(number, &Write::value(&value));
        if number % DRAIN_EVERY == DRAIN_EVERY - 1 {
            sut.wakes.flush();
            consumer.drain(&mut Discard, &mut sut.wakes);
        }
        is_done
    }))
}

fn read(system: &'static str, mut sut: Sut, read: impl Fn(&Sut) + 'static) -> Contender {
    let is_written = sut.write(0, &Write::value(&Value::F64(1.0)));
    contender(system, move |_| {
        read(&sut);
        is_written
    })
}

struct Silent;

impl Wake for Silent {
    fn wake(&self) {}
}

struct Discard;

impl Sink for Discard {
    fn wants(&self) -> bool {
        true
    }
    fn deliver(&mut self, delivery: &Delivery<'_>) {
        black_box(delivery);
    }
    fn overrun(&mut self, _subscription: u32, _items: &[EndedItem]) {}
    fn gone(&mut self, _subscription: u32, _handle: u32) {}
}
