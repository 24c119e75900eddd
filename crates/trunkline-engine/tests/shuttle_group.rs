//! Interleavings of groups, single writers, snapshots and leases, explored by shuttle.
//!
//! `SHUTTLE_SCHEDULES` says how many schedules each test tries (4,000 by default). Locks taken in
//! two orders show as a deadlock, which shuttle reports with the schedule to replay.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]
#![cfg(shuttle)]

mod rig;
mod schedules;

use std::sync::Arc;
use std::time::Duration;

use rig::{ConsumerEvent, EPOCH, Got, Recorder, START, define, library_of};
use schedules::{Bell, NOW, explore};
use shuttle::thread;
use trunkline_engine::{
    Attempt, Caller, Consumer, Engine, EngineOptions, GroupAttempt, GroupMember, LeaseRequest,
    Subscribe, Variable, Wakes, Write, WriteOutcome, WriteVerb,
};
use trunkline_types::{Contract, DataType, Moment, Properties, Value};

const HOUR: Duration = Duration::from_secs(3600);
const MOMENT: Moment = Moment {
    now: NOW,
    wall: START,
};

/// Returns an engine with three f64 variables.
fn engine(stall: Duration) -> (Engine, Vec<Arc<Variable>>) {
    let engine = Engine::new(EngineOptions::new("sut", EPOCH));
    let mut properties = Properties::new(DataType::F64);
    properties.stall = stall;
    let names = ["a", "b", "c"];
    let variables = names.map(|name| define(name, properties.clone())).to_vec();
    let handles = engine
        .libraries()
        .deploy(&library_of("rig", variables), NOW, START);
    let variable = |handle: u32| Arc::clone(&engine.variable(handle).expect("deployed"));
    let variables = handles.expect("well formed").into_iter().map(variable);
    let variables = variables.collect();
    (engine, variables)
}

fn try_group(engine: &Engine, session: u32, group: &[&Arc<Variable>], value: f64) -> GroupAttempt {
    let value = Value::F64(value);
    let members: Vec<_> = group
        .iter()
        .map(|variable| GroupMember {
            handle: variable.handle(),
            write: Write::value(&value),
        })
        .collect();
    let (caller, mut wakes) = (Caller::local(session, 0), Wakes::new());
    engine
        .groups()
        .try_write(&caller, NOW, START, &members, &mut wakes)
}

fn group(engine: &Engine, session: u32, group: &[&Arc<Variable>], value: f64) {
    match try_group(engine, session, group, value) {
        GroupAttempt::Done(ended) => assert!(ended.commit.is_some(), "{ended:?}"),
        other => panic!("{other:?}"),
    }
}

fn write(engine: &Engine, session: u32, variable: &Variable, value: f64) {
    let value = Value::F64(value);
    let (caller, write) = (Caller::local(session, 0), Write::value(&value));
    let attempt = engine.try_write(&caller, NOW, START, variable, &write, &mut Wakes::new());
    assert!(
        matches!(attempt, Attempt::Done(WriteOutcome::Applied(_))),
        "{attempt:?}"
    );
}

fn subscribe(consumer: &mut Consumer, contract: Contract, variable: &Arc<Variable>) {
    let caller = Caller::local(1, 0);
    consumer
        .subscribe(&caller, variable, Subscribe::new(1, contract))
        .expect("the variable can be subscribed");
}

/// Drains until `count` updates have arrived, and sleeps between wake-ups.
fn take(consumer: &mut Consumer, bell: &Bell, count: usize) -> Vec<Got> {
    let mut got = Vec::new();
    loop {
        let mut sink = Recorder::default();
        let more = consumer.drain(&mut sink, &mut Wakes::new());
        got.extend(sink.events.into_iter().map(|event| match event {
            ConsumerEvent::Update(got) => got,
            other => panic!("{other:?}"),
        }));
        got.retain(|got: &Got| got.sequence > 0);
        if got.len() >= count {
            return got;
        }
        if !more {
            bell.wait();
        }
    }
}

fn number(got: &Got) -> f64 {
    got.value.as_f64().expect("the value is a number")
}

/// Two groups with members in opposite orders, a third one that overlaps both, and single writes.
/// No thread waits forever, and every group is contiguous in the feed. Behaviour: B-23.
#[test]
fn groups_never_deadlock_and_never_interleave() {
    explore(|| {
        let (engine, variables) = engine(Duration::ZERO);
        let [a, b, c] = [0, 1, 2].map(|at| Arc::clone(&variables[at]));
        let bell = Bell::default();
        let mut consumer = Consumer::new(engine.clone(), Box::new(bell.clone()));
        for variable in &variables {
            subscribe(&mut consumer, Contract::ALL, variable);
        }
        let threads = [
            {
                let (engine, a, b, c) = (engine.clone(), a.clone(), b.clone(), c.clone());
                thread::spawn(move || group(&engine, 1, &[&a, &b, &c], 1.0))
            },
            {
                let (engine, a, b, c) = (engine.clone(), a.clone(), b.clone(), c.clone());
                thread::spawn(move || group(&engine, 2, &[&c, &b, &a], 2.0))
            },
            {
                let (engine, b, c) = (engine.clone(), b.clone(), c.clone());
                thread::spawn(move || group(&engine, 3, &[&c, &b], 3.0))
            },
            {
                // The third group does not contain this variable, so the two may commit
                // concurrently.
                let (engine, a) = (engine.clone(), a.clone());
                thread::spawn(move || write(&engine, 4, &a, 4.0))
            },
        ];
        let got = take(&mut consumer, &bell, 9);
        for thread in threads {
            thread.join().expect("no panic");
        }
        let mut runs: Vec<(f64, usize)> = Vec::new();
        for value in got.iter().map(number) {
            match runs.last_mut() {
                Some((last, count)) if *last == value => *count += 1,
                _ => runs.push((value, 1)),
            }
        }
        runs.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        assert_eq!(runs, [(1.0, 3), (2.0, 3), (3.0, 2), (4.0, 1)]);
        for variable in &variables {
            assert!(variable.ledger().is_balanced());
            let ledger = consumer.ledger(1, variable.handle()).expect("subscribed");
            assert!(ledger.is_balanced(), "{ledger:?}");
        }
    });
}

/// Behaviour: B-23.
#[test]
fn a_snapshot_sees_a_group_whole_or_not_at_all() {
    explore(|| {
        let (engine, variables) = engine(Duration::ZERO);
        let handles: Vec<u32> = variables.iter().map(|one| one.handle()).collect();
        let writers: Vec<_> = (1..3u32)
            .map(|session| {
                let (engine, variables) = (engine.clone(), variables.clone());
                thread::spawn(move || {
                    let reversed: Vec<_> = variables.iter().rev().collect();
                    group(&engine, session, &reversed, f64::from(session));
                })
            })
            .collect();
        for _ in 0..2 {
            let snapshot = engine.groups().snapshot(&Caller::local(9, 0), &handles);
            let updates: Vec<_> = snapshot.updates.into_iter().map(Result::unwrap).collect();
            assert!(
                updates
                    .iter()
                    .all(|one| one.sequence == updates[0].sequence)
            );
            assert_eq!(snapshot.commit, updates[0].sequence);
            let first = updates[0].value.as_slice();
            assert!(updates.iter().all(|one| one.value.as_slice() == first));
        }
        for writer in writers {
            writer.join().expect("no panic");
        }
    });
}

/// Two groups and a single writer share feeds with room for one group. Each writer sleeps when it
/// must wait, and is woken when there is room. Behaviour: B-08, B-23.
#[test]
fn groups_that_wait_for_room_are_woken() {
    explore(|| {
        let (engine, variables) = engine(HOUR);
        let bell = Bell::default();
        let mut consumer = Consumer::new(engine.clone(), Box::new(bell.clone()));
        let contract = Contract::All {
            elements: 2,
            bytes: 1 << 20,
        };
        for variable in &variables[..2] {
            subscribe(&mut consumer, contract, variable);
        }
        let writers: Vec<_> = (1..3u32)
            .map(|session| {
                let (engine, variables) = (engine.clone(), variables.clone());
                thread::spawn(move || {
                    let bell = Bell::default();
                    let own = Consumer::new(engine.clone(), Box::new(bell.clone()));
                    let pair = [&variables[0], &variables[1]];
                    loop {
                        match try_group(&engine, session, &pair, f64::from(session)) {
                            GroupAttempt::Done(ended) => {
                                assert!(ended.commit.is_some());
                                return;
                            }
                            GroupAttempt::WouldBlock { handle, .. } => {
                                let full = engine.variable(handle).expect("deployed");
                                if own.wait_for_room(&full) {
                                    bell.wait();
                                }
                            }
                        }
                    }
                })
            })
            .collect();
        let got = take(&mut consumer, &bell, 4);
        let values: Vec<f64> = got.iter().map(number).collect();
        assert!(values == [1.0, 1.0, 2.0, 2.0] || values == [2.0, 2.0, 1.0, 1.0]);
        for writer in writers {
            writer.join().expect("no panic");
        }
    });
}

/// Two sessions write a variable with a single writer, and the first session ends. Only one of them
/// may write at any time, and an ended session holds nothing. Behaviour: H-19, B-22.
#[test]
fn ended_sessions_hold_no_variable() {
    explore(|| {
        let engine = Engine::new(EngineOptions::new("sut", EPOCH));
        let mut properties = Properties::new(DataType::F64);
        properties.single_writer = true;
        let library = library_of("rig", vec![define("x", properties)]);
        let handles = engine
            .libraries()
            .deploy(&library, NOW, START)
            .expect("well formed");
        let x = Arc::clone(&engine.variable(handles[0]).expect("deployed"));
        let threads: Vec<_> = (1..3u32)
            .map(|session| {
                let (engine, x) = (engine.clone(), Arc::clone(&x));
                thread::spawn(move || {
                    let (caller, value) = (Caller::local(session, 0), Value::F64(1.0));
                    let (order, mut wakes) = (Write::value(&value), Wakes::new());
                    let _outcome = engine.try_write(&caller, NOW, START, &x, &order, &mut wakes);
                    let request = LeaseRequest::acquire(HOUR);
                    let (leases, wakes) = (engine.leases(), &mut Wakes::new());
                    let _granted = leases.request(&caller, MOMENT, x.handle(), request, wakes);
                    leases.end_session(session, MOMENT, wakes);
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("no panic");
        }
        assert_eq!(engine.leases().holder_of(&x, NOW), None);
        write(&engine, 9, &x, 1.0);
        assert!(x.ledger().is_balanced());
    });
}

/// Takes snapshots of a variable, its alias and a field of the alias, while one thread writes, one
/// forces the alias and one deploys it. For any order of the handles, no thread waits forever.
/// Behaviour: B-23, H-20.
#[test]
fn snapshots_of_aliases_and_their_fields_never_deadlock() {
    explore(|| {
        let engine = Engine::new(EngineOptions::new("sut", EPOCH));
        let mut properties = Properties::new(DataType::F64);
        let target = define("x", properties.clone());
        properties.alias = "plant/x".to_owned();
        let view = library_of("view", vec![define("x", properties.clone())]);
        let handles = engine
            .libraries()
            .deploy(&view, NOW, START)
            .expect("well formed");
        let seen = Arc::clone(&engine.variable(handles[0]).expect("deployed"));
        let caller = Caller::local(9, 0);
        let opened = engine.fields().open(&caller, "view/x#sequence", NOW, START);
        let field = opened.expect("deployed").handle();
        let plant = library_of("plant", vec![target]);
        let plant = engine
            .libraries()
            .deploy(&plant, NOW, START)
            .expect("well formed");
        let x = Arc::clone(&engine.variable(plant[0]).expect("deployed"));
        let threads = [
            {
                let (engine, x) = (engine.clone(), Arc::clone(&x));
                thread::spawn(move || write(&engine, 1, &x, 1.0))
            },
            {
                let (engine, seen) = (engine.clone(), Arc::clone(&seen));
                thread::spawn(move || {
                    let (caller, value) = (Caller::local(2, 0), Value::F64(5.0));
                    let mut force = Write::value(&value);
                    force.verb = WriteVerb::Force;
                    engine.try_write(&caller, NOW, START, &seen, &force, &mut Wakes::new());
                })
            },
            {
                let engine = engine.clone();
                thread::spawn(move || {
                    let near = library_of("near", vec![define("x", properties.clone())]);
                    engine
                        .libraries()
                        .deploy(&near, NOW, START)
                        .expect("well formed");
                })
            },
        ];
        for _ in 0..2 {
            let snapshot = engine
                .groups()
                .snapshot(&caller, &[field, seen.handle(), x.handle()]);
            assert!(snapshot.updates.iter().all(Result::is_ok));
        }
        for thread in threads {
            thread.join().expect("no panic");
        }
        assert!(x.ledger().is_balanced() && seen.ledger().is_balanced());
    });
}
