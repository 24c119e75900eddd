#![allow(clippy::unwrap_used, reason = "tests may panic")]

use trunkline_types::Pattern;

use super::*;
use crate::rule::{Place, Who};

/// The rules of other libraries are not examined.
#[test]
fn decision_takes_the_rules_of_one_library_and_those_that_begin_with_a_wildcard() {
    let patterns = (0..10_000).map(|number| match number % 100 {
        0 => format!("lib{}*/x{number}", number % 7),
        library => format!("lib{library}/x{number}/**"),
    });
    let prepared = patterns.map(|pattern| {
        let pattern = Pattern::parse(&pattern).unwrap();
        PreparedRule {
            reach: Reach::new(&pattern).unwrap(),
            rule: Rule {
                who: Who::Everyone,
                pattern,
                effect: Effect::Grant,
                actions: Action::Read.into(),
                place: Place::from("access.toml:1"),
            },
        }
    });
    let sut = SubjectRules::new(prepared.collect(), None, (0..10_000).collect());
    let examined = |object| sut.narrow.candidates(object).count();
    assert_eq!(examined(Object::Variable("lib7/x107/y")), 100 + 100);
    assert_eq!(examined(Object::Library("lib7")), 100 + 100);
    assert_eq!(examined(Object::Variable("other/x107/y")), 100);
    assert_eq!(examined(Object::Stream("lib7/x107/y")), 10_000);
    assert_eq!(examined(Object::Engine), 0);
    assert!(sut.actions("lib7/x107/y").contains(Action::Read));
    assert!(!sut.actions("lib7/x108/y").contains(Action::Read));
    assert!(sut.actions("lib3z/x500").contains(Action::Read));
}
