//! Callers with equal rights have equal rules, and can share results.

use std::collections::HashSet;

use trunkline_access::SubjectRules;

use crate::notation::{policy, rules_of};

const POLICY: &str = "user anna operator shift-a
    user ben operator shift-a
    user carl operator
    user dora engineer shift-a
    user emil operator shift-a unused
    grant force on boiler/** to group shift-a
    deny write on boiler/** to host 10.0.0.0/8
    grant audit on ** to user ben";

fn all(text: &str) -> Vec<(String, SubjectRules)> {
    let policy = policy(text);
    let mut all = Vec::new();
    for user in ["anna", "ben", "carl", "dora", "emil"] {
        for host in [
            "10.0.0.7",
            "10.0.0.8",
            "192.168.0.1",
            "192.168.0.2",
            "local",
            "::1",
        ] {
            all.push((format!("{user} {host}"), rules_of(&policy, user, host)));
        }
    }
    all
}

#[test]
fn callers_whom_the_same_rules_concern_are_equal() {
    let all = all(POLICY);
    let class = |name: &str| {
        let (user, host) = name.split_once(' ').unwrap();
        let user = match user {
            // The group `unused` has no rules.
            "emil" => "anna",
            user => user,
        };
        let host = host.starts_with("10.");
        (user.to_owned(), host)
    };
    for (first, a) in &all {
        for (second, b) in &all {
            assert_eq!(a == b, class(first) == class(second), "{first} | {second}");
        }
    }
    let distinct: HashSet<&SubjectRules> = all.iter().map(|(_, rules)| rules).collect();
    assert_eq!(distinct.len(), 4 * 2);
}

/// An engine reads the file again: callers whose rules have not changed keep their results.
#[test]
fn rules_of_another_policy_are_equal_if_their_content_is() {
    let (before, again) = (all(POLICY), all(POLICY));
    assert_eq!(before, again);
    let changed = all(&POLICY.replace("grant audit on **", "grant audit on rack/**"));
    for ((name, before), (_, after)) in before.iter().zip(&changed) {
        assert_eq!(before == after, !name.starts_with("ben"), "{name}");
    }
    let distinct: HashSet<&SubjectRules> = before
        .iter()
        .chain(&changed)
        .map(|(_, rules)| rules)
        .collect();
    assert_eq!(distinct.len(), 4 * 2 + 2);
    // The places of rules are part of explanations.
    let moved = all(&format!("user fred -\n{POLICY}"));
    let (carl, carl_moved) = (&before[14], &moved[14]);
    assert_eq!(
        (carl.0.as_str(), carl_moved.0.as_str()),
        ("carl 192.168.0.1", "carl 192.168.0.1")
    );
    assert_eq!(carl.1, carl_moved.1);
    assert_ne!(before[0].1, moved[0].1);
}
