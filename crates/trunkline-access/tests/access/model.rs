//! The decisions of random policies, compared with a model: slow, and short enough to be obviously right.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::net::IpAddr;

use proptest::prelude::*;
use trunkline_access::{
    Account, Action, Actions, Effect, Host, HostRange, Place, Policy, Role, Rule, SubjectRules,
    UserName, Who,
};
use trunkline_types::Pattern;

/// The model. Rules are compared one by one with one name and one action.
mod slow {
    use super::*;

    #[derive(Clone, Copy, PartialEq, Debug)]
    pub enum Answer {
        Granted,
        Denied,
        Unspecified,
        NeedsRead,
    }

    pub fn answer(
        account: &Account,
        host: Host,
        rules: &[Rule],
        name: &str,
        action: Action,
    ) -> Answer {
        let name = name.split('#').next().unwrap();
        let applies = |rule: &Rule, action| {
            concerns(&rule.who, account, host)
                && matches(rule.pattern.as_str(), name)
                && rule.actions.contains(action)
        };
        let alone = |action| {
            let denied = rules
                .iter()
                .any(|r| r.effect == Effect::Deny && applies(r, action));
            let granted = rules
                .iter()
                .any(|r| r.effect == Effect::Grant && applies(r, action));
            let by_role = account
                .role
                .is_some_and(|role| role.actions().contains(action));
            match (denied, granted || by_role) {
                (true, _) => Answer::Denied,
                (false, true) => Answer::Granted,
                (false, false) => Answer::Unspecified,
            }
        };
        match alone(action) {
            Answer::Granted if alone(Action::Read) != Answer::Granted => Answer::NeedsRead,
            answer => answer,
        }
    }

    /// The answer for the engine as a whole.
    pub fn engine_answer(account: &Account, host: Host, rules: &[Rule], action: Action) -> bool {
        let applies = |effect| {
            rules.iter().any(|rule| {
                let everything = rule
                    .pattern
                    .as_str()
                    .split('/')
                    .all(|segment| segment == "**");
                rule.effect == effect
                    && everything
                    && concerns(&rule.who, account, host)
                    && rule.actions.contains(action)
            })
        };
        let by_role = account
            .role
            .is_some_and(|role| role.actions().contains(action));
        !applies(Effect::Deny) && (by_role || applies(Effect::Grant))
    }

    pub fn concerns(who: &Who, account: &Account, host: Host) -> bool {
        match who {
            Who::User(user) => *user == account.name,
            Who::Group(group) => account.groups.iter().any(|one| one == group),
            Who::Role(role) => account.role == Some(*role),
            Who::Host(range) => in_range(&range.to_string(), host),
            Who::Everyone => true,
        }
    }

    /// Compares texts of the few ranges that are generated.
    fn in_range(range: &str, host: Host) -> bool {
        let host = host.to_string();
        match range {
            "local" => host == "local" || host.starts_with("127.") || host == "::1",
            "10.0.0.7" => host == "10.0.0.7",
            "10.0.0.0/8" => host.starts_with("10."),
            "10.2.0.0/16" => host.starts_with("10.2."),
            "0.0.0.0/0" => host.contains('.'),
            "::/0" => host.contains(':'),
            "fd00::/8" => host.starts_with("fd"),
            other => panic!("{other}"),
        }
    }

    pub fn matches(pattern: &str, name: &str) -> bool {
        let pattern: Vec<&str> = pattern.split('/').collect();
        let name: Vec<&str> = name.split('/').collect();
        segments_match(&pattern, &name)
    }

    fn segments_match(pattern: &[&str], name: &[&str]) -> bool {
        match (pattern, name) {
            ([], []) => true,
            ([], [_, ..]) => false,
            (["**", rest @ ..], name) => {
                (0..=name.len()).any(|skip| segments_match(rest, &name[skip..]))
            }
            ([_, ..], []) => false,
            ([first, pattern @ ..], [segment, name @ ..]) => {
                characters_match(first.as_bytes(), segment.as_bytes())
                    && segments_match(pattern, name)
            }
        }
    }

    fn characters_match(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern, text) {
            ([], []) => true,
            ([b'*', rest @ ..], text) => {
                (0..=text.len()).any(|skip| characters_match(rest, &text[skip..]))
            }
            ([a, pattern @ ..], [b, text @ ..]) => a == b && characters_match(pattern, text),
            ([], [_, ..]) | ([_, ..], []) => false,
        }
    }
}

const USERS: [&str; 3] = ["anna", "ben", "carl"];
const GROUPS: [&str; 3] = ["shift-a", "shift-b", "guests"];
const HOSTS: [&str; 8] = [
    "local",
    "10.0.0.7",
    "10.2.3.4",
    "::ffff:10.0.0.7",
    "127.0.0.1",
    "::1",
    "192.168.0.1",
    "fd00::1",
];
const RANGES: [&str; 7] = [
    "local",
    "10.0.0.7",
    "10.0.0.0/8",
    "10.2.0.0/16",
    "0.0.0.0/0",
    "::/0",
    "fd00::/8",
];

fn account() -> impl Strategy<Value = Account> {
    let role = prop::option::of(prop::sample::select(Role::ALL.to_vec()));
    let groups = prop::sample::subsequence(GROUPS.to_vec(), 0..=2);
    (role, groups).prop_map(|(role, groups)| Account {
        name: UserName::parse("anna").unwrap(),
        role,
        groups: groups
            .into_iter()
            .map(|group| group.parse().unwrap())
            .collect(),
        disabled: false,
        place: Place::from("access.toml:1"),
    })
}

fn who() -> impl Strategy<Value = Who> {
    prop_oneof![
        prop::sample::select(&USERS[..]).prop_map(|user| Who::User(user.parse().unwrap())),
        prop::sample::select(&GROUPS[..]).prop_map(|group| Who::Group(group.parse().unwrap())),
        prop::sample::select(Role::ALL.to_vec()).prop_map(Who::Role),
        prop::sample::select(&RANGES[..]).prop_map(|range| Who::Host(range.parse().unwrap())),
        Just(Who::Everyone),
    ]
}

fn pattern() -> impl Strategy<Value = Pattern> {
    let segment = prop::sample::select(&["a", "b", "ab", "*", "a*", "*b", "**"][..]);
    let text = prop_oneof![
        1 => Just("**".to_owned()),
        4 => prop::collection::vec(segment, 1..4).prop_map(|segments| segments.join("/")),
    ];
    text.prop_map(|text| Pattern::parse(&text).unwrap())
}

/// Sets of few actions, in which `read` and `write` are frequent.
fn actions() -> impl Strategy<Value = Actions> {
    prop_oneof![
        3 => Just(Action::Read.into()),
        2 => Just(Actions::of(&[Action::Read, Action::Write])),
        2 => Just(Action::Write.into()),
        1 => Just(Actions::ALL),
        4 => (1..=Actions::ALL.bits()).prop_map(Actions::from_bits),
    ]
}

fn rules() -> impl Strategy<Value = Vec<Rule>> {
    let effect = prop_oneof![2 => Just(Effect::Grant), 1 => Just(Effect::Deny)];
    let rule =
        (who(), pattern(), effect, actions()).prop_map(|(who, pattern, effect, actions)| Rule {
            who,
            pattern,
            effect,
            actions,
            place: Place::from("access.toml:1"),
        });
    let with_place = |(line, rule): (usize, Rule)| Rule {
        place: Place::from(format!("access.toml:{line}")),
        ..rule
    };
    prop::collection::vec(rule, 0..10)
        .prop_map(move |rules| rules.into_iter().enumerate().map(with_place).collect())
}

fn name() -> impl Strategy<Value = String> {
    let segment = prop::sample::select(&["a", "b", "ab", "aab"][..]);
    let path = prop::collection::vec(segment, 2..5).prop_map(|segments| segments.join("/"));
    (path, prop::option::of(Just("#units")))
        .prop_map(|(path, field)| path + field.unwrap_or_default())
}

fn host() -> impl Strategy<Value = Host> {
    prop::sample::select(&HOSTS[..]).prop_map(|host| match host.parse::<IpAddr>() {
        Ok(address) => Host::Address(address),
        Err(_) => Host::Local,
    })
}

/// Returns the policy and the rules that apply to `anna`. The other users have accounts, too.
fn prepared(account: &Account, host: Host, rules: &[Rule]) -> SubjectRules {
    let others = USERS[1..].iter().map(|user| Account {
        name: user.parse().unwrap(),
        ..account.clone()
    });
    let accounts = others.chain([account.clone()]).collect();
    let policy = Policy::new(accounts, rules.to_vec()).unwrap();
    policy.subject_rules(&policy.subject("anna", host).unwrap())
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config(12_000))]

    /// Behaviour: H-18.
    #[test]
    fn decision_is_that_of_the_model(
        account in account(), host in host(), rules in rules(), names in prop::collection::vec(name(), 3),
    ) {
        let sut = prepared(&account, host, &rules);
        for name in &names {
            let actions = sut.actions(name);
            for action in Action::ALL {
                let expected = slow::answer(&account, host, &rules, name, *action);
                let decision = sut.decide(name, *action);
                let answer = match decision.name() {
                    "granted" => slow::Answer::Granted,
                    "denied" => slow::Answer::Denied,
                    "not granted" => slow::Answer::Unspecified,
                    "needs read" => slow::Answer::NeedsRead,
                    other => panic!("{other}"),
                };
                prop_assert_eq!(answer, expected, "{} {}", name, action);
                prop_assert_eq!(actions.contains(*action), expected == slow::Answer::Granted);
                prop_assert_eq!(decision.is_granted(), expected == slow::Answer::Granted);
                prop_assert!(sut.may_some(*action) || !actions.contains(*action));
                prop_assert!(!sut.may_all(*action) || actions.contains(*action));
            }
            if let Some(uniform) = sut.uniform_actions() {
                prop_assert_eq!(actions, uniform);
            }
            // What is permitted on a library is permitted on every name in it.
            let library = name.split('/').next().unwrap();
            prop_assert!(actions.contains_all(sut.library_actions(library)));
        }
        for action in Action::ALL {
            let expected = slow::engine_answer(&account, host, &rules, *action);
            prop_assert_eq!(sut.engine_actions().contains(*action), expected);
            prop_assert_eq!(sut.decide_for_engine(*action).is_granted(), expected);
            for library in ["a", "b", "ab", "aab"] {
                let decision = sut.decide_for_library(library, *action);
                prop_assert_eq!(decision.is_granted(), sut.library_actions(library).contains(*action));
            }
        }
        if sut.uniform_actions() == Some(Actions::ALL) {
            prop_assert_eq!(sut.engine_actions(), Actions::ALL);
        }
    }

    /// Patterns and names that differ only in case are the same for streams.
    #[test]
    fn decision_on_a_stream_is_that_of_the_model_in_lower_case(
        account in account(), host in host(), rules in rules(), name in name(), upper in any::<u8>(),
    ) {
        let name = name.split('#').next().unwrap();
        let in_case = |bit: usize, text: &str| match upper >> (bit % 8) & 1 {
            0 => text.to_owned(),
            _ => text.to_uppercase(),
        };
        let mixed: Vec<Rule> = rules.iter().enumerate().map(|(index, rule)| Rule {
            pattern: in_case(index + 1, rule.pattern.as_str()).parse().unwrap(),
            ..rule.clone()
        }).collect();
        let sut = prepared(&account, host, &mixed);
        let url = in_case(0, name).parse().unwrap();
        for action in Action::ALL {
            let expected = slow::answer(&account, host, &rules, name, *action) == slow::Answer::Granted;
            prop_assert_eq!(sut.stream_actions(&url).contains(*action), expected, "{} {}", url, action);
            prop_assert_eq!(sut.decide_for_stream(&url, *action).is_granted(), expected);
        }
    }
}

proptest! {
    #![proptest_config(config(4_000))]

    #[test]
    fn equal_rules_are_those_with_the_same_role_and_rules(
        first in account(), second in account(), hosts in [host(), host()], rules in rules(),
    ) {
        let key = |account: &Account, host| -> (Option<Role>, Vec<bool>) {
            let concerned = rules.iter().map(|rule| slow::concerns(&rule.who, account, host));
            (account.role, concerned.collect())
        };
        let (a, b) = (prepared(&first, hosts[0], &rules), prepared(&second, hosts[1], &rules));
        let expected = key(&first, hosts[0]) == key(&second, hosts[1]);
        prop_assert_eq!(a == b, expected);
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        prop_assert_eq!(hasher.hash_one(&a) == hasher.hash_one(&b), expected);
    }
}

#[test]
fn model_knows_every_range() {
    for range in RANGES {
        assert_eq!(range.parse::<HostRange>().unwrap().to_string(), range);
        slow::concerns(
            &Who::Host(range.parse().unwrap()),
            &Account {
                name: UserName::parse("anna").unwrap(),
                role: None,
                groups: Vec::new(),
                disabled: false,
                place: Place::from(""),
            },
            Host::Local,
        );
    }
}
