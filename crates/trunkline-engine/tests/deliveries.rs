//! Delivery of pending updates: sinks, wake-ups, and subscriptions that are added and removed.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]
#![cfg(not(shuttle))]

mod rig;

use std::time::Duration;

use rig::{Bell, Rig, balanced, drain, drain_some, only_updates, updates};
use trunkline_engine::{AccessError, Consumer, Subscribe, Wakes, Write, WriteOutcome};
use trunkline_types::ledger::EndedItem;
use trunkline_types::{Contract, DataType, Properties, Value, VariableDefinition};

const CONTRACTS: [Contract; 4] = [
    Contract::Latest,
    Contract::Last(8),
    Contract::First(8),
    Contract::ALL,
];

#[test]
fn sink_is_asked_before_every_delivery_and_loses_nothing() {
    for contract in CONTRACTS {
        let paths = (0..5).map(|n| VariableDefinition::new(format!("v{n}"), DataType::F64));
        let rig = Rig::with(paths.collect());
        let variables: Vec<_> = (0..5).map(|n| rig.variable(&format!("rig/v{n}"))).collect();
        let mut consumer = rig.consumer();
        for variable in &variables {
            rig.subscribe(&mut consumer, 1, contract, variable);
        }
        for value in 1..=8 {
            for variable in &variables {
                rig.write(variable, f64::from(value));
            }
        }
        let mut all = Vec::new();
        let mut turns = 0;
        loop {
            let (events, more) = drain_some(&mut consumer, 1 + turns % 3);
            all.extend(only_updates(events));
            for variable in &variables {
                balanced(&consumer, 1, variable);
            }
            turns += 1;
            if !more {
                break;
            }
            assert!(turns < 1000, "every call delivers at least one update");
        }
        for variable in &variables {
            let got: Vec<u64> = all
                .iter()
                .filter(|g| g.handle == variable.handle())
                .map(|g| g.sequence)
                .collect();
            let expected = if contract == Contract::Latest {
                vec![8]
            } else {
                (0..=8).collect::<Vec<_>>()
            };
            assert_eq!(got, expected, "{contract}");
        }
        assert_eq!(drain(&mut consumer), [], "{contract}");
    }
}

#[test]
fn sink_without_capacity_gets_nothing_and_learns_of_pending_updates() {
    let (rig, x) = Rig::plain();
    let mut consumer = rig.consumer();
    assert_eq!(drain_some(&mut consumer, 0), (vec![], false));
    rig.subscribe(&mut consumer, 1, Contract::Latest, &x);
    assert_eq!(drain_some(&mut consumer, 0), (vec![], true));
    assert_eq!(drain_some(&mut consumer, 1).0.len(), 1);
    assert_eq!(drain_some(&mut consumer, 0), (vec![], false));
}

#[test]
fn consumer_is_woken_on_the_empty_to_marked_edge_only() {
    let (rig, x) = Rig::plain();
    let bell = Bell::default();
    let mut consumer = Consumer::new(rig.engine.clone(), Box::new(bell.clone()));
    rig.subscribe(&mut consumer, 1, Contract::Latest, &x);
    drain(&mut consumer);
    assert!(consumer.is_idle());
    for value in 0..10 {
        rig.write(&x, f64::from(value));
    }
    assert_eq!(bell.rings(), 1);
    assert!(!consumer.is_idle());
    drain(&mut consumer);
    rig.write(&x, 1.0);
    assert_eq!(bell.rings(), 1);
    // A batch of writes wakes once, when it ends.
    drain(&mut consumer);
    let mut wakes = Wakes::new();
    for value in 0..10 {
        let value = Value::F64(f64::from(value));
        let write = Write::value(&value);
        let attempt =
            rig.engine
                .try_write(&rig.caller, rig.now(), rig.wall(), &x, &write, &mut wakes);
        assert!(matches!(rig::done(attempt), WriteOutcome::Applied(_)));
        assert_eq!(bell.rings(), 0);
    }
    wakes.flush();
    assert_eq!(bell.rings(), 1);
    drop(wakes);
    assert_eq!(bell.rings(), 0);
}

/// Behaviour: B-30.
#[test]
fn error_of_one_item_does_not_affect_the_others() {
    let mut hidden = Properties::new(DataType::F64);
    hidden.access = trunkline_types::Access::WriteOnly;
    let rig = Rig::with(vec![
        VariableDefinition::new("x", DataType::F64),
        rig::define("secret", hidden),
        VariableDefinition::new("y", DataType::F64),
    ]);
    let mut consumer = rig.consumer();
    let mut results = Vec::new();
    for name in ["rig/x", "rig/secret", "rig/none", "rig/y"] {
        let variable = rig.engine.resolve(&rig.caller, name);
        results.push(variable.and_then(|variable| {
            consumer.subscribe(&rig.caller, &variable, Subscribe::new(1, Contract::ALL))
        }));
    }
    assert_eq!(results[0], Ok(()));
    assert_eq!(results[1], Err(AccessError::NotReadable));
    assert!(matches!(results[2], Err(AccessError::UnknownName { .. })));
    assert_eq!(results[3], Ok(()));
    assert_eq!(
        (consumer.item_count(), updates(&mut consumer).len()),
        (2, 2)
    );
}

#[test]
fn subscription_keeps_the_contract_and_options_it_was_made_with() {
    let rig = Rig::with(vec![
        VariableDefinition::new("x", DataType::F64),
        VariableDefinition::new("y", DataType::F64),
    ]);
    let (x, y) = (rig.variable("rig/x"), rig.variable("rig/y"));
    let mut consumer = rig.consumer();
    rig.subscribe(&mut consumer, 1, Contract::Last(5), &x);
    let changes = Subscribe {
        only_changes: true,
        ..Subscribe::new(1, Contract::Last(5))
    };
    for wanted in [Subscribe::new(1, Contract::Last(6)), changes] {
        let error = consumer.subscribe(&rig.caller, &y, wanted);
        assert!(matches!(error, Err(AccessError::Contract(_))), "{wanted:?}");
    }
    assert_eq!(consumer.item_count(), 1);
    // Subscribing the same variable again is not an error, and changes nothing.
    drain(&mut consumer);
    rig.subscribe(&mut consumer, 1, Contract::Last(5), &x);
    assert_eq!((consumer.item_count(), x.subscribers()), (1, 1));
    assert_eq!(drain(&mut consumer), []);
    // Another subscription of the same variable may use another contract.
    rig.subscribe(&mut consumer, 2, Contract::Latest, &x);
    assert_eq!((consumer.item_count(), x.subscribers()), (2, 2));
    let expected = vec![(1, Contract::Last(5)), (2, Contract::Latest)];
    assert_eq!(consumer.subscriptions_of(x.handle()), expected);
}

#[test]
fn invalid_contracts_are_refused_and_leave_no_state() {
    let (rig, x) = Rig::plain();
    let mut consumer = rig.consumer();
    let senseless = [
        Contract::Last(0),
        Contract::First(0),
        Contract::Last(1_000_001),
        Contract::All {
            elements: 0,
            bytes: 1,
        },
        Contract::Sampled(Duration::from_micros(99)),
        Contract::Sampled(Duration::ZERO),
    ];
    for contract in senseless {
        let error = consumer.subscribe(&rig.caller, &x, Subscribe::new(1, contract));
        assert!(matches!(error, Err(AccessError::Contract(_))), "{contract}");
        assert!(!consumer.has_subscription(1));
    }
    assert_eq!(x.subscribers(), 0);
}

#[test]
fn unsubscribed_items_stop_and_the_others_continue() {
    for contract in CONTRACTS {
        let paths = (0..4).map(|n| VariableDefinition::new(format!("v{n}"), DataType::F64));
        let rig = Rig::with(paths.collect());
        let variables: Vec<_> = (0..4).map(|n| rig.variable(&format!("rig/v{n}"))).collect();
        let mut consumer = rig.consumer();
        for variable in &variables[..3] {
            rig.subscribe(&mut consumer, 1, contract, variable);
        }
        for variable in &variables {
            rig.write(variable, 1.0);
        }
        // Closes an item with a pending update, and reuses its index at once.
        let gone = [variables[1].handle(), 999_999];
        assert_eq!(
            consumer.unsubscribe(1, Some(&gone), &mut Wakes::new()),
            1,
            "{contract}"
        );
        rig.subscribe(&mut consumer, 1, contract, &variables[3]);
        for variable in &variables {
            rig.write(variable, 2.0);
        }
        let got = updates(&mut consumer);
        assert!(
            got.iter().all(|got| got.handle != variables[1].handle()),
            "{contract}"
        );
        for variable in [&variables[0], &variables[2], &variables[3]] {
            let last = got.iter().rev().find(|got| got.handle == variable.handle());
            assert_eq!(last.map(|got| got.sequence), Some(2), "{contract}");
            balanced(&consumer, 1, variable);
        }
        assert_eq!(consumer.ledger(1, variables[1].handle()), None);
        assert_eq!(consumer.unsubscribe(1, None, &mut Wakes::new()), 3);
        assert_eq!(
            (consumer.item_count(), consumer.has_subscription(1)),
            (0, false)
        );
        assert!(variables.iter().all(|variable| variable.subscribers() == 0));
        assert_eq!(drain(&mut consumer), []);
        assert!(consumer.is_idle());
        assert_eq!(consumer.unsubscribe(1, None, &mut Wakes::new()), 0);
    }
}

#[test]
fn dropped_consumer_is_removed_from_its_variables() {
    for contract in CONTRACTS {
        let (rig, x) = Rig::plain();
        let mut consumer = rig.consumer();
        rig.subscribe(&mut consumer, 1, contract, &x);
        assert_eq!(x.subscribers(), 1);
        drop(consumer);
        assert_eq!(x.subscribers(), 0);
        rig.write(&x, 1.0);
        assert!(x.ledger().is_balanced());
    }
}

/// Behaviour: LM-18.
#[test]
fn unchanged_values_wake_no_consumer() {
    let rig = Rig::with(vec![
        VariableDefinition::new("x", DataType::F64),
        VariableDefinition::new("y", DataType::F64),
    ]);
    let (x, y) = (rig.variable("rig/x"), rig.variable("rig/y"));
    let bell = Bell::default();
    let mut consumer = Consumer::new(rig.engine.clone(), Box::new(bell.clone()));
    rig.subscribe_changes(&mut consumer, 1, Contract::Latest, &x);
    rig.write(&x, 1.0);
    drain(&mut consumer);
    bell.rings();
    rig.write(&y, 1.0);
    rig.write(&x, 1.0);
    assert_eq!(bell.rings(), 0);
    rig.write(&x, 2.0);
    assert_eq!(bell.rings(), 1);
}

#[test]
fn sink_may_write_what_it_is_given() {
    struct Echo<'a> {
        rig: &'a Rig,
        left: u32,
    }
    impl trunkline_engine::Sink for Echo<'_> {
        fn wants(&self) -> bool {
            true
        }
        fn deliver(&mut self, delivery: &trunkline_engine::Delivery<'_>) {
            if self.left > 0 {
                self.left -= 1;
                self.rig.write(delivery.variable, f64::from(self.left));
            }
        }
        fn overrun(&mut self, _: u32, _: &[EndedItem]) {}
        fn gone(&mut self, _: u32, _: u32) {}
    }
    for contract in CONTRACTS {
        let (rig, x) = Rig::plain();
        let mut consumer = rig.consumer();
        rig.subscribe(&mut consumer, 1, contract, &x);
        let mut sink = Echo {
            rig: &rig,
            left: 200,
        };
        assert!(!consumer.drain(&mut sink, &mut Wakes::new()));
        assert_eq!((sink.left, x.sequence()), (0, 200), "{contract}");
        assert!(balanced(&consumer, 1, &x).received > 0);
    }
}
