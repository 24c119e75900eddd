use std::sync::OnceLock;

use proptest::prelude::*;
use subtle::Choice;

use super::hash::{MEMORY_KIB_MAX, PASSES_MAX};
use super::*;

const CORRECT: &str = "correct horse battery";

fn password(text: &str) -> Password {
    Password::new(text.to_owned())
}

/// Hashing is slow without optimization, so the tests share one hash.
fn hash() -> &'static PasswordHash {
    static HASH: OnceLock<PasswordHash> = OnceLock::new();
    HASH.get_or_init(|| PasswordHash::of(&password(CORRECT)).unwrap())
}

/// CR 1.7: the rules for passwords, and their messages.
#[test]
fn password_has_12_characters_to_256_bytes() {
    let check = |count: usize| password(&"\u{e9}".repeat(count)).check_rules();
    assert_eq!(check(0), Err(PasswordRuleError::TooShort { count: 0 }));
    assert_eq!(check(11), Err(PasswordRuleError::TooShort { count: 11 }));
    assert_eq!(check(12), Ok(()));
    assert_eq!(check(128), Ok(()));
    assert_eq!(check(129), Err(PasswordRuleError::TooLong { bytes: 258 }));
    let refused = PasswordHash::of(&password("short")).unwrap_err();
    let message = refused.to_string();
    assert!(
        message.contains("at least 12, because programs guess"),
        "{message}"
    );
    let message = check(129).unwrap_err().to_string();
    assert!(message.contains("a login takes at most 256"), "{message}");
}

#[test]
fn no_format_shows_a_password_or_a_hash() {
    assert_eq!(format!("{:?}", password(CORRECT)), "Password(hidden)");
    assert_eq!(format!("{:?}", hash()), "PasswordHash(hidden)");
}

#[test]
fn hash_is_a_phc_string_with_the_stated_parameters() {
    let text = hash().to_string();
    assert!(
        text.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"),
        "{text}"
    );
    let parsed: PasswordHash = text.parse().unwrap();
    assert_eq!(&parsed, hash());
    assert_eq!(parsed.to_string(), text);
    assert!(!parsed.is_outdated());
    let again = PasswordHash::of(&password(CORRECT)).unwrap();
    assert_ne!(again.to_string(), text, "each hash has its own salt");
}

#[test]
fn only_the_correct_password_of_a_known_account_is_accepted() {
    let sut = PasswordVerifier::new();
    let check = |text: &str, is_known: u8| {
        let candidate = PasswordCandidate::new(hash(), Choice::from(is_known));
        sut.verify(&password(text), candidate)
    };
    assert_eq!(check(CORRECT, 1), PasswordCheck::Correct);
    for wrong in [
        "",
        "correct horse batterz",
        "correct horse battery ",
        "Correct horse battery",
    ] {
        assert_eq!(check(wrong, 1), PasswordCheck::Wrong);
    }
    assert_eq!(check(CORRECT, 0), PasswordCheck::Wrong);
    assert_eq!(check(&"x".repeat(1 << 20), 1), PasswordCheck::Wrong);
}

/// A password that is too long for any account takes the time of an empty one, but does not match it.
#[test]
fn password_that_is_too_long_does_not_match_the_hash_of_an_empty_one() {
    let text = "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    let mut empty: PasswordHash = text.parse().unwrap();
    empty.set_output_of(b"");
    assert!(bool::from(empty.matches(&password("")).unwrap()));
    assert!(!bool::from(
        empty.matches(&password(&"x".repeat(4097))).unwrap()
    ));
}

/// F18: an unknown account costs the same work as a known one.
#[test]
fn dummy_has_the_costs_of_a_new_hash() {
    let dummy = PasswordHash::dummy();
    assert!(!dummy.is_outdated());
    let costs = |hash: &PasswordHash| {
        let text = hash.to_string();
        let parts: Vec<usize> = text.split('$').skip(4).map(str::len).collect();
        (text.split('$').nth(3).unwrap().to_owned(), parts)
    };
    assert_eq!(costs(&dummy), costs(hash()));
}

/// The example of the reference implementation of Argon2 (argon2id, version 19), with cheap parameters.
#[test]
fn hash_of_another_implementation_is_verified() {
    let text =
        "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4";
    let hash: PasswordHash = text.parse().unwrap();
    assert!(hash.is_outdated());
    assert!(bool::from(hash.matches(&password("password")).unwrap()));
    let wrong = hash.matches(&password("passwore")).unwrap();
    assert_eq!(wrong.unwrap_u8(), Choice::from(0).unwrap_u8());
}

#[test]
fn hash_that_would_stall_the_engine_is_refused() {
    let text = |m: u64, t: u64, p: u64| {
        format!(
            "$argon2id$v=19$m={m},t={t},p={p}$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4"
        )
    };
    let parse = |text: String| text.parse::<PasswordHash>();
    let (m_max, t_max) = (u64::from(MEMORY_KIB_MAX), u64::from(PASSES_MAX));
    assert!(parse(text(m_max, t_max, 16)).is_ok());
    for costly in [
        text(m_max + 1, 1, 1),
        text(256, t_max + 1, 1),
        text(256, 2, 17),
    ] {
        let refused = parse(costly).unwrap_err();
        assert!(
            matches!(refused, HashTextError::TooCostly { .. }),
            "{refused}"
        );
    }
    for (m, t, p) in [
        (7, 1, 1),
        (256, 0, 1),
        (256, 1, 0),
        (1 << 40, 1, 1),
        (8, 1, 16),
    ] {
        assert_eq!(
            parse(text(m, t, p)),
            Err(HashTextError::Form),
            "{m} {t} {p}"
        );
    }
}

#[test]
fn other_hashes_are_refused() {
    let bad = [
        ("", HashTextError::Form),
        ("secret", HashTextError::Form),
        (
            "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ",
            HashTextError::Form,
        ),
        ("$argon2id$v=19$m=256,t=2,p=1", HashTextError::Form),
        (
            "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgL!QMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
            HashTextError::Form,
        ),
        (
            "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIP",
            HashTextError::TooShort,
        ),
        (
            "$argon2i$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
            HashTextError::Function,
        ),
        (
            "$argon2id$v=16$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
            HashTextError::Function,
        ),
        (
            "$argon2id$v=19$m=256,t=2,p=1,keyid=c29t$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
            HashTextError::Form,
        ),
        (
            "$argon2id$v=19$m=256,t=2,p=1,data=c29t$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
            HashTextError::Form,
        ),
        (
            "$argon2id$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
            HashTextError::Function,
        ),
    ];
    for (text, expected) in bad {
        assert_eq!(
            text.parse::<PasswordHash>().unwrap_err(),
            expected,
            "{text}"
        );
    }
    let long = format!("$argon2id$v=19$m=256,t=2,p=1${}", "c".repeat(1 << 20));
    assert_eq!(
        long.parse::<PasswordHash>().unwrap_err(),
        HashTextError::Form
    );
}

proptest! {
    #[test]
    fn no_text_of_a_hash_causes_a_panic(text in "(\\$argon2id)?(\\$v=19)?(\\$m=[0-9]{0,12},t=[0-9]{0,3},p=[0-9]{0,12}(,[a-z]+=[A-Za-z0-9]*)?)?(\\$[A-Za-z0-9+/=]{0,90}){0,3}.{0,5}") {
        if let Ok(hash) = text.parse::<PasswordHash>() {
            prop_assert_eq!(hash.to_string().parse::<PasswordHash>().unwrap(), hash);
        }
    }
}
