//! Which accounts and rules are valid, and who becomes a subject.

use trunkline_access::policy::{ACCOUNTS_MAX, GROUPS_MAX, REPORTED_MAX, RULES_MAX};
use trunkline_access::{
    Account, Action, Actions, Effect, Host, Place, Policy, Role, Rule, Subject, UserName, Who,
};
use trunkline_types::Pattern;

use crate::notation::{policy, try_policy};

fn errors(text: &str) -> String {
    try_policy(text).unwrap_err().to_string()
}

fn warnings(text: &str) -> Vec<String> {
    let sut = policy(text);
    assert_eq!(sut.warnings_omitted(), 0);
    sut.warnings().iter().map(ToString::to_string).collect()
}

fn account(name: String) -> Account {
    Account {
        name: UserName::parse(&name).unwrap(),
        role: None,
        groups: Vec::new(),
        disabled: false,
        place: Place::from("access.toml:1"),
    }
}

fn rule(pattern: &str, actions: Actions) -> Rule {
    Rule {
        who: Who::Everyone,
        pattern: Pattern::parse(pattern).unwrap(),
        effect: Effect::Grant,
        actions,
        place: Place::from("access.toml:7"),
    }
}

#[test]
fn unknown_user_is_an_error_with_place_and_suggestion() {
    assert_eq!(
        errors(
            "user anna viewer
             grant read on ** to user anne
             deny read on ** to user Anna
             grant read on ** to user somebody"
        ),
        "access.toml:2: the rule is for the user anne, but there is no such account; did you mean anna?\n\
         access.toml:3: the rule is for the user Anna, but there is no such account; did you mean anna?\n\
         access.toml:4: the rule is for the user somebody, but there is no such account"
    );
}

#[test]
fn second_account_of_a_name_is_an_error_that_names_both_places() {
    assert_eq!(
        errors("user anna viewer\nuser ben -\nuser anna admin"),
        "access.toml:3: there is another account anna (access.toml:1); give each account its own name"
    );
    assert!(try_policy("user anna viewer\nuser Anna viewer").is_ok());
}

#[test]
fn rule_without_actions_or_with_a_field_is_an_error() {
    let no_actions = Policy::new(Vec::new(), vec![rule("**", Actions::NONE)]);
    assert_eq!(
        no_actions.unwrap_err().to_string(),
        "access.toml:7: the rule has no actions: specify one or several, such as read"
    );
    let field = Policy::new(Vec::new(), vec![rule("boiler/*#units", Actions::ALL)]);
    assert_eq!(
        field.unwrap_err().to_string(),
        "access.toml:7: the pattern boiler/*#units has a field, but a field has the rights of its variable: \
         remove the part from '#' on"
    );
    let long = Policy::new(Vec::new(), vec![rule(&"İ".repeat(120), Actions::ALL)]);
    let long = long.unwrap_err().to_string();
    assert!(
        long.ends_with("is too long in lower case: write a shorter one"),
        "{long}"
    );
}

#[test]
fn limits_are_enforced() {
    let accounts = |count: usize| (0..count).map(|n| account(format!("user{n}"))).collect();
    let rules = |count: usize| vec![rule("**", Actions::ALL); count];
    let full = Policy::new(accounts(ACCOUNTS_MAX), rules(RULES_MAX)).unwrap();
    assert_eq!(
        (full.accounts().len(), full.rules().len()),
        (ACCOUNTS_MAX, RULES_MAX)
    );
    assert_eq!(
        Policy::new(accounts(ACCOUNTS_MAX + 1), rules(RULES_MAX + 1))
            .unwrap_err()
            .to_string(),
        "there are 10001 accounts; 10000 is the limit\n\
         there are 10001 rules; 10000 is the limit: give rights to groups instead of users"
    );

    let groups = |count: usize| -> Vec<_> {
        (0..count)
            .map(|n| format!("g{n}").parse().unwrap())
            .collect()
    };
    let mut anna = account("anna".to_owned());
    // A group that is named twice counts once.
    anna.groups = [groups(GROUPS_MAX), groups(GROUPS_MAX)].concat();
    let full = Policy::new(vec![anna.clone()], Vec::new()).unwrap();
    assert_eq!(full.account("anna").unwrap().groups.len(), GROUPS_MAX);
    anna.groups = groups(GROUPS_MAX + 1);
    assert_eq!(
        Policy::new(vec![anna], Vec::new()).unwrap_err().to_string(),
        "access.toml:1: the account anna is in 65 groups; 64 is the limit"
    );
}

#[test]
fn errors_and_warnings_beyond_the_limit_are_counted() {
    let error = Policy::new(
        Vec::new(),
        vec![rule("**", Actions::NONE); REPORTED_MAX + 7],
    )
    .unwrap_err();
    assert_eq!((error.errors.len(), error.omitted), (REPORTED_MAX, 7));
    assert!(error.to_string().ends_with("\nand 7 more"));
    let sut = Policy::new(
        Vec::new(),
        vec![rule("a", Action::Read.into()); REPORTED_MAX + 7],
    )
    .unwrap();
    assert_eq!(
        (sut.warnings().len(), sut.warnings_omitted()),
        (REPORTED_MAX, 7)
    );
}

#[test]
fn rule_that_is_probably_not_meant_is_a_warning() {
    assert_eq!(
        warnings(
            "user anna admin shift-a
             grant write on boiler/** to group shift-b
             grant write on boiler/** to group guests
             grant read on boiler to user anna
             grant read, audit on boiler/** to user anna
             deny audit, administer on boiler/** to user anna
             deny all on ** to role admin"
        ),
        [
            "access.toml:2: the rule is for the group shift-b, but no account is in it; did you mean shift-a?",
            "access.toml:3: the rule is for the group guests, but no account is in it",
            "access.toml:4: the pattern boiler matches no variable, because names of variables are library/path: \
             write boiler/** for a whole library",
            "access.toml:5: audit on boiler/** has no effect, because it is an action on the engine as a whole: \
             write the pattern **",
            "access.toml:6: administer on boiler/** has no effect, because it is an action on the engine as a \
             whole: write the pattern **",
            "access.toml:7: the rule denies administer to every administrator, so that rights can be changed \
             only in the file",
        ]
    );
    assert_eq!(
        warnings(
            "user anna admin shift-a
             grant write on boiler/** to group shift-a
             grant read, stream on camera to user anna
             grant all on boiler/** to user anna
             deny all on boiler/** to everyone
             deny audit on boiler/secret to everyone
             deny administer on ** to host 10.0.0.0/8
             grant administer on ** to everyone"
        ),
        [""; 0]
    );
}

#[test]
fn subject_has_the_role_and_groups_of_its_account() {
    let policy = policy(
        "user anna operator shift-b shift-a shift-b
         disabled carl admin",
    );
    let host: Host = "10.0.0.7".parse().unwrap();
    let sut = policy.subject("anna", host).unwrap();
    assert_eq!(
        (sut.user, sut.role, sut.host),
        ("anna", Some(Role::Operator), host)
    );
    let groups: Vec<&str> = sut.groups.iter().map(|group| group.as_str()).collect();
    assert_eq!(groups, ["shift-a", "shift-b"]);
    assert_eq!(
        sut.to_string(),
        "anna (operator, groups shift-a, shift-b) from 10.0.0.7"
    );

    for (user, expected) in [
        ("carl", "the account carl is disabled (access.toml:2)"),
        ("Anna", "there is no account \"Anna\"; did you mean anna?"),
        ("dora\n", "there is no account \"dora\\n\""),
        ("", "there is no account \"\""),
    ] {
        assert_eq!(
            policy.subject(user, host).unwrap_err().to_string(),
            expected
        );
    }
    let long = policy.subject(&"x".repeat(100_000), host).unwrap_err();
    assert!(long.to_string().len() < 200);
}

/// The engine's own user has the role admin without an account, but rules apply to it as to any
/// other caller.
#[test]
fn caller_without_an_account_has_the_rights_of_its_role() {
    let policy = policy(
        "user anna -
         deny write on boiler/** to host local
         grant read on ** to user anna",
    );
    let owner = Subject {
        user: "local:1000",
        groups: &[],
        role: Some(Role::Admin),
        host: Host::Local,
    };
    let sut = policy.subject_rules(&owner);
    assert_eq!(sut.actions("rack/level"), Actions::ALL);
    assert_eq!(
        sut.actions("boiler/level"),
        Actions::ALL.without(Action::Write.into())
    );
    assert_eq!(sut.engine_actions(), Actions::ALL);
    assert_eq!(owner.to_string(), "local:1000 (admin) from local");
}

#[test]
fn empty_policy_permits_nothing() {
    let stranger = Subject {
        user: "loopback",
        groups: &[],
        role: None,
        host: Host::Local,
    };
    let sut = Policy::default().subject_rules(&stranger);
    assert_eq!(sut.uniform_actions(), Some(Actions::NONE));
    assert_eq!(sut.engine_actions(), Actions::NONE);
}
