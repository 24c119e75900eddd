//! Registers: set, send and request, compare-and-set, and forcing.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]
#![cfg(not(shuttle))]

mod rig;

use std::sync::{Arc, Mutex};

use rig::{Bell, Rig, applied, done, only_updates, sequences, updates};
use trunkline_engine::{
    Answer, Attempt, Caller, Consumer, Provider, ProviderId, Refusal, Ticket, Variable, Wakes,
    Write, WriteOutcome, WriteVerb,
};
use trunkline_types::{Contract, DataType, Position, Properties, Quality, Reason, Value};

/// A device that records its requests.
#[derive(Default)]
struct Device {
    sent: Mutex<Vec<(Ticket, Value)>>,
    asked: Mutex<Vec<Option<Ticket>>>,
}

impl Provider for Device {
    fn name(&self) -> Arc<str> {
        Arc::from("device")
    }

    fn send(&self, ticket: Ticket, _handle: u32, raw: Value) {
        self.sent.lock().unwrap().push((ticket, raw));
    }

    fn request(&self, ticket: Option<Ticket>, _handle: u32) {
        self.asked.lock().unwrap().push(ticket);
    }

    fn error(&self) -> Option<String> {
        None
    }
}

struct Scene {
    rig: Rig,
    x: Arc<Variable>,
    device: Arc<Device>,
    consumer: Consumer,
    _id: ProviderId,
}

fn provided() -> Scene {
    let (rig, x) = Rig::of(Properties::new(DataType::F64));
    let device = Arc::new(Device::default());
    let provider = Arc::clone(&device) as Arc<dyn Provider>;
    let id = rig.engine.providers().attach(provider, &[x.handle()]);
    let consumer = Consumer::new(rig.engine.clone(), Box::new(Bell::default()));
    Scene {
        rig,
        x,
        device,
        consumer,
        _id: id,
    }
}

impl Scene {
    fn order(&self, verb: WriteVerb, id: u64) -> Attempt {
        let mut write = Write::order(verb);
        write.completion = Some(self.consumer.completion(id));
        self.rig.attempt(&self.x, &write)
    }

    fn answer(&self, ticket: Ticket, answer: Answer) {
        let (now, wall) = (self.rig.now(), self.rig.wall());
        let (engine, handle) = (&self.rig.engine, self.x.handle());
        engine
            .providers()
            .answer(ticket, handle, answer, now, wall, &mut Wakes::new());
    }
}

fn with_verb(rig: &Rig, x: &Variable, verb: WriteVerb, value: f64) -> WriteOutcome {
    let value = Value::F64(value);
    let mut write = Write::value(&value);
    write.verb = verb;
    done(rig.attempt(x, &write))
}

fn order(rig: &Rig, x: &Variable, verb: WriteVerb) -> WriteOutcome {
    done(rig.attempt(x, &Write::order(verb)))
}

fn value_of(x: &Variable) -> (Value, bool) {
    let sample = x.sample();
    (sample.value, sample.quality.is_forced())
}

/// Set changes the value for all readers and starts no I/O; send passes the value to the device,
/// whose answer is the variable's next update.
///
/// Behaviour: LM-04, LM-06.
#[test]
fn set_changes_the_cell_and_send_passes_it_to_the_device() {
    let mut scene = provided();
    assert_eq!(
        scene.order(WriteVerb::Send, 1),
        Attempt::Done(WriteOutcome::Refused(Refusal::NoValue))
    );
    assert_eq!(
        with_verb(&scene.rig, &scene.x, WriteVerb::Set, 5.0),
        applied(1)
    );
    assert!(scene.device.sent.lock().unwrap().is_empty(), "no I/O");
    assert_eq!(value_of(&scene.x).0, Value::F64(5.0));

    assert_eq!(scene.order(WriteVerb::Send, 2), Attempt::Pending);
    let (ticket, value) = scene.device.sent.lock().unwrap().remove(0);
    assert_eq!(value, Value::F64(5.0));
    scene.answer(ticket, Answer::Applied(Value::F64(4.9)));
    assert_eq!(scene.consumer.take_completion(), Some((2, applied(2))));
    assert_eq!(value_of(&scene.x).0, Value::F64(4.9));
    assert!(scene.x.ledger().is_balanced());
}

/// Behaviour: LM-05.
#[test]
fn request_waits_for_the_value_of_the_device() {
    let mut scene = provided();
    assert_eq!(scene.order(WriteVerb::Request, 7), Attempt::Pending);
    assert!(
        scene.consumer.take_completion().is_none(),
        "the device has not answered"
    );
    let ticket = scene
        .device
        .asked
        .lock()
        .unwrap()
        .remove(0)
        .expect("a caller waits for the value");
    let measured = scene.rig.wall();
    let answer = Answer::Read {
        value: Value::F64(21.5),
        quality: Some(Quality::uncertain(Reason::Estimated)),
        source_timestamp: Some(measured),
    };
    scene.answer(ticket, answer);
    assert_eq!(scene.consumer.take_completion(), Some((7, applied(1))));
    let sample = scene.x.sample();
    assert_eq!(
        (sample.value, sample.source_timestamp),
        (Value::F64(21.5), measured)
    );
    assert_eq!(sample.quality.reason(), Reason::Estimated);

    // The device cannot read one value, and does not know the other.
    for (answer, is_unknown) in [
        (Answer::Refused("no sensor".to_owned()), false),
        (Answer::Unknown("the line went dead".to_owned()), true),
    ] {
        assert_eq!(scene.order(WriteVerb::Request, 8), Attempt::Pending);
        let ticket = scene
            .device
            .asked
            .lock()
            .unwrap()
            .remove(0)
            .expect("a caller waits for the value");
        scene.answer(ticket, answer);
        let (_, outcome) = scene.consumer.take_completion().expect("it was answered");
        assert_eq!(
            matches!(outcome, WriteOutcome::Unknown(_)),
            is_unknown,
            "{outcome:?}"
        );
    }
    assert!(scene.x.ledger().is_balanced());
}

/// Without a device, a send or request completes at once.
///
/// Behaviour: LM-11.
#[test]
fn register_without_a_device_is_done_at_once() {
    let (rig, x) = Rig::plain();
    assert_eq!(with_verb(&rig, &x, WriteVerb::Set, 1.0), applied(1));
    for verb in [WriteVerb::Send, WriteVerb::Request] {
        let unchanged = WriteOutcome::Unchanged(1);
        assert_eq!(order(&rig, &x, verb), unchanged);
    }
}

/// Behaviour: B-22.
#[test]
fn value_is_set_only_where_it_was_expected() {
    let (rig, x) = Rig::plain();
    assert_eq!(rig.write(&x, 1.0), applied(1));
    let epoch = rig.engine.epoch();
    let expecting = |epoch: u64, sequence: u64, value: f64| {
        let value = Value::F64(value);
        let mut write = Write::value(&value);
        write.expected = Some(Position { epoch, sequence });
        done(rig.attempt(&x, &write))
    };
    assert_eq!(expecting(epoch, 1, 2.0), applied(2));
    let position = |epoch, sequence| Position { epoch, sequence };
    let conflict = |expected| Refusal::Conflict {
        actual: position(epoch, 2),
        expected,
    };
    let refused = |expected| WriteOutcome::Refused(conflict(expected));
    let earlier = position(epoch, 1);
    assert_eq!(expecting(epoch, 1, 3.0), refused(earlier));
    assert_eq!(
        conflict(earlier).to_string(),
        "the variable has changed: its sequence number is 2, not 1 as expected; read the variable \
         again, then decide"
    );
    let of_other_start = position(epoch + 1, 2);
    assert_eq!(expecting(epoch + 1, 2, 3.0), refused(of_other_start));
    assert_eq!(
        conflict(of_other_start).to_string(),
        format!(
            "the engine was restarted: its epoch is {epoch}, not {} as expected; read the variable \
             again, then decide",
            epoch + 1
        )
    );
    assert_eq!(value_of(&x).0, Value::F64(2.0));
    assert!(x.ledger().is_balanced());
}

/// Each of several concurrent increments is applied: none is lost.
#[test]
fn increments_by_compare_and_set_are_never_lost() {
    let (rig, x) = Rig::plain();
    assert_eq!(rig.write(&x, 0.0), applied(1));
    let (engine, caller, x) = (&rig.engine, &rig.caller, &x);
    let (now, wall) = (rig.now(), rig.wall());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(move || {
                for _ in 0..500 {
                    loop {
                        let update = x.update();
                        let Value::F64(before) = x.sample_of(&update).value else {
                            panic!("the value is not a number");
                        };
                        let value = Value::F64(before + 1.0);
                        let mut write = Write::value(&value);
                        write.expected = Some(Position {
                            epoch: engine.epoch(),
                            sequence: update.sequence,
                        });
                        let wakes = &mut Wakes::new();
                        let attempt = engine.try_write(caller, now, wall, x, &write, wakes);
                        if matches!(done(attempt), WriteOutcome::Applied(_)) {
                            break;
                        }
                    }
                }
            });
        }
    });
    assert_eq!(value_of(x).0, Value::F64(2000.0));
}

/// Behaviour: H-27.
#[test]
fn forced_variable_holds_its_value_until_it_is_unforced() {
    let (rig, x) = Rig::plain();
    assert_eq!(rig.write(&x, 1.0), applied(1));
    let mut consumer = rig.consumer();
    rig.subscribe(&mut consumer, 1, Contract::ALL, &x);
    updates(&mut consumer);
    assert_eq!(with_verb(&rig, &x, WriteVerb::Force, 50.0), applied(2));
    assert_eq!(value_of(&x), (Value::F64(50.0), true));
    let WriteOutcome::Refused(Refusal::Forced { by }) = rig.write(&x, 2.0) else {
        panic!("the write is not refused");
    };
    assert_eq!(*by, rig.caller.to_string());
    // Updates of the source are stored meanwhile, but not shown.
    assert!(matches!(
        rig.publish(&x, 3.0),
        WriteOutcome::Refused(Refusal::Forced { .. })
    ));
    assert_eq!(value_of(&x), (Value::F64(50.0), true));
    assert_eq!(with_verb(&rig, &x, WriteVerb::Force, 60.0), applied(3));
    assert_eq!(order(&rig, &x, WriteVerb::Unforce), applied(4));
    assert_eq!(value_of(&x), (Value::F64(3.0), false));
    assert_eq!(rig.write(&x, 4.0), applied(5));
    let refused = WriteOutcome::Refused(Refusal::NotForced);
    assert_eq!(order(&rig, &x, WriteVerb::Unforce), refused);
    let got = only_updates(rig::drain(&mut consumer));
    assert_eq!(sequences(&got), [2, 3, 4, 5]);
    assert!(x.ledger().is_balanced());
}

#[test]
fn unwritten_variable_has_no_value_after_it_is_unforced() {
    let (rig, x) = Rig::plain();
    with_verb(&rig, &x, WriteVerb::Force, 50.0);
    order(&rig, &x, WriteVerb::Unforce);
    assert_eq!(x.sample().quality, Quality::bad(Reason::NoValue));
}

/// Forced values are set while forcing is off, and take effect together when it is switched on.
///
/// Behaviour: H-27.
#[test]
fn forcing_is_switched_for_the_whole_engine_and_cleared() {
    let (rig, x) = Rig::plain();
    rig.deploy(
        "other",
        vec![trunkline_types::VariableDefinition::new("y", DataType::F64)],
    );
    let y = rig.variable("other/y");
    rig.write(&x, 1.0);
    rig.write(&y, 2.0);
    let (now, wall) = (rig.now(), rig.wall());
    let switch = |on: bool| {
        rig.engine
            .forcing()
            .set(&Caller::engine(), on, now, wall, &mut Wakes::new())
            .expect("no host stores the audit")
    };
    assert_eq!(switch(false), 0);
    for (variable, value) in [(&x, 10.0), (&y, 20.0)] {
        with_verb(&rig, variable, WriteVerb::Force, value);
        assert!(!value_of(variable).1, "forcing is off");
    }
    assert_eq!(rig.engine.forcing().all().len(), 2);
    assert_eq!(switch(true), 2);
    assert_eq!(value_of(&x), (Value::F64(10.0), true));
    assert_eq!(value_of(&y), (Value::F64(20.0), true));
    assert_eq!(switch(false), 2);
    assert_eq!(value_of(&x), (Value::F64(1.0), false));
    rig.write(&x, 1.5);
    assert_eq!(switch(true), 2);
    let cleared = rig
        .engine
        .forcing()
        .clear(&Caller::engine(), now, wall, &mut Wakes::new())
        .expect("no host stores the audit");
    assert_eq!((cleared, rig.engine.forcing().all().len()), (2, 0));
    assert_eq!(value_of(&x), (Value::F64(1.5), false));
    assert_eq!(value_of(&y), (Value::F64(2.0), false));
    assert!(x.ledger().is_balanced() && y.ledger().is_balanced());
}

/// A forced output is also forced at the device. A disconnected device does not change the forced
/// value.
#[test]
fn output_is_forced_at_its_device() {
    let scene = provided();
    assert_eq!(
        with_verb(&scene.rig, &scene.x, WriteVerb::Force, 5.0),
        applied(1)
    );
    let (ticket, value) = scene.device.sent.lock().unwrap().remove(0);
    assert_eq!(value, Value::F64(5.0));
    scene.answer(ticket, Answer::Applied(Value::F64(5.0)));
    let (now, wall) = (scene.rig.now(), scene.rig.wall());
    let gone = Quality::bad(Reason::ProviderGone);
    let engine = &scene.rig.engine;
    engine
        .providers()
        .set_source_quality(scene._id, gone, now, wall, &mut Wakes::new());
    assert_eq!(value_of(&scene.x), (Value::F64(5.0), true));
    assert_eq!(order(&scene.rig, &scene.x, WriteVerb::Unforce), applied(2));
    assert_eq!(scene.x.sample().quality, gone);
    assert!(scene.x.ledger().is_balanced());
}

#[test]
fn force_survives_a_stop_and_ends_with_the_library() {
    let (rig, x) = Rig::plain();
    with_verb(&rig, &x, WriteVerb::Force, 5.0);
    let (now, wall) = (rig.now(), rig.wall());
    let library = x.name().split('/').next().unwrap();
    rig.engine
        .libraries()
        .stop(library, now, wall, &mut Wakes::new())
        .unwrap();
    assert!(x.sample().quality.is_bad());
    rig.engine
        .libraries()
        .start(library, now, wall, &mut Wakes::new())
        .unwrap();
    assert_eq!(value_of(&x), (Value::F64(5.0), true));
    rig.engine
        .libraries()
        .undeploy(library, now, wall, &mut Wakes::new())
        .unwrap();
    assert!(rig.engine.forcing().all().is_empty());
}
