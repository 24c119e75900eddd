//! Tests groups, snapshots and leases in simulated time, with connections that break.

use std::time::Duration;

use trunkline_client::{
    GroupOutcome, Lease, LeaseTerms, NotTried, Snapshot, VariableRef, Write, WriteOptions,
    WriteOutcome,
};
use trunkline_proto::message::group::GroupWriteBuilder;
use trunkline_proto::{Fault, FaultCode, Features, FrameKind, Negotiation};
use trunkline_serve::ServeOptions;
use trunkline_types::{Contract, DataType, Properties, Value};

use crate::rig::{Pair, World, applied, client_options, define, f64_variable, value};

const NAMES: [&str; 3] = ["rig/a", "rig/b", "rig/c"];
const TEN: Duration = Duration::from_secs(10);

fn abc() -> Pair {
    Pair::of(&["a", "b", "c"])
}

fn open_all(sut: &mut Pair) -> Vec<VariableRef> {
    let opened = sut.open(&NAMES);
    let opened = opened.into_iter().map(|one| one.unwrap().variable);
    opened.collect()
}

fn writes(variables: &[VariableRef], value: f64) -> Vec<Write> {
    let write = |variable: &VariableRef| Write::new(*variable, Value::F64(value));
    variables.iter().map(write).collect()
}

fn ended(answer: Result<GroupOutcome, Fault>) -> GroupOutcome {
    answer.unwrap()
}

fn group(sut: &mut Pair, variables: &[VariableRef], value: f64) -> GroupOutcome {
    let request = sut.client.write_group(writes(variables, value), false);
    let answer = sut.answer(request.unwrap());
    ended(answer)
}

fn snapshot(sut: &mut Pair, variables: &[VariableRef]) -> Snapshot {
    let request = sut.client.snapshot(variables).unwrap();
    sut.answer(request).unwrap()
}

fn lease(
    sut: &mut Pair,
    variables: &[VariableRef],
    terms: LeaseTerms,
) -> Vec<Result<Lease, Fault>> {
    let request = sut.client.lease(variables, terms).unwrap();
    sut.answer(request).unwrap()
}

fn code(outcome: &WriteOutcome) -> FaultCode {
    match outcome {
        WriteOutcome::Refused(fault) | WriteOutcome::Unknown(fault) => fault.code,
        other => panic!("no fault: {other:?}"),
    }
}

/// Another session that subscribes to the variables with `all` receives each group as a whole.
/// Behaviour: B-23.
#[test]
fn other_sessions_get_the_group_contiguous() {
    let mut sut = abc();
    let variables = open_all(&mut sut);
    let mut other = Pair::on(&sut.world);
    let all = other.subscribe(&NAMES, "all");
    let latest = other.subscribe(&NAMES, "latest");
    other.values(all);
    other.values(latest);
    for turn in 1..=3_u32 {
        let ended = group(&mut sut, &variables, f64::from(turn));
        assert_eq!(ended.commit, Some(u64::from(turn)));
        other.exchange();
        assert_eq!(other.values(all), [f64::from(turn); 3]);
        assert_eq!(other.values(latest), [f64::from(turn); 3]);
    }
}

/// The answer arrives before the updates, so the updates of the client's own group are marked as own.
/// Behaviour: B-21, B-23.
#[test]
fn the_answer_precedes_the_updates_of_the_group() {
    for contract in ["all", "latest", "last:5"] {
        let mut sut = abc();
        let variables = open_all(&mut sut);
        let id = sut.subscribe(&NAMES, contract);
        sut.readings(id);
        sut.traffic = Default::default();
        assert_eq!(group(&mut sut, &variables, 1.0).commit, Some(1));
        let readings = sut.readings(id);
        assert_eq!(readings.len(), 3);
        assert!(readings.iter().all(|reading| reading.own), "{contract}");
        let kinds = &sut.traffic.to_client.kinds;
        let place = |kind: FrameKind| kinds.iter().position(|k| *k == kind.number());
        assert!(place(FrameKind::GroupAnswer) < place(FrameKind::Updates));
        assert_eq!(sut.traffic.to_client.count(FrameKind::GroupAnswer), 1);
    }
}

fn with_stall(stall: Duration) -> World {
    let stall = move |p: &mut Properties| p.stall = stall;
    let variables = ["a", "b", "c"].map(|name| define(name, DataType::F64, stall));
    World::with_library("rig", variables.to_vec())
}

const BOUND: Contract = Contract::All {
    elements: 4,
    bytes: 1 << 20,
};

/// A waiting group delays the next requests of its session, but no other session. With `try`, a group
/// does not wait.
/// Behaviour: B-08, B-23.
#[test]
fn group_waits_for_a_slow_subscriber_and_continues_with_room() {
    let world = with_stall(Duration::from_secs(3600));
    let mut sut = Pair::on(&world);
    let variables = open_all(&mut sut);
    let mut slow = Pair::on(&world);
    let id = slow.subscribe_with(&NAMES, BOUND, Default::default());
    slow.values(id);
    slow.is_stopped = true;
    // Write until the client's window, the connection and the feed are full.
    let mut written = 0;
    let request = loop {
        let request = sut
            .client
            .write_group(writes(&variables, 1.0), false)
            .unwrap();
        sut.exchange();
        match sut.client.take(request) {
            Some(answer) => assert!(ended(answer).commit.is_some()),
            None => break request,
        }
        written += 1;
        assert!(written < 1_000_000, "the feed has a bound");
    };
    let try_only = sut
        .client
        .write_group(writes(&variables, 2.0), true)
        .unwrap();
    let after = sut.client.read(&variables[..1]).unwrap();
    sut.exchange();
    assert!(!sut.client.is_answered(try_only) && !sut.client.is_answered(after));
    let mut third = Pair::on(&world);
    let theirs = third.variable("rig/a");
    assert_eq!(third.read(&[theirs])[0].as_ref().map(value), Ok(1.0));
    slow.is_stopped = false;
    for _ in 0..10 {
        slow.values(id);
        sut.exchange();
    }
    assert_eq!(
        ended(sut.client.take(request).unwrap()).commit,
        Some(written + 1)
    );
    assert!(sut.client.is_answered(after));
    let tried = ended(sut.client.take(try_only).unwrap());
    let would_block = tried
        .outcomes
        .iter()
        .all(|one| *one == WriteOutcome::NotTried(NotTried::WouldBlock));
    assert!(tried.commit.is_some() || would_block);
}

/// Behaviour: B-20, B-23.
#[test]
fn a_group_whose_answer_is_lost_is_unknown_and_is_not_written_twice() {
    let mut sut = abc();
    let variables = open_all(&mut sut);
    let request = sut
        .client
        .write_group(writes(&variables, 1.0), false)
        .unwrap();
    sut.turn_of_client();
    sut.turn_of_session();
    sut.cut();
    let ended = ended(sut.client.take(request).expect("it has ended"));
    assert_eq!((ended.commit, ended.refused_member), (None, None));
    assert!(
        ended
            .outcomes
            .iter()
            .all(|one| matches!(one, WriteOutcome::Unknown(_)))
    );
    assert_eq!(sut.client.write_counts().unknown, 3);
    sut.connect();
    assert_eq!(
        sut.world.sequence("rig/a"),
        2,
        "the first value and the group"
    );
    let held = snapshot(&mut sut, &variables);
    assert!(held.is_consistent);
    let values: Vec<f64> = held.readings.iter().flatten().map(value).collect();
    assert_eq!(values, [1.0; 3]);
}

/// Unsent writes are sent on the next connection, and a lease is requested again.
/// Behaviour: B-22, B-23.
#[test]
fn unsent_writes_are_sent_on_the_next_connection() {
    let mut sut = abc();
    let variables = open_all(&mut sut);
    sut.cut();
    let written = sut
        .client
        .write_group(writes(&variables, 1.0), false)
        .unwrap();
    let leased = sut
        .client
        .lease(&variables, LeaseTerms::acquire(TEN))
        .unwrap();
    sut.connect();
    let ended = ended(sut.client.take(written).expect("it is answered"));
    assert_eq!(ended.commit, Some(1));
    assert!(matches!(sut.client.take(leased), Some(Ok(leases))
        if leases.iter().all(Result::is_ok)));
}

/// Behaviour: B-23.
#[test]
fn group_with_an_invalid_member_is_refused_by_the_client() {
    let mut sut = abc();
    let variables = open_all(&mut sut);
    let mut wrong = writes(&variables, 1.0);
    wrong[2].value = Value::Bool(true);
    let request = sut.client.write_group(wrong, false).unwrap();
    let ended = ended(sut.answer(request));
    assert_eq!((ended.commit, ended.refused_member), (None, Some(2)));
    assert_eq!(code(&ended.outcomes[2]), FaultCode::WrongType);
    let WriteOutcome::Refused(fault) = &ended.outcomes[0] else {
        panic!("{ended:?}");
    };
    assert!(fault.sentence.ends_with("because of rig/c"), "{fault}");
    assert!(sut.client.write_group(Vec::new(), false).is_err());
    let counts = sut.client.write_counts();
    assert_eq!((counts.issued, counts.refused), (3, 3));
}

/// Of two overlapping groups with expected positions, only one can succeed.
/// Behaviour: B-22, B-23.
#[test]
fn a_group_with_expected_positions_is_a_transaction() {
    let mut sut = abc();
    let variables = open_all(&mut sut);
    let read = snapshot(&mut sut, &variables);
    let positions: Vec<_> = read
        .readings
        .iter()
        .flatten()
        .map(|one| one.position)
        .collect();
    let expecting = |value: f64| -> Vec<Write> {
        let writes = writes(&variables, value).into_iter().zip(&positions);
        writes.map(|(write, at)| write.expecting(*at)).collect()
    };
    let first = sut.client.write_group(expecting(1.0), false).unwrap();
    let second = sut.client.write_group(expecting(2.0), false).unwrap();
    sut.exchange();
    assert_eq!(ended(sut.client.take(first).unwrap()).commit, Some(1));
    let refused = ended(sut.client.take(second).unwrap());
    assert_eq!(code(&refused.outcomes[0]), FaultCode::Conflict);
    assert_eq!(refused.commit, None);
}

/// A group does not overtake writes that wait for credit.
/// Behaviour: B-23, VS-06.
#[test]
fn a_group_does_not_overtake_writes_that_wait_for_credit() {
    let world = World::with_library("rig", ["a", "b", "c"].map(f64_variable).to_vec());
    let options = ServeOptions {
        write_credit_count: 2,
        ..ServeOptions::default()
    };
    let mut sut = Pair::offline(&world, options, client_options());
    sut.connect();
    let variables = open_all(&mut sut);
    let id = sut.subscribe(&NAMES, "all");
    sut.values(id);
    let single = (0..9).map(|n| Write::new(variables[0], Value::F64(f64::from(n))));
    let batch = sut.client.write(single).unwrap();
    let request = sut
        .client
        .write_group(writes(&variables, 50.0), false)
        .unwrap();
    let after = sut.client.write(writes(&variables[..1], 60.0)).unwrap();
    sut.exchange();
    assert_eq!(applied(&sut.client.take_outcomes(batch).unwrap()[8]), 9);
    assert_eq!(
        applied(&ended(sut.client.take(request).unwrap()).outcomes[0]),
        10
    );
    assert_eq!(applied(&sut.client.take_outcomes(after).unwrap()[0]), 11);
    let values = sut.values(id);
    assert_eq!(values[9..], [50.0, 50.0, 50.0, 60.0]);
}

/// Behaviour: B-23.
#[test]
fn paged_snapshot_of_long_values_is_of_one_instant() {
    let text = |name: &str| define(name, DataType::String, |_| {});
    let names: Vec<String> = (0..200).map(|n| n.to_string()).collect();
    let world = World::with_library("rig", names.iter().map(|name| text(name)).collect());
    let mut sut = Pair::on(&world);
    let full: Vec<String> = names.iter().map(|name| format!("rig/{name}")).collect();
    let full: Vec<&str> = full.iter().map(String::as_str).collect();
    let opened = sut.open(&full).into_iter();
    let variables: Vec<_> = opened.map(|one| one.unwrap().variable).collect();
    let of = |letter: &str| -> Vec<Write> {
        let value = Value::String(letter.repeat(2000).into());
        let write = |variable: &VariableRef| Write::new(*variable, value.clone());
        variables.iter().map(write).collect()
    };
    let first = sut.client.write_group(of("x"), false).unwrap();
    assert_eq!(ended(sut.answer(first)).commit, Some(1));
    sut.traffic = Default::default();
    let asked = sut.client.snapshot(&variables).unwrap();
    sut.turn_of_client();
    sut.turn_of_session();
    // All variables change while the answer is in flight.
    let mut other = Pair::on(&world);
    let opened = other.open(&full).into_iter();
    let theirs: Vec<_> = opened.map(|one| one.unwrap().variable).collect();
    let value = Value::String("y".into());
    let changes = theirs.iter().map(|one| Write::new(*one, value.clone()));
    let changed = other.client.write_group(changes.collect(), false).unwrap();
    assert_eq!(ended(other.answer(changed)).commit, Some(2));
    sut.exchange();
    let snapshot = sut.client.take(asked).unwrap().unwrap();
    assert!(snapshot.is_consistent);
    assert_eq!(snapshot.commit, 1);
    assert!(sut.traffic.to_client.count(FrameKind::SnapshotAnswer) > 1);
    let expected = Value::String("x".repeat(2000).into());
    let readings = snapshot.readings.iter().flatten();
    assert_eq!(
        readings.filter(|one| one.sample.value == expected).count(),
        200
    );
}

/// A disconnected client has no lease, whether or not it has sent GOODBYE.
/// Behaviour: B-22, H-19.
#[test]
fn a_lease_ends_with_its_time_and_with_its_session() {
    let mut sut = abc();
    let mine = open_all(&mut sut);
    let mut other = Pair::on(&sut.world);
    let theirs = open_all(&mut other);
    let granted = lease(&mut sut, &mine[..2], LeaseTerms::acquire(TEN));
    let granted = granted[0].as_ref().expect("it is free");
    assert_eq!((granted.duration, granted.position.sequence), (TEN, 1));
    let outcomes = other.write(theirs.iter().map(|one| (*one, 1.0)));
    let codes: Vec<_> = outcomes[..2].iter().map(code).collect();
    assert_eq!(codes, [FaultCode::Leased; 2]);
    assert_eq!(applied(&outcomes[2]), 2);
    sut.world.advance(TEN - Duration::from_millis(1));
    assert_eq!(code(&other.write([(theirs[0], 1.0)])[0]), FaultCode::Leased);
    sut.world.advance(Duration::from_millis(1));
    assert_eq!(applied(&other.write([(theirs[0], 1.0)])[0]), 2);
    let lost = lease(&mut sut, &mine[..1], LeaseTerms::renew(TEN));
    assert_eq!(lost[0].as_ref().unwrap_err().code, FaultCode::NotLeased);

    let hour = Duration::from_secs(3600);
    assert!(
        lease(&mut sut, &mine, LeaseTerms::acquire(hour))
            .iter()
            .all(Result::is_ok)
    );
    assert_eq!(code(&other.write([(theirs[0], 1.0)])[0]), FaultCode::Leased);
    sut.cut();
    assert_eq!(applied(&other.write([(theirs[0], 1.0)])[0]), 3);
}

/// Behaviour: H-19.
#[test]
fn refused_session_learns_the_holder_and_takes_over() {
    let alone = |p: &mut Properties| p.single_writer = true;
    let world = World::with_library("rig", vec![define("x", DataType::F64, alone)]);
    let (mut sut, mut other) = (Pair::on(&world), Pair::on(&world));
    let (mine, theirs) = (sut.variable("rig/x"), other.variable("rig/x"));
    assert_eq!(applied(&sut.write([(mine, 1.0)])[0]), 1);
    let outcomes = other.write([(theirs, 2.0)]);
    assert_eq!(code(&outcomes[0]), FaultCode::SingleWriter);
    assert_eq!(other.info(theirs).writers_waiting, 1);
    assert!(!other.info(theirs).held_by.is_empty());
    sut.cut();
    assert_eq!(other.info(theirs).writers_waiting, 0);
    sut.connect();
    assert_eq!(code(&sut.write([(mine, 3.0)])[0]), FaultCode::SingleWriter);
    assert_eq!(applied(&other.write([(theirs, 2.0)])[0]), 2);
}

/// Behaviour: B-50, B-51.
#[test]
fn an_engine_that_does_not_know_groups_is_not_sent_any() {
    let world = World::with_library("rig", ["a", "b", "c"].map(f64_variable).to_vec());
    let negotiation = Negotiation {
        features: Features::PROVIDER | Features::REGISTERS,
        ..Negotiation::OURS
    };
    let options = ServeOptions {
        negotiation,
        ..ServeOptions::default()
    };
    let mut sut = Pair::offline(&world, options, client_options());
    sut.connect();
    let variables = open_all(&mut sut);
    sut.traffic = Default::default();
    let refused = group(&mut sut, &variables, 1.0);
    assert_eq!(code(&refused.outcomes[0]), FaultCode::NotSupported);
    let held = snapshot(&mut sut, &variables);
    assert!(!held.is_consistent);
    assert_eq!(
        held.readings[0].as_ref().unwrap_err().code,
        FaultCode::NotSupported
    );
    let leases = lease(&mut sut, &variables, LeaseTerms::acquire(TEN));
    assert_eq!(
        leases[2].as_ref().unwrap_err().code,
        FaultCode::NotSupported
    );
    assert_eq!(sut.traffic.to_engine.kinds.len(), 0);
}

/// Groups that the production client would not send.
#[test]
fn a_group_of_too_many_or_of_orders_is_refused() {
    use trunkline_proto::Endpoint;
    use trunkline_proto::message::fault::FaultMessage;
    use trunkline_proto::message::group::GroupAnswer;
    use trunkline_proto::message::write::WriteVerb;

    let mut sut = abc();
    let (engine, caller) = (sut.world.engine(), sut.world.caller());
    let handle = engine.resolve(&caller, "rig/a").unwrap().handle();
    let mut bytes = Vec::new();
    let mut frame = GroupWriteBuilder::begin(&mut bytes, 900, false);
    let plain = WriteOptions::default();
    (0..4097).for_each(|_| frame.push(handle, &plain, &[0; 8]));
    frame.finish();
    let mut frame = GroupWriteBuilder::begin(&mut bytes, 901, false);
    let odd = [
        WriteOptions { raw: true, ..plain },
        WriteOptions {
            verb: Ok(WriteVerb::Unforce),
            ..plain
        },
        WriteOptions {
            verb: Err(99),
            ..plain
        },
    ];
    for (options, at) in odd.iter().zip(0..) {
        frame.push(handle + at, options, &[0; 8]);
    }
    frame.finish();
    let (now, wall) = sut.world.time();
    let session = sut.session.as_mut().unwrap();
    session.handle_input(now, wall, &bytes);
    let mut out = Vec::new();
    session.poll_output(now, wall, 1 << 20, &mut out);
    let mut rest = out.as_slice();
    let first = trunkline_proto::Frame::take_from(&mut rest)
        .unwrap()
        .unwrap();
    let fault = FaultMessage::decode(&first).unwrap();
    assert_eq!(
        (first.request(), fault.fault.code),
        (900, FaultCode::TooLarge)
    );
    let second = trunkline_proto::Frame::take_from(&mut rest)
        .unwrap()
        .unwrap();
    let answer = GroupAnswer::decode(&second).unwrap();
    assert_eq!(answer.head().commit, None);
    use trunkline_proto::message::outcome::WriteAnswer as Wire;
    for outcome in answer {
        let Wire::Refused(fault) = outcome.unwrap() else {
            panic!("it is refused");
        };
        assert_eq!(fault.code, FaultCode::NotGroupable);
    }
    assert_eq!(sut.world.sequence("rig/a"), 1);
}
