use proptest::prelude::*;

use super::{PATTERN_BYTES_MAX, Pattern, PatternError, WILDCARDS_MAX, matches_counting};
use crate::name::NameError;
use crate::step_budget::StepBudget;

fn parse(text: &str) -> Pattern {
    Pattern::parse(text).unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

#[test]
fn one_star_matches_within_a_segment_and_two_match_whole_segments() {
    for (pattern, yes, no) in [
        (
            "boiler/*",
            &["boiler/level", "boiler/ä"][..],
            &["boiler/pump/on", "boilers/x", "boiler"][..],
        ),
        (
            "boiler/pump*/on",
            &["boiler/pump/on", "boiler/pump12/on"],
            &["boiler/pump/x/on", "boiler/pum/on"],
        ),
        (
            "b*r/l*l",
            &["boiler/level", "br/ll"],
            &["boiler/leve", "boiler/x/ll"],
        ),
        (
            "boiler/**",
            &["boiler/a", "boiler/a/b/c", "boiler"],
            &["boilers/a", "other/boiler"],
        ),
        ("**", &["a/b", "a", "a/b/c/d"], &["a/b#units"]),
        (
            "**/alarm",
            &["a/alarm", "a/b/alarm", "alarm"],
            &["a/alarms", "alarm/a"],
        ),
        (
            "a/**/z",
            &["a/z", "a/b/z", "a/z/z", "a/b/c/z"],
            &["a/b", "z/z", "a/zz"],
        ),
        (
            "a/**/x/**/z",
            &["a/x/z", "a/1/x/2/3/z", "a/x/x/z/z"],
            &["a/z", "a/x", "a/y/z"],
        ),
        ("**/**", &["a", "a/b"], &[]),
        ("a/*b*", &["a/b", "a/abc"], &["a/a", "a/b/c"]),
        ("a/%2A", &["a/%2A"], &["a/x", "a/%2AA"]),
        (
            "boiler/level",
            &["boiler/level"],
            &["boiler/Level", "boiler/level2", "boiler/level/x"],
        ),
    ] {
        for name in yes {
            assert!(
                parse(pattern).matches(name),
                "{pattern} should match {name}"
            );
        }
        for name in no {
            assert!(
                !parse(pattern).matches(name),
                "{pattern} should not match {name}"
            );
        }
    }
}

#[test]
fn fields_match_only_where_they_are_named() {
    assert!(!parse("boiler/*").matches("boiler/level#units"));
    assert!(!parse("boiler/**").matches("boiler/level#units"));
    assert!(parse("boiler/*#units").matches("boiler/level#units"));
    assert!(parse("boiler/**#alarm.*.limit").matches("boiler/a/b#alarm.hi.limit"));
    assert!(!parse("boiler/*#units").matches("boiler/level"));
    assert!(!parse("boiler/*#units").matches("boiler/level#unit"));
}

#[test]
fn errors_are_reported() {
    for (text, sentence) in [
        ("", "the name is empty: write library/path"),
        (
            "a//b",
            "empty segment at byte 2: use single slashes between segments and none at the start or end",
        ),
        (
            "a/b**",
            "'**' must be a whole segment, as in library/**, not \"b**\"",
        ),
        (
            "a/***",
            "'**' must be a whole segment, as in library/**, not \"***\"",
        ),
        (
            "a/b#**",
            "'**' must be a whole segment, as in library/**, not \"**\"",
        ),
        (
            "a*b*c*d*e*f*g*h*i*j*k*l*m*n*o*p*q*r",
            "the pattern has 17 wildcards; 16 is the limit",
        ),
    ] {
        assert_eq!(
            Pattern::parse(text).unwrap_err().to_string(),
            sentence,
            "{text}"
        );
    }
    let most = ["**"; WILDCARDS_MAX].join("/");
    assert!(Pattern::parse(&most).is_ok());
    assert_eq!(
        Pattern::parse(&(most + "/**")),
        Err(PatternError::TooManyWildcards { count: 17 })
    );
    let long = "x".repeat(PATTERN_BYTES_MAX + 1);
    assert_eq!(
        Pattern::parse(&long),
        Err(PatternError::Name(NameError::TooLong {
            bytes: 257,
            max: 256
        }))
    );
}

#[test]
fn literal_prefix_ends_before_the_first_wildcard() {
    for (pattern, prefix) in [
        ("boiler/level", "boiler/level"),
        ("boiler/*", "boiler/"),
        ("boiler/pump*/on", "boiler/pump"),
        ("boiler/**", "boiler"),
        ("boiler/**/**", "boiler"),
        ("boiler/**/x", "boiler/"),
        ("boiler/**#units", "boiler"),
        ("boiler/level#*", "boiler/level#"),
        ("**", ""),
        ("*/x", ""),
    ] {
        assert_eq!(parse(pattern).literal_prefix(), prefix, "{pattern}");
        assert_eq!(parse(pattern).is_literal(), pattern == prefix);
        assert_eq!(Pattern::has_wildcards(pattern), pattern != prefix);
    }
}

/// An obviously correct matcher with exponential time, for comparison with the fast matcher.
fn slow(pattern: &str, name: &str) -> bool {
    fn text(pattern: &[u8], name: &[u8]) -> bool {
        match (pattern.split_first(), name.split_first()) {
            (None, None) => true,
            (Some((b'*', rest)), _) => (0..=name.len()).any(|taken| text(rest, &name[taken..])),
            (Some((p, rest)), Some((n, name))) => p == n && text(rest, name),
            _ => false,
        }
    }
    fn segments(pattern: &[&str], name: &[&str]) -> bool {
        match (pattern.split_first(), name.split_first()) {
            (None, None) => true,
            (Some((&"**", rest)), _) => {
                (0..=name.len()).any(|taken| segments(rest, &name[taken..]))
            }
            (Some((p, rest)), Some((n, name))) => {
                text(p.as_bytes(), n.as_bytes()) && segments(rest, name)
            }
            _ => false,
        }
    }
    fn split(text: &str) -> (Vec<&str>, Option<&str>) {
        let (body, field) = text
            .split_once('#')
            .map_or((text, None), |(b, f)| (b, Some(f)));
        (body.split('/').collect(), field)
    }
    let ((pattern, pattern_field), (name, field)) = (split(pattern), split(name));
    let field_matches = match (pattern_field, field) {
        (None, None) => true,
        (Some(pattern), Some(field)) => text(pattern.as_bytes(), field.as_bytes()),
        _ => false,
    };
    field_matches && segments(&pattern, &name)
}

fn steps(pattern: &Pattern, name: &str) -> usize {
    let mut count = 0;
    matches_counting(pattern.as_str(), name, &mut |_| count += 1);
    count
}

/// Returns the maximum number of steps. Every comparison takes one character of the name and one of
/// the pattern. Except for the ends and the stars, no pair is compared twice.
fn steps_max(pattern: &str, name: &str) -> usize {
    2 * (pattern.len() + 1) * (name.len() + 1)
}

#[test]
fn the_worst_patterns_cost_name_length_times_pattern_length() {
    let names = [
        "a".repeat(1000) + "/b",
        "a/".repeat(500) + "b",
        "ab/".repeat(300) + "c",
        "aab".repeat(300) + "/x",
        ["a".repeat(30).as_str(); 30].join("/"),
    ];
    let patterns = [
        "*a".repeat(16) + "b",
        "a*".repeat(16) + "b",
        "*aaaaaaaaaaaaa".repeat(16) + "b",
        ["**"; 15].join("/a/") + "/c",
        "**/a*a*a*a*b/**/a*a*a*a*b/**/a*a*a*b/x".to_owned(),
        "**/*/**/*/**/*/**/*/**/*/**/*/**/*/x".to_owned(),
        "**/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/c/**/x".to_owned(),
    ];
    for pattern in &patterns {
        let pattern = Pattern::parse(pattern).unwrap();
        for name in &names {
            let (steps, max) = (steps(&pattern, name), steps_max(pattern.as_str(), name));
            assert!(steps <= max, "{pattern} took {steps} steps of {max}");
        }
    }
}

/// Generates a name and a pattern that are likely to match: few letters, many segments.
fn pair() -> impl Strategy<Value = (String, String)> {
    let name = "[ab]{1,4}(/[ab]{1,4}){0,5}(#[ab]{1,3})?";
    let segment = prop_oneof![3 => "[ab*]{1,4}", 2 => Just("**".to_owned())];
    let pattern = (
        prop::collection::vec(segment, 1..6),
        prop::option::of("[ab*]{1,3}"),
    );
    let pattern = pattern.prop_map(|(segments, field)| {
        let body = segments.join("/");
        field.map_or(body.clone(), |field| body + "#" + &field)
    });
    (pattern, name)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    #[test]
    fn the_matcher_equals_the_slow_reference((pattern, name) in pair()) {
        if let Ok(parsed) = Pattern::parse(&pattern) {
            let matched = parsed.matches(&name);
            prop_assert_eq!(matched, slow(&pattern, &name), "{} on {}", pattern, name);
            prop_assert!(!matched || name.starts_with(parsed.literal_prefix()));
            let mut budget = StepBudget::new(usize::MAX);
            prop_assert_eq!(parsed.matches_within(&mut budget, &name), matched);
            let spent = usize::MAX - budget.left();
            let begun = name.starts_with(parsed.literal_prefix());
            prop_assert!(!begun || spent >= steps(&parsed, &name));
            prop_assert!(steps(&parsed, &name) <= steps_max(&pattern, &name));
        }
    }

    #[test]
    fn a_pattern_without_stars_matches_itself_only(name in "[ab]{1,3}/[ab]{1,3}", other in "[ab]{1,3}/[ab]{1,3}") {
        let pattern = Pattern::parse(&name).unwrap();
        prop_assert!(pattern.is_literal());
        prop_assert_eq!(pattern.matches(&other), name == other);
    }
}

proptest! {
    #[test]
    fn no_text_makes_parser_or_matcher_panic(pattern in "\\PC{0,20}", name in any::<String>()) {
        if let Ok(pattern) = Pattern::parse(&pattern) {
            pattern.matches(&name);
        }
        let _ = Pattern::parse(&name);
    }
}

/// F22 of the reliability plan requires a million pairs; a fixed generator creates the same pairs
/// every time.
#[test]
fn a_million_generated_pairs_equal_the_slow_reference() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let mut matched = 0;
    let text = |pieces: &[&str], next: &mut dyn FnMut(u64) -> u64| {
        let count = 1 + next(4);
        let segments = (0..count).map(|_| pieces[next(pieces.len() as u64) as usize]);
        segments.collect::<Vec<_>>().join("/")
    };
    let names = ["a", "b", "ab", "ba", "aab", "abab"];
    let patterns = ["*", "**", "a", "ab", "a*", "*b", "*a*b", "**", "a*a", "*b*"];
    for _ in 0..1_000_000 {
        let name = text(&names, &mut next);
        let pattern = text(&patterns, &mut next);
        let parsed = Pattern::parse(&pattern).unwrap();
        let fast = parsed.matches(&name);
        assert_eq!(fast, slow(&pattern, &name), "{pattern} on {name}");
        matched += u32::from(fast);
    }
    assert!(
        matched > 100_000,
        "only {matched} matched: the generator proves little"
    );
}
