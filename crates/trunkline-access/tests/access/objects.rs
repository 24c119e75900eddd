//! Decisions on variables and fields, streams, libraries, and the engine as a whole.

use trunkline_access::{Action, Actions, Decision, SubjectRules};

use crate::notation::{policy, rules_of};

fn sut(rules: &str) -> SubjectRules {
    rules_of(
        &policy(&format!("user anna - shift-a\n{rules}")),
        "anna",
        "10.0.0.7",
    )
}

#[test]
fn every_other_action_requires_read() {
    let sut = sut("grant all on ** to user anna
                   deny read on boiler/secret/** to everyone
                   deny history on rack/** to everyone");
    assert_eq!(sut.actions("boiler/secret/key"), Actions::NONE);
    assert_eq!(sut.actions("boiler/level"), Actions::ALL);
    for action in Action::ALL {
        let decision = sut.decide("boiler/secret/key", *action);
        match action {
            Action::Read => assert_eq!(decision.name(), "denied"),
            _ => assert_eq!(decision.name(), "needs read", "{action}"),
        }
    }
    let without_history = Actions::ALL.without(Action::History.into());
    assert_eq!(sut.actions("rack/level"), without_history);

    let sut = self::sut("grant write, force on ** to user anna");
    assert_eq!(sut.actions("boiler/level"), Actions::NONE);
    assert_eq!(sut.uniform_actions(), Some(Actions::NONE));
    let decision = sut.decide("boiler/level", Action::Write);
    assert_eq!(decision, Decision::NeedsRead { denied_by: None });
    assert!(Action::ALL.iter().all(|action| !sut.may_some(*action)));
}

#[test]
fn field_has_the_rights_of_its_variable() {
    let sut = sut("grant read, write on boiler/** to user anna
                   deny write on boiler/level to user anna");
    for (name, expected) in [
        ("boiler/level", "read"),
        ("boiler/level#units", "read"),
        ("boiler/level#alarm.hi.limit", "read"),
        ("boiler/pump#units", "read, write"),
        ("rack/level#units", "none"),
        // An escaped `#` does not begin a field.
        ("boiler/level%23units", "read, write"),
    ] {
        assert_eq!(sut.actions(name).to_string(), expected, "{name}");
    }
}

#[test]
fn case_of_names_is_significant() {
    let sut = sut("grant read on Boiler/** to user anna");
    assert_eq!(sut.actions("Boiler/level").to_string(), "read");
    assert_eq!(sut.actions("boiler/level").to_string(), "none");
}

#[test]
fn rules_apply_to_streams_in_whatever_case_context_and_machine() {
    let sut = sut("grant read, stream on ** to user anna
                   deny stream on Rig/Camera* to user anna
                   deny stream on \"*%2FÄB/ς*\" to everyone"
        .replace('"', "")
        .as_str());
    for (url, may) in [
        ("rig/camera 1", false),
        ("RIG/CAMERA 1", false),
        ("tl://plant7/rig/camera1", false),
        ("tl://plant7:bench/rig/Camera1", false),
        ("tl://plant7:5900:bench/rig/Camera1", false),
        ("a%2Fäb/Σ", false),
        ("rig/scope", true),
        ("rig", true),
        ("camera1", true),
    ] {
        let url = url.parse().unwrap();
        assert_eq!(
            sut.stream_actions(&url).contains(Action::Stream),
            may,
            "{url}"
        );
        assert_eq!(
            sut.decide_for_stream(&url, Action::Stream).is_granted(),
            may,
            "{url}"
        );
        assert!(sut.stream_actions(&url).contains(Action::Read));
    }
    // A star in the name of a stream is a character, not a wildcard.
    let sut = self::sut("grant read, stream on rig/%2A to user anna");
    let may = |url: &str| {
        sut.stream_actions(&url.parse().unwrap())
            .contains(Action::Stream)
    };
    assert!(may("rig/*") && !may("rig/a"));
}

/// Deploying a library replaces every variable in it.
#[test]
fn action_on_a_library_must_be_permitted_on_every_name_in_it() {
    let configure = |rules: &str| {
        let sut = sut(rules);
        let decision = sut.decide_for_library("boiler", Action::Configure);
        let may = sut.library_actions("boiler").contains(Action::Configure);
        assert_eq!(decision.is_granted(), may);
        decision.name()
    };
    for whole in ["**", "boiler/**", "b*/**", "*/**"] {
        assert_eq!(
            configure(&format!("grant read, configure on {whole} to user anna")),
            "granted"
        );
    }
    for part in [
        "boiler/*",
        "boiler/pump/**",
        "**/boiler",
        "boiler",
        "rack/**",
    ] {
        assert_eq!(
            configure(&format!("grant read, configure on {part} to user anna")),
            "not granted",
            "{part}"
        );
    }
    let with_denial = |action: &str, pattern: &str| {
        configure(&format!(
            "grant all on ** to user anna\ndeny {action} on {pattern} to everyone"
        ))
    };
    assert_eq!(with_denial("configure", "boiler/pump/on"), "denied");
    assert_eq!(with_denial("configure", "**/on"), "denied");
    assert_eq!(with_denial("configure", "rack/**"), "granted");
    assert_eq!(with_denial("read", "boiler/secret"), "needs read");
    assert_eq!(with_denial("write", "boiler/**"), "granted");
}

#[test]
fn action_on_the_engine_needs_the_pattern_of_everything() {
    for (rules, expected) in [
        ("grant audit on ** to user anna", "audit"),
        ("grant audit on **/** to user anna", "audit"),
        ("grant read, audit on */** to user anna", "none"),
        ("grant all on boiler/** to user anna", "none"),
        (
            "grant audit, administer on ** to user anna
             deny administer on ** to host 10.0.0.0/8",
            "audit",
        ),
        (
            "grant audit, administer on ** to user anna
             deny all on boiler/** to everyone",
            "audit, administer",
        ),
    ] {
        let sut = sut(rules);
        assert_eq!(sut.engine_actions().to_string(), expected, "{rules}");
        for action in Action::ALL {
            assert_eq!(
                sut.decide_for_engine(*action).is_granted(),
                sut.engine_actions().contains(*action)
            );
        }
    }
}

/// The entries of the audit about such a name can be left out, because the action is decided by name as well.
#[test]
fn audit_can_be_denied_for_some_names() {
    let sut = sut("grant read, audit on ** to user anna
                   deny audit on boiler/secret/** to user anna
                   deny read on rack/** to user anna");
    assert!(sut.engine_actions().contains(Action::Audit));
    assert!(sut.actions("boiler/level").contains(Action::Audit));
    assert!(!sut.actions("boiler/secret/key").contains(Action::Audit));
    assert!(!sut.actions("rack/level").contains(Action::Audit));
}

#[test]
fn rules_that_change_nothing_leave_the_actions_uniform() {
    for (rules, expected) in [
        (
            "grant all on ** to user anna\ngrant read on boiler/** to group shift-a",
            Some(Actions::ALL),
        ),
        (
            "grant read on ** to user anna\ndeny write on boiler/** to group shift-a",
            Some(Action::Read.into()),
        ),
        (
            "grant read, write on ** to user anna
             deny write on ** to everyone
             deny write on boiler/** to everyone
             grant write on boiler/** to everyone",
            Some(Action::Read.into()),
        ),
        (
            "grant read on ** to user anna\ngrant write on boiler/** to group shift-a",
            None,
        ),
        (
            "grant all on ** to user anna\ndeny audit on a/b to everyone",
            None,
        ),
        (
            "grant read on boiler/** to group shift-b",
            Some(Actions::NONE),
        ),
    ] {
        assert_eq!(sut(rules).uniform_actions(), expected, "{rules}");
    }
}

/// An action on every variable at once must be denied on none of them.
///
/// Behaviour: H-18, H-27.
#[test]
fn action_is_permitted_on_every_name_only_if_no_rule_denies_it_on_one() {
    for (rules, expected) in [
        ("grant read, force on ** to user anna", true),
        ("grant read, force on **/** to user anna", true),
        ("grant force on ** to user anna", false),
        ("grant read, force on boiler/** to user anna", false),
        (
            "grant read, force on ** to user anna\ndeny force on boiler/level to everyone",
            false,
        ),
        (
            "grant read, force on ** to user anna\ndeny read on boiler/level to everyone",
            false,
        ),
        (
            "grant read, force on ** to user anna\ndeny write on boiler/level to everyone",
            true,
        ),
        (
            "grant read, force on ** to user anna\ndeny force on */level to group shift-b",
            true,
        ),
        (
            "grant read, force on ** to user anna\ndeny force on ** to everyone",
            false,
        ),
    ] {
        assert_eq!(sut(rules).may_all(Action::Force), expected, "{rules}");
    }
}

/// The patterns begin with a wildcard, match slowly, and every one of them applies to the caller.
#[test]
fn policy_at_its_limit_is_decided_on_the_longest_name() {
    let mut rules = "grant read on ** to user anna".to_owned();
    for number in 1..trunkline_access::policy::RULES_MAX {
        rules.push_str(&format!("\ndeny read on **/a*a{number}/* to everyone"));
    }
    let sut = sut(&rules);
    assert_eq!(sut.rules().count(), trunkline_access::policy::RULES_MAX);
    let long = format!("a/{}", "a".repeat(1022));
    assert_eq!(sut.actions(&long).to_string(), "read");
    let denied = format!("{}/aaa9999/a", "a/".repeat(500));
    assert_eq!(sut.actions(&denied), Actions::NONE);
    let reason = sut.decide(&denied, Action::Read).to_string();
    assert_eq!(
        reason,
        "access.toml:10001: deny read on **/a*a9999/* to everyone"
    );
}
