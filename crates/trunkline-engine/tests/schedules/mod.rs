//! Helpers for the shuttle tests: schedules, a wake-up to sleep on, and an engine.

#![allow(dead_code, reason = "each test program uses its own part")]

use std::sync::Arc;
use std::time::Duration;

use shuttle::sync::{Condvar, Mutex};
use trunkline_engine::{
    Attempt, Caller, Consumer, Engine, EngineOptions, Subscribe, Variable, Wake, Wakes, Write,
    WriteOutcome,
};
use trunkline_types::{Contract, DataType, Properties, Tick, Value};

use crate::rig::{ConsumerEvent, EPOCH, Got, START, define, library_of};

pub const NOW: Tick = Tick::from_nanos(1_000);

/// Runs `test` with `SHUTTLE_SCHEDULES` schedules (4,000 by default).
pub fn explore(test: impl Fn() + Send + Sync + Copy + 'static) {
    let schedules = std::env::var("SHUTTLE_SCHEDULES").ok();
    let schedules = schedules
        .and_then(|n| n.parse().ok())
        .unwrap_or(4_000_usize);
    shuttle::check_random(test, schedules.div_ceil(2));
    shuttle::check_pct(test, schedules.div_ceil(2), 3);
}

/// A wake-up on which a thread can sleep.
#[derive(Clone, Default)]
pub struct Bell(Arc<(Mutex<bool>, Condvar)>);

impl Bell {
    pub fn wait(&self) {
        let (rung, changed) = &*self.0;
        let mut rung = rung.lock().expect("no panic");
        while !*rung {
            rung = changed.wait(rung).expect("no panic");
        }
        *rung = false;
    }
}

impl Wake for Bell {
    fn wake(&self) {
        let (rung, changed) = &*self.0;
        *rung.lock().expect("no panic") = true;
        changed.notify_all();
    }
}

/// Returns an engine with the libraries `a`, `b` and `c`, each with the f64 variable `x`.
pub fn engine(stall: Duration) -> (Engine, Vec<Arc<Variable>>) {
    engine_with([stall; 3])
}

/// Like [`engine`], each variable with its own stall.
pub fn engine_with(stalls: [Duration; 3]) -> (Engine, Vec<Arc<Variable>>) {
    let engine = Engine::new(EngineOptions::new("sut", EPOCH));
    let caller = Caller::local(1, 0);
    let variables = [("a", stalls[0]), ("b", stalls[1]), ("c", stalls[2])];
    let variables = variables.map(|(library, stall)| {
        let mut properties = Properties::new(DataType::F64);
        properties.stall = stall;
        let definition = library_of(library, vec![define("x", properties)]);
        engine
            .libraries()
            .deploy(&definition, NOW, START)
            .expect("well formed");
        engine
            .resolve(&caller, &format!("{library}/x"))
            .expect("deployed")
    });
    (engine, variables.to_vec())
}

pub fn subscribe(consumer: &mut Consumer, id: u32, contract: Contract, variable: &Arc<Variable>) {
    consumer
        .subscribe(&Caller::local(1, 0), variable, Subscribe::new(id, contract))
        .expect("the variable can be subscribed");
}

pub fn try_write(engine: &Engine, session: u32, variable: &Variable, value: f64) -> Attempt {
    let value = Value::F64(value);
    let (caller, write) = (Caller::local(session, 0), Write::value(&value));
    engine.try_write(&caller, NOW, START, variable, &write, &mut Wakes::new())
}

pub fn write(engine: &Engine, session: u32, variable: &Variable, value: f64) {
    let attempt = try_write(engine, session, variable, value);
    assert!(
        matches!(attempt, Attempt::Done(WriteOutcome::Applied(_))),
        "{attempt:?}"
    );
}

pub fn of(events: &[ConsumerEvent], variable: &Variable) -> Vec<Got> {
    let got = events.iter().filter_map(|event| match event {
        ConsumerEvent::Update(got) if got.handle == variable.handle() => Some(got.clone()),
        _ => None,
    });
    got.collect()
}

pub fn has(events: &[ConsumerEvent], variable: &Variable, sequence: u64) -> bool {
    of(events, variable)
        .last()
        .is_some_and(|got| got.sequence >= sequence)
}
