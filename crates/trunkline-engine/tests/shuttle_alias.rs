//! Interleavings of writes to a variable and to its alias, explored by shuttle.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]
#![cfg(shuttle)]

mod rig;
mod schedules;

use std::sync::Arc;
use std::time::Duration;

use rig::{Got, START, define, drain, library_of};
use schedules::{Bell, NOW, engine, explore, of, subscribe, try_write, write};
use shuttle::thread;
use trunkline_engine::{Caller, Consumer, Engine, Variable, Wakes};
use trunkline_types::{Contract, DataType, Properties, Value};

/// Returns an engine, its variable `a/x`, and `view/x`, an alias of `a/x`.
fn engine_with_alias() -> (Engine, Arc<Variable>, Arc<Variable>) {
    let (engine, variables) = engine(Duration::ZERO);
    let mut properties = Properties::new(DataType::F64);
    properties.alias = "a/x".to_owned();
    let definition = library_of("view", vec![define("x", properties)]);
    engine
        .libraries()
        .deploy(&definition, NOW, START)
        .expect("well formed");
    let caller = Caller::local(1, 0);
    let alias = engine.resolve(&caller, "view/x").expect("deployed");
    (engine, Arc::clone(&variables[0]), alias)
}

/// Two threads write the target, and one its alias. The alias has every update in the target's
/// order, and each writer gets its own sequence.
///
/// Behaviour: H-20.
#[test]
fn alias_has_every_update_in_its_targets_order() {
    explore(|| {
        let (engine, target, alias) = engine_with_alias();
        let mut consumer = Consumer::new(engine.clone(), Box::new(Bell::default()));
        subscribe(&mut consumer, 1, Contract::ALL, &target);
        subscribe(&mut consumer, 2, Contract::ALL, &alias);
        let writers = [(1, &target), (2, &target), (3, &alias)].map(|(session, variable)| {
            let (engine, variable) = (engine.clone(), Arc::clone(variable));
            thread::spawn(move || {
                for n in 0..2 {
                    write(&engine, session, &variable, f64::from(10 * session + n));
                }
            })
        });
        for writer in writers {
            writer.join().expect("no panic");
        }
        let events = drain(&mut consumer);
        let (own, seen) = (of(&events, &target), of(&events, &alias));
        let order = |got: &[Got]| -> Vec<(u64, Value, u32)> {
            got.iter()
                .map(|got| (got.sequence, got.value.clone(), got.writer))
                .collect()
        };
        assert_eq!(order(&own), order(&seen));
        let numbers: Vec<u64> = seen.iter().map(|got| got.sequence).collect();
        // The first reading has no value.
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6]);
        assert!(target.ledger().is_balanced() && alias.ledger().is_balanced());
    });
}

/// The target is removed and redeployed while it and its alias are written. No thread waits
/// forever, and finally the alias has the value of the target.
#[test]
fn alias_is_rebound_while_both_are_written() {
    explore(|| {
        let (engine, target, alias) = engine_with_alias();
        let writers = [(1, &target), (2, &alias)].map(|(session, variable)| {
            let (engine, variable) = (engine.clone(), Arc::clone(variable));
            thread::spawn(move || {
                for n in 0..2 {
                    try_write(&engine, session, &variable, f64::from(n));
                }
            })
        });
        engine
            .libraries()
            .undeploy("a", NOW, START, &mut Wakes::new())
            .expect("deployed");
        let again = library_of("a", vec![define("x", Properties::new(DataType::F64))]);
        engine
            .libraries()
            .deploy(&again, NOW, START)
            .expect("well formed");
        for writer in writers {
            writer.join().expect("no panic");
        }
        let target = engine
            .resolve(&Caller::local(1, 0), "a/x")
            .expect("deployed");
        write(&engine, 1, &target, 9.0);
        assert_eq!(alias.sample().value, Value::F64(9.0));
        assert!(alias.ledger().is_balanced() && target.ledger().is_balanced());
    });
}
