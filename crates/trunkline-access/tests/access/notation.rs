//! Accounts and rules as lines of text:
//!
//! ```text
//! user anna operator shift-a boiler           name, role or -, groups
//! user ben -
//! disabled carl admin
//! deny write, force on boiler/** to group shift-a
//! grant read on ** to everyone
//! ```
//!
//! The place of each is `access.toml:` and its line, counted from 1.

use trunkline_access::{
    Account, Effect, Host, InvalidPolicy, Place, Policy, Rule, SubjectRules, UserName, Who,
};
use trunkline_types::Pattern;

/// Returns the policy of a text, which must be valid.
pub fn policy(text: &str) -> Policy {
    try_policy(text).unwrap_or_else(|error| panic!("{error}"))
}

pub fn try_policy(text: &str) -> Result<Policy, InvalidPolicy> {
    let (mut accounts, mut rules) = (Vec::new(), Vec::new());
    for (line, text) in (1..).zip(text.trim().lines().map(str::trim)) {
        let place = Place::from(format!("access.toml:{line}"));
        match text.split_once(' ').unwrap() {
            ("user", rest) => accounts.push(account(rest, false, place)),
            ("disabled", rest) => accounts.push(account(rest, true, place)),
            ("grant", rest) => rules.push(rule(Effect::Grant, rest, place)),
            ("deny", rest) => rules.push(rule(Effect::Deny, rest, place)),
            (word, _) => panic!("{word:?} begins neither an account nor a rule"),
        }
    }
    Policy::new(accounts, rules)
}

fn account(text: &str, disabled: bool, place: Place) -> Account {
    let words: Vec<&str> = text.split(' ').collect();
    let role = words.get(1).filter(|role| **role != "-");
    let groups = words.iter().skip(2);
    Account {
        name: UserName::parse(words[0]).unwrap(),
        role: role.map(|role| role.parse().unwrap()),
        groups: groups.map(|group| group.parse().unwrap()).collect(),
        disabled,
        place,
    }
}

fn rule(effect: Effect, text: &str, place: Place) -> Rule {
    let (actions, rest) = text.split_once(" on ").unwrap();
    let (pattern, who) = rest.rsplit_once(" to ").unwrap();
    Rule {
        who: match who.split_once(' ') {
            Some(("user", name)) => Who::User(name.parse().unwrap()),
            Some(("group", name)) => Who::Group(name.parse().unwrap()),
            Some(("role", name)) => Who::Role(name.parse().unwrap()),
            Some(("host", range)) => Who::Host(range.parse().unwrap()),
            Some(_) => panic!("{who:?}"),
            None => match who {
                "everyone" => Who::Everyone,
                _ => panic!("{who:?}"),
            },
        },
        pattern: Pattern::parse(pattern).unwrap(),
        effect,
        actions: actions.parse().unwrap(),
        place,
    }
}

/// Returns the rules that apply to a user at a host, given as text.
pub fn rules_of(policy: &Policy, user: &str, host: &str) -> SubjectRules {
    let host: Host = host.parse().unwrap();
    policy.subject_rules(&policy.subject(user, host).unwrap())
}
