//! Groups: many variables written together or not at all, and read at one instant.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]
#![cfg(not(shuttle))]

mod rig;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rig::{
    Bell, ConsumerEvent, EPOCH, Recorder, Rig, applied, define, numbers, only_updates, updates,
};
use trunkline_engine::{
    Caller, Consumer, GROUP_MAX, GroupAttempt, GroupMember, GroupOutcome, Provider, Refusal,
    Ticket, Variable, Wakes, Write, WriteOutcome, WriteVerb,
};
use trunkline_types::{Contract, DataType, Deadband, Position, Properties, Value};

const STALL: Duration = Duration::from_secs(1);

/// Returns an engine with `count` f64 variables `rig/0`, `rig/1` and so on.
fn several(count: usize, properties: &Properties) -> (Rig, Vec<Arc<Variable>>) {
    let define = |n: usize| define(&n.to_string(), properties.clone());
    let rig = Rig::with((0..count).map(define).collect());
    let variable = |n: usize| rig.variable(&format!("rig/{n}"));
    let variables = (0..count).map(variable).collect();
    (rig, variables)
}

fn plain(count: usize) -> (Rig, Vec<Arc<Variable>>) {
    several(count, &Properties::new(DataType::F64))
}

fn member<'a>(variable: &Variable, value: &'a Value) -> GroupMember<'a> {
    GroupMember {
        handle: variable.handle(),
        write: Write::value(value),
    }
}

fn attempt(rig: &Rig, members: &[GroupMember<'_>]) -> GroupAttempt {
    let (now, wall, caller) = (rig.now(), rig.wall(), &rig.caller);
    let mut wakes = Wakes::new();
    rig.engine
        .groups()
        .try_write(caller, now, wall, members, &mut wakes)
}

fn write(rig: &Rig, members: &[GroupMember<'_>]) -> GroupOutcome {
    match attempt(rig, members) {
        GroupAttempt::Done(outcome) => outcome,
        other => panic!("the group has not ended: {other:?}"),
    }
}

/// Writes the same value to all variables, in the given order.
fn write_all(rig: &Rig, variables: &[Arc<Variable>], value: f64) -> GroupOutcome {
    let value = Value::F64(value);
    let members: Vec<_> = variables.iter().map(|one| member(one, &value)).collect();
    write(rig, &members)
}

fn because_of(name: &str) -> WriteOutcome {
    WriteOutcome::Refused(Refusal::Group {
        name: Arc::from(name),
    })
}

fn assert_ledgers(variables: &[Arc<Variable>], offered: u64, written: u64, refused: u64) {
    for variable in variables {
        let ledger = variable.ledger();
        let got = (ledger.offered, ledger.written, ledger.refused);
        assert_eq!(got, (offered, written, refused), "{variable:?}: {ledger:?}");
        assert!(ledger.is_balanced());
    }
}

/// Behaviour: B-23.
#[test]
fn a_group_has_one_time_and_one_commit_number() {
    let (rig, variables) = plain(3);
    let first = write_all(&rig, &variables, 1.0);
    rig.advance(Duration::from_secs(1));
    let second = write_all(&rig, &variables, 2.0);
    assert_eq!((first.commit, second.commit), (Some(1), Some(2)));
    assert_eq!(second.outcomes, vec![applied(2); 3]);
    for variable in &variables {
        let update = variable.update();
        assert_eq!(update.engine_timestamp, rig.wall());
        assert_eq!(variable.sample().value, Value::F64(2.0));
    }
    assert_ledgers(&variables, 2, 2, 0);
}

/// Behaviour: B-23.
#[test]
fn one_refused_member_refuses_the_group_and_is_named_in_the_others() {
    let (rig, variables) = plain(3);
    let (good, bad) = (Value::F64(1.0), Value::Bool(true));
    let ended = write(
        &rig,
        &[
            member(&variables[2], &good),
            member(&variables[0], &bad),
            member(&variables[1], &good),
        ],
    );
    assert_eq!((ended.commit, ended.refused_member), (None, Some(1)));
    assert_eq!(ended.outcomes[0], because_of("rig/0"));
    assert_eq!(ended.outcomes[2], because_of("rig/0"));
    let WriteOutcome::Refused(refusal @ Refusal::WrongType { .. }) = &ended.outcomes[1] else {
        panic!("{ended:?}");
    };
    assert!(refusal.to_string().contains("f64"));
    assert!(variables.iter().all(|one| one.sequence() == 0));
    assert_ledgers(&variables, 1, 0, 1);
}

/// A condition that is checked only under the locks also refuses the group, without a change.
/// Behaviour: B-22, B-23.
#[test]
fn member_at_an_unexpected_position_refuses_the_group() {
    let (rig, variables) = plain(3);
    assert!(write_all(&rig, &variables, 1.0).commit.is_some());
    let value = Value::F64(2.0);
    let mut members: Vec<_> = variables.iter().map(|one| member(one, &value)).collect();
    members[2].write.expected = Some(Position {
        epoch: EPOCH,
        sequence: 5,
    });
    let ended = write(&rig, &members);
    assert_eq!((ended.commit, ended.refused_member), (None, Some(2)));
    let position = |sequence| Position {
        epoch: EPOCH,
        sequence,
    };
    let conflict = Refusal::Conflict {
        actual: position(1),
        expected: position(5),
    };
    assert_eq!(ended.outcomes[2], WriteOutcome::Refused(conflict));
    assert_eq!(ended.outcomes[0], because_of("rig/2"));
    assert_ledgers(&variables, 2, 1, 1);
    members[2].write.expected = Some(Position {
        epoch: EPOCH,
        sequence: 1,
    });
    assert_eq!(write(&rig, &members).commit, Some(2));
    assert_ledgers(&variables, 3, 2, 1);
}

/// Behaviour: B-23.
#[test]
fn a_variable_twice_an_unknown_one_and_too_many_refuse_the_group() {
    let (rig, variables) = plain(2);
    let value = Value::F64(1.0);
    let twice = [
        member(&variables[0], &value),
        member(&variables[1], &value),
        member(&variables[0], &value),
    ];
    let ended = write(&rig, &twice);
    let refused = WriteOutcome::Refused(Refusal::TwiceInGroup);
    assert_eq!(
        ended.outcomes,
        [refused.clone(), because_of("rig/0"), refused]
    );
    let unknown = GroupMember {
        handle: 999,
        write: Write::value(&value),
    };
    let ended = write(&rig, &[unknown, member(&variables[0], &value)]);
    assert_eq!(ended.outcomes[1], because_of("handle 999"));
    let many: Vec<_> = (0..=GROUP_MAX)
        .map(|_| member(&variables[1], &value))
        .collect();
    let ended = write(&rig, &many);
    assert!(matches!(
        ended.outcomes[0],
        WriteOutcome::Refused(Refusal::GroupTooLarge { given: 4097, .. })
    ));
    assert!(variables.iter().all(|one| one.sequence() == 0));
}

/// A provider that a group must never ask.
struct Device;

impl Provider for Device {
    fn name(&self) -> Arc<str> {
        Arc::from("device")
    }

    fn send(&self, _ticket: Ticket, _handle: u32, _raw: Value) {
        panic!("the group asked the provider");
    }

    fn request(&self, _ticket: Option<Ticket>, _handle: u32) {}

    fn error(&self) -> Option<String> {
        None
    }
}

/// A provider accepts writes one by one, so it is unknown whether all or none were written.
/// Behaviour: B-23.
#[test]
fn a_provided_variable_is_set_in_a_group_but_not_put() {
    let (rig, variables) = plain(2);
    let device = Arc::new(Device);
    let _id = rig
        .engine
        .providers()
        .attach(device, &[variables[1].handle()]);
    let value = Value::F64(1.0);
    let mut members = [member(&variables[0], &value), member(&variables[1], &value)];
    let ended = write(&rig, &members);
    assert!(matches!(
        ended.outcomes[1],
        WriteOutcome::Refused(Refusal::NotGroupable { .. })
    ));
    assert_eq!(ended.outcomes[0], because_of("rig/1"));
    members[1].write.verb = WriteVerb::Set;
    assert!(write(&rig, &members).commit.is_some());
    assert_eq!(variables[1].sample().value, value);
    members[1].write.verb = WriteVerb::Force;
    assert!(matches!(
        write(&rig, &members).outcomes[1],
        WriteOutcome::Refused(Refusal::NotGroupable { .. })
    ));
}

/// Behaviour: B-23, H-05.
#[test]
fn a_member_within_its_deadband_is_unchanged_and_the_others_are_written() {
    let properties = Properties {
        deadband: Deadband {
            user_percent: 10.0,
            source_percent: 0.0,
        },
        ..Properties::new(DataType::F64)
    };
    let (rig, variables) = several(2, &properties);
    assert!(write_all(&rig, &variables, 50.0).commit.is_some());
    let (near, far) = (Value::F64(51.0), Value::F64(80.0));
    let ended = write(
        &rig,
        &[member(&variables[0], &near), member(&variables[1], &far)],
    );
    assert_eq!(ended.commit, Some(2));
    let unchanged = WriteOutcome::Unchanged(1);
    assert_eq!(ended.outcomes, [unchanged, applied(2)]);
    assert!(variables.iter().all(|one| one.ledger().is_balanced()));
}

fn subscribe_all(rig: &Rig, consumer: &mut Consumer, variables: &[Arc<Variable>], bound: u32) {
    let contract = Contract::All {
        elements: bound,
        bytes: 1 << 20,
    };
    for variable in variables {
        rig.subscribe(consumer, 1, contract, variable);
    }
}

/// Behaviour: B-23.
#[test]
fn feed_has_the_group_contiguous_in_lock_order() {
    let (rig, variables) = plain(4);
    let mut consumer = rig.consumer();
    subscribe_all(&rig, &mut consumer, &variables, 100);
    updates(&mut consumer);
    let reversed: Vec<_> = variables.iter().rev().cloned().collect();
    assert!(write_all(&rig, &reversed, 1.0).commit.is_some());
    assert!(write_all(&rig, &variables, 2.0).commit.is_some());
    let got = updates(&mut consumer);
    assert_eq!(numbers(&got), [1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0]);
    let handles: Vec<_> = got.iter().map(|got| got.handle).collect();
    let ascending: Vec<_> = variables.iter().map(|one| one.handle()).collect();
    assert_eq!(handles, [ascending.clone(), ascending].concat());
}

/// The consumer is woken for the group, and finds all of it.
/// Behaviour: B-23.
#[test]
fn a_group_wakes_its_reader_once() {
    let (rig, variables) = plain(3);
    let bell = Bell::default();
    let mut consumer = Consumer::new(rig.engine.clone(), Box::new(bell.clone()));
    subscribe_all(&rig, &mut consumer, &variables, 100);
    updates(&mut consumer);
    bell.rings();
    assert!(write_all(&rig, &variables, 1.0).commit.is_some());
    assert_eq!(bell.rings(), 1);
    assert_eq!(updates(&mut consumer).len(), 3);
}

/// Behaviour: B-08, B-23.
#[test]
fn group_without_room_has_no_number_and_continues_later() {
    let properties = Properties {
        stall: STALL,
        ..Properties::new(DataType::F64)
    };
    let (rig, variables) = several(4, &properties);
    let (mut slow, mut fast) = (rig.consumer(), rig.consumer());
    subscribe_all(&rig, &mut slow, &variables, 5);
    subscribe_all(&rig, &mut fast, &variables, 100);
    updates(&mut slow);
    updates(&mut fast);
    rig.write(&variables[0], 0.5);
    rig.write(&variables[3], 0.5);
    let value = Value::F64(1.0);
    let members: Vec<_> = variables.iter().map(|one| member(one, &value)).collect();
    let GroupAttempt::WouldBlock { until, handle } = attempt(&rig, &members) else {
        panic!("the feed has no room for four more updates");
    };
    assert_eq!(until, rig.now().saturating_add(STALL));
    assert!(variables.iter().any(|one| one.handle() == handle));
    // The group was not counted, and the other feed has its room back.
    let offered: u64 = variables.iter().map(|one| one.ledger().offered).sum();
    assert_eq!(offered, 2);
    assert_eq!(updates(&mut fast).len(), 2);
    let writer = rig.consumer();
    assert!(writer.wait_for_room(&rig.engine.variable(handle).unwrap()));
    assert_eq!(
        attempt(&rig, &members),
        attempt(&rig, &members),
        "the group still waits"
    );
    assert_eq!(updates(&mut slow).len(), 2);
    assert_eq!(write(&rig, &members).commit, Some(1));
    assert_eq!(numbers(&updates(&mut slow)), [1.0; 4]);
    assert_eq!(numbers(&updates(&mut fast)), [1.0; 4]);
}

/// Behaviour: B-23.
#[test]
fn after_the_stall_the_full_subscription_ends_and_the_group_is_written() {
    let properties = Properties {
        stall: STALL,
        ..Properties::new(DataType::F64)
    };
    let (rig, variables) = several(3, &properties);
    let mut slow = rig.consumer();
    subscribe_all(&rig, &mut slow, &variables, 2);
    updates(&mut slow);
    rig.write(&variables[0], 0.5);
    let value = Value::F64(1.0);
    let members: Vec<_> = variables.iter().map(|one| member(one, &value)).collect();
    assert!(matches!(
        attempt(&rig, &members),
        GroupAttempt::WouldBlock { .. }
    ));
    rig.advance(STALL);
    assert_eq!(write(&rig, &members).commit, Some(1));
    let events = rig::drain(&mut slow);
    let [
        ConsumerEvent::Update(_),
        ConsumerEvent::Overrun { items, .. },
    ] = events.as_slice()
    else {
        panic!("{events:?}");
    };
    let lost: u64 = items.iter().map(|item| item.lost).sum();
    assert_eq!(lost, 3, "the three updates of the group are counted");
    assert!(variables.iter().all(|one| one.ledger().is_balanced()));
}

/// An empty feed accepts a group of any size. Otherwise a large group could never be delivered.
/// Behaviour: B-23.
#[test]
fn an_empty_feed_takes_a_group_larger_than_its_bound() {
    let (rig, variables) = plain(5);
    let mut consumer = rig.consumer();
    subscribe_all(&rig, &mut consumer, &variables, 2);
    updates(&mut consumer);
    assert!(write_all(&rig, &variables, 1.0).commit.is_some());
    assert_eq!(numbers(&updates(&mut consumer)), [1.0; 5]);
}

/// Behaviour: B-23.
#[test]
fn every_contract_gets_the_group() {
    let (rig, variables) = plain(3);
    for contract in [Contract::Latest, Contract::Last(4), Contract::First(4)] {
        let mut consumer = rig.consumer();
        for variable in &variables {
            rig.subscribe(&mut consumer, 1, contract, variable);
        }
        updates(&mut consumer);
        assert!(write_all(&rig, &variables, 7.0).commit.is_some());
        assert_eq!(numbers(&updates(&mut consumer)), [7.0; 3], "{contract}");
    }
}

/// Behaviour: B-23.
#[test]
fn members_may_be_of_different_types_and_lengths() {
    let text = define("text", Properties::new(DataType::String));
    let number = define("number", Properties::new(DataType::F64));
    let rig = Rig::with(vec![text, number]);
    let (text, number) = (rig.variable("rig/text"), rig.variable("rig/number"));
    let long = Value::String("x".repeat(1000).into());
    let one = Value::F64(1.0);
    let ended = write(&rig, &[member(&number, &one), member(&text, &long)]);
    assert_eq!(ended.commit, Some(1));
    let snapshot = rig
        .engine
        .groups()
        .snapshot(&rig.caller, &[text.handle(), number.handle()]);
    let values: Vec<_> = snapshot.updates.into_iter().map(Result::unwrap).collect();
    assert_eq!(values[0].value.decode(&DataType::String), long);
    assert_eq!(values[1].value.decode(&DataType::F64), one);
}

/// Behaviour: B-23.
#[test]
fn snapshot_names_unreadable_variables_and_the_previous_group() {
    let write_only = Properties {
        access: trunkline_types::Access::WriteOnly,
        ..Properties::new(DataType::F64)
    };
    let rig = Rig::with(vec![
        define("a", Properties::new(DataType::F64)),
        define("b", write_only),
    ]);
    let (a, b) = (rig.variable("rig/a"), rig.variable("rig/b"));
    let value = Value::F64(3.0);
    assert!(write(&rig, &[member(&a, &value)]).commit.is_some());
    let handles = [a.handle(), b.handle(), a.handle(), 777];
    let snapshot = rig.engine.groups().snapshot(&rig.caller, &handles);
    assert!(snapshot.is_consistent);
    assert_eq!(snapshot.commit, 1);
    let sequence = |at: usize| snapshot.updates[at].as_ref().map(|update| update.sequence);
    assert_eq!((sequence(0).unwrap(), sequence(2).unwrap()), (1, 1));
    assert!(sequence(1).unwrap_err().to_string().contains("write-only"));
    assert!(sequence(3).unwrap_err().to_string().contains("777"));
    let many = vec![a.handle(); GROUP_MAX + 1];
    assert!(
        !rig.engine
            .groups()
            .snapshot(&rig.caller, &many)
            .is_consistent
    );
}

/// Four threads write groups of equal values to overlapping sets of variables, in different orders,
/// while two threads take snapshots. Behaviour: B-23.
#[test]
fn snapshots_during_group_writes_show_exactly_one_group() {
    const GROUPS: u32 = 2_000;
    let (rig, variables) = plain(8);
    assert!(write_all(&rig, &variables, -1.0).commit.is_some());
    let handles: Vec<u32> = variables.iter().map(|one| one.handle()).collect();
    let (engine, now, wall) = (rig.engine.clone(), rig.now(), rig.wall());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4u32)
            .map(|writer| {
                let (engine, mut handles) = (engine.clone(), handles.clone());
                handles.rotate_left(writer as usize * 2);
                scope.spawn(move || {
                    let caller = Caller::local(writer + 1, 0);
                    for turn in 0..GROUPS {
                        let value = Value::F64(f64::from(turn * 4 + writer));
                        let members: Vec<_> = handles
                            .iter()
                            .map(|handle| GroupMember {
                                handle: *handle,
                                write: Write::value(&value),
                            })
                            .collect();
                        let mut wakes = Wakes::new();
                        let ended = engine
                            .groups()
                            .try_write(&caller, now, wall, &members, &mut wakes);
                        assert!(matches!(
                            ended,
                            GroupAttempt::Done(GroupOutcome {
                                commit: Some(_),
                                ..
                            })
                        ));
                    }
                })
            })
            .collect();
        for _ in 0..2 {
            let (engine, handles, is_over) = (engine.clone(), handles.clone(), &is_over);
            scope.spawn(move || {
                let caller = Caller::local(9, 0);
                while !is_over.load(Ordering::Relaxed) {
                    let snapshot = engine.groups().snapshot(&caller, &handles);
                    assert!(snapshot.is_consistent);
                    let updates: Vec<_> =
                        snapshot.updates.into_iter().map(Result::unwrap).collect();
                    let first = updates[0].value.as_slice();
                    assert!(
                        updates
                            .iter()
                            .all(|update| update.value.as_slice() == first)
                    );
                    let sequence = updates[0].sequence;
                    assert!(updates.iter().all(|update| update.sequence == sequence));
                    assert_eq!(
                        snapshot.commit, sequence,
                        "every commit covers all variables"
                    );
                }
            });
        }
        for writer in writers {
            writer.join().unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_ledgers(
        &variables,
        u64::from(GROUPS) * 4 + 1,
        u64::from(GROUPS) * 4 + 1,
        0,
    );
}

/// A reader that takes few updates at a time still gets each group contiguously. Behaviour: B-23.
#[test]
fn group_stays_contiguous_for_a_reader_that_takes_two_at_a_time() {
    let (rig, variables) = plain(3);
    let mut consumer = rig.consumer();
    subscribe_all(&rig, &mut consumer, &variables, 100);
    updates(&mut consumer);
    for value in [1.0, 2.0] {
        rig.write(&variables[1], 10.0 * value);
        assert!(write_all(&rig, &variables, value).commit.is_some());
    }
    let mut got = Vec::new();
    loop {
        let mut sink = Recorder::wanting(Some(2));
        let more = consumer.drain(&mut sink, &mut Wakes::new());
        got.extend(only_updates(sink.events));
        if !more {
            break;
        }
    }
    assert_eq!(numbers(&got), [10.0, 1.0, 1.0, 1.0, 20.0, 2.0, 2.0, 2.0]);
}
