//! Watched patterns: names that appear and disappear are reported in order and in slices, and a
//! removed name after its last update.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]
#![cfg(not(shuttle))]

mod rig;

use rig::{Bell, Rig, drain, library_of};
use trunkline_engine::{Consumer, Wakes, Watch, WatchProgress};
use trunkline_types::{Contract, DataType, Pattern, StepBudget, VariableDefinition};

fn definitions(paths: &[&str], ty: &DataType) -> Vec<VariableDefinition> {
    let definition = |path: &&str| VariableDefinition::new(*path, ty.clone());
    paths.iter().map(definition).collect()
}

fn replace(rig: &Rig, paths: &[&str], ty: &DataType) {
    let library = library_of("plant", definitions(paths, ty));
    let none = &|_: &_, _: &_| None;
    let (now, wall) = (rig.now(), rig.wall());
    rig.engine
        .libraries()
        .deploy_retained(&library, true, none, now, wall, &mut Wakes::new())
        .expect("the library is valid");
}

fn watch(pattern: &str) -> Watch {
    Watch::new(Pattern::parse(pattern).expect("the pattern is valid"))
}

/// Returns all pending events, as `+name` and `-handle`.
fn pending_events(
    watch: &mut Watch,
    consumer: &Consumer,
    rig: &Rig,
) -> (Vec<String>, WatchProgress) {
    let mut all = Vec::new();
    loop {
        let slice = watch.next(consumer, &rig.caller, 2, &mut StepBudget::new(100));
        assert!(slice.appeared.len() <= 2, "a slice exceeds its limit");
        all.extend(slice.gone.iter().map(|handle| format!("-{handle}")));
        let appeared = slice.appeared.iter();
        all.extend(appeared.map(|variable| format!("+{}", variable.name())));
        if slice.listed {
            all.push("listed".to_owned());
        }
        if slice.progress != WatchProgress::More {
            return (all, slice.progress);
        }
    }
}

/// Behaviour: B-32.
#[test]
fn names_are_listed_in_slices_and_then_followed() {
    let rig = Rig::new();
    let consumer = rig.consumer();
    rig.deploy(
        "other",
        definitions(&["a", "b", "c", "d", "e"], &DataType::F64),
    );
    replace(&rig, &["a", "b", "x/c"], &DataType::F64);
    let mut watch = watch("plant/*");
    let (listed, progress) = pending_events(&mut watch, &consumer, &rig);
    assert_eq!(listed, ["+plant/a", "+plant/b", "listed"]);
    assert_eq!(progress, WatchProgress::Idle);
    let handle = rig.variable("plant/a").handle();
    replace(&rig, &["b", "n"], &DataType::F64);
    let (news, _) = pending_events(&mut watch, &consumer, &rig);
    assert_eq!(news, [format!("-{handle}"), "+plant/n".to_owned()]);
    assert_eq!(pending_events(&mut watch, &consumer, &rig).0, [""; 0]);
}

/// Behaviour: B-32.
#[test]
fn no_name_change_is_lost_with_infrequent_polling() {
    let rig = Rig::new();
    let consumer = rig.consumer();
    replace(&rig, &["a"], &DataType::F64);
    let mut watch = watch("**");
    pending_events(&mut watch, &consumer, &rig);
    let first = rig.variable("plant/a").handle();
    for _ in 0..2000 {
        // Each deployment creates a new variable with the same name.
        replace(&rig, &["a"], &DataType::I32);
        replace(&rig, &["a"], &DataType::F64);
    }
    let (news, _) = pending_events(&mut watch, &consumer, &rig);
    // Names that appeared and disappeared between two calls are not reported, but the revision
    // counts them.
    assert_eq!(news, [format!("-{first}"), "+plant/a".to_owned()]);
    let revision = watch
        .next(&consumer, &rig.caller, 1, &mut StepBudget::new(0))
        .revision;
    assert_eq!(revision, 1 + 2 * 4000);
}

/// Behaviour: B-32.
#[test]
fn variable_is_reported_gone_after_its_last_update() {
    let rig = Rig::new();
    replace(&rig, &["a"], &DataType::F64);
    let a = rig.variable("plant/a");
    for contract in ["latest", "last:2", "first:2", "all:9"] {
        let contract: Contract = contract.parse().unwrap();
        let mut consumer = rig.consumer();
        rig.subscribe(&mut consumer, 1, contract, &rig.variable("plant/a"));
        let mut watch = watch("plant/**");
        pending_events(&mut watch, &consumer, &rig);
        drain(&mut consumer);
        let gone = rig.variable("plant/a");
        rig.write(&gone, 1.0);
        let mut wakes = Wakes::new();
        rig.engine
            .libraries()
            .undeploy("plant", rig.now(), rig.wall(), &mut wakes)
            .unwrap();
        let (news, progress) = pending_events(&mut watch, &consumer, &rig);
        assert_eq!(
            (news.len(), progress),
            (0, WatchProgress::Waiting),
            "{contract}"
        );
        assert_eq!(drain(&mut consumer).len(), 2, "the update and the end");
        let (news, progress) = pending_events(&mut watch, &consumer, &rig);
        let expected = vec![format!("-{}", gone.handle())];
        assert_eq!((news, progress), (expected, WatchProgress::Idle));
        replace(&rig, &["a"], &DataType::F64);
    }
    assert!(a.is_gone());
}

/// Behaviour: B-32.
#[test]
fn watcher_is_woken_only_by_name_changes() {
    let rig = Rig::new();
    let bell = Bell::default();
    let consumer = Consumer::new(rig.engine.clone(), Box::new(bell.clone()));
    replace(&rig, &["a"], &DataType::F64);
    assert_eq!(bell.rings(), 0, "names are not watched yet");
    consumer.watch_names();
    consumer.watch_names();
    replace(&rig, &["a"], &DataType::F64);
    assert_eq!((bell.rings(), consumer.take_names_changed()), (0, false));
    replace(&rig, &["a", "b"], &DataType::F64);
    assert_eq!((bell.rings(), consumer.is_idle()), (1, false));
    assert!(consumer.take_names_changed() && !consumer.take_names_changed());
    rig.engine
        .libraries()
        .undeploy("plant", rig.now(), rig.wall(), &mut Wakes::new())
        .unwrap();
    assert_eq!((bell.rings(), consumer.take_names_changed()), (1, true));
    assert!(consumer.is_idle());
}
