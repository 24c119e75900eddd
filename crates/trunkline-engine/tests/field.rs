//! Fields: opened by name, read like variables, notified on every change.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]
#![cfg(not(shuttle))]

mod rig;

use std::sync::Arc;
use std::time::Duration;

use rig::{ConsumerEvent, Rig, define, drain, library_of, updates};
use trunkline_engine::fields::{FIELDS, FieldRef};
use trunkline_engine::{AccessError, Refusal, Variable, Wakes, Write, WriteOutcome, WriteVerb};
use trunkline_types::{Contract, DataType, Level, Properties, Reason, Scope, Timestamp, Value};

fn open(rig: &Rig, name: &str) -> Arc<Variable> {
    let opened = rig
        .engine
        .fields()
        .open(&rig.caller, name, rig.now(), rig.wall());
    Arc::clone(&opened.expect("the field exists"))
}

fn level(units: &str, range: Option<(f64, f64)>) -> Properties {
    Properties {
        units: units.to_owned(),
        range,
        ..Properties::new(DataType::F64)
    }
}

fn replace(rig: &Rig, properties: Properties) {
    let library = library_of("rig", vec![define("x", properties)]);
    let none = &|_: &_, _: &_| None;
    let (now, wall) = (rig.now(), rig.wall());
    rig.engine
        .libraries()
        .deploy_retained(&library, true, none, now, wall, &mut Wakes::new())
        .expect("the library is valid");
}

fn value(variable: &Variable) -> Value {
    variable.sample().value
}

/// Behaviour: VS-01, VS-08.
#[test]
fn every_field_has_a_value_of_its_type_and_a_description() {
    let (rig, x) = Rig::of(level("%", Some((0.0, 10.0))));
    rig.write(&x, 4.0);
    for field in FIELDS {
        let variable = open(&rig, &format!("rig/x#{}", field.name));
        let sample = variable.sample();
        assert!(
            sample.value.has_type(variable.data_type()),
            "{}",
            field.name
        );
        assert_eq!(variable.properties().description, field.about);
        let is_unset = matches!(field.name, "max_age" | "precision");
        let expected = if is_unset { Level::Bad } else { Level::Good };
        assert_eq!(sample.quality.level(), expected, "{}", field.name);
        let found = FieldRef::named(field.name).unwrap();
        assert_eq!(found.value_of(&x).is_none(), is_unset);
    }
    assert_eq!(value(&open(&rig, "rig/x#units")), Value::String("%".into()));
    assert_eq!(value(&open(&rig, "rig/x#range.high")), Value::F64(10.0));
    assert_eq!(value(&open(&rig, "rig/x#sequence")), Value::U64(1));
    let unset = open(&rig, "rig/x#max_age").sample().quality;
    assert_eq!(unset.reason(), Reason::NoValue);
    // Opening a field again returns the same variable, which is not part of the library.
    let one = open(&rig, "rig/x#units");
    assert_eq!(one.handle(), open(&rig, "rig/x#units").handle());
    assert_eq!(rig.engine.libraries().variable_count(), 1);
}

/// Behaviour: VS-08.
#[test]
fn change_of_a_field_is_notified_with_its_own_sequence() {
    let (rig, x) = Rig::of(level("%", None));
    let mut consumer = rig.consumer();
    let all: Contract = "all:100".parse().unwrap();
    let names = [
        "units",
        "range.high",
        "library.state",
        "forced",
        "forced.by",
        "quality",
    ];
    for (id, name) in (1..).zip(names) {
        rig.subscribe(
            &mut consumer,
            id,
            all,
            &open(&rig, &format!("rig/x#{name}")),
        );
    }
    assert_eq!(updates(&mut consumer).len(), names.len());
    let mut news = || -> Vec<(String, u64, Value)> {
        let events = drain(&mut consumer);
        let events = events.into_iter().filter_map(|event| match event {
            ConsumerEvent::Update(got) => Some(got),
            _ => None,
        });
        events
            .map(|got| {
                let field = names[got.subscription as usize - 1].to_owned();
                (field, got.sequence, got.value)
            })
            .collect()
    };
    let text = |text: &str| Value::String(text.into());
    let of = |field: &str, sequence, value| (field.to_owned(), sequence, value);

    replace(&rig, level("bar", Some((0.0, 5.0))));
    let expected = [
        of("units", 2, text("bar")),
        of("range.high", 2, Value::F64(5.0)),
    ];
    assert_eq!(news(), expected);
    replace(&rig, level("bar", Some((1.0, 5.0))));
    assert_eq!(news(), [], "none of these fields has changed");

    rig.write(&x, 2.0);
    assert_eq!(news(), [of("quality", 2, text("good"))]);
    rig.write(&x, 3.0);
    assert_eq!(news(), []);

    let mut wakes = Wakes::new();
    let (now, wall) = (rig.now(), rig.wall());
    rig.engine
        .libraries()
        .stop("rig", now, wall, &mut wakes)
        .unwrap();
    let stopped = [
        of("library.state", 2, text("stopped")),
        of("quality", 3, text("bad: process-missing")),
    ];
    assert_eq!(news(), stopped);
    rig.engine
        .libraries()
        .start("rig", now, wall, &mut wakes)
        .unwrap();
    let started = [
        of("library.state", 3, text("running")),
        of("quality", 4, text("uncertain: retained")),
    ];
    assert_eq!(news(), started);

    let mut force = Write::value(&Value::F64(4.0));
    force.verb = WriteVerb::Force;
    rig.attempt(&x, &force);
    let forced: Vec<String> = news().into_iter().map(|(field, ..)| field).collect();
    assert_eq!(forced, ["forced", "forced.by", "quality"]);
    rig.attempt(&x, &Write::order(WriteVerb::Unforce));
    assert_eq!(news()[0], of("forced", 3, Value::Bool(false)));
}

/// A value marked as stale keeps its timestamps, and a variable without timestamps has none.
#[test]
fn fields_carry_the_time_at_which_they_changed() {
    let untimed = Properties {
        timestamps: false,
        ..level("%", None)
    };
    let aging = Properties {
        max_age: Some(Duration::from_secs(1)),
        ..level("%", None)
    };
    let rig = Rig::with(vec![define("untimed", untimed), define("aging", aging)]);
    let (untimed, aging) = (rig.variable("rig/untimed"), rig.variable("rig/aging"));
    rig.write(&untimed, 1.0);
    rig.write(&aging, 1.0);
    let forced = open(&rig, "rig/untimed#forced");
    let quality = open(&rig, "rig/aging#quality");

    rig.advance(Duration::from_secs(1));
    let mut force = Write::value(&Value::F64(4.0));
    force.verb = WriteVerb::Force;
    rig.attempt(&untimed, &force);
    assert_eq!(value(&forced), Value::Bool(true));
    let update = forced.update();
    let times = (update.source_timestamp, update.engine_timestamp);
    assert_eq!(times, (rig.wall(), rig.wall()));
    assert_eq!(untimed.update().engine_timestamp, Timestamp::UNIX_EPOCH);

    rig.advance(Duration::from_secs(9));
    rig.poll();
    assert_eq!(value(&quality), Value::String("uncertain: stale".into()));
    let update = quality.update();
    let times = (update.source_timestamp, update.engine_timestamp);
    assert_eq!(times, (rig.wall(), rig.wall()));
}

/// Behaviour: VS-01, VS-08.
#[test]
fn fields_are_read_only_and_are_removed_with_their_variable() {
    let (rig, _) = Rig::of(level("%", None));
    let units = open(&rig, "rig/x#units");
    let refused = rig.write(&units, "bar");
    assert!(
        matches!(refused, WriteOutcome::Refused(Refusal::Field)),
        "{refused:?}"
    );
    let mut consumer = rig.consumer();
    rig.subscribe(&mut consumer, 1, Contract::Latest, &units);
    drain(&mut consumer);
    rig.engine
        .libraries()
        .undeploy("rig", rig.now(), rig.wall(), &mut Wakes::new())
        .unwrap();
    assert!(units.is_gone());
    assert!(matches!(
        drain(&mut consumer)[..],
        [ConsumerEvent::Gone { .. }]
    ));
    let missing = rig
        .engine
        .fields()
        .open(&rig.caller, "rig/x#units", rig.now(), rig.wall());
    assert!(matches!(missing, Err(AccessError::UnknownName { .. })));
    // A new variable of the same name has its own fields.
    rig.deploy("rig", vec![define("x", level("K", None))]);
    assert_eq!(value(&open(&rig, "rig/x#units")), Value::String("K".into()));
}

/// Behaviour: VS-01.
#[test]
fn unknown_field_is_refused_with_a_list_of_fields() {
    let (rig, _) = Rig::of(level("%", None));
    let error = |name: &str| {
        let opened = rig
            .engine
            .fields()
            .open(&rig.caller, name, rig.now(), rig.wall());
        opened.expect_err("the field does not exist").to_string()
    };
    let sentence = error("rig/x#unit");
    assert!(
        sentence.starts_with("rig/x has no field unit; its fields are access,"),
        "{sentence}"
    );
    assert!(
        sentence.contains("range.high") && sentence.contains("units"),
        "{sentence}"
    );
    assert!(error("rig/y#units").contains("no variable is named rig/y"));
    // The fields of a hidden variable are hidden too.
    let mut hidden = level("%", None);
    hidden.scope = Scope::Process;
    rig.deploy("own", vec![define("x", hidden)]);
    let mut remote = rig.caller.clone();
    remote.remote = true;
    let opened = rig
        .engine
        .fields()
        .open(&remote, "own/x#units", rig.now(), rig.wall());
    assert!(matches!(opened, Err(AccessError::UnknownName { .. })));
    open(&rig, "own/x#units");
    let opened = rig
        .engine
        .fields()
        .open(&remote, "own/x#units", rig.now(), rig.wall());
    assert!(matches!(opened, Err(AccessError::UnknownName { .. })));
}
