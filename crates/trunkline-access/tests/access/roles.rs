//! The actions of each role.

use trunkline_access::{Action, Actions, Decision, GrantedBy, Role};

use crate::notation::{policy, rules_of};

/// For each action: viewer, operator, engineer, admin.
const CELLS: [(Action, [bool; 4]); 11] = [
    (Action::Read, [true, true, true, true]),
    (Action::Write, [false, true, true, true]),
    (Action::Subscribe, [true, true, true, true]),
    (Action::History, [true, true, true, true]),
    (Action::Alarm, [false, true, true, true]),
    (Action::Configure, [false, false, true, true]),
    (Action::Force, [false, false, true, true]),
    (Action::Stream, [false, false, true, true]),
    (Action::Record, [false, false, true, true]),
    (Action::Audit, [false, false, true, true]),
    (Action::Administer, [false, false, false, true]),
];

#[test]
fn every_role_has_exactly_the_actions_of_the_table_on_every_name_and_on_the_engine() {
    let policy = policy(
        "user viewer viewer
         user operator operator
         user engineer engineer
         user admin admin
         user nobody -",
    );
    assert_eq!(CELLS.map(|(action, _)| action), Action::ALL);
    for (at, role) in Role::ALL.into_iter().enumerate() {
        let sut = rules_of(&policy, role.name(), "10.0.0.7");
        for (action, cells) in CELLS {
            let expected = match cells[at] {
                true => Decision::Granted {
                    by: GrantedBy::Role(role),
                },
                false => Decision::Unspecified,
            };
            for decision in [
                sut.decide("boiler/level", action),
                sut.decide("_engine/sessions", action),
                sut.decide_for_library("boiler", action),
                sut.decide_for_stream(&"rig/camera".parse().unwrap(), action),
                sut.decide_for_engine(action),
            ] {
                assert_eq!(decision, expected, "{role} {action}");
            }
            assert_eq!(role.actions().contains(action), cells[at]);
            assert_eq!(sut.may_some(action), cells[at]);
        }
        assert_eq!(sut.uniform_actions(), Some(role.actions()));
        assert_eq!(sut.actions("boiler/level"), role.actions());
        assert_eq!(sut.engine_actions(), role.actions());
    }
    let nobody = rules_of(&policy, "nobody", "local");
    assert_eq!(nobody.uniform_actions(), Some(Actions::NONE));
    assert_eq!(nobody.engine_actions(), Actions::NONE);
    assert_eq!(nobody.role(), None);
}

#[test]
fn rule_for_a_role_does_not_concern_higher_roles() {
    let policy = policy(
        "user anna operator
         user ben engineer
         deny write on boiler/** to role operator",
    );
    let write = |user| {
        rules_of(&policy, user, "local")
            .actions("boiler/level")
            .contains(Action::Write)
    };
    assert!(!write("anna"));
    assert!(write("ben"));
}

#[test]
fn denied_role_keeps_its_other_actions() {
    let policy = policy(
        "user anna operator
         deny write, alarm on boiler/** to role operator
         deny history on ** to everyone",
    );
    let sut = rules_of(&policy, "anna", "local");
    assert_eq!(sut.actions("boiler/level").to_string(), "read, subscribe");
    assert_eq!(
        sut.actions("rack/level").to_string(),
        "read, write, subscribe, alarm"
    );
    assert_eq!(sut.uniform_actions(), None);
    assert!(!sut.may_some(Action::History) && sut.may_some(Action::Write));
}
