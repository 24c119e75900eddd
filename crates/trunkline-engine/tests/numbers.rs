//! Register numbers: other names of variables, unique within the engine.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]
#![cfg(not(shuttle))]

mod rig;

use rig::{Rig, define, library_of};
use trunkline_engine::{AccessError, DeployError, Wakes};
use trunkline_types::{DataType, Properties, Scope, VariableDefinition};

fn numbered(path: &str, number: u32) -> VariableDefinition {
    let mut properties = Properties::new(DataType::F64);
    properties.number = Some(number);
    define(path, properties)
}

fn name_of(rig: &Rig, number: &str) -> Option<String> {
    let found = rig.engine.resolve(&rig.caller, number);
    found.ok().map(|variable| variable.name().to_owned())
}

fn replace(rig: &Rig, variables: Vec<VariableDefinition>) -> Result<(), DeployError> {
    let library = library_of("rig", variables);
    let (now, wall) = (rig.now(), rig.wall());
    let none = |_: &_, _: &_| None;
    let engine = &rig.engine;
    let deployed =
        engine
            .libraries()
            .deploy_retained(&library, true, &none, now, wall, &mut Wakes::new());
    deployed.map(|_| ())
}

/// Behaviour: LM-01.
#[test]
fn a_register_is_found_by_its_number_and_by_its_name() {
    let rig = Rig::with(vec![
        numbered("x", 20),
        numbered("y", 0),
        numbered("z", u32::MAX),
    ]);
    let by_number = rig.variable(":/20");
    assert_eq!(by_number.handle(), rig.variable("rig/x").handle());
    assert_eq!(name_of(&rig, ":/0").as_deref(), Some("rig/y"));
    assert_eq!(name_of(&rig, ":/4294967295").as_deref(), Some("rig/z"));
    for none in [
        ":/21",
        ":/020",
        ":/+20",
        ":/",
        ":/20/x",
        ":/4294967296",
        ":20",
        "rig/:/20",
    ] {
        assert_eq!(name_of(&rig, none), None, "{none}");
    }
    let Err(AccessError::UnknownName { name, .. }) = rig.engine.resolve(&rig.caller, ":/21") else {
        panic!("the number belongs to a variable");
    };
    assert_eq!(name, ":/21");
    // Register numbers are names of the same variables.
    let steps = rig
        .engine
        .queries()
        .explain(&rig.caller, ":/20", rig.now(), rig.wall());
    assert!(
        steps[0].sentence.starts_with(":/20 is variable"),
        "{steps:?}"
    );
    assert_eq!(rig.engine.libraries().variable_count(), 3);
}

#[test]
fn number_is_assigned_once_and_released_with_its_variable() {
    let rig = Rig::with(vec![numbered("x", 20), numbered("y", 21)]);
    let (now, wall) = (rig.now(), rig.wall());
    let other = library_of("other", vec![numbered("a", 7), numbered("b", 21)]);
    let refused = rig
        .engine
        .libraries()
        .deploy(&other, now, wall)
        .unwrap_err();
    let taken =
        "other/b has the register number 21, which rig/y already has; choose another number";
    assert_eq!(refused.to_string(), taken);
    assert_eq!(
        name_of(&rig, ":/7"),
        None,
        "nothing of the refused library is deployed"
    );
    let twice = library_of("other", vec![numbered("a", 7), numbered("b", 7)]);
    let refused = rig
        .engine
        .libraries()
        .deploy(&twice, now, wall)
        .unwrap_err();
    assert!(matches!(
        refused,
        DeployError::NumberTaken { number: 7, .. }
    ));
    // Within one library, two variables may exchange their numbers.
    replace(&rig, vec![numbered("x", 21), numbered("y", 20)]).unwrap();
    assert_eq!(name_of(&rig, ":/21").as_deref(), Some("rig/x"));
    assert_eq!(name_of(&rig, ":/20").as_deref(), Some("rig/y"));
    replace(
        &rig,
        vec![
            numbered("x", 5),
            VariableDefinition::new("y", DataType::F64),
        ],
    )
    .unwrap();
    assert_eq!((name_of(&rig, ":/20"), name_of(&rig, ":/21")), (None, None));
    rig.engine.libraries().deploy(&other, now, wall).unwrap();
    assert_eq!(name_of(&rig, ":/21").as_deref(), Some("other/b"));
    rig.engine
        .libraries()
        .undeploy("rig", rig.now(), rig.wall(), &mut Wakes::new())
        .unwrap();
    assert_eq!(name_of(&rig, ":/5"), None);
    assert_eq!(name_of(&rig, ":/7").as_deref(), Some("other/a"));
}

#[test]
fn no_library_can_shadow_register_numbers() {
    let rig = Rig::new();
    let library = library_of(":", vec![VariableDefinition::new("20", DataType::F64)]);
    let refused = rig
        .engine
        .libraries()
        .deploy(&library, rig.now(), rig.wall())
        .unwrap_err();
    assert!(
        matches!(refused, DeployError::NumbersLibrary { .. }),
        "{refused}"
    );
}

#[test]
fn a_number_shows_nothing_that_the_name_hides() {
    let mut properties = Properties::new(DataType::F64);
    (properties.number, properties.scope) = (Some(20), Scope::Process);
    let rig = Rig::with(vec![define("x", properties)]);
    let mut remote = rig.caller.clone();
    remote.remote = true;
    assert!(rig.engine.resolve(&remote, ":/20").is_err());
    assert!(rig.engine.resolve(&rig.caller, ":/20").is_ok());
}
