//! Libraries that are redeployed with changes, stopped and started, and that keep their values.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]
#![cfg(not(shuttle))]

mod rig;

use std::sync::Arc;

use rig::{
    ConsumerEvent, Rig, applied, define, drain, library_of, only_updates, sequences, updates,
};
use trunkline_engine::{
    DeployError, Deployed, Encoded, LibraryState, Refusal, Retained, Subscribe, Wakes, WriteOutcome,
};
use trunkline_types::{
    Contract, DataType, LibraryDefinition, Name, Properties, Quality, Reason, Timestamp, Value,
    VariableDefinition,
};

fn f64_with(change: impl FnOnce(&mut Properties)) -> Properties {
    let mut properties = Properties::new(DataType::F64);
    change(&mut properties);
    properties
}

fn redeploy(rig: &Rig, library: &LibraryDefinition) -> Result<Deployed, DeployError> {
    let (now, wall) = (rig.now(), rig.wall());
    let mut wakes = Wakes::new();
    rig.engine
        .libraries()
        .deploy_retained(library, true, &|_, _| None, now, wall, &mut wakes)
}

fn plant(variables: Vec<VariableDefinition>) -> LibraryDefinition {
    library_of("plant", variables)
}

fn counts(deployed: &Deployed) -> [usize; 4] {
    let Deployed {
        added,
        changed,
        kept,
        removed,
        ..
    } = *deployed;
    [added, changed, kept, removed]
}

/// Unchanged variables keep their handle, value and subscribers; changed ones become another
/// variable.
///
/// Behaviour: SP-06.
#[test]
fn changed_properties_reach_the_users_of_the_variable() {
    let rig = Rig::new();
    let before = [
        VariableDefinition::new("same", DataType::F64),
        VariableDefinition::new("edited", DataType::F64),
        VariableDefinition::new("retyped", DataType::F64),
        VariableDefinition::new("dropped", DataType::F64),
    ];
    rig.deploy("plant", before.to_vec());
    let edited = rig.variable("plant/edited");
    let (retyped, dropped) = (rig.variable("plant/retyped"), rig.variable("plant/dropped"));
    assert_eq!(rig.write(&edited, 500.0), applied(1));
    let mut consumer = rig.consumer();
    for variable in [&edited, &dropped] {
        consumer
            .subscribe(&rig.caller, variable, Subscribe::new(1, Contract::Latest))
            .expect("the variable can be subscribed");
    }
    drain(&mut consumer);

    let after = plant(vec![
        VariableDefinition::new("same", DataType::F64),
        define(
            "edited",
            f64_with(|p| {
                p.range = Some((0.0, 100.0));
                p.units = "%".to_owned();
            }),
        ),
        VariableDefinition::new("retyped", DataType::I32),
        VariableDefinition::new("new", DataType::Bool),
    ]);
    let deployed = redeploy(&rig, &after).expect("it is well formed");
    assert_eq!(counts(&deployed), [2, 1, 1, 2]);

    assert_eq!(rig.variable("plant/edited").handle(), edited.handle());
    assert_eq!(edited.properties().units, "%");
    assert_eq!(edited.sample().value, Value::F64(500.0));
    assert!(matches!(
        rig.write(&edited, 101.0),
        WriteOutcome::Refused(Refusal::OutOfRange { .. })
    ));
    assert_eq!(rig.write(&edited, 99.0), applied(2));
    assert!(retyped.is_gone() && dropped.is_gone());
    assert_ne!(rig.variable("plant/retyped").handle(), retyped.handle());
    let (gone, events): (Vec<_>, Vec<_>) = drain(&mut consumer)
        .into_iter()
        .partition(|event| matches!(event, ConsumerEvent::Gone { .. }));
    let handle = dropped.handle();
    assert_eq!(
        gone,
        [ConsumerEvent::Gone {
            subscription: 1,
            handle
        }]
    );
    assert_eq!(sequences(&only_updates(events)), [2]);

    // Redeploying the original library restores the original properties.
    let mut again = after.clone();
    again.variables[1] = VariableDefinition::new("edited", DataType::F64);
    assert_eq!(
        counts(&redeploy(&rig, &again).expect("it is well formed")),
        [0, 1, 3, 0]
    );
    assert_eq!(rig.write(&edited, 101.0), applied(3));
    assert!(edited.ledger().is_balanced());
}

#[test]
fn existing_library_is_replaced_only_on_request() {
    let rig = Rig::new();
    rig.deploy("plant", vec![VariableDefinition::new("a", DataType::F64)]);
    let other = plant(vec![VariableDefinition::new("b", DataType::F64)]);
    let refused = rig.engine.libraries().check(&other, false);
    assert!(matches!(refused, Err(DeployError::AlreadyDeployed { .. })));
    assert_eq!(rig.engine.libraries().check(&other, true), Ok(()));
    let broken = plant(vec![define("a", f64_with(|p| p.range = Some((1.0, 0.0))))]);
    assert!(redeploy(&rig, &broken).is_err());
    assert!(
        !rig.variable("plant/a").is_gone(),
        "the library is unchanged"
    );
}

/// Behaviour: DP-16.
#[test]
fn stopped_library_keeps_its_values_and_accepts_none() {
    let rig = Rig::new();
    rig.deploy(
        "plant",
        vec![
            VariableDefinition::new("level", DataType::F64),
            VariableDefinition::new("never", DataType::F64),
        ],
    );
    let level = rig.variable("plant/level");
    let never = rig.variable("plant/never");
    assert_eq!(rig.write(&level, 7.0), applied(1));
    let mut consumer = rig.consumer();
    consumer
        .subscribe(&rig.caller, &level, Subscribe::new(1, Contract::Latest))
        .expect("the variable can be subscribed");
    drain(&mut consumer);

    let stop = || {
        rig.engine
            .libraries()
            .stop("plant", rig.now(), rig.wall(), &mut Wakes::new())
    };
    let start = || {
        rig.engine
            .libraries()
            .start("plant", rig.now(), rig.wall(), &mut Wakes::new())
    };
    assert_eq!(stop(), Ok(true));
    assert_eq!(stop(), Ok(false), "the library is already stopped");
    let sample = level.sample();
    assert_eq!(sample.value, Value::F64(7.0));
    assert_eq!(sample.quality, Quality::bad(Reason::ProcessMissing));
    assert_eq!(sequences(&updates(&mut consumer)), [2]);
    assert_eq!(
        rig.write(&level, 8.0),
        WriteOutcome::Refused(Refusal::LibraryStopped)
    );
    let state = rig
        .engine
        .libraries()
        .get("plant")
        .map(|library| library.state);
    assert_eq!(state, Some(LibraryState::Stopped));

    assert_eq!(start(), Ok(true));
    assert_eq!(start(), Ok(false), "the library already runs");
    assert_eq!(level.sample().quality, Quality::uncertain(Reason::Retained));
    assert_eq!(level.sample().value, Value::F64(7.0));
    assert_eq!(never.sequence(), 0, "the variable was never written");
    assert_eq!(rig.write(&level, 8.0), applied(4));
    assert_eq!(sequences(&updates(&mut consumer)), [4]);
    assert!(level.ledger().is_balanced());
}

#[test]
fn bad_values_stay_bad_after_a_stop() {
    let rig = Rig::new();
    rig.deploy(
        "plant",
        vec![VariableDefinition::new("level", DataType::F64)],
    );
    let level = rig.variable("plant/level");
    rig.write(&level, 1.0);
    let broken = Quality::bad(Reason::SensorFailure);
    let (now, wall) = (rig.now(), rig.wall());
    rig.engine
        .providers()
        .set_quality(level.handle(), broken, now, wall, &mut Wakes::new());
    for _ in 0..2 {
        rig.engine
            .libraries()
            .stop("plant", now, wall, &mut Wakes::new())
            .expect("the variable exists");
        rig.engine
            .libraries()
            .start("plant", now, wall, &mut Wakes::new())
            .expect("the variable exists");
        assert_eq!(level.sample().quality, broken);
    }
}

/// The retained value takes precedence over the initial value, and is the first update.
///
/// Behaviour: H-17.
#[test]
fn variable_begins_with_its_retained_value_or_else_its_initial_one() {
    let rig = Rig::new();
    let initial = Arc::new(f64_with(|p| p.initial = Some(Value::F64(1.0))));
    let variable = |path: &str| VariableDefinition {
        path: path.to_owned(),
        properties: Arc::clone(&initial),
    };
    let library = plant(vec![variable("kept"), variable("new"), variable("damaged")]);
    let measured = Timestamp::from_nanos(1_700_000_000_000_000_000);
    let retained = |name: &Name, _: &Properties| match name.as_str() {
        "plant/kept" => Some(Retained {
            value: Encoded::from_value(&Value::F64(41.5)),
            source_timestamp: measured,
        }),
        "plant/damaged" => Some(Retained {
            value: Encoded::from_bytes(&[1, 2, 3]),
            source_timestamp: measured,
        }),
        _ => None,
    };
    let (now, wall) = (rig.now(), rig.wall());
    rig.engine
        .libraries()
        .deploy_retained(&library, false, &retained, now, wall, &mut Wakes::new())
        .expect("the library is valid");
    let kept = rig.variable("plant/kept");
    let sample = kept.sample();
    assert_eq!((kept.sequence(), sample.value), (1, Value::F64(41.5)));
    assert_eq!(sample.source_timestamp, measured);
    assert_eq!(sample.quality.reason(), Reason::Retained);
    for name in ["plant/new", "plant/damaged"] {
        let sample = rig.variable(name).sample();
        assert_eq!(sample.value, Value::F64(1.0));
        assert_eq!(sample.quality.reason(), Reason::Initial);
    }
    // A measurement replaces it, regardless of its clock.
    let (mut write, older) = (
        trunkline_engine::Write::value(&Value::F64(2.0)),
        1_600_000_000,
    );
    write.source_timestamp = Some(Timestamp::from_nanos(older * 1_000_000_000));
    let attempt = rig
        .engine
        .try_write(&rig.caller, now, wall, &kept, &write, &mut Wakes::new());
    assert_eq!(attempt, trunkline_engine::Attempt::Done(applied(2)));
}
