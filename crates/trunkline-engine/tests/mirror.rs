//! The table of last values: it contains every kind of change, and excludes some variables.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]
#![cfg(not(shuttle))]

mod rig;

use std::time::Duration;

use rig::{Mirrored, Rig, define, done, read_table};
use trunkline_engine::{Wakes, Write, WriteVerb};
use trunkline_ring::{TableEntry, value_table};
use trunkline_types::{
    Access, Contract, DataType, Properties, Quality, Reason, Scope, Value, VariableDefinition,
};

fn f64s() -> Properties {
    Properties::new(DataType::F64)
}

#[test]
fn every_kind_of_change_is_stored() {
    let mut aged = f64s();
    aged.max_age = Some(Duration::from_millis(5));
    let mut provided = f64s();
    provided.source = "plant:temperature".into();
    let mut alias = f64s();
    alias.alias = "rig/x".into();
    let rig = Rig::with(vec![
        define("x", f64s()),
        define("y", f64s()),
        define("aged", aged),
        define("provided", provided),
        define("alias", alias),
        define("text", Properties::new(DataType::String)),
    ]);
    let table = Mirrored::new(&rig);
    table.check(&rig);
    let (x, y) = (rig.variable("rig/x"), rig.variable("rig/y"));
    // First the fast path, with and without subscribers, then the general path.
    let mut consumer = rig.consumer();
    for (round, value) in [1.0, 2.0, 3.0].into_iter().enumerate() {
        rig.advance(Duration::from_millis(1));
        let written = y.write_plain(
            &rig.caller,
            rig.wall(),
            &Value::F64(value),
            &mut Wakes::new(),
        );
        assert!(
            written.is_some() || round == 2,
            "the fast path was not taken"
        );
        table.check(&rig);
        rig.write(&x, value + 0.5);
        rig.write(&y, value + 0.5);
        table.check(&rig);
        let contract = [Contract::Latest, Contract::ALL, Contract::Last(3)][round];
        rig.subscribe(&mut consumer, round as u32, contract, &y);
    }
    // Qualities, forcing, age, text of every length.
    let (now, wall) = (rig.now(), rig.wall());
    let doubtful = Quality::uncertain(Reason::Estimated);
    rig.engine
        .providers()
        .set_quality(x.handle(), doubtful, now, wall, &mut Wakes::new());
    table.check(&rig);
    let mut force = Write::value(&Value::F64(9.0));
    force.verb = WriteVerb::Force;
    done(rig.attempt(&x, &force));
    table.check(&rig);
    let aged = rig.variable("rig/aged");
    rig.write(&aged, 1.0);
    rig.advance(Duration::from_secs(1));
    rig.poll();
    rig.advance(Duration::from_secs(1));
    rig.poll();
    assert!(aged.sample().quality.has_reason(Reason::Stale));
    table.check(&rig);
    let text = rig.variable("rig/text");
    for length in [3, 20, 21, 200, 5, 0] {
        let value = Value::String("x".repeat(length).into());
        done(rig.attempt(&text, &Write::value(&value)));
        table.check(&rig);
    }
    let stopped = rig
        .engine
        .libraries()
        .stop("rig", rig.now(), rig.wall(), &mut Wakes::new());
    stopped.unwrap();
    table.check(&rig);
}

#[test]
fn restricted_variables_are_not_in_the_table() {
    let mut hidden = f64s();
    hidden.scope = Scope::Process;
    let mut secret = f64s();
    secret.access = Access::WriteOnly;
    let rig = Rig::with(vec![define("hidden", hidden), define("secret", secret)]);
    let table = Mirrored::new(&rig);
    for (name, found) in [
        ("rig/hidden", None),
        ("rig/secret", Some(TableEntry::Elsewhere)),
    ] {
        let variable = rig.variable(name);
        rig.write(&variable, 4711.0);
        assert_eq!(table.read(variable.handle()), found);
    }
}

/// A change of the read permission of a library applies to the table too.
#[test]
fn variable_that_becomes_unreadable_leaves_the_table() {
    let (rig, x) = Rig::plain();
    let table = Mirrored::new(&rig);
    rig.write(&x, 1.0);
    let read = || table.read(x.handle());
    assert!(matches!(read(), Some(TableEntry::Value(_))));
    let mut secret = f64s();
    secret.access = Access::WriteOnly;
    let replace = |properties| {
        let library = rig::library_of("rig", vec![define("x", properties)]);
        let (now, wall) = (rig.now(), rig.wall());
        let replaced = rig.engine.libraries().deploy_retained(
            &library,
            true,
            &|_, _| None,
            now,
            wall,
            &mut Wakes::new(),
        );
        replaced.unwrap();
    };
    replace(secret);
    assert_eq!(read(), Some(TableEntry::Elsewhere));
    replace(f64s());
    assert!(matches!(read(), Some(TableEntry::Value(_))));
}

#[test]
fn later_variables_are_added_and_undeployed_ones_removed() {
    let (rig, x) = Rig::plain();
    let table = Mirrored::new(&rig);
    rig.deploy("more", vec![define("y", f64s())]);
    let y = rig.variable("more/y");
    let read = |handle: u32| table.read(handle);
    assert_eq!(read(y.handle()), None, "the engine was not polled yet");
    rig.write(&y, 1.0);
    rig.poll();
    table.check(&rig);
    let (now, wall) = (rig.now(), rig.wall());
    let undeployed = rig
        .engine
        .libraries()
        .undeploy("rig", now, wall, &mut Wakes::new());
    undeployed.unwrap();
    assert_eq!(read(x.handle()), Some(TableEntry::Gone));
    table.check(&rig);
}

/// Many variables are added in slices. A table that is too small contains those that fit.
#[test]
fn a_table_takes_what_it_has_room_for() {
    let define = |index: u32| VariableDefinition::new(format!("v{index}"), DataType::F64);
    let rig = Rig::with((0..3000).map(define).collect());
    let (writer, table) = value_table(2500);
    let _mirror = rig.engine.tables().mirror_into(writer);
    assert!(table.read(1000, 0).is_some() && table.read(1001, 0).is_none());
    let due = rig
        .engine
        .poll(rig.now(), rig.wall(), &mut Wakes::new())
        .expect("another poll is due");
    assert!(due <= rig.now());
    rig.poll();
    assert!(table.read(2499, 0).is_some());
    for handle in [1, 2499, 2500, 3000] {
        rig.write(&rig.engine.variable(handle).unwrap(), 5.0);
    }
    assert!(matches!(table.read(2499, 0), Some(TableEntry::Value(value)) if value.sequence == 1));
}

#[test]
fn several_tables_are_created_and_dropped_independently() {
    let (rig, x) = Rig::plain();
    let mut consumer = rig.consumer();
    rig.subscribe(&mut consumer, 1, Contract::Latest, &x);
    let first = Mirrored::new(&rig);
    rig.write(&x, 1.0);
    let second = Mirrored::new(&rig);
    rig.write(&x, 2.0);
    first.check(&rig);
    second.check(&rig);
    let ended = first.end();
    rig.write(&x, 3.0);
    assert_eq!(read_table(&ended, x.handle()), None);
    second.check(&rig);
    rig.poll();
    rig.write(&x, 4.0);
    second.check(&rig);
    second.end();
    rig.poll();
    // The only remaining subscriber is the consumer, which always had the newest update.
    assert_eq!(x.subscribers(), 1);
    assert_eq!(rig::numbers(&rig::updates(&mut consumer)), [4.0]);
    rig.write(&x, 5.0);
    assert_eq!(rig::numbers(&rig::updates(&mut consumer)), [5.0]);
}
