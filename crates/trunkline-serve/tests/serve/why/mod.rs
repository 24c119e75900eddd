//! Tests that `why` reports the cause of a fault. Each row injects one fault into a healthy engine, session
//! or client.

mod access;
mod delivery;
mod values;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use trunkline_client::Step;
use trunkline_engine::{Caller, Provider, Ticket, Wakes, Write as EngineWrite};
use trunkline_proto::message::why::{WhyStage, WhyVerdict};
use trunkline_proto::{Disconnect, Endpoint};
use trunkline_types::{Contract, DataType, Properties, Quality, Reason, Value};

use crate::rig::{Pair, World, define};

const NAME: &str = "rig/x";
const SECOND: Duration = Duration::from_secs(1);

/// One fault.
#[derive(Clone, Copy)]
struct Row {
    fault: &'static str,
    /// Injects the fault, and returns the answer of `why`.
    inject: fn() -> Vec<Step>,
    stage: WhyStage,
    /// A part of the sentence of the first fault, or of its remedy.
    says: &'static str,
    next: &'static str,
}

const fn row(
    fault: &'static str,
    inject: fn() -> Vec<Step>,
    stage: WhyStage,
    says: &'static str,
    next: &'static str,
) -> Row {
    Row {
        fault,
        inject,
        stage,
        says,
        next,
    }
}

fn world_with(change: impl FnOnce(&mut Properties)) -> World {
    World::with_library("rig", vec![define("x", DataType::F64, change)])
}

/// Returns a client of an engine with a healthy variable, which has been written once.
fn healthy() -> Pair {
    with(|_| {})
}

fn with(change: impl FnOnce(&mut Properties)) -> Pair {
    let world = world_with(change);
    world.publish(NAME, &Value::F64(1.0));
    Pair::on(&world)
}

/// Returns the steps that a program receives.
fn why(pair: &mut Pair, name: &str) -> Vec<Step> {
    let (now, _) = pair.world.time();
    let request = pair.client.explain(now, name).unwrap();
    pair.answer(request).unwrap()
}

struct Plc(Mutex<Option<String>>);

impl Provider for Plc {
    fn name(&self) -> Arc<str> {
        Arc::from("plc")
    }
    fn send(&self, _ticket: Ticket, _handle: u32, _raw: Value) {}
    fn request(&self, _ticket: Option<Ticket>, _handle: u32) {}
    fn error(&self) -> Option<String> {
        self.0.lock().unwrap().clone()
    }
}

fn of_plc(properties: &mut Properties) {
    properties.source = "plc:level".to_owned();
}

/// Returns a client of an engine with a variable whose source has published once.
fn provided(
    change: impl FnOnce(&mut Properties),
) -> (Pair, Arc<Plc>, trunkline_engine::ProviderId) {
    let world = world_with(|p| {
        of_plc(p);
        change(p);
    });
    let plc = Arc::new(Plc(Mutex::new(None)));
    let id = world
        .engine()
        .providers()
        .attach_source(Arc::clone(&plc) as Arc<_>)
        .unwrap();
    world.publish(NAME, &Value::F64(1.0));
    (Pair::on(&world), plc, id)
}

/// Returns the caller of another session of the same engine.
fn another(world: &World) -> Caller {
    world.caller()
}

fn write_as(world: &World, caller: &Caller, value: f64) {
    let (engine, (now, wall)) = (world.engine(), world.time());
    let variable = engine.resolve(caller, NAME).unwrap();
    let value = Value::F64(value);
    let write = EngineWrite::value(&value);
    engine.try_write(caller, now, wall, &variable, &write, &mut Wakes::new());
}

fn requote(world: &World, id: trunkline_engine::ProviderId, reason: Reason) {
    let (now, wall) = world.time();
    let quality = Quality::bad(reason);
    world
        .engine()
        .providers()
        .set_source_quality(id, quality, now, wall, &mut Wakes::new());
}

/// Makes updates arrive that the program does not take, and returns the answer of `why`.
fn untaken(contract: &str, updates: u32) -> Vec<Step> {
    let mut pair = healthy();
    pair.subscribe(&[NAME], contract);
    for n in 0..updates {
        pair.world.set(NAME, f64::from(n));
        pair.exchange();
    }
    why(&mut pair, NAME)
}

/// Makes updates wait while the client does not read, and returns the answer of `why`.
fn behind(contract: &str) -> Vec<Step> {
    let mut pair = healthy();
    let id = pair.subscribe(&[NAME], contract);
    pair.events(id);
    pair.capacity = 0;
    (0..50).for_each(|n| pair.world.set(NAME, f64::from(n)));
    pair.wake_session();
    // The request is carried out before there is room for updates again.
    let request = pair.client.why(NAME).unwrap();
    pair.client_sends();
    pair.turn_of_session();
    pair.capacity = 64 << 10;
    pair.answer(request).unwrap()
}

fn ended(mut pair: Pair, cause: Disconnect) -> Vec<Step> {
    let id = pair.subscribe(&[NAME], "latest");
    pair.events(id);
    pair.pass(SECOND);
    let (now, _) = pair.world.time();
    pair.session = None;
    pair.client.handle_disconnected(now, cause);
    pair.world.advance(10 * SECOND);
    why(&mut pair, NAME)
}

const fn all(elements: u32) -> Contract {
    Contract::All {
        elements,
        bytes: 1 << 20,
    }
}

/// Behaviour: B-14.
#[test]
fn why_names_the_cause_of_every_injected_fault() {
    let rows = [access::ROWS, values::ROWS, delivery::ROWS].concat();
    assert!(rows.len() >= 25, "{}", rows.len());
    let mut wrong = Vec::new();
    for row in rows {
        let steps = (row.inject)();
        let cause = steps.iter().find(|step| step.verdict == WhyVerdict::Fault);
        let is_named = cause.is_some_and(|cause| {
            cause.stage == row.stage
                && cause.sentence.contains(row.says)
                && cause.next.contains(row.next)
                && !cause.next.is_empty()
        });
        if !is_named {
            wrong.push(format!("{}: {cause:#?}\nof {steps:#?}", row.fault));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Behaviour: B-14.
#[test]
fn why_finds_no_problem_in_a_healthy_variable() {
    for contract in ["latest", "last:5", "first:5", "all:5", "sampled:100ms"] {
        let mut pair = healthy();
        let id = pair.subscribe(&[NAME], contract);
        pair.pass(SECOND);
        pair.events(id);
        let steps = why(&mut pair, NAME);
        let fine = |step: &Step| step.verdict == WhyVerdict::Ok && step.next.is_empty();
        assert!(steps.iter().all(fine), "{contract}: {steps:#?}");
        let stages = [
            WhyStage::Resolution,
            WhyStage::Library,
            WhyStage::Rights,
            WhyStage::Source,
            WhyStage::Filter,
            WhyStage::Buffer,
            WhyStage::Consumer,
        ];
        for stage in stages {
            assert!(
                steps.iter().any(|step| step.stage == stage),
                "{stage:?}: {steps:#?}"
            );
        }
    }
}
