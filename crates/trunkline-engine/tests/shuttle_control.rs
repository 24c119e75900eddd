//! Interleavings of control with writes, deployments, ends of sessions and the sweep of marks,
//! explored by shuttle.
//!
//! `SHUTTLE_SCHEDULES` says how many schedules each test tries (4,000 by default). Locks taken in
//! two orders show as a deadlock, which shuttle reports with the schedule to replay.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]
#![cfg(shuttle)]

mod rig;
mod schedules;

use std::sync::Arc;
use std::time::Duration;

use rig::{EPOCH, START, define, library_of};
use schedules::{NOW, explore};
use shuttle::thread;
use trunkline_engine::{
    Attempt, Caller, Engine, EngineOptions, LeaseRequest, Refusal, Variable, Wakes, Write,
    WriteOutcome,
};
use trunkline_types::{
    ControlTerms, DataType, Folder, LibraryDefinition, Moment, Properties, Value,
};

const MOMENT: Moment = Moment {
    now: NOW,
    wall: START,
};

fn library() -> LibraryDefinition {
    let properties = Properties::new(DataType::F64);
    let variables = ["a", "b"].map(|name| define(name, properties.clone()));
    library_of("rig", variables.to_vec())
}

fn deployed(engine: &Engine) -> Arc<Variable> {
    let handles = engine.libraries().deploy(&library(), NOW, START);
    engine
        .variable(handles.expect("well formed")[0])
        .expect("deployed")
}

/// Takes control and completes the search, as a session does before it answers.
fn take(engine: &Engine, session: u32) -> bool {
    let (caller, mut wakes) = (Caller::local(session, 0), Wakes::new());
    let folder = Folder::parse("rig").expect("a folder");
    let control = engine.control();
    let terms = ControlTerms::default();
    let taken = control.take(&caller, &folder, terms, MOMENT, &mut wakes);
    while control.search(session, 1, MOMENT, &mut wakes) {}
    taken.is_ok()
}

/// Returns true if the write was applied, and false if control refused it.
fn write(engine: &Engine, session: u32, variable: &Variable) -> bool {
    let value = Value::F64(f64::from(session));
    let (caller, write) = (Caller::local(session, 0), Write::value(&value));
    if let Some(_applied) = variable.write_plain(&caller, START, &value, &mut Wakes::new()) {
        return true;
    }
    match engine.try_write(&caller, NOW, START, variable, &write, &mut Wakes::new()) {
        Attempt::Done(WriteOutcome::Applied(_)) => true,
        Attempt::Done(WriteOutcome::Refused(Refusal::Controlled(_))) => false,
        other => panic!("{other:?}"),
    }
}

/// After the holder knows that it has control, no write of another client is applied.
/// Behaviour: B-22.
#[test]
fn no_other_write_is_applied_once_control_is_confirmed() {
    explore(|| {
        let engine = Engine::new(EngineOptions::new("sut", EPOCH));
        let variable = deployed(&engine);
        let writer = {
            let (engine, variable) = (engine.clone(), Arc::clone(&variable));
            thread::spawn(move || {
                write(&engine, 2, &variable);
                write(&engine, 2, &variable);
            })
        };
        assert!(take(&engine, 1));
        let confirmed = variable.sequence();
        assert!(write(&engine, 1, &variable));
        writer.join().unwrap();
        assert_eq!(variable.sequence(), confirmed + 1, "only the holder wrote");
        assert!(!write(&engine, 2, &variable));
    });
}

/// The same with a variable that has its mark already, because its folder was controlled before.
/// Behaviour: B-22.
#[test]
fn no_other_write_is_applied_once_the_next_control_is_confirmed() {
    explore(|| {
        let engine = Engine::new(EngineOptions::new("sut", EPOCH));
        let variable = deployed(&engine);
        assert!(take(&engine, 1));
        let control = engine.control();
        control.end_session(1, MOMENT, &mut Wakes::new());
        let writer = {
            let (engine, variable) = (engine.clone(), Arc::clone(&variable));
            thread::spawn(move || write(&engine, 3, &variable))
        };
        assert!(take(&engine, 2));
        let confirmed = variable.sequence();
        writer.join().unwrap();
        assert_eq!(variable.sequence(), confirmed, "nobody else writes");
    });
}

/// A variable that is deployed while its folder is being taken is controlled, whichever is first.
/// Behaviour: B-22.
#[test]
fn variable_deployed_during_a_take_is_controlled() {
    explore(|| {
        let engine = Engine::new(EngineOptions::new("sut", EPOCH));
        let deployer = {
            let engine = engine.clone();
            thread::spawn(move || deployed(&engine))
        };
        assert!(take(&engine, 1));
        let caller = Caller::local(2, 0);
        if let Ok(variable) = engine.resolve(&caller, "rig/a") {
            assert!(
                !write(&engine, 2, &variable),
                "found after control was confirmed"
            );
        }
        let variable = deployer.join().unwrap();
        assert!(!write(&engine, 2, &variable));
        assert!(write(&engine, 1, &variable));
    });
}

/// The sweep of marks races with a new take: the marks that are needed remain.
#[test]
fn sweep_never_removes_a_mark_that_is_needed() {
    explore(|| {
        let engine = Engine::new(EngineOptions::new("sut", EPOCH));
        let variable = deployed(&engine);
        assert!(take(&engine, 1));
        let control = engine.control();
        control.end_session(1, MOMENT, &mut Wakes::new());
        let poller = {
            let engine = engine.clone();
            thread::spawn(move || {
                engine.poll(NOW, START, &mut Wakes::new());
            })
        };
        assert!(take(&engine, 2));
        poller.join().unwrap();
        assert!(!write(&engine, 1, &variable) && write(&engine, 2, &variable));
    });
}

/// A lease that another client takes at the same time, of a variable or of its alias, refuses no write
/// of the holder once control is confirmed.
/// Behaviour: B-22.
#[test]
fn no_lease_of_another_is_left_once_control_is_confirmed() {
    explore(|| lease_during_a_take(false));
    explore(|| lease_during_a_take(true));
}

fn lease_during_a_take(of_alias: bool) {
    let engine = Engine::new(EngineOptions::new("sut", EPOCH));
    let variable = deployed(&engine);
    let alias = Properties {
        alias: "rig/a".to_owned(),
        ..Properties::new(DataType::F64)
    };
    let panel = library_of("panel", vec![define("a", alias)]);
    let handles = engine.libraries().deploy(&panel, NOW, START);
    let alias = handles.expect("well formed")[0];
    let other = {
        let engine = engine.clone();
        let handle = if of_alias { alias } else { variable.handle() };
        thread::spawn(move || {
            let (caller, wakes) = (Caller::local(2, 0), &mut Wakes::new());
            let request = LeaseRequest::acquire(Duration::from_secs(10));
            let leases = engine.leases();
            let _granted = leases.request(&caller, MOMENT, handle, request, wakes);
        })
    };
    assert!(take(&engine, 1));
    assert!(write(&engine, 1, &variable));
    other.join().unwrap();
    let alias = engine.variable(alias).expect("deployed");
    assert!(write(&engine, 1, &variable) && write(&engine, 1, &alias));
}

/// Two sessions take, write, release and end at the same time. Nothing deadlocks, and at most one of
/// them has control.
#[test]
fn takes_and_ends_of_sessions_never_deadlock() {
    explore(|| {
        let engine = Engine::new(EngineOptions::new("sut", EPOCH));
        let variable = deployed(&engine);
        let session = |number: u32| {
            let (engine, variable) = (engine.clone(), Arc::clone(&variable));
            thread::spawn(move || {
                let taken = take(&engine, number);
                if taken {
                    assert!(write(&engine, number, &variable));
                }
                let control = engine.control();
                control.end_session(number, MOMENT, &mut Wakes::new());
            })
        };
        let sessions = [session(1), session(2)];
        engine.poll(NOW, START, &mut Wakes::new());
        for session in sessions {
            session.join().unwrap();
        }
        assert!(write(&engine, 3, &variable));
    });
}
