//! Variables whose value belongs to a provider: requests, answers, refusals, time-outs,
//! disconnects.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]
#![cfg(not(shuttle))]

mod rig;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rig::{Bell, Rig, applied, balanced, define, drain, sequences, updates};
use trunkline_engine::engine::SLICE;
use trunkline_engine::providers::{PROVIDER_PENDING_MAX, PROVIDER_TIMEOUT_DEFAULT};
use trunkline_engine::{
    Answer, Attempt, Consumer, NoMemory, Provider, ProviderId, Refusal, Ticket, UnknownCause,
    Variable, Wakes, Write, WriteOutcome,
};
use trunkline_types::{
    Contract, DataType, Properties, Quality, Reason, Scaling, Tick, Value, VariableDefinition,
};

/// A provider that records the requests that it gets.
#[derive(Default)]
struct Plc {
    orders: Mutex<Vec<(Ticket, u32, Value)>>,
    requests: Mutex<Vec<u32>>,
    /// Tickets of pending requests.
    waiting: Mutex<Vec<Ticket>>,
}

impl Provider for Plc {
    fn name(&self) -> Arc<str> {
        Arc::from("plc")
    }

    fn send(&self, ticket: Ticket, handle: u32, raw: Value) {
        self.orders
            .lock()
            .expect("no panic")
            .push((ticket, handle, raw));
    }

    fn request(&self, ticket: Option<Ticket>, handle: u32) {
        self.requests.lock().expect("no panic").push(handle);
        self.waiting.lock().expect("no panic").extend(ticket);
    }

    fn error(&self) -> Option<String> {
        None
    }
}

impl Plc {
    fn order(&self) -> (Ticket, u32, Value) {
        self.orders.lock().expect("no panic").remove(0)
    }
}

struct Scene {
    rig: Rig,
    x: Arc<Variable>,
    plc: Arc<Plc>,
    id: ProviderId,
    consumer: Consumer,
    bell: Bell,
}

fn scene(properties: Properties) -> Scene {
    let (rig, x) = Rig::of(properties);
    let plc = Arc::new(Plc::default());
    let id = rig
        .engine
        .providers()
        .attach(Arc::clone(&plc) as Arc<_>, &[x.handle(), 4_000_000]);
    let bell = Bell::default();
    let consumer = Consumer::new(rig.engine.clone(), Box::new(bell.clone()));
    Scene {
        rig,
        x,
        plc,
        id,
        consumer,
        bell,
    }
}

impl Scene {
    fn put(&self, id: u64, value: f64) -> Attempt {
        let value = Value::F64(value);
        let mut write = Write::value(&value);
        write.completion = Some(self.consumer.completion(id));
        self.rig.attempt(&self.x, &write)
    }

    fn answer(&self, ticket: Ticket, answer: Answer) {
        let (now, wall) = (self.rig.now(), self.rig.wall());
        let engine = &self.rig.engine;
        engine.providers().answer(
            ticket,
            self.x.handle(),
            answer,
            now,
            wall,
            &mut Wakes::new(),
        );
    }

    fn detach(&self) {
        let (now, wall) = (self.rig.now(), self.rig.wall());
        let engine = &self.rig.engine;
        engine
            .providers()
            .detach(self.id, Reason::ProviderGone, now, wall, &mut Wakes::new());
    }

    fn poll(&self) -> Option<Tick> {
        self.rig
            .engine
            .poll(self.rig.now(), self.rig.wall(), &mut Wakes::new())
    }
}

fn plain() -> Properties {
    Properties::new(DataType::F64)
}

/// Behaviour: B-20.
#[test]
fn cell_waits_for_the_answer_and_shows_the_device_value() {
    let mut scene = scene(plain());
    assert!(scene.x.is_provided());
    assert_eq!(scene.put(11, 5.0), Attempt::Pending);
    assert_eq!((scene.x.sequence(), scene.x.ledger().offered), (0, 0));
    let (ticket, handle, raw) = scene.plc.order();
    assert_eq!((handle, raw), (scene.x.handle(), Value::F64(5.0)));
    assert_eq!(scene.consumer.take_completion(), None);
    // The device rounds the value.
    scene.answer(ticket, Answer::Applied(Value::F64(4.9)));
    assert_eq!(scene.bell.rings(), 1);
    assert!(!scene.consumer.is_idle());
    assert_eq!(scene.consumer.take_completion(), Some((11, applied(1))));
    assert_eq!(scene.consumer.take_completion(), None);
    let update = scene.x.update();
    assert_eq!(scene.x.sample().value, Value::F64(4.9));
    assert_eq!(
        (update.writer, scene.x.sample().quality),
        (0, Quality::GOOD)
    );
    assert!(scene.x.ledger().is_balanced());
    assert_eq!(scene.poll(), None, "no further poll is due");
}

/// Behaviour: B-20.
#[test]
fn provider_refusal_ends_the_write_without_a_change() {
    let mut scene = scene(plain());
    scene.put(1, 5.0);
    let (ticket, ..) = scene.plc.order();
    scene.answer(ticket, Answer::Refused("the valve is locked".to_owned()));
    let (id, outcome) = scene.consumer.take_completion().expect("it was answered");
    let WriteOutcome::Refused(refusal) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(
        (id, refusal.to_string()),
        (1, "plc refused: the valve is locked".to_owned())
    );
    assert_eq!(scene.x.sequence(), 0);
    let ledger = scene.x.ledger();
    assert!(ledger.is_balanced());
    assert_eq!((ledger.offered, ledger.refused), (1, 1));
    // A second answer to the same write is ignored.
    scene.answer(ticket, Answer::Refused("again".to_owned()));
    assert_eq!(scene.consumer.take_completion(), None);
    assert_eq!(scene.x.ledger().offered, 1);
}

/// The provider never received the write, so the refusal comes from the engine.
///
/// Behaviour: B-06.
#[test]
fn write_without_memory_to_send_it_is_refused_by_the_engine() {
    let mut scene = scene(plain());
    scene.put(1, 5.0);
    let (ticket, ..) = scene.plc.order();
    let error = NoMemory { bytes: 1 << 20 };
    scene.answer(ticket, Answer::Unsent(error));
    let refused = WriteOutcome::Refused(Refusal::NoMemory(error));
    assert_eq!(scene.consumer.take_completion(), Some((1, refused)));
    let ledger = scene.x.ledger();
    assert!(ledger.is_balanced());
    assert_eq!((ledger.offered, ledger.refused), (1, 1));
    // The value is unchanged.
    assert_eq!(scene.x.sequence(), 0);
    // A write that has ended meanwhile keeps its outcome.
    scene.answer(ticket, Answer::Unsent(error));
    assert_eq!(scene.consumer.take_completion(), None);
    assert_eq!(scene.x.ledger().offered, 1);
}

/// Behaviour: B-20.
#[test]
fn late_provider_answer_after_a_timeout_still_updates_the_value() {
    let mut scene = scene(plain());
    scene.put(1, 5.0);
    let (ticket, ..) = scene.plc.order();
    let due = scene.rig.now().saturating_add(PROVIDER_TIMEOUT_DEFAULT);
    assert_eq!(scene.poll(), Some(due));
    scene
        .rig
        .advance(PROVIDER_TIMEOUT_DEFAULT - Duration::from_nanos(1));
    assert_eq!(scene.poll(), Some(due));
    assert_eq!(scene.consumer.take_completion(), None);
    scene.rig.advance(Duration::from_nanos(1));
    assert_eq!(scene.poll(), None);
    let unknown = WriteOutcome::Unknown(UnknownCause::ProviderTimedOut {
        provider: Arc::from("plc"),
    });
    assert_eq!(scene.consumer.take_completion(), Some((1, unknown)));
    assert_eq!(scene.x.ledger().unknown, 1);

    scene.answer(ticket, Answer::Applied(Value::F64(5.0)));
    assert_eq!(
        scene.consumer.take_completion(),
        None,
        "the write already has its outcome"
    );
    assert_eq!(
        (scene.x.sequence(), scene.x.sample().value),
        (1, Value::F64(5.0))
    );
    let ledger = scene.x.ledger();
    assert!(ledger.is_balanced());
    assert_eq!((ledger.offered, ledger.written, ledger.unknown), (2, 1, 1));
}

/// Behaviour: B-20.
#[test]
fn lost_provider_makes_variables_bad_and_open_writes_unknown() {
    let mut scene = scene(plain());
    scene.rig.publish(&scene.x, 1.0);
    scene.put(1, 5.0);
    scene.put(2, 6.0);
    let (ticket, ..) = scene.plc.order();
    scene.detach();
    let unknown = || UnknownCause::ProviderGone {
        provider: Arc::from("plc"),
    };
    for id in [1, 2] {
        let completion = Some((id, WriteOutcome::Unknown(unknown())));
        assert_eq!(
            scene.consumer.take_completion(),
            completion,
            "in the order of the writes"
        );
    }
    let sample = scene.x.sample();
    assert_eq!(sample.quality, Quality::bad(Reason::ProviderGone));
    assert_eq!(
        (sample.value, sample.engine_timestamp),
        (Value::F64(1.0), scene.rig.wall())
    );

    // An answer after the disconnect does not make the value good.
    scene.answer(ticket, Answer::Applied(Value::F64(5.0)));
    assert!(scene.x.sample().quality.is_bad());
    let gone = Refusal::ProviderGone {
        provider: Arc::from("plc"),
    };
    assert_eq!(
        scene.put(3, 7.0),
        Attempt::Done(WriteOutcome::Refused(gone))
    );
    assert!(!scene.rig.engine.providers().request(scene.x.handle()));
    let ledger = scene.x.ledger();
    assert!(ledger.is_balanced());
    assert_eq!((ledger.unknown, ledger.refused, ledger.written), (2, 1, 2));

    // Another provider takes over, and answers of the first one have no effect.
    let plc = Arc::new(Plc::default());
    scene
        .rig
        .engine
        .providers()
        .attach(Arc::clone(&plc) as Arc<_>, &[scene.x.handle()]);
    scene.answer(ticket, Answer::Applied(Value::F64(5.0)));
    assert!(scene.x.sample().quality.is_bad());
    assert_eq!(scene.put(4, 8.0), Attempt::Pending);
    let (ticket, ..) = plc.order();
    scene.answer(ticket, Answer::Applied(Value::F64(8.0)));
    assert!(scene.x.sample().quality.is_good());
}

#[test]
fn variable_without_value_is_marked_when_its_provider_disconnects() {
    let scene = scene(plain());
    let mut consumer = scene.rig.consumer();
    scene
        .rig
        .subscribe(&mut consumer, 1, Contract::Latest, &scene.x);
    drain(&mut consumer);
    scene.detach();
    let got = updates(&mut consumer);
    assert_eq!(
        (sequences(&got), got[0].quality.reason()),
        (vec![1], Reason::ProviderGone)
    );
    scene.detach();
    assert_eq!(
        drain(&mut consumer),
        [],
        "the end of the provider is reported once"
    );
}

/// Behaviour: H-01.
#[test]
fn provider_is_asked_in_raw_units_and_answers_in_them() {
    let mut properties = plain();
    properties.scaling = Some(Scaling::Linear {
        raw: [0.0, 4095.0],
        eng: [0.0, 100.0],
    });
    let mut scene = scene(properties);
    scene.put(1, 50.0);
    let (ticket, _, raw) = scene.plc.order();
    assert_eq!(raw, Value::F64(2047.5));
    scene.answer(ticket, Answer::Applied(Value::U16(2047)));
    assert_eq!(scene.consumer.take_completion(), Some((1, applied(1))));
    let Value::F64(shown) = scene.x.sample().value else {
        panic!("not a f64")
    };
    assert!((shown - 49.987_789).abs() < 1e-6, "{shown}");
}

#[test]
fn unscalable_value_is_refused_before_it_reaches_the_provider() {
    let mut properties = plain();
    properties.scaling = Some(Scaling::SquareRoot {
        raw: [0.0, 1.0],
        eng: [0.0, 100.0],
    });
    properties.range = Some((-50.0, 100.0));
    let scene = scene(properties);
    let refused = |attempt| matches!(attempt, Attempt::Done(WriteOutcome::Refused(_)));
    assert!(refused(scene.put(1, -1.0)));
    assert!(refused(scene.put(1, 101.0)));
    assert!(scene.plc.orders.lock().expect("no panic").is_empty());
    assert_eq!(scene.x.ledger().refused, 2);
}

#[test]
fn invalid_read_back_leaves_the_outcome_unknown() {
    let mut scene = scene(plain());
    scene.put(1, 5.0);
    let (ticket, ..) = scene.plc.order();
    scene.answer(ticket, Answer::Applied(Value::String("five".into())));
    let (_, outcome) = scene.consumer.take_completion().expect("it was answered");
    let WriteOutcome::Unknown(cause @ UnknownCause::ReadBack { .. }) = outcome else {
        panic!("{outcome:?}")
    };
    assert!(
        cause.to_string().contains("plc accepted the value"),
        "{cause}"
    );
    let ledger = scene.x.ledger();
    assert!(ledger.is_balanced());
    assert_eq!((ledger.unknown, ledger.written), (1, 0));
}

/// Behaviour: B-08, B-20.
#[test]
fn answer_is_published_even_if_writers_would_have_to_wait() {
    let mut properties = plain();
    properties.stall = Duration::from_secs(60);
    let mut scene = scene(properties);
    let mut reader = scene.rig.consumer();
    let one = Contract::All {
        elements: 1,
        bytes: 1000,
    };
    scene.rig.subscribe(&mut reader, 1, one, &scene.x);
    scene.rig.publish(&scene.x, 1.0);
    scene.put(1, 5.0);
    let (ticket, ..) = scene.plc.order();
    scene.answer(ticket, Answer::Applied(Value::F64(5.0)));
    assert_eq!(scene.consumer.take_completion(), Some((1, applied(2))));
    assert_eq!(scene.x.sample().value, Value::F64(5.0));
    let ledger = balanced(&reader, 1, &scene.x);
    assert_eq!((ledger.waiting, ledger.dropped_overrun), (1, 1));
}

#[test]
fn provider_with_too_many_unanswered_writes_gets_no_more() {
    let scene = scene(plain());
    for id in 0..PROVIDER_PENDING_MAX as u64 {
        assert_eq!(scene.put(id, 1.0), Attempt::Pending);
    }
    let busy = scene.put(9999, 1.0);
    let Attempt::Done(WriteOutcome::Refused(Refusal::ProviderBusy { pending, .. })) = busy else {
        panic!("{busy:?}")
    };
    assert_eq!(pending, PROVIDER_PENDING_MAX);
    let (ticket, ..) = scene.plc.order();
    scene.answer(ticket, Answer::Refused("no".to_owned()));
    assert_eq!(scene.put(9999, 1.0), Attempt::Pending);
    // Timeouts are processed in slices, and all writes time out.
    scene.rig.advance(PROVIDER_TIMEOUT_DEFAULT);
    let mut polls = 0;
    while scene.poll().is_some() {
        polls += 1;
        assert!(polls < 10);
    }
    assert_eq!(scene.x.ledger().unknown, PROVIDER_PENDING_MAX as u64);
    assert!(scene.x.ledger().is_balanced());
    assert_eq!(scene.put(1, 1.0), Attempt::Pending);
}

#[test]
fn fresh_value_is_requested_only_from_an_available_provider() {
    let scene = scene(plain());
    assert!(scene.rig.engine.providers().request(scene.x.handle()));
    assert_eq!(
        *scene.plc.requests.lock().expect("no panic"),
        [scene.x.handle()]
    );
    scene
        .rig
        .deploy("held", vec![VariableDefinition::new("y", DataType::F64)]);
    let y = scene.rig.variable("held/y");
    assert!(!y.is_provided());
    assert!(!scene.rig.engine.providers().request(y.handle()));
    assert!(!scene.rig.engine.providers().request(0));
    assert!(!scene.rig.engine.providers().request(u32::MAX));
}

#[test]
fn source_quality_reaches_all_variables_of_the_provider_and_no_others() {
    let paths = ["a", "b", "c"].map(|path| VariableDefinition::new(path, DataType::F64));
    let rig = Rig::with(paths.to_vec());
    let [a, b, c] = ["rig/a", "rig/b", "rig/c"].map(|name| rig.variable(name));
    let plc = Arc::new(Plc::default());
    let id = rig
        .engine
        .providers()
        .attach(plc, &[a.handle(), b.handle()]);
    for variable in [&a, &b, &c] {
        rig.publish(variable, 1.0);
    }
    let bad = Quality::bad(Reason::DeviceFailure);
    rig.engine
        .providers()
        .set_source_quality(id, bad, rig.now(), rig.wall(), &mut Wakes::new());
    assert_eq!(
        [&a, &b, &c].map(|v| v.sample().quality),
        [bad, bad, Quality::GOOD]
    );
}

#[test]
fn answer_for_an_undeployed_variable_ends_the_write() {
    let mut scene = scene(plain());
    scene.put(1, 5.0);
    let (ticket, ..) = scene.plc.order();
    let rig = &scene.rig;
    rig.engine
        .libraries()
        .undeploy("rig", rig.now(), rig.wall(), &mut Wakes::new())
        .expect("the library is deployed");
    scene.answer(ticket, Answer::Applied(Value::F64(5.0)));
    let (id, outcome) = scene
        .consumer
        .take_completion()
        .expect("every write has an outcome");
    assert_eq!(id, 1);
    assert!(matches!(
        outcome,
        WriteOutcome::Unknown(UnknownCause::ReadBack { .. })
    ));
    assert!(scene.x.ledger().is_balanced());
    let gone = Attempt::Done(WriteOutcome::Refused(Refusal::Gone));
    assert_eq!(scene.put(2, 6.0), gone);
}

#[test]
fn provider_may_answer_while_it_is_asked() {
    struct Eager(Mutex<Option<trunkline_engine::Engine>>);
    impl Provider for Eager {
        fn name(&self) -> Arc<str> {
            Arc::from("eager")
        }
        fn send(&self, ticket: Ticket, handle: u32, raw: Value) {
            let engine = self.0.lock().expect("no panic").clone().expect("it is set");
            let (now, wall) = (Tick::from_nanos(5), rig::START);
            engine.providers().answer(
                ticket,
                handle,
                Answer::Applied(raw),
                now,
                wall,
                &mut Wakes::new(),
            );
        }
        fn request(&self, _ticket: Option<Ticket>, _handle: u32) {}
        fn error(&self) -> Option<String> {
            None
        }
    }
    let (rig, x) = Rig::plain();
    let eager = Arc::new(Eager(Mutex::new(Some(rig.engine.clone()))));
    rig.engine
        .providers()
        .attach(Arc::clone(&eager) as Arc<_>, &[x.handle()]);
    let value = Value::F64(3.0);
    assert_eq!(rig.attempt(&x, &Write::value(&value)), Attempt::Pending);
    assert_eq!(x.sample().value, value);
    *eager.0.lock().expect("no panic") = None;
}

/// Behaviour: B-20.
#[test]
fn answer_is_queued_once_before_its_update_and_wakes_the_consumer_once() {
    let mut scene = scene(plain());
    scene
        .rig
        .subscribe(&mut scene.consumer, 1, Contract::ALL, &scene.x);
    updates(&mut scene.consumer);
    scene.bell.rings();
    assert_eq!(scene.put(3, 1.0), Attempt::Pending);
    let (ticket, _, raw) = scene.plc.order();
    scene.answer(ticket, Answer::Applied(raw));
    assert_eq!(scene.bell.rings(), 1);
    assert!(!scene.consumer.is_idle());
    assert_eq!(scene.consumer.take_completion(), Some((3, applied(1))));
    assert_eq!(scene.consumer.take_completion(), None);
    assert_eq!(sequences(&updates(&mut scene.consumer)), [1]);
    assert!(scene.consumer.is_idle());
}

/// An answer that equals the current value still completes the write.
#[test]
fn answer_within_the_deadband_is_queued_once_too() {
    let mut properties = plain();
    properties.deadband.source_percent = 10.0;
    let mut scene = scene(properties);
    for id in [1, 2] {
        assert_eq!(scene.put(id, 1.0), Attempt::Pending);
        let (ticket, _, raw) = scene.plc.order();
        scene.answer(ticket, Answer::Applied(raw));
    }
    let unchanged = WriteOutcome::Unchanged(1);
    assert_eq!(scene.consumer.take_completion(), Some((1, applied(1))));
    assert_eq!(scene.consumer.take_completion(), Some((2, unchanged)));
    assert_eq!(scene.consumer.take_completion(), None);
}

#[test]
fn variables_of_a_provider_that_ends_turn_bad_in_slices() {
    const VARIABLES: usize = 3500;
    let define_one = |at: usize| {
        let mut properties = Properties::new(DataType::F64);
        properties.source = format!("plc:{at}");
        define(&format!("v{at}"), properties)
    };
    for returns in [false, true] {
        let rig = Rig::with((0..VARIABLES).map(define_one).collect());
        let plc = Arc::new(Plc::default());
        let id = rig.engine.providers().attach_source(plc.clone()).unwrap();
        let variables: Vec<_> = (0..VARIABLES)
            .map(|at| rig.variable(&format!("rig/v{at}")))
            .collect();
        for variable in &variables {
            rig.publish(variable, 1.0);
        }
        let bad = || {
            let of =
                |one: &&Arc<Variable>| one.update().quality == Quality::bad(Reason::ProviderGone);
            variables.iter().filter(of).count()
        };
        let (now, wall) = (rig.now(), rig.wall());
        rig.engine
            .providers()
            .detach(id, Reason::ProviderGone, now, wall, &mut Wakes::new());
        let mut before = bad();
        assert!((900..=SLICE).contains(&before), "{before} at once");
        if returns {
            // The next provider attaches while some variables still show the end of the previous
            // one. Its published values are kept.
            rig.engine.providers().attach_source(plc).unwrap();
            assert_eq!(bad(), VARIABLES);
            rig.publish(&variables[VARIABLES - 1], 2.0);
            rig.poll();
            assert_eq!(bad(), VARIABLES - 1);
            continue;
        }
        for _ in 0..3 {
            rig.poll();
            assert!(bad() - before <= SLICE, "{} more at once", bad() - before);
            before = bad();
        }
        assert_eq!(before, VARIABLES);
    }
}
