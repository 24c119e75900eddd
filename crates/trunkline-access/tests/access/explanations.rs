//! Why a caller may or may not do something.

use trunkline_access::{Action, Decision, GrantedBy, Role};

use crate::notation::{policy, rules_of};

const POLICY: &str = "user anna operator shift-a
    user ben - shift-a
    deny write on boiler/** to group shift-a
    grant force on boiler/** to user anna
    grant audit on ** to user anna
    deny audit on boiler/secret to everyone
    deny read on boiler/secret to role operator
    grant force on boiler/* to group shift-a
    deny write on boiler/level to everyone";

/// The explanation that the reference shows.
pub fn of_anna() -> String {
    let policy = policy(POLICY);
    let subject = policy.subject("anna", "10.0.0.7".parse().unwrap()).unwrap();
    policy.explain(&subject, "boiler/level").to_string()
}

#[test]
fn explanation_names_the_rule_or_role_for_each_action() {
    let policy = policy(POLICY);
    let host = "10.0.0.7".parse().unwrap();
    let explain = |user: &str, name: &str| {
        policy
            .explain(&policy.subject(user, host).unwrap(), name)
            .to_string()
    };
    assert_eq!(
        of_anna(),
        "anna (operator, groups shift-a) from 10.0.0.7 on boiler/level:\n\
         read        granted      the role operator grants it\n\
         write       denied       access.toml:3: deny write on boiler/** to group shift-a\n\
         subscribe   granted      the role operator grants it\n\
         history     granted      the role operator grants it\n\
         alarm       granted      the role operator grants it\n\
         configure   not granted  neither the role nor a rule grants it\n\
         force       granted      access.toml:4: grant force on boiler/** to user anna\n\
         stream      not granted  neither the role nor a rule grants it\n\
         record      not granted  neither the role nor a rule grants it\n\
         audit       granted      access.toml:5: grant audit on ** to user anna\n\
         administer  not granted  neither the role nor a rule grants it"
    );
    let secret = explain("anna", "boiler/secret");
    for line in [
        "read        denied       access.toml:7: deny read on boiler/secret to role operator\n",
        "subscribe   needs read   it requires read, which is denied: access.toml:7: deny read on boiler/secret \
         to role operator\n",
        "audit       denied       access.toml:6: deny audit on boiler/secret to everyone\n",
    ] {
        assert!(secret.contains(line), "{secret}");
    }
    let ben = explain("ben", "boiler/pump");
    for line in [
        "ben (no role, groups shift-a) from 10.0.0.7 on boiler/pump:\n",
        "force       needs read   it requires read, which neither the role nor a rule grants\n",
    ] {
        assert!(ben.contains(line), "{ben}");
    }
    let hostile = explain("anna", "boiler/\u{1b}[2J");
    assert!(
        hostile
            .starts_with("anna (operator, groups shift-a) from 10.0.0.7 on boiler/\\u001b[2J:\n")
    );
}

#[test]
fn decision_names_the_first_rule_in_the_order_of_the_file() {
    let policy = policy(POLICY);
    let sut = rules_of(&policy, "anna", "local");
    let rule = |index: usize| policy.rules().nth(index).unwrap();
    // Two rules deny, and both apply to the caller.
    let by = rule(0);
    assert_eq!(
        sut.decide("boiler/level", Action::Write),
        Decision::Denied { by }
    );
    // Two rules grant.
    let by = GrantedBy::Rule(rule(1));
    assert_eq!(
        sut.decide("boiler/level", Action::Force),
        Decision::Granted { by }
    );
    let by = GrantedBy::Role(Role::Operator);
    assert_eq!(
        sut.decide("rack/level", Action::Write),
        Decision::Granted { by }
    );
    let denied_by = Some(rule(4));
    let decision = sut.decide("boiler/secret", Action::Subscribe);
    assert_eq!(decision, Decision::NeedsRead { denied_by });
    assert_eq!(
        by_place(&sut.decide("boiler/level", Action::Write)),
        "access.toml:3"
    );
}

fn by_place(decision: &Decision<'_>) -> String {
    match decision {
        Decision::Denied { by } => by.place.to_string(),
        Decision::Granted { .. } | Decision::Unspecified | Decision::NeedsRead { .. } => {
            String::new()
        }
    }
}
