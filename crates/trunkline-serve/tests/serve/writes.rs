//! Tests writes: every write is answered, and packed answers precede the updates of the writes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use trunkline_client::{Event, NotTried, VariableRef, Write, WriteOptions, WriteOutcome};
use trunkline_engine::{Answer as ProviderAnswer, Provider, Ticket, Wakes};
use trunkline_proto::{FaultCode, FrameKind};
use trunkline_types::{Access, DataType, Properties, Reason, Tick, Value};

use crate::rig::{Pair, World, applied, define, f64_variable, value};

fn number(variable: VariableRef, value: f64) -> Write {
    Write::new(variable, Value::F64(value))
}

fn refused(outcome: &WriteOutcome) -> (FaultCode, &str) {
    match outcome {
        WriteOutcome::Refused(fault) => (fault.code, &fault.sentence),
        other => panic!("not refused: {other:?}"),
    }
}

/// Behaviour: B-20.
#[test]
fn every_write_has_its_outcome() {
    let with_range = |p: &mut Properties| p.range = Some((0.0, 100.0));
    let with_deadband = |p: &mut Properties| {
        p.range = Some((0.0, 100.0));
        p.deadband.user_percent = 10.0;
    };
    let world = World::with_library(
        "rig",
        vec![
            define("range", DataType::F64, with_range),
            define("deadband", DataType::F64, with_deadband),
            define("read", DataType::F64, |p| p.access = Access::ReadOnly),
            define("text", DataType::String, |_| {}),
        ],
    );
    let mut sut = Pair::on(&world);
    let names = ["rig/range", "rig/deadband", "rig/read", "rig/text"];
    let opened: Vec<VariableRef> = sut
        .open(&names)
        .into_iter()
        .map(|opened| opened.unwrap().variable)
        .collect();
    let outcomes = sut.write_values([
        number(opened[0], 50.0),
        number(opened[0], 101.0),
        number(opened[1], 50.0),
        number(opened[1], 55.0),
        number(opened[2], 1.0),
        Write::new(opened[3], Value::String("one".into())),
        number(opened[3], 1.0),
    ]);
    assert_eq!(applied(&outcomes[0]), 1);
    let (code, sentence) = refused(&outcomes[1]);
    assert_eq!(code, FaultCode::OutOfRange);
    assert!(sentence.contains("0 to 100"), "{sentence}");
    assert_eq!(applied(&outcomes[2]), 1);
    assert!(matches!(outcomes[3], WriteOutcome::Unchanged(position) if position.sequence == 1));
    assert_eq!(refused(&outcomes[4]).0, FaultCode::NotWritable);
    assert_eq!(applied(&outcomes[5]), 1);
    assert_eq!(refused(&outcomes[6]).0, FaultCode::WrongType);
    let range = sut.info(opened[0]).write_ledger;
    assert!(range.is_balanced());
    assert_eq!((range.offered, range.written, range.refused), (2, 1, 1));
    let deadband = sut.info(opened[1]).write_ledger;
    assert_eq!(
        (deadband.offered, deadband.written, deadband.unchanged),
        (2, 1, 1)
    );
}

#[test]
fn write_to_a_removed_variable_is_refused() {
    let mut sut = Pair::of(&["x"]);
    let x = sut.variable("rig/x");
    sut.world.undeploy("rig");
    // The client does not know this yet, so the engine reports it.
    let batch = sut.client.write([number(x, 1.0)]).unwrap();
    sut.exchange();
    let outcomes = sut.client.take_outcomes(batch).unwrap();
    assert_eq!(refused(&outcomes[0]).0, FaultCode::Gone);
}

/// Behaviour: B-20.
#[test]
fn a_write_whose_answer_is_lost_with_the_connection_is_unknown() {
    let mut sut = Pair::of(&["x"]);
    let x = sut.variable("rig/x");
    let batch = sut.client.write([number(x, 1.0)]).unwrap();
    sut.turn_of_client();
    sut.turn_of_session();
    sut.cut();
    let outcomes = sut.client.take_outcomes(batch).unwrap();
    assert!(
        matches!(&outcomes[0], WriteOutcome::Unknown(_)),
        "{outcomes:?}"
    );
    // The write was carried out. It is not carried out again.
    sut.connect();
    assert_eq!(sut.world.sequence("rig/x"), 2);
}

/// Behaviour: VS-05.
#[test]
fn synchronous_write_is_one_frame_in_each_direction() {
    let mut sut = Pair::of(&["x"]);
    let x = sut.variable("rig/x");
    sut.traffic = Default::default();
    assert_eq!(applied(&sut.write([(x, 1.0)])[0]), 2);
    assert_eq!(sut.traffic.to_engine.kinds, [FrameKind::Write.number()]);
    assert_eq!(
        sut.traffic.to_client.kinds,
        [FrameKind::WriteAnswers.number()]
    );
}

/// Behaviour: VS-06, VS-07.
#[test]
fn thousand_asynchronous_writes_need_a_hundredth_of_the_messages() {
    let names: Vec<String> = (0..100).map(|n| format!("x{n}")).collect();
    let world = World::with_library("rig", names.iter().map(|n| f64_variable(n)).collect());
    let mut sut = Pair::on(&world);
    let full: Vec<String> = names.iter().map(|name| format!("rig/{name}")).collect();
    let refs: Vec<&str> = full.iter().map(String::as_str).collect();
    let opened: Vec<VariableRef> = sut
        .open(&refs)
        .into_iter()
        .map(|opened| opened.unwrap().variable)
        .collect();
    sut.traffic = Default::default();
    let writes = (0..1000).map(|n| number(opened[n % 100], n as f64));
    let batch = sut.client.write(writes).unwrap();
    assert_eq!(sut.client.pending(), 1000);
    sut.exchange();
    assert_eq!(sut.client.pending(), 0);
    let outcomes = sut.client.take_outcomes(batch).unwrap();
    assert!(
        outcomes
            .iter()
            .all(|outcome| matches!(outcome, WriteOutcome::Applied(_)))
    );
    let (there, back) = (&sut.traffic.to_engine, &sut.traffic.to_client);
    assert!(there.kinds.len() <= 10, "{} frames", there.kinds.len());
    assert!(back.kinds.len() <= 10, "{} frames", back.kinds.len());
    // A byte or two per answer.
    assert!(back.bytes <= 2100, "{} bytes", back.bytes);
}

#[test]
fn the_answer_to_a_write_precedes_its_update() {
    let mut sut = Pair::of(&["x"]);
    let (id, x) = (sut.subscribe(&["rig/x"], "latest"), sut.variable("rig/x"));
    sut.traffic = Default::default();
    sut.write((0..10).map(|n| (x, f64::from(n))));
    let kinds = &sut.traffic.to_client.kinds;
    let place = |kind: FrameKind| kinds.iter().position(|k| *k == kind.number());
    assert!(
        place(FrameKind::WriteAnswers) < place(FrameKind::Updates),
        "{kinds:?}"
    );
    let readings = sut.readings(id);
    assert!(readings.last().unwrap().own);
}

/// Behaviour: B-08.
#[test]
fn write_that_must_not_wait_is_refused_before_it_is_numbered() {
    let stall = |p: &mut Properties| p.stall = Duration::from_secs(3600);
    let world = World::with_library("rig", vec![define("x", DataType::F64, stall)]);
    let mut sut = Pair::on(&world);
    let id = sut.subscribe(&["rig/x"], "all:1");
    let x = sut.variable("rig/x");
    let try_only = WriteOptions {
        try_only: true,
        ..WriteOptions::default()
    };
    let attempt = |n: f64| Write {
        options: try_only,
        ..number(x, n)
    };
    let outcomes = sut.write_values((1..=4).map(|n| attempt(f64::from(n))));
    let applied = outcomes
        .iter()
        .filter(|o| matches!(o, WriteOutcome::Applied(_)))
        .count();
    let blocked = outcomes
        .iter()
        .filter(|o| matches!(o, WriteOutcome::NotTried(NotTried::WouldBlock)))
        .count();
    assert_eq!((applied, blocked), (1, 3));
    // A write without a number is not counted, and no update is missing.
    let ledger = sut.info(x).write_ledger;
    assert_eq!((ledger.offered, ledger.written), (1, 1));
    assert_eq!(sut.values(id).len(), 2);
    let outcomes = sut.write_values([attempt(5.0)]);
    assert!(matches!(outcomes[0], WriteOutcome::Applied(p) if p.sequence == 2));
}

#[test]
fn waiting_write_delays_only_its_variable_and_dependent_requests() {
    let stall = |p: &mut Properties| p.stall = Duration::from_millis(100);
    let variables = vec![define("x", DataType::F64, stall), f64_variable("y")];
    let world = World::with_library("rig", variables);
    let (mut sut, mut other) = (Pair::on(&world), Pair::on(&world));
    let slow = other.subscribe(&["rig/x"], "all:1");
    let [x, y] = ["rig/x", "rig/y"].map(|name| sut.variable(name));
    let first = sut
        .client
        .write([number(x, 1.0), number(x, 2.0), number(y, 1.0)])
        .unwrap();
    let read = sut.client.read(&[y]).unwrap();
    let second = sut.client.write([number(y, 2.0)]).unwrap();
    sut.exchange();
    assert!(!sut.client.is_settled(first) && !sut.client.is_settled(second));
    assert_eq!((world.sequence("rig/x"), world.sequence("rig/y")), (1, 1));
    // The write waits until a slow subscriber of another session takes its updates.
    other.exchange();
    assert_eq!(other.values(slow).len(), 2);
    sut.exchange();
    assert!(sut.client.is_settled(first) && sut.client.is_settled(second));
    let readings = sut.client.take(read).unwrap().unwrap();
    assert_eq!(value(readings[0].as_ref().unwrap()), 1.0);
}

/// Behaviour: B-05.
#[test]
fn stalled_variable_delays_no_other_and_keeps_its_order() {
    let stall = |p: &mut Properties| p.stall = Duration::from_secs(2);
    let variables = vec![define("x", DataType::F64, stall), f64_variable("y")];
    let world = World::with_library("rig", variables);
    let (mut sut, mut other) = (Pair::on(&world), Pair::on(&world));
    let slow = other.subscribe(&["rig/x"], "all:1");
    let [x, y] = ["rig/x", "rig/y"].map(|name| sut.variable(name));
    let of_x = sut.client.write((1..=4).map(|n| number(x, f64::from(n))));
    let of_x = of_x.unwrap();
    for n in 1..=3 {
        let of_y = sut.client.write([number(y, f64::from(n))]).unwrap();
        sut.exchange();
        assert!(
            sut.client.is_settled(of_y),
            "write {n} to the other variable"
        );
    }
    assert!(!sut.client.is_settled(of_x));
    assert_eq!((world.sequence("rig/x"), world.sequence("rig/y")), (1, 3));
    let mut values = Vec::new();
    let mut last = of_x;
    for next in 5..=12 {
        let before = world.sequence("rig/x");
        other.exchange();
        values.extend(other.values(slow));
        // The write arrives when there is room again, while earlier writes still wait.
        if next <= 8 {
            let write = number(x, f64::from(next));
            last = sut.client.write([write]).unwrap();
        }
        sut.exchange();
        if sut.client.is_settled(last) {
            break;
        }
        assert!(world.sequence("rig/x") > before, "each room is used");
    }
    assert!(sut.client.is_settled(of_x) && sut.client.is_settled(last));
    other.exchange();
    values.extend(other.values(slow));
    assert_eq!(values.last(), Some(&8.0), "{values:?}");
    assert!(values.is_sorted(), "{values:?}");
}

#[test]
fn writes_that_arrived_before_a_goodbye_are_carried_out() {
    let mut sut = Pair::of(&["x"]);
    let x = sut.variable("rig/x");
    let _find = sut.client.find("rig/**", None).unwrap();
    sut.client
        .write_untracked([number(x, 42.0)], Tick::MAX)
        .unwrap();
    // The write waits for the search when the goodbye arrives.
    let (now, wall) = sut.world.time();
    let mut bytes = Vec::new();
    use trunkline_proto::Endpoint;
    while sut.client.poll_output(now, wall, 1 << 20, &mut bytes) {}
    sut.client.shut_down();
    while sut.client.poll_output(now, wall, 1 << 20, &mut bytes) {}
    let session = sut.session.as_mut().unwrap();
    session.handle_input(now, wall, &bytes);
    assert!(session.wants_close().is_some());
    assert_eq!(sut.world.sequence("rig/x"), 2);
}

/// Accepts orders, and answers them on command.
#[derive(Default)]
struct Device(Mutex<Vec<(Ticket, u32, Value)>>);

impl Provider for Device {
    fn name(&self) -> Arc<str> {
        Arc::from("device")
    }

    fn send(&self, ticket: Ticket, handle: u32, raw: Value) {
        self.0.lock().unwrap().push((ticket, handle, raw));
    }

    fn request(&self, _ticket: Option<Ticket>, _handle: u32) {}

    fn error(&self) -> Option<String> {
        None
    }
}

impl Device {
    fn answer(&self, world: &World, answer: impl Fn(&Value) -> ProviderAnswer) {
        let (now, wall) = world.time();
        for (ticket, handle, raw) in std::mem::take(&mut *self.0.lock().unwrap()) {
            let mut wakes = Wakes::new();
            world
                .engine()
                .providers()
                .answer(ticket, handle, answer(&raw), now, wall, &mut wakes);
        }
    }
}

/// Behaviour: B-20.
#[test]
fn write_through_a_provider_has_the_outcome_of_the_provider() {
    let mut sut = Pair::of(&["x"]);
    let (world, device) = (sut.world.clone(), Arc::new(Device::default()));
    let x = sut.variable("rig/x");
    let handle = world
        .engine()
        .resolve(&world.caller(), "rig/x")
        .unwrap()
        .handle();
    let provider = world.engine().providers().attach(device.clone(), &[handle]);
    let id = sut.subscribe(&["rig/x"], "latest");
    sut.values(id);

    let batch = sut.client.write([number(x, 1.5)]).unwrap();
    sut.exchange();
    // The cell waits for the device.
    assert!(!sut.client.is_settled(batch));
    assert_eq!(sut.values(id), [0.0; 0]);
    device.answer(&world, |_| ProviderAnswer::Applied(Value::F64(1.0)));
    sut.exchange();
    assert_eq!(applied(&sut.client.take_outcomes(batch).unwrap()[0]), 2);
    assert_eq!(sut.values(id), [1.0]);

    let batch = sut.client.write([number(x, 2.0)]).unwrap();
    sut.exchange();
    device.answer(&world, |_| {
        ProviderAnswer::Refused("the valve is locked".into())
    });
    sut.exchange();
    let outcomes = sut.client.take_outcomes(batch).unwrap();
    let (code, sentence) = refused(&outcomes[0]);
    assert_eq!(code, FaultCode::ProviderRefused);
    assert_eq!(sentence, "device refused: the valve is locked");

    let batch = sut.client.write([number(x, 3.0)]).unwrap();
    sut.exchange();
    sut.pass(Duration::from_secs(6));
    let outcomes = sut.client.take_outcomes(batch).unwrap();
    assert!(
        matches!(&outcomes[0], WriteOutcome::Unknown(fault) if fault.code == FaultCode::TimedOut)
    );

    let batch = sut.client.write([number(x, 4.0)]).unwrap();
    sut.exchange();
    let (now, wall) = world.time();
    world
        .engine()
        .providers()
        .detach(provider, Reason::ProviderGone, now, wall, &mut Wakes::new());
    sut.exchange();
    let outcomes = sut.client.take_outcomes(batch).unwrap();
    assert!(matches!(&outcomes[0], WriteOutcome::Unknown(f) if f.code == FaultCode::ProviderGone));
    let quality = sut.readings(id).pop().unwrap().sample.quality;
    assert_eq!(quality.reason(), Reason::ProviderGone);
}

#[test]
fn a_value_of_sixteen_megabytes_is_written_read_and_delivered() {
    let world = World::with_library("rig", vec![define("blob", DataType::Bytes, |_| {})]);
    let mut sut = Pair::on(&world);
    let id = sut.subscribe(&["rig/blob"], "latest");
    let blob = sut.variable("rig/blob");
    let bytes: Vec<u8> = (0..(16 << 20) - 8).map(|n| n as u8).collect();
    let outcomes = sut.write_values([Write::new(blob, Value::Bytes(bytes.clone().into()))]);
    assert_eq!(applied(&outcomes[0]), 1);
    let read = sut.read(&[blob]).remove(0).unwrap();
    assert!(read.sample.value == Value::Bytes(bytes.clone().into()));
    let events = sut.events(id);
    let last = events
        .into_iter()
        .filter_map(crate::rig::reading)
        .next_back()
        .unwrap();
    assert!(last.sample.value == Value::Bytes(bytes.into()));
    assert!(sut.traffic.to_client.count(FrameKind::Part) >= 32);
}

#[test]
fn write_reaches_each_of_several_subscriptions_once() {
    let mut sut = Pair::of(&["x"]);
    let x = sut.variable("rig/x");
    let ids = ["latest", "last:5", "first:5", "all"].map(|c| sut.subscribe(&["rig/x"], c));
    sut.write([(x, 1.0)]);
    for id in ids {
        let events = sut.events(id);
        let readings = events
            .iter()
            .filter(|e| matches!(e, Event::Reading { .. }))
            .count();
        assert!((1..=2).contains(&readings), "{events:?}");
    }
}
