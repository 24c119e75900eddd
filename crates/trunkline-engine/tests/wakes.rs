//! Wake-ups: a writer wakes the consumer unless a wake-up for its update is already pending,
//! regardless of other threads that marked before it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]
#![cfg(not(shuttle))]

mod rig;

use std::cell::Cell;

use rig::{Bell, Rig, drain, library_of};
use trunkline_engine::{Consumer, Wakes, Write};
use trunkline_types::{Contract, DataType, Value, VariableDefinition};

fn definitions(count: usize) -> Vec<VariableDefinition> {
    let define = |index| VariableDefinition::new(format!("v{index}"), DataType::F64);
    (0..count).map(define).collect()
}

fn write(rig: &Rig, name: &str, value: f64, wakes: &mut Wakes) {
    let (variable, value) = (rig.variable(name), Value::F64(value));
    let write = Write::value(&value);
    rig.engine
        .try_write(&rig.caller, rig.now(), rig.wall(), &variable, &write, wakes);
}

fn consumer_of(rig: &Rig, bell: &Bell, contract: Contract, names: &[&str]) -> Consumer {
    let mut consumer = Consumer::new(rig.engine.clone(), Box::new(bell.clone()));
    for name in names {
        rig.subscribe(&mut consumer, 1, contract, &rig.variable(name));
    }
    drain(&mut consumer);
    bell.rings();
    consumer
}

/// A writer that has marked but not yet woken does not delay other writers' updates.
#[test]
fn preempted_writer_delays_no_update() {
    for contract in [Contract::Latest, Contract::Last(3), Contract::ALL] {
        let rig = Rig::with(definitions(2));
        let bell = Bell::default();
        let mut consumer = consumer_of(&rig, &bell, contract, &["rig/v0", "rig/v1"]);
        let mut preempted = Wakes::new();
        write(&rig, "rig/v0", 1.0, &mut preempted);
        write(&rig, "rig/v1", 2.0, &mut Wakes::new());
        assert_eq!(bell.rings(), 1, "{contract}: the second writer wakes");
        assert_eq!(drain(&mut consumer).len(), 2);
        // Its late flush does not suppress the next wake-up.
        preempted.flush();
        bell.rings();
        drain(&mut consumer);
        write(&rig, "rig/v1", 3.0, &mut Wakes::new());
        assert_eq!(bell.rings(), 1);
    }
}

/// Many updates between two drains cause one wake-up.
#[test]
fn consumer_is_woken_once_between_drains() {
    let rig = Rig::with(definitions(20));
    let names: Vec<String> = (0..20).map(|index| format!("rig/v{index}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for contract in [Contract::Latest, Contract::ALL] {
        let bell = Bell::default();
        let mut consumer = consumer_of(&rig, &bell, contract, &names);
        for value in [1.0, 2.0] {
            for name in &names {
                write(&rig, name, value, &mut Wakes::new());
            }
            assert_eq!(bell.rings(), 1, "{contract}");
            drain(&mut consumer);
        }
    }
}

/// A batch of writes wakes an `all` consumer once, at its end. A consumer that has taken a part
/// meanwhile is woken for the remaining updates.
#[test]
fn batch_wakes_an_all_subscriber_for_the_remaining_updates() {
    let rig = Rig::with(definitions(2));
    let bell = Bell::default();
    let mut consumer = consumer_of(&rig, &bell, Contract::ALL, &["rig/v0", "rig/v1"]);
    let mut batch = Wakes::new();
    write(&rig, "rig/v0", 1.0, &mut batch);
    write(&rig, "rig/v1", 1.0, &mut batch);
    assert_eq!(drain(&mut consumer).len(), 2);
    write(&rig, "rig/v0", 2.0, &mut batch);
    batch.flush();
    assert_eq!(bell.rings(), 1);
    assert_eq!(drain(&mut consumer).len(), 1);
    // The list is reused, and the consumer is woken again.
    write(&rig, "rig/v0", 3.0, &mut batch);
    batch.flush();
    assert_eq!(bell.rings(), 1);
    assert_eq!(drain(&mut consumer).len(), 1);
}

/// A subscription without credit takes nothing: its consumer is not woken for every update.
#[test]
fn all_subscriber_without_credit_is_not_woken_for_every_update() {
    let rig = Rig::with(definitions(1));
    let bell = Bell::default();
    let mut consumer = consumer_of(&rig, &bell, Contract::ALL, &["rig/v0"]);
    consumer.grant(1, 1);
    drain(&mut consumer);
    let mut rings = 0;
    for value in 0..10 {
        write(&rig, "rig/v0", f64::from(value), &mut Wakes::new());
        rings += bell.rings();
        drain(&mut consumer);
    }
    assert!(rings <= 2, "{rings} wake-ups");
    consumer.grant(1, 20);
    assert_eq!(drain(&mut consumer).len(), 9);
}

/// While a large library is deployed, stopped or undeployed, its consumers are woken at intervals,
/// not only at the end.
#[test]
fn a_large_library_wakes_its_consumers_in_slices() {
    const VARIABLES: usize = 1000;
    let rig = Rig::new();
    let library = library_of("plant", definitions(VARIABLES));
    rig.engine
        .libraries()
        .deploy(&library, rig.now(), rig.wall())
        .unwrap();
    let (first, last) = ("plant/v0", format!("plant/v{}", VARIABLES - 1));
    write(&rig, &last, 1.0, &mut Wakes::new());
    write(&rig, first, 1.0, &mut Wakes::new());
    let state_seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    /// Records the state of the last variable when the consumer of the first one is woken.
    struct Probe {
        last: std::sync::Arc<trunkline_engine::Variable>,
        seen: std::sync::Arc<std::sync::Mutex<Vec<(u64, bool)>>>,
    }
    impl trunkline_engine::Wake for Probe {
        fn wake(&self) {
            let state = (self.last.sequence(), self.last.is_gone());
            self.seen.lock().unwrap().push(state);
        }
    }
    let probe = Probe {
        last: rig.variable(&last),
        seen: state_seen.clone(),
    };
    let mut consumer = Consumer::new(rig.engine.clone(), Box::new(probe));
    rig.subscribe(&mut consumer, 1, Contract::Latest, &rig.variable(first));
    drain(&mut consumer);
    let count = Cell::new(0);
    let mut check = |done: (u64, bool)| {
        let seen = std::mem::take(&mut *state_seen.lock().unwrap());
        assert_eq!(seen.first(), Some(&done), "woken before the last variable");
        count.set(count.get() + 1);
        drain(&mut consumer);
    };
    let (now, wall, wakes) = (rig.now(), rig.wall(), &mut Wakes::new());
    rig.engine
        .libraries()
        .stop("plant", now, wall, wakes)
        .unwrap();
    check((1, false));
    rig.engine
        .libraries()
        .start("plant", now, wall, wakes)
        .unwrap();
    check((2, false));
    rig.engine
        .libraries()
        .undeploy("plant", now, wall, wakes)
        .unwrap();
    check((3, false));
    assert_eq!(count.get(), 3);
}

/// A consumer that several threads drain may be woken for a mark that another thread has taken. If it
/// then finds nothing, the next update wakes it again.
#[test]
fn consumer_at_rest_is_woken_by_the_next_update() {
    for contract in [Contract::Latest, Contract::ALL] {
        let rig = Rig::with(definitions(1));
        let bell = Bell::default();
        let mut consumer = consumer_of(&rig, &bell, contract, &["rig/v0"]);
        let mut preempted = Wakes::new();
        write(&rig, "rig/v0", 1.0, &mut preempted);
        assert_eq!(
            drain(&mut consumer).len(),
            1,
            "another thread takes the update"
        );
        preempted.flush();
        assert_eq!(bell.rings(), 1);
        assert!(consumer.rearm_if_idle(), "{contract}: nothing is left");
        write(&rig, "rig/v0", 2.0, &mut Wakes::new());
        assert_eq!(bell.rings(), 1, "{contract}");
        assert!(!consumer.rearm_if_idle());
    }
}
