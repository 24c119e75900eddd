//! The decision for every combination of what a user, a group and a host are granted and denied.

use trunkline_access::{Action, Decision, Policy};

use crate::notation::{policy, rules_of};

/// What the rules say about the user, the group and the host, and the decision.
pub const CELLS: [(&str, &str, &str, &str); 27] = [
    ("grant", "grant", "grant", "granted"),
    ("grant", "grant", "unspecified", "granted"),
    ("grant", "grant", "deny", "denied"),
    ("grant", "unspecified", "grant", "granted"),
    ("grant", "unspecified", "unspecified", "granted"),
    ("grant", "unspecified", "deny", "denied"),
    ("grant", "deny", "grant", "denied"),
    ("grant", "deny", "unspecified", "denied"),
    ("grant", "deny", "deny", "denied"),
    ("unspecified", "grant", "grant", "granted"),
    ("unspecified", "grant", "unspecified", "granted"),
    ("unspecified", "grant", "deny", "denied"),
    ("unspecified", "unspecified", "grant", "granted"),
    ("unspecified", "unspecified", "unspecified", "not granted"),
    ("unspecified", "unspecified", "deny", "denied"),
    ("unspecified", "deny", "grant", "denied"),
    ("unspecified", "deny", "unspecified", "denied"),
    ("unspecified", "deny", "deny", "denied"),
    ("deny", "grant", "grant", "denied"),
    ("deny", "grant", "unspecified", "denied"),
    ("deny", "grant", "deny", "denied"),
    ("deny", "unspecified", "grant", "denied"),
    ("deny", "unspecified", "unspecified", "denied"),
    ("deny", "unspecified", "deny", "denied"),
    ("deny", "deny", "grant", "denied"),
    ("deny", "deny", "unspecified", "denied"),
    ("deny", "deny", "deny", "denied"),
];

/// A policy with a rule for each of user, group and host that is not unspecified.
fn cell(effects: [&str; 3], action: Action, before: &str) -> Policy {
    let mut text = "user anna - shift-a".to_owned();
    text.push_str(before);
    for (effect, who) in effects
        .into_iter()
        .zip(["user anna", "group shift-a", "host 10.0.0.0/8"])
    {
        if effect != "unspecified" {
            text.push_str(&format!("\n{effect} {action} on boiler/** to {who}"));
        }
    }
    policy(&text)
}

/// Behaviour: H-18.
#[test]
fn every_cell_of_user_group_and_host_is_decided_as_the_table_says() {
    for (user, group, host, expected) in CELLS {
        // For `write`, another rule grants `read`, which `write` requires.
        for (action, before) in [
            (Action::Read, ""),
            (Action::Write, "\ngrant read on ** to everyone"),
        ] {
            let at = format!("{user} {group} {host} {action}");
            let policy = cell([user, group, host], action, before);
            let sut = rules_of(&policy, "anna", "10.0.0.7");
            for name in ["boiler/level", "boiler/pump/on", "boiler/level#units"] {
                let decision = sut.decide(name, action);
                assert_eq!(decision.name(), expected, "{at}");
                assert_eq!(
                    sut.actions(name).contains(action),
                    expected == "granted",
                    "{at}"
                );
            }
            // Names that the rules do not match are not affected.
            assert_eq!(
                sut.decide("rack/level", action),
                Decision::Unspecified,
                "{at}"
            );
        }
    }
}

/// Behaviour: H-18.
#[test]
fn the_table_has_every_cell_once() {
    let effects = ["grant", "unspecified", "deny"];
    let mut expected = Vec::new();
    for user in effects {
        for group in effects {
            expected.extend(effects.map(|host| (user, group, host)));
        }
    }
    let cells = CELLS.map(|(user, group, host, _)| (user, group, host));
    assert_eq!(cells.to_vec(), expected);
}

/// Behaviour: H-18.
#[test]
fn denied_group_cannot_be_overridden_for_a_member_and_an_unspecified_one_can() {
    let denied = policy(
        "user anna admin shift-a
         user ben admin
         grant all on ** to user anna
         grant all on boiler/level to user anna
         grant all on ** to host local
         deny write on boiler/** to group shift-a",
    );
    let sut = rules_of(&denied, "anna", "local");
    assert!(!sut.actions("boiler/level").contains(Action::Write));
    assert!(sut.actions("rack/level").contains(Action::Write));
    let sut = rules_of(&denied, "ben", "local");
    assert!(sut.actions("boiler/level").contains(Action::Write));

    let unspecified = policy(
        "user anna - shift-a
         grant read on boiler/** to group shift-a
         grant read, write on boiler/level to user anna",
    );
    let sut = rules_of(&unspecified, "anna", "local");
    assert!(sut.actions("boiler/level").contains(Action::Write));
    assert!(!sut.actions("boiler/pump/on").contains(Action::Write));
    assert!(sut.actions("boiler/pump/on").contains(Action::Read));
}
