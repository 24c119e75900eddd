//! `why` names the cause: each row injects one fault into a healthy engine, session or client.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use trunkline_client::{ClientOptions, Step, SubscribeOptions, Write};
use trunkline_engine::{
    Caller, Engine, EngineOptions, LeaseVerb, Origin, Provider, Rights, Ticket, Verb, Wakes,
    Write as EngineWrite,
};
use trunkline_proto::message::why::{WhyStage, WhyVerdict};
use trunkline_proto::{Disconnect, Endpoint, Negotiation, VersionRange};
use trunkline_serve::ServeOptions;
use trunkline_types::{Access, Contract, DataType, Properties, Quality, Reason, Scaling, Value};

use crate::rig::{Pair, World, client_options, define};

const NAME: &str = "rig/x";
const SECOND: Duration = Duration::from_secs(1);

/// One fault.
struct Row {
    fault: &'static str,
    /// Injects it and asks.
    inject: fn() -> Vec<Step>,
    stage: WhyStage,
    /// In the sentence of the first fault, and in what it says to do.
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

/// A healthy variable, written once, and a client.
fn healthy() -> Pair {
    with(|_| {})
}

fn with(change: impl FnOnce(&mut Properties)) -> Pair {
    let world = world_with(change);
    world.publish(NAME, &Value::F64(1.0));
    Pair::on(&world)
}

/// What a program is told.
fn why(pair: &mut Pair, name: &str) -> Vec<Step> {
    let (now, _) = pair.world.time();
    if let Some(step) = pair.client.explain_connection(now, name) {
        return vec![step];
    }
    let request = pair.client.why(name).unwrap();
    let trunkline_client::Answer::Why(mut steps) = pair.answer(request) else {
        panic!("no answer to why");
    };
    steps.extend(pair.client.explain_consumer(now, name));
    steps
}

struct Plc(Mutex<Option<String>>);

impl Provider for Plc {
    fn name(&self) -> Arc<str> {
        Arc::from("plc")
    }
    fn send(&self, _ticket: Ticket, _handle: u32, _raw: Value) {}
    fn request(&self, _ticket: Option<Ticket>, _handle: u32) {}
    fn trouble(&self) -> Option<String> {
        self.0.lock().unwrap().clone()
    }
}

fn of_plc(properties: &mut Properties) {
    properties.source = "plc:level".to_owned();
}

/// A variable with a source that has published once.
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
        .attach_source(Arc::clone(&plc) as Arc<_>)
        .unwrap();
    world.publish(NAME, &Value::F64(1.0));
    (Pair::on(&world), plc, id)
}

/// Another session of the same engine, of which nothing but its name matters.
fn another(world: &World) -> Caller {
    world.caller()
}

fn write_as(world: &World, caller: &Caller, value: f64) {
    let (engine, (now, wall)) = (world.engine(), world.time());
    let variable = engine.resolve(caller, NAME).unwrap();
    let value = Value::F64(value);
    let write = EngineWrite::value(&value);
    engine.try_write(caller, now, wall, variable, &write, &mut Wakes::new());
}

fn requote(world: &World, id: trunkline_engine::ProviderId, reason: Reason) {
    let (now, wall) = world.time();
    let quality = Quality::bad(reason);
    world
        .engine()
        .set_source_quality(id, quality, now, wall, &mut Wakes::new());
}

/// Updates arrive, and the program takes none of them.
fn untaken(contract: &str, updates: u32) -> Vec<Step> {
    let mut pair = healthy();
    pair.subscribe(&[NAME], contract);
    for n in 0..updates {
        pair.world.set(NAME, f64::from(n));
        pair.exchange();
    }
    why(&mut pair, NAME)
}

/// Nothing is read at the client's end while updates come; then it asks before it takes them.
fn behind(contract: &str) -> Vec<Step> {
    let mut pair = healthy();
    let id = pair.subscribe(&[NAME], contract);
    pair.events(id);
    pair.capacity = 0;
    (0..50).for_each(|n| pair.world.set(NAME, f64::from(n)));
    pair.wake_session();
    // The question is worked off before updates find room again.
    let request = pair.client.why(NAME).unwrap();
    pair.client_sends();
    pair.turn_of_session();
    pair.capacity = 64 << 10;
    match pair.answer(request) {
        trunkline_client::Answer::Why(steps) => steps,
        other => panic!("no answer: {other:?}"),
    }
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

const ROWS: &[Row] = &[
    // Resolution.
    row(
        "unknown name",
        || why(&mut healthy(), "rig/level"),
        WhyStage::Resolution,
        "no variable is named rig/level",
        "find",
    ),
    row(
        "a typing error",
        || why(&mut healthy(), "rjg/x"),
        WhyStage::Resolution,
        "no variable is named rjg/x",
        "try rig/x",
    ),
    row(
        "upper case",
        || why(&mut healthy(), "rig/X"),
        WhyStage::Resolution,
        "upper and lower case differ",
        "try rig/x",
    ),
    row(
        "a name that is none",
        || why(&mut healthy(), "rig//x"),
        WhyStage::Resolution,
        "",
        "correct the name",
    ),
    row(
        "host without address",
        || {
            let (host, text) = ("nowhere".to_owned(), "not known".to_owned());
            ended(healthy(), Disconnect::NameLookup { host, text })
        },
        WhyStage::Resolution,
        "\"nowhere\" has no address",
        "check its spelling",
    ),
    // Connection.
    row(
        "nobody listens there",
        || {
            let kind = std::io::ErrorKind::ConnectionRefused;
            ended(
                healthy(),
                Disconnect::Io {
                    kind,
                    text: "refused".to_owned(),
                },
            )
        },
        WhyStage::Connection,
        "stale",
        "is the engine running",
    ),
    row(
        "the engine is silent",
        || {
            let mut pair = healthy();
            let id = pair.subscribe(&[NAME], "latest");
            pair.events(id);
            // The other end stands still: nothing comes, and nothing says so.
            pair.session = None;
            for _ in 0..100 {
                pair.world.advance(SECOND / 10);
                let (now, wall) = pair.world.time();
                pair.client.handle_timeout(now, wall);
            }
            let cause = pair.client.wants_close().expect("it has noticed");
            let (now, _) = pair.world.time();
            pair.client.handle_disconnected(now, cause);
            why(&mut pair, NAME)
        },
        WhyStage::Connection,
        "nothing came from the other end for",
        "stands still",
    ),
    row(
        "the connection was cut",
        || ended(healthy(), Disconnect::PeerClosed),
        WhyStage::Connection,
        "s old, and stale",
        "stopped or killed",
    ),
    row(
        "the program there is none of ours",
        || {
            let world = world_with(|_| {});
            let mut pair = Pair::offline(&world, ServeOptions::default(), client_options());
            let (now, wall) = world.time();
            pair.client.handle_connected(now, wall);
            pair.client
                .handle_input(now, wall, b"HTTP/1.1 400 Bad Request\r\n\r\n");
            let cause = pair.client.wants_close().expect("it has noticed");
            pair.client.handle_disconnected(now, cause);
            why(&mut pair, NAME)
        },
        WhyStage::Connection,
        "does not speak Trunkline's protocol",
        "check host and port",
    ),
    row(
        "versions that do not meet",
        || {
            let world = world_with(|_| {});
            let negotiation = Negotiation {
                versions: VersionRange { min: 200, max: 201 },
                ..Negotiation::OURS
            };
            let options = ClientOptions {
                negotiation,
                ..client_options()
            };
            let mut pair = Pair::offline(&world, ServeOptions::default(), options);
            pair.connect();
            why(&mut pair, NAME)
        },
        WhyStage::Version,
        "200",
        "update",
    ),
    // Rights.
    row(
        "the variable is write-only",
        || why(&mut with(|p| p.access = Access::WriteOnly), NAME),
        WhyStage::Rights,
        "write-only",
        "change its access",
    ),
    row(
        "the caller may not read",
        || {
            let world = world_with(|_| {});
            world.permit(Rights {
                read: false,
                ..Rights::READ
            });
            why(&mut Pair::on(&world), NAME)
        },
        WhyStage::Rights,
        "you may not read",
        "ask for the right",
    ),
    row(
        "a write to a read-only variable",
        || {
            let mut pair = with(|p| p.access = Access::ReadOnly);
            let x = pair.variable(NAME);
            pair.write([(x, 2.0)]);
            why(&mut pair, NAME)
        },
        WhyStage::Filter,
        "read-only",
        "change `access`",
    ),
    row(
        "leased by another",
        || {
            let mut pair = healthy();
            let (other, x) = (another(&pair.world), pair.variable(NAME));
            let engine = pair.world.engine();
            let handle = engine.resolve(&other, NAME).unwrap().handle();
            let verb = LeaseVerb::Acquire(60 * SECOND);
            engine
                .lease(&other, pair.world.time().0, handle, verb, None)
                .unwrap();
            pair.write([(x, 2.0)]);
            why(&mut pair, NAME)
        },
        WhyStage::Rights,
        "leased by",
        "lease",
    ),
    row(
        "another is its single writer",
        || {
            let mut pair = with(|p| p.single_writer = true);
            let (other, x) = (another(&pair.world), pair.variable(NAME));
            write_as(&pair.world, &other, 5.0);
            pair.write([(x, 2.0)]);
            why(&mut pair, NAME)
        },
        WhyStage::Rights,
        "single writer",
        "takes over",
    ),
    // Library.
    row(
        "its library was never deployed",
        || why(&mut healthy(), "boiler/level"),
        WhyStage::Library,
        "library boiler is not deployed",
        "trunkline deploy boiler.toml",
    ),
    row(
        "its library was undeployed",
        || {
            let mut pair = healthy();
            pair.world.undeploy("rig");
            why(&mut pair, NAME)
        },
        WhyStage::Library,
        "library rig is not deployed",
        "trunkline deploy rig.toml",
    ),
    row(
        "its library is stopped",
        || {
            let mut pair = healthy();
            let (now, wall) = pair.world.time();
            pair.world
                .engine()
                .stop_library("rig", now, wall, &mut Wakes::new())
                .unwrap();
            why(&mut pair, NAME)
        },
        WhyStage::Library,
        "library rig is stopped",
        "trunkline library start rig",
    ),
    // Source.
    row(
        "no I/O server serves its source",
        || why(&mut with(of_plc), NAME),
        WhyStage::Source,
        "plc:level is not served",
        "[[io]]",
    ),
    row(
        "its provider process is gone",
        || {
            let (mut pair, _, id) = provided(|_| {});
            let (now, wall) = pair.world.time();
            let reason = Reason::ProviderGone;
            pair.world
                .engine()
                .detach_provider(id, reason, now, wall, &mut Wakes::new());
            why(&mut pair, NAME)
        },
        WhyStage::Source,
        "plc is not running",
        "start",
    ),
    row(
        "its driver fails",
        || {
            let (mut pair, plc, id) = provided(|_| {});
            *plc.0.lock().unwrap() = Some("line 3 is broken".to_owned());
            requote(&pair.world, id, Reason::DeviceFailure);
            why(&mut pair, NAME)
        },
        WhyStage::Source,
        "line 3 is broken",
        "repair what it names",
    ),
    row(
        "its source says that the value is bad",
        || {
            let (mut pair, _, id) = provided(|_| {});
            requote(&pair.world, id, Reason::SensorFailure);
            why(&mut pair, NAME)
        },
        WhyStage::Source,
        "its value is bad: sensor-failure",
        "look at its source",
    ),
    row(
        "a raw value that cannot be scaled",
        || {
            let scaling = Scaling::SquareRoot {
                raw: [0.0, 10.0],
                eng: [0.0, 100.0],
            };
            let (mut pair, ..) = provided(|p| p.scaling = Some(scaling));
            let raw = Value::F64(-5.0);
            let mut write = EngineWrite::value(&raw);
            write.origin = Origin::SourceRaw;
            pair.world.try_write(NAME, &write);
            why(&mut pair, NAME)
        },
        WhyStage::Source,
        "wrong side of 0",
        "correct its `scaling`",
    ),
    row(
        "nothing was ever written",
        || why(&mut Pair::on(&world_with(|_| {})), NAME),
        WhyStage::Source,
        "nothing has been written",
        "write it once",
    ),
    row(
        "its source fell silent",
        || {
            let mut pair = with(|p| p.max_age = Some(2 * SECOND));
            pair.pass(5 * SECOND);
            why(&mut pair, NAME)
        },
        WhyStage::Source,
        "later than its max_age of 2s",
        "went silent",
    ),
    row(
        "an alias of what is not there",
        || {
            let world = world_with(|p| p.alias = "plant/x".to_owned());
            why(&mut Pair::on(&world), NAME)
        },
        WhyStage::Source,
        "plant/x is not deployed",
        "deploy its target",
    ),
    row(
        "an alias of an alias whose target is stopped",
        || {
            let world = world_with(|p| p.alias = "mid/x".to_owned());
            let alias = |p: &mut Properties| p.alias = "far/x".to_owned();
            world.deploy("far", vec![define("x", DataType::F64, |_| {})]);
            world.deploy("mid", vec![define("x", DataType::F64, alias)]);
            world.set("far/x", 1.0);
            let (now, wall) = world.time();
            world
                .engine()
                .stop_library("far", now, wall, &mut Wakes::new())
                .unwrap();
            why(&mut Pair::on(&world), NAME)
        },
        WhyStage::Source,
        "library far is stopped",
        "library start far",
    ),
    // Filter.
    row(
        "somebody forces it",
        || {
            let (mut pair, ..) = provided(|_| {});
            let held = Value::F64(7.0);
            let mut force = EngineWrite::value(&held);
            force.verb = Verb::Force;
            pair.world.try_write(NAME, &force);
            pair.world.publish(NAME, &Value::F64(2.0));
            why(&mut pair, NAME)
        },
        WhyStage::Filter,
        "it is forced by",
        "trunkline unforce rig/x",
    ),
    row(
        "a deadband wider than the changes",
        || {
            let mut pair = with(|p| {
                p.deadband.user_percent = 50.0;
                p.range = Some((0.0, 100.0));
            });
            (0..10).for_each(|n| pair.world.set(NAME, f64::from(n)));
            why(&mut pair, NAME)
        },
        WhyStage::Filter,
        "within the deadband",
        "50 %",
    ),
    row(
        "values outside its range",
        || {
            let mut pair = with(|p| p.range = Some((0.0, 10.0)));
            let x = pair.variable(NAME);
            pair.write([(x, 11.0)]);
            why(&mut pair, NAME)
        },
        WhyStage::Filter,
        "outside the range 0 to 10",
        "write a value within it",
    ),
    row(
        "a subscription to other values only",
        || {
            let mut pair = healthy();
            let options = SubscribeOptions {
                only_changes: true,
                ..SubscribeOptions::default()
            };
            let id = pair.subscribe_with(&[NAME], Contract::Last(10), options);
            pair.events(id);
            (0..5).for_each(|_| pair.world.set(NAME, 1.0));
            pair.exchange();
            why(&mut pair, NAME)
        },
        WhyStage::Filter,
        "the last 5 updates repeated",
        "subscribe to every update",
    ),
    row(
        "a period longer than the changes",
        || {
            let mut pair = healthy();
            let id = pair.subscribe(&[NAME], "sampled:1m");
            pair.events(id);
            pair.world.set(NAME, 2.0);
            pair.pass(SECOND);
            why(&mut pair, NAME)
        },
        WhyStage::Filter,
        "looks once in 60s",
        "shorter period",
    ),
    // Buffer.
    row(
        "last:n drops its oldest",
        || behind("last:3"),
        WhyStage::Buffer,
        "`last:3` buffer was full: 47 of 51",
        "larger buffer",
    ),
    row(
        "first:n drops its newest",
        || behind("first:3"),
        WhyStage::Buffer,
        "`first:3` buffer was full: 47 of 51",
        "larger buffer",
    ),
    row(
        "all reaches its bound",
        || behind("all:3"),
        WhyStage::Buffer,
        "has reached its bound",
        "larger bound",
    ),
    row(
        "an overrun that nobody reopens",
        || {
            let mut pair = healthy();
            let options = SubscribeOptions {
                reopen: false,
                ..SubscribeOptions::default()
            };
            let id = pair.subscribe_with(&[NAME], all(2), options);
            pair.events(id);
            (0..5).for_each(|n| pair.world.set(NAME, f64::from(n)));
            pair.exchange();
            pair.events(id);
            why(&mut pair, NAME)
        },
        WhyStage::Buffer,
        "has ended with `overrun`",
        "subscribe again",
    ),
    row(
        "the engine's memory is full",
        || {
            let mut options = EngineOptions::new("sut", 7);
            options.queue_bytes_max = 200_000;
            let world = World::of(Engine::new(options));
            world.deploy("rig", vec![define("x", DataType::F64, |_| {})]);
            world.set(NAME, 1.0);
            let mut stopped = Pair::on(&world);
            stopped.subscribe(&[NAME], "all:100000");
            stopped.capacity = 0;
            (0..5000).for_each(|n| world.set(NAME, f64::from(n)));
            let mut pair = Pair::on(&world);
            let id = pair.subscribe(&[NAME], "last:5");
            let told = format!("{:?}", pair.events(id));
            assert!(
                told.contains("MemoryFull") && told.contains("queue_bytes_max"),
                "{told}"
            );
            why(&mut pair, NAME)
        },
        WhyStage::Buffer,
        "memory is full",
        "queue_bytes_max",
    ),
    row(
        "a subscriber holds writers up",
        || {
            let mut pair = with(|p| p.stall = 60 * SECOND);
            let mut slow = Pair::on(&pair.world);
            slow.subscribe_with(&[NAME], all(2), SubscribeOptions::default());
            slow.capacity = 0;
            let x = pair.variable(NAME);
            let writes = (0..5).map(|n| Write::new(x, Value::F64(f64::from(n))));
            pair.client.write_untracked(writes).unwrap();
            pair.exchange();
            // Behind the write that waits nothing else is carried out; this is answered.
            why(&mut pair, NAME)
        },
        WhyStage::Buffer,
        "writes wait up to 60s",
        "take their updates",
    ),
    // Consumer.
    row(
        "the client confirms nothing",
        || {
            let world = world_with(|_| {});
            world.set(NAME, 0.0);
            let options = ClientOptions {
                window_records: 4,
                ..client_options()
            };
            let mut pair = Pair::offline(&world, ServeOptions::default(), options);
            pair.connect();
            let id = pair.subscribe(&[NAME], "latest");
            pair.events(id);
            pair.settle();
            // Its program asks, and does not read what is sent to it.
            let request = pair.client.why(NAME).unwrap();
            for n in 0..4 {
                pair.world.set(NAME, f64::from(n));
                pair.turn_of_session();
            }
            pair.client_sends();
            pair.turn_of_session();
            match pair.answer(request) {
                trunkline_client::Answer::Why(steps) => steps,
                other => panic!("no answer: {other:?}"),
            }
        },
        WhyStage::Consumer,
        "not confirmed",
        "your program",
    ),
    row(
        "the program takes nothing (latest)",
        || untaken("latest", 5),
        WhyStage::Consumer,
        "wait for this program",
        "have the program take",
    ),
    row(
        "the program takes nothing (last)",
        || untaken("last:3", 9),
        WhyStage::Consumer,
        "dropped",
        "have the program take",
    ),
    row(
        "the write credit is used up",
        || {
            let world = world_with(|p| {
                of_plc(p);
                p.access = Access::ReadWrite;
            });
            let plc = Arc::new(Plc(Mutex::new(None)));
            let _id = world.engine().attach_source(plc as Arc<_>).unwrap();
            world.publish(NAME, &Value::F64(1.0));
            let serve = ServeOptions {
                write_credit_count: 2,
                ..ServeOptions::default()
            };
            let mut pair = Pair::offline(&world, serve, client_options());
            pair.connect();
            let x = pair.variable(NAME);
            let writes = (0..5).map(|n| Write::new(x, Value::F64(f64::from(n))));
            pair.client.write_untracked(writes).unwrap();
            pair.exchange();
            why(&mut pair, NAME)
        },
        WhyStage::Consumer,
        "the credit is used up",
        "hold",
    ),
];

/// Behaviour: B-14.
#[test]
fn why_names_the_cause_of_every_injected_fault() {
    assert!(ROWS.len() >= 25, "{}", ROWS.len());
    let mut wrong = Vec::new();
    for row in ROWS {
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
fn why_finds_nothing_wrong_where_nothing_is() {
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
