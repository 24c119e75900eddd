//! Libraries that are deployed and removed repeatedly: slots and memory are reused, and a handle of
//! a removed variable never refers to the next variable in its slot.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]
#![cfg(not(shuttle))]

mod rig;

use std::time::Duration;

use rig::{ConsumerEvent, Mirrored, Rig, drain, library_of};
use trunkline_engine::{
    AccessError, Attempt, Engine, GroupAttempt, GroupMember, LeaseRequest, Refusal, Wakes, Write,
    WriteOutcome,
};
use trunkline_types::definition::slot_of;
use trunkline_types::{Contract, DataType, LibraryDefinition, Value, VariableDefinition};

fn library(count: usize) -> LibraryDefinition {
    let define = |index| VariableDefinition::new(format!("v{index}"), DataType::F64);
    library_of("plant", (0..count).map(define).collect())
}

fn deploy(rig: &Rig, library: &LibraryDefinition) -> Vec<u32> {
    let deployed = rig
        .engine
        .libraries()
        .deploy(library, rig.now(), rig.wall());
    deployed.expect("the library can be deployed")
}

fn undeploy(rig: &Rig) {
    let (now, wall) = (rig.now(), rig.wall());
    let gone = rig
        .engine
        .libraries()
        .undeploy("plant", now, wall, &mut Wakes::new());
    gone.expect("the library is deployed");
}

fn used(engine: &Engine) -> u64 {
    engine.slots().used
}

/// A library of 10,000 variables is deployed and removed until more variables have existed than
/// there are slots. Some variables are subscribed, and every handle of the previous round is
/// refused.
#[test]
fn repeatedly_deployed_library_reuses_slots_and_memory() {
    const VARIABLES: usize = 10_000;
    // More variables than there are slots.
    const ROUNDS: u32 = 220;
    let rig = Rig::with(vec![VariableDefinition::new("stays", DataType::F64)]);
    let stays = rig.variable("rig/stays");
    let library = library(VARIABLES);
    let mut consumer = rig.consumer();
    let before = used(&rig.engine);
    let mut weak = Vec::new();
    let mut last = Vec::new();
    for round in 0..ROUNDS {
        let handles = deploy(&rig, &library);
        assert_eq!(used(&rig.engine), before + VARIABLES as u64);
        assert!(rig.engine.tables().slots_end() <= 2 * VARIABLES + 10);
        for stale in last.iter().step_by(100) {
            assert!(rig.engine.variable(*stale).is_none());
            assert_eq!(
                rig.engine
                    .no_variable(&trunkline_engine::Caller::engine(), *stale),
                AccessError::Gone
            );
        }
        let contracts = [Contract::Latest, Contract::ALL, Contract::Last(2)];
        for (handle, contract) in handles.iter().step_by(3000).zip(contracts) {
            let variable = rig.engine.variable(*handle).unwrap();
            rig.subscribe(&mut consumer, contracts_id(contract), contract, &variable);
            rig.write(&variable, f64::from(round));
            weak.push(std::sync::Arc::downgrade(&variable));
        }
        rig.write(&stays, f64::from(round));
        undeploy(&rig);
        let delivered = drain(&mut consumer);
        assert!(
            !delivered.is_empty(),
            "the last values and the ends are delivered"
        );
        assert_eq!(consumer.item_count(), 0);
        weak.retain(|one| one.strong_count() > 0);
        assert!(
            weak.is_empty(),
            "no reference to a removed variable remains"
        );
        last = handles;
    }
    assert_eq!(used(&rig.engine), before);
    assert_eq!(rig.engine.slots().retired, 0);
    assert_eq!(stays.sequence(), u64::from(ROUNDS));
}

fn contracts_id(contract: Contract) -> u32 {
    match contract {
        Contract::Latest => 1,
        Contract::Last(_) => 2,
        _ => 3,
    }
}

/// A request follows handles without counting references. A variable that is removed meanwhile is
/// seen as removed, and is freed after the request has ended.
#[test]
fn variable_removed_during_a_request_is_freed_after_it() {
    let rig = Rig::new();
    let library = library(2);
    let handles = deploy(&rig, &library);
    let weak = std::sync::Arc::downgrade(&rig.engine.variable(handles[0]).unwrap());
    let mut following = rig.engine.handles();
    let followed = following.follow();
    let variable = followed.variable(handles[0]).unwrap();
    undeploy(&rig);
    assert!(variable.is_gone());
    assert!(followed.variable(handles[0]).is_none());
    let others = deploy(&rig, &library);
    assert!(
        followed.variable(handles[0]).is_none(),
        "the handle of a later variable is unknown"
    );
    assert!(followed.variable(others[0]).is_some());
    assert_eq!(variable.name(), "plant/v0");
    drop(followed);
    assert_eq!(weak.strong_count(), 0);
}

/// A slot is retired after its last generation, and the next variable gets another slot.
#[test]
fn a_slot_whose_generations_are_used_up_is_retired() {
    let rig = Rig::new();
    let library = library(1);
    let first = deploy(&rig, &library)[0];
    undeploy(&rig);
    let mut seen = vec![first];
    for _ in 0..2046 {
        seen.push(deploy(&rig, &library)[0]);
        undeploy(&rig);
    }
    assert!(seen.iter().all(|handle| slot_of(*handle) == slot_of(first)));
    assert!(seen.is_sorted_by(|a, b| a < b), "every handle is new");
    assert_eq!(rig.engine.slots().retired, 1);
    let next = deploy(&rig, &library)[0];
    assert_ne!(slot_of(next), slot_of(first));
    assert!(
        seen.iter()
            .all(|handle| rig.engine.variable(*handle).is_none())
    );
}

/// Every function that takes a handle refuses that of a removed variable, even if its slot belongs
/// to another variable.
#[test]
fn stale_handle_reaches_no_other_variable() {
    let rig = Rig::new();
    let library = library(1);
    let stale = deploy(&rig, &library)[0];
    let table = Mirrored::new(&rig);
    let old = rig.engine.variable(stale).unwrap();
    let mut consumer = rig.consumer();
    rig.subscribe(&mut consumer, 1, Contract::Latest, &old);
    rig.write(&old, 1.0);
    undeploy(&rig);
    let fresh = deploy(&rig, &library)[0];
    assert_eq!(slot_of(stale), slot_of(fresh));
    let new = rig.engine.variable(fresh).unwrap();
    rig.write(&new, 5.0);
    // Access through a handle.
    let (engine, caller, wakes) = (&rig.engine, &rig.caller, &mut Wakes::new());
    let request = LeaseRequest::acquire(Duration::from_secs(60));
    let lease = rig.lease(caller, stale, request);
    assert_eq!(lease.unwrap_err(), Refusal::Gone);
    let value = Value::F64(9.0);
    let member = |handle| GroupMember {
        handle,
        write: Write::value(&value),
    };
    let group = [member(stale)];
    match engine
        .groups()
        .try_write(caller, rig.now(), rig.wall(), &group, wakes)
    {
        GroupAttempt::Done(outcome) => assert_eq!(
            outcome.outcomes,
            [WriteOutcome::Refused(Refusal::Gone)],
            "the new variable is unchanged"
        ),
        other => panic!("{other:?}"),
    }
    let read = engine.groups().snapshot(caller, &[stale, fresh]).updates;
    assert!(matches!(read[0], Err(AccessError::Gone)));
    assert!(read[1].is_ok());
    // Access through a reference, and through a table.
    let attempt = engine.try_write(
        caller,
        rig.now(),
        rig.wall(),
        &old,
        &Write::value(&value),
        wakes,
    );
    assert!(matches!(
        attempt,
        Attempt::Done(WriteOutcome::Refused(Refusal::Gone))
    ));
    assert!(table.read(stale).is_none() && table.read(fresh).is_some());
    table.check(&rig);
    // Access through an item, which ends after its last delivery.
    let delivered = drain(&mut consumer);
    let is_of_it = |event: &ConsumerEvent| match event {
        ConsumerEvent::Update(got) => got.handle == stale,
        ConsumerEvent::Gone { handle, .. } => *handle == stale,
        ConsumerEvent::Overrun { .. } => false,
    };
    assert!(
        delivered.len() == 2 && delivered.iter().all(is_of_it),
        "{delivered:?}"
    );
    assert_eq!(new.ledger().written, 1);
}

/// An unused field releases its slot.
#[test]
fn unused_fields_are_closed() {
    let rig = Rig::with(
        (0..200)
            .map(|index| VariableDefinition::new(format!("v{index}"), DataType::F64))
            .collect(),
    );
    let before = used(&rig.engine);
    let mut consumer = rig.consumer();
    for round in 0..2000 {
        let name = format!("rig/v{}#units", round % 200);
        let open = rig
            .engine
            .fields()
            .open(&rig.caller, &name, rig.now(), rig.wall());
        let fields = rig.engine.fields();
        let field = fields.keep(&mut consumer, open.unwrap()).unwrap();
        let handle = field.handle();
        rig.subscribe(&mut consumer, 1, Contract::Latest, &field);
        drop(field);
        consumer.unsubscribe(1, None, &mut Wakes::new());
        assert!(
            rig.engine.variable(handle).is_some(),
            "the peer still uses the field"
        );
        consumer.drop_field(handle);
        assert!(rig.engine.variable(handle).is_none());
        assert_eq!(
            (used(&rig.engine), rig.engine.fields().count()),
            (before, 0)
        );
    }
    // Unused fields left open by a program in this process are closed when others are opened.
    for round in 0..2000 {
        let name = format!("rig/v{}#type", round % 200);
        let open = rig
            .engine
            .fields()
            .open(&rig.caller, &name, rig.now(), rig.wall());
        drop(open.unwrap());
        assert!(rig.engine.fields().count() <= 3);
    }
}

/// One session cannot use up the fields that others need.
#[test]
fn one_session_leaves_fields_for_others() {
    const VARIABLES: usize = 60_000;
    let rig = Rig::new();
    deploy(&rig, &library(VARIABLES));
    let mut greedy = rig.consumer();
    let mut opened = 0;
    for index in 0..VARIABLES {
        let name = format!("plant/v{index}#units");
        let field = rig
            .engine
            .fields()
            .open(&rig.caller, &name, rig.now(), rig.wall());
        match rig.engine.fields().keep(&mut greedy, field.unwrap()) {
            Ok(_) => opened += 1,
            Err(AccessError::Limit { .. }) => break,
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(opened, 50_000);
    let mut other = rig.consumer();
    let name = "plant/v1#type";
    let field = rig
        .engine
        .fields()
        .open(&rig.caller, name, rig.now(), rig.wall());
    assert!(rig.engine.fields().keep(&mut other, field.unwrap()).is_ok());
    drop(greedy);
    // The session ends in slices.
    while rig.engine.fields().count() > 1 {
        let due = rig.engine.poll(rig.now(), rig.wall(), &mut Wakes::new());
        assert!(
            due.is_some() || rig.engine.fields().count() == 1,
            "one slice does not remove everything"
        );
    }
}
