//! Several libraries that change together, as after a change of the configuration files.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]
#![cfg(not(shuttle))]

mod rig;

use rig::{Rig, define, library_of};
use trunkline_engine::{DeployError, Deployed, Deployment, Wakes};
use trunkline_types::{DataType, LibraryDefinition, Properties, VariableDefinition};

fn with(path: &str, change: impl FnOnce(&mut Properties)) -> VariableDefinition {
    let mut properties = Properties::new(DataType::F64);
    change(&mut properties);
    define(path, properties)
}

fn numbered(path: &str, number: u32) -> VariableDefinition {
    with(path, |properties| properties.number = Some(number))
}

fn plain(path: &str) -> VariableDefinition {
    with(path, |_| {})
}

fn alias(path: &str, target: &str) -> VariableDefinition {
    with(path, |properties| properties.alias = target.to_owned())
}

fn deploy(
    rig: &Rig,
    libraries: &[LibraryDefinition],
    undeploy: &[&str],
) -> Result<Vec<Deployed>, DeployError> {
    let libraries: Vec<&LibraryDefinition> = libraries.iter().collect();
    let undeploy: Vec<String> = undeploy.iter().map(|name| (*name).to_owned()).collect();
    let deployment = Deployment {
        deploy: &libraries,
        undeploy: &undeploy,
        is_unchanged: &|_, _| false,
        retained: &|_, _| None,
    };
    let (now, wall) = (rig.now(), rig.wall());
    let all = rig.engine.libraries();
    let checked = all.check_all(&deployment);
    let deployed = all.deploy_all(&deployment, now, wall, &mut Wakes::new());
    assert_eq!(checked.is_ok(), deployed.is_ok(), "the check agrees");
    deployed
}

fn exists(rig: &Rig, name: &str) -> bool {
    rig.engine.resolve(&rig.caller, name).is_ok()
}

/// One after the other, the first deployment would be refused.
///
/// Behaviour: LM-01.
#[test]
fn number_moves_from_one_library_to_another() {
    let rig = Rig::new();
    let before = [
        library_of("a", vec![numbered("x", 20)]),
        library_of("b", vec![plain("y")]),
    ];
    deploy(&rig, &before, &[]).unwrap();
    let handle = rig.variable("b/y").handle();
    let after = [
        library_of("b", vec![numbered("y", 20)]),
        library_of("a", vec![plain("x")]),
    ];
    let deployed = deploy(&rig, &after, &[]).unwrap();
    assert_eq!(deployed[0].changed, 1, "{deployed:?}");
    assert_eq!(rig.variable(":/20").name(), "b/y");
    assert_eq!(rig.variable("b/y").handle(), handle);
    // A library that is removed frees its numbers as well.
    let last = [library_of("c", vec![numbered("z", 20)])];
    deploy(&rig, &last, &["b", "never deployed"]).unwrap();
    assert_eq!(rig.variable(":/20").name(), "c/z");
    assert!(!exists(&rig, "b/y"));
}

#[test]
fn one_wrong_library_leaves_all_others_unchanged() {
    let rig = Rig::new();
    let before = [
        library_of("other", vec![numbered("o", 7)]),
        library_of("a", vec![plain("x")]),
        library_of("gone", vec![plain("g")]),
    ];
    deploy(&rig, &before, &[]).unwrap();
    let taken = [
        library_of("a", vec![plain("new")]),
        library_of("b", vec![numbered("y", 7)]),
    ];
    let error = deploy(&rig, &taken, &["gone"]).unwrap_err();
    let sentence = error.to_string();
    assert!(
        sentence.contains("b/y") && sentence.contains("other/o"),
        "{sentence}"
    );
    assert!(exists(&rig, "a/x") && exists(&rig, "gone/g"));
    assert!(!exists(&rig, "a/new") && !exists(&rig, "b/y"));
    // Two of them cannot have the same number either.
    let twice = [
        library_of("d", vec![numbered("x", 9)]),
        library_of("e", vec![numbered("x", 9)]),
    ];
    assert!(deploy(&rig, &twice, &[]).is_err());
    assert!(!exists(&rig, "d/x") && !exists(&rig, "e/x"));
    deploy(&rig, &taken, &["gone", "other"]).unwrap();
    assert!(exists(&rig, "a/new") && exists(&rig, "b/y"));
    assert!(!exists(&rig, "a/x") && !exists(&rig, "gone/g"));
}

/// Each library alone would be correct.
#[test]
fn aliases_of_libraries_that_arrive_together_form_no_circle() {
    let rig = Rig::new();
    let circle = [
        library_of("a", vec![alias("x", "b/y")]),
        library_of("b", vec![alias("y", "a/x")]),
    ];
    let error = deploy(&rig, &circle, &[]).unwrap_err();
    assert!(matches!(error, DeployError::Alias { .. }), "{error}");
    assert!(!exists(&rig, "a/x") && !exists(&rig, "b/y"));

    // The old alias of a library that is replaced does not count.
    deploy(&rig, &[library_of("a", vec![alias("x", "b/y")])], &[]).unwrap();
    let turned = [
        library_of("a", vec![plain("x")]),
        library_of("b", vec![alias("y", "a/x")]),
    ];
    deploy(&rig, &turned, &[]).unwrap();
    assert!(rig.variable("b/y").is_alias());
}

/// The definition may have moved in its file, which is part of the properties.
#[test]
fn unchanged_variable_is_not_touched() {
    let rig = Rig::new();
    let at = |line: &str| with("x", |properties| properties.origin = line.to_owned());
    deploy(&rig, &[library_of("a", vec![at("a.toml:1")])], &[]).unwrap();
    let moved = library_of("a", vec![at("a.toml:2")]);
    let deployment = |is_unchanged: bool| {
        let deploy = [&moved];
        let deployment = Deployment {
            deploy: &deploy,
            undeploy: &[],
            is_unchanged: &|_, _| is_unchanged,
            retained: &|_, _| None,
        };
        let (now, wall) = (rig.now(), rig.wall());
        let all = rig.engine.libraries();
        let deployed = all.deploy_all(&deployment, now, wall, &mut Wakes::new());
        let deployed = &deployed.unwrap()[0];
        (deployed.kept, deployed.changed)
    };
    assert_eq!(deployment(true), (1, 0));
    assert_eq!(rig.variable("a/x").properties().origin, "a.toml:1");
    assert_eq!(deployment(false), (0, 1));
    assert_eq!(rig.variable("a/x").properties().origin, "a.toml:2");
}
