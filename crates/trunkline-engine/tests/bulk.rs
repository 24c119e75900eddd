//! Lists of 100,000 variables that one consumer subscribes, receives and closes.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]
#![cfg(not(shuttle))]

mod rig;

use std::sync::Arc;

use rig::{ConsumerEvent, Rig, balanced, drain, drain_some, updates};
use trunkline_engine::{AccessError, Variable, Wakes};
use trunkline_types::{Contract, DataType, Value, VariableDefinition};

const COUNT: usize = 100_000;

fn scene() -> (Rig, Vec<u32>, Vec<Arc<Variable>>) {
    let paths = (0..COUNT).map(|n| VariableDefinition::new(format!("v{n}"), DataType::F64));
    let rig = Rig::new();
    let handles = rig.deploy("rig", paths.collect());
    let variable = |handle: &u32| Arc::clone(&rig.engine.variable(*handle).expect("deployed"));
    let variables = handles.iter().map(variable).collect();
    (rig, handles, variables)
}

/// Behaviour: B-30.
#[test]
fn one_consumer_subscribes_and_closes_a_hundred_thousand_variables() {
    for contract in [Contract::Latest, Contract::ALL] {
        let (rig, handles, variables) = scene();
        let mut consumer = rig.consumer();
        for variable in &variables {
            rig.subscribe(&mut consumer, 1, contract, variable);
        }
        assert_eq!(consumer.item_count(), COUNT);
        assert_eq!(updates(&mut consumer).len(), COUNT);
        for variable in variables.iter().step_by(10) {
            rig.write(variable, 1.0);
        }
        let got = updates(&mut consumer);
        assert_eq!(got.len(), COUNT / 10);
        assert!(got.iter().all(|got| got.value == Value::F64(1.0)));
        for variable in variables.iter().step_by(997) {
            balanced(&consumer, 1, variable);
        }
        // Closes some one by one, as clients do, and the others as a list.
        for handle in &handles[..COUNT / 2] {
            assert_eq!(
                consumer.unsubscribe(1, Some(&[*handle]), &mut Wakes::new()),
                1
            );
        }
        let rest = consumer.unsubscribe(1, Some(&handles), &mut Wakes::new());
        assert_eq!((rest, consumer.item_count()), (COUNT - COUNT / 2, 0));
        assert!(variables.iter().all(|variable| variable.subscribers() == 0));
    }
}

#[test]
fn hundred_thousand_ends_are_delivered_in_slices() {
    for contract in [Contract::Latest, Contract::ALL] {
        let (rig, _handles, variables) = scene();
        let mut consumer = rig.consumer();
        for variable in &variables {
            rig.subscribe(&mut consumer, 1, contract, variable);
        }
        drain(&mut consumer);
        for variable in &variables {
            rig.write(variable, 1.0);
            if contract == Contract::ALL {
                drain_some(&mut consumer, 1);
            }
        }
        rig.engine
            .libraries()
            .undeploy("rig", rig.now(), rig.wall(), &mut Wakes::new())
            .expect("the library is deployed");
        let mut gone = 0;
        let mut more = true;
        while more {
            let events;
            (events, more) = drain_some(&mut consumer, 1000);
            gone += events
                .iter()
                .filter(|event| matches!(event, ConsumerEvent::Gone { .. }))
                .count();
        }
        assert_eq!((gone, consumer.item_count()), (COUNT, 0), "{contract}");
    }
}

/// Behaviour: B-30.
#[test]
fn hundred_thousand_unknown_names_cost_no_more_than_known_ones() {
    let (rig, ..) = scene();
    let mut unknown = 0;
    for n in 0..COUNT {
        match rig.engine.resolve(&rig.caller, &format!("rig/w{n}")) {
            Err(AccessError::UnknownName {
                suggestion: None, ..
            }) => unknown += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(unknown, COUNT);
    assert_eq!(
        rig.engine.suggest(&rig.caller, "rig/V77").as_deref(),
        Some("rig/v77")
    );
}
