//! What a write and a read cost beside what they cannot do without, in one run.
//!
//! ```text
//! cargo run --release -p trunkline-engine --example write_speed [NAME]
//! ```
//!
//! Every contender runs once per round, in turn, so that whatever disturbs the machine disturbs
//! them alike; the table gives the median of the rounds. With a name only the contenders whose name
//! contains it run, once and long, for a profiler.

// A measuring program reads the clock and prints.
#![allow(clippy::print_stdout, clippy::disallowed_methods)]
#![cfg_attr(shuttle, allow(unused))]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use trunkline_engine::{
    Caller, Consumer, Delivery, Engine, EngineOptions, Sink, Subscribe, Variable, Wake, Wakes,
    Write,
};
use trunkline_ring::LastValue;
use trunkline_types::ledger::EndedItem;
use trunkline_types::{
    Contract, DataType, LibraryDefinition, Properties, Tick, Timestamp, Value, VariableDefinition,
};

const ROUNDS: usize = 15;
const WRITES: u32 = 200_000;
const NOW: Tick = Tick::from_nanos(1);
const WALL: Timestamp = Timestamp::from_nanos(1_767_225_600_000_000_000);

type Round = Box<dyn FnMut(u32)>;

fn main() {
    let wanted = std::env::args().nth(1);
    let mut contenders = contenders();
    if let Some(wanted) = wanted {
        for (name, round) in contenders
            .iter_mut()
            .filter(|(name, _)| name.contains(&wanted))
        {
            println!("{name}");
            round(WRITES * 20);
        }
        return;
    }
    let mut nanos = vec![Vec::new(); contenders.len()];
    for _ in 0..ROUNDS {
        for ((_, round), nanos) in contenders.iter_mut().zip(&mut nanos) {
            let start = Instant::now();
            round(WRITES);
            nanos.push(start.elapsed().as_nanos() as f64 / f64::from(WRITES));
        }
    }
    for ((name, _), mut nanos) in contenders.into_iter().zip(nanos) {
        nanos.sort_by(f64::total_cmp);
        println!("{:7.1} ns  {name}", nanos[ROUNDS / 2]);
    }
}

fn contenders() -> Vec<(&'static str, Round)> {
    let mutex = parking_lot::Mutex::new(0.0_f64);
    let cell = LastValue::new(4);
    let locked = parking_lot::Mutex::new(LastValue::new(4));
    let read_cell = LastValue::new(4);
    read_cell.publish(&[1, 2, 3, 4]);
    vec![
        ("a mutex-protected f64, written", {
            Box::new(move |count| (0..count).for_each(|n| *mutex.lock() = black_box(f64::from(n))))
        }),
        ("a cell of 4 words, published", {
            Box::new(move |count| {
                for n in 0..count {
                    cell.publish(black_box(&[u64::from(n), 1, 2, 3]));
                }
            })
        }),
        ("a mutex around a cell of 4 words, published", {
            Box::new(move |count| {
                for n in 0..count {
                    locked.lock().publish(black_box(&[u64::from(n), 1, 2, 3]));
                }
            })
        }),
        ("write without timestamp, no subscriber", plain(false)),
        ("write with timestamp, no subscriber", plain(true)),
        ("write of a plain number, the short way", short(false)),
        ("write in wire form, no subscriber", wire()),
        ("write with a deadband that passes it", deadband()),
        ("write to 1,000 variables in turn", many()),
        (
            "write, one `latest`, drained every 100",
            subscribed(Contract::Latest, false),
        ),
        (
            "write, one `latest` of changes, drained every 100",
            subscribed(Contract::Latest, true),
        ),
        (
            "write, one `last:100`, drained every 100",
            subscribed(Contract::Last(100), false),
        ),
        (
            "write, one `all`, drained every 100",
            subscribed(Contract::ALL, false),
        ),
        ("a cell of 4 words, read", {
            Box::new(move |count| {
                let mut words = [0; 4];
                for _ in 0..count {
                    let _snapshot = black_box(read_cell.read(&mut words));
                    black_box(&words);
                }
            })
        }),
        ("read of a plain number, the short way", short(true)),
        ("read as wire form", read(false)),
        ("read as value", read(true)),
    ]
}

fn scene(count: usize, change: impl FnOnce(&mut Properties)) -> (Engine, Vec<Arc<Variable>>) {
    let engine = Engine::new(EngineOptions::new("speed", 1));
    let mut properties = Properties::new(DataType::F64);
    change(&mut properties);
    let properties = Arc::new(properties);
    let define = |n| VariableDefinition {
        path: format!("v{n}"),
        properties: Arc::clone(&properties),
    };
    let library = LibraryDefinition {
        name: "speed".to_owned(),
        description: String::new(),
        variables: (0..count).map(define).collect(),
    };
    let handles = engine.deploy(&library, NOW, WALL).unwrap_or_default();
    let variables = handles.iter().filter_map(|handle| engine.variable(*handle));
    let variables = variables.collect();
    (engine, variables)
}

fn put(engine: &Engine, caller: &Caller, variable: &Variable, value: f64, wakes: &mut Wakes) {
    let value = Value::F64(black_box(value));
    let write = Write::value(&value);
    black_box(engine.try_write(caller, NOW, WALL, variable, &write, wakes));
}

fn plain(timestamps: bool) -> Round {
    let (engine, variables) = scene(1, |properties| properties.timestamps = timestamps);
    let caller = Caller::local(1, 0);
    Box::new(move |count| {
        let mut wakes = Wakes::new();
        for n in 0..count {
            put(&engine, &caller, &variables[0], f64::from(n), &mut wakes);
        }
    })
}

fn short(reading: bool) -> Round {
    let (_engine, variables) = scene(1, |_| {});
    let caller = Caller::local(1, 0);
    Box::new(move |count| {
        let mut wakes = Wakes::new();
        for n in 0..count {
            let (variable, value) = (&variables[0], Value::F64(black_box(f64::from(n))));
            if !reading || n == 0 {
                black_box(variable.write_plain(&caller, WALL, &value, &mut wakes));
            } else {
                black_box(variable.read_plain(&caller));
            }
        }
    })
}

fn wire() -> Round {
    let (engine, variables) = scene(1, |_| {});
    let caller = Caller::local(1, 0);
    Box::new(move |count| {
        let mut wakes = Wakes::new();
        for n in 0..count {
            let bytes = black_box(f64::from(n)).to_le_bytes();
            let write = Write::wire(&bytes);
            black_box(engine.try_write(&caller, NOW, WALL, &variables[0], &write, &mut wakes));
        }
    })
}

fn deadband() -> Round {
    let (engine, variables) = scene(1, |properties| properties.deadband.user_percent = 0.1);
    let caller = Caller::local(1, 0);
    Box::new(move |count| {
        let mut wakes = Wakes::new();
        for n in 0..count {
            put(&engine, &caller, &variables[0], f64::from(n), &mut wakes);
        }
    })
}

fn many() -> Round {
    let (engine, variables) = scene(1000, |_| {});
    let caller = Caller::local(1, 0);
    Box::new(move |count| {
        let mut wakes = Wakes::new();
        for (n, variable) in (0..count).zip(variables.iter().cycle()) {
            put(&engine, &caller, variable, f64::from(n), &mut wakes);
        }
    })
}

fn subscribed(contract: Contract, only_changes: bool) -> Round {
    let (engine, variables) = scene(1, |_| {});
    let caller = Caller::local(1, 0);
    let mut consumer = Consumer::new(engine.clone(), Box::new(Silent));
    let wanted = Subscribe {
        only_changes,
        ..Subscribe::new(1, contract)
    };
    let subscribed = consumer.subscribe(&caller, &variables[0], wanted);
    assert!(subscribed.is_ok());
    Box::new(move |count| {
        let mut wakes = Wakes::new();
        for n in 0..count {
            put(&engine, &caller, &variables[0], f64::from(n), &mut wakes);
            if n % 100 == 99 {
                wakes.flush();
                consumer.drain(&mut Tap, &mut wakes);
            }
        }
    })
}

fn read(decoded: bool) -> Round {
    let (engine, variables) = scene(1, |_| {});
    put(
        &engine,
        &Caller::local(1, 0),
        &variables[0],
        1.0,
        &mut Wakes::new(),
    );
    Box::new(move |count| {
        for _ in 0..count {
            if decoded {
                black_box(variables[0].sample());
            } else {
                black_box(variables[0].update());
            }
        }
    })
}

struct Silent;

impl Wake for Silent {
    fn wake(&self) {}
}

struct Tap;

impl Sink for Tap {
    fn wants(&self) -> bool {
        true
    }
    fn deliver(&mut self, delivery: &Delivery<'_>) {
        black_box(delivery);
    }
    fn overrun(&mut self, _subscription: u32, _items: &[EndedItem]) {}
    fn gone(&mut self, _subscription: u32, _handle: u32) {}
}
