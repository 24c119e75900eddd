//! T1: one value shared by the threads of a process, with and without a timestamp.

use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime};

use trunkline::types::{
    DataType, Fifo, LibraryDefinition, Properties, Scope, Timestamp, VariableDefinition,
};
use trunkline::{Engine, EngineOptions, local};
use trunkline_engine::realtime::{RtReader, RtWriter};
use trunkline_net::Clock;
use trunkline_ring::{LastValue, RtCell};

use super::seqlock::Seqlock;
use super::{Cell, Contender, Timed};
use crate::Outcome;

/// The timestamp of systems that take one. Reading a clock is a separate cell.
const STAMP: i64 = 1_767_225_600_000_000_000;

/// The operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    Read {
        stamped: bool,
    },
    Write {
        stamped: bool,
    },
    /// Writes, reads and compares in one iteration.
    WriteAndRead {
        stamped: bool,
    },
    Clock,
}

/// Returns all cells of T1.
pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for stamped in [false, true] {
        cases.push(Case::Read { stamped });
        cases.push(Case::Write { stamped });
        cases.push(Case::WriteAndRead { stamped });
    }
    cases.push(Case::Clock);
    cases
}

trait Holder: 'static {
    /// The value with its metadata.
    type Held;
    fn write(&mut self, value: f64);
    fn read(&mut self) -> Self::Held;
    fn value(held: &Self::Held) -> f64;
}

/// Returns the systems of a cell.
pub(super) fn cell(case: Case) -> Outcome<Cell> {
    let (name, stamped) = match case {
        Case::Read { stamped } => ("read", stamped),
        Case::Write { stamped } => ("write", stamped),
        Case::WriteAndRead { stamped } => ("write-read", stamped),
        Case::Clock => {
            return Ok(Cell {
                case: "op=clock".to_owned(),
                waiting: "none",
                contenders: clocks(),
            });
        }
    };
    let mut contenders = Vec::new();
    if stamped {
        contenders.push(contender("mutex", case, Mutex::new((0.0, 0_i64))));
        contenders.push(contender("seqlock", case, Locked(Seqlock::<2>::new())));
        contenders.push(contender("seqlock-one-writer", case, Seqlock::<2>::new()));
        contenders.push(contender("last-value", case, Last::<2>::new()));
        // The words of an update: value, two timestamps, quality and writer.
        contenders.push(contender("last-value-4", case, Last::<4>::new()));
        contenders.push(contender("rt-cell", case, Words::<2>(RtCell::new(2))));
    } else {
        contenders.push(contender("atomic", case, AtomicU64::new(0)));
        contenders.push(contender("mutex", case, Mutex::new(0.0)));
        contenders.push(contender("seqlock", case, Locked(Seqlock::<1>::new())));
        contenders.push(contender("seqlock-one-writer", case, Seqlock::<1>::new()));
        contenders.push(contender("last-value", case, Last::<1>::new()));
        contenders.push(contender("rt-cell", case, Words::<1>(RtCell::new(1))));
    }
    contenders.push(contender("rt-variable", case, Ends::new(stamped)?));
    contenders.push(contender("variable", case, Handle::new(stamped)?));
    Ok(Cell {
        case: format!("op={name} stamp={}", if stamped { "yes" } else { "no" }),
        waiting: "none",
        contenders,
    })
}

fn contender<H: Holder>(system: &'static str, case: Case, mut holder: H) -> Contender {
    let mut last = 1.0;
    holder.write(last);
    Contender::new(system, move |count| {
        let holder = black_box(&mut holder);
        let mut wrong = 0;
        let start = Instant::now();
        match case {
            Case::Write { .. } => {
                for number in 0..count {
                    holder.write(number as f64);
                }
                last = (count - 1) as f64;
            }
            Case::WriteAndRead { .. } => {
                for number in 0..count {
                    let value = number as f64;
                    holder.write(value);
                    wrong += u64::from(H::value(&holder.read()) != value);
                }
                last = (count - 1) as f64;
            }
            Case::Read { .. } | Case::Clock => {
                for _ in 0..count {
                    black_box(holder.read());
                }
            }
        }
        let elapsed = start.elapsed();
        wrong += u64::from(H::value(&holder.read()) != last);
        Timed { elapsed, wrong }
    })
}

fn clocks() -> Vec<Contender> {
    fn clock<T>(system: &'static str, read: impl Fn(Clock) -> T + 'static) -> Contender {
        Contender::new(system, move |count| {
            let clock = Clock::new();
            let start = Instant::now();
            for _ in 0..count {
                black_box(read(clock));
            }
            Timed {
                elapsed: start.elapsed(),
                wrong: 0,
            }
        })
    }
    vec![
        clock("wall-clock", |_| SystemTime::now()),
        clock("monotonic-clock", |clock| clock.now()),
        clock("both-clocks", |clock| clock.moment()),
    ]
}

impl Holder for AtomicU64 {
    type Held = f64;
    fn write(&mut self, value: f64) {
        self.store(value.to_bits(), Ordering::Release);
    }
    fn read(&mut self) -> f64 {
        f64::from_bits(self.load(Ordering::Acquire))
    }
    fn value(held: &f64) -> f64 {
        *held
    }
}

impl Holder for Mutex<f64> {
    type Held = f64;
    fn write(&mut self, value: f64) {
        // A shared reference, like any other thread.
        let shared: &Self = self;
        if let Ok(mut target) = shared.lock() {
            *target = value;
        }
    }
    fn read(&mut self) -> f64 {
        let shared: &Self = self;
        shared.lock().map_or(f64::NAN, |value| *value)
    }
    fn value(held: &f64) -> f64 {
        *held
    }
}

impl Holder for Mutex<(f64, i64)> {
    type Held = (f64, i64);
    fn write(&mut self, value: f64) {
        // A shared reference, like any other thread.
        let shared: &Self = self;
        if let Ok(mut target) = shared.lock() {
            *target = (value, STAMP);
        }
    }
    fn read(&mut self) -> (f64, i64) {
        let shared: &Self = self;
        shared.lock().map_or((f64::NAN, 0), |value| *value)
    }
    fn value(held: &(f64, i64)) -> f64 {
        held.0
    }
}

/// `N` words: the value and its timestamps.
fn words<const N: usize>(value: f64) -> [u64; N] {
    let mut words = [STAMP as u64; N];
    words[0] = value.to_bits();
    words
}

/// A sequence lock with several writers.
struct Locked<const N: usize>(Seqlock<N>);

impl<const N: usize> Holder for Locked<N> {
    type Held = [u64; N];
    fn write(&mut self, value: f64) {
        self.0.lock_and_write(&words(value));
    }
    fn read(&mut self) -> [u64; N] {
        let mut out = [0; N];
        self.0.read(&mut out);
        out
    }
    fn value(held: &[u64; N]) -> f64 {
        f64::from_bits(held[0])
    }
}

impl<const N: usize> Holder for Seqlock<N> {
    type Held = [u64; N];
    fn write(&mut self, value: f64) {
        Seqlock::write(self, &words(value));
    }
    fn read(&mut self) -> [u64; N] {
        let mut out = [0; N];
        Seqlock::read(self, &mut out);
        out
    }
    fn value(held: &[u64; N]) -> f64 {
        f64::from_bits(held[0])
    }
}

struct Last<const N: usize>(LastValue);

impl<const N: usize> Last<N> {
    fn new() -> Self {
        Self(LastValue::new(N))
    }
}

impl<const N: usize> Holder for Last<N> {
    type Held = Option<[u64; N]>;
    fn write(&mut self, value: f64) {
        self.0.publish(&words::<N>(value));
    }
    #[inline(always)]
    fn read(&mut self) -> Option<[u64; N]> {
        let mut out = [0; N];
        self.0.read(&mut out).complete.then_some(out)
    }
    fn value(held: &Option<[u64; N]>) -> f64 {
        held.map_or(f64::NAN, |words| f64::from_bits(words[0]))
    }
}

struct Words<const N: usize>(RtCell);

impl<const N: usize> Holder for Words<N> {
    type Held = Option<[u64; N]>;
    #[inline(always)]
    fn write(&mut self, value: f64) {
        // A write that finds the cell busy shows as a wrong reading.
        let _ = black_box(self.0.write(&words::<N>(value)));
    }
    #[inline(always)]
    fn read(&mut self) -> Option<[u64; N]> {
        let mut out = [0; N];
        self.0.read(&mut out).complete.then_some(out)
    }
    fn value(held: &Option<[u64; N]>) -> f64 {
        held.map_or(f64::NAN, |words| f64::from_bits(words[0]))
    }
}

/// Returns an engine in this process with one single-process variable.
fn engine(fifo: Fifo, stamped: bool) -> Outcome<Engine> {
    let properties = Properties {
        scope: Scope::Process,
        timestamps: stamped,
        fifo,
        ..Properties::new(DataType::F64)
    };
    host(properties)
}

/// The name of the variable of [`host`].
pub(super) const NAME: &str = "bench/value";

/// Returns an engine in this process with one variable.
pub(super) fn host(properties: Properties) -> Outcome<Engine> {
    let engine = Engine::start(EngineOptions::default())?;
    engine.deploy(&LibraryDefinition {
        name: "bench".to_owned(),
        description: String::new(),
        variables: vec![VariableDefinition {
            path: "value".to_owned(),
            properties: properties.into(),
        }],
    })?;
    Ok(engine)
}

/// A single-process variable through its handle: the whole write path and the whole sample.
struct Handle {
    variable: local::Variable<f64>,
    _engine: Engine,
}

impl Handle {
    fn new(stamped: bool) -> Outcome<Self> {
        let engine = engine(Fifo::Off, stamped)?;
        let variable = engine.variable::<f64>(NAME)?;
        Ok(Self {
            variable,
            _engine: engine,
        })
    }
}

impl Holder for Handle {
    type Held = Option<local::TypedReading<f64>>;
    fn write(&mut self, value: f64) {
        // A refused write shows as a wrong reading.
        let _ = black_box(self.variable.write(value));
    }
    fn read(&mut self) -> Self::Held {
        self.variable.read().ok()
    }
    fn value(held: &Self::Held) -> f64 {
        held.as_ref().map_or(f64::NAN, |held| held.value)
    }
}

/// A single-process variable with a single-element FIFO, through its real-time ends.
struct Ends {
    writer: RtWriter,
    reader: RtReader,
    _engine: Engine,
}

impl Ends {
    fn new(stamped: bool) -> Outcome<Self> {
        let engine = engine(Fifo::Single { length: 1 }, stamped)?;
        Ok(Self {
            writer: engine.rt_writer(NAME)?,
            reader: engine.rt_reader(NAME)?,
            _engine: engine,
        })
    }
}

impl Holder for Ends {
    type Held = trunkline_engine::realtime::RtReading<f64>;
    fn write(&mut self, value: f64) {
        black_box(self.writer.write(value, Timestamp::from_nanos(STAMP)));
    }
    fn read(&mut self) -> Self::Held {
        self.reader.read()
    }
    fn value(held: &Self::Held) -> f64 {
        held.value
    }
}
