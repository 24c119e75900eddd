use std::time::Duration;

use proptest::prelude::*;
use trunkline_access::Role;
use trunkline_types::Tick;

use super::pending::WRONG_ORIGINS_MAX;
use super::*;
use crate::origin::Origin;

fn authority() -> Fingerprint {
    Fingerprint::from_bytes([0xa5; 32])
}

fn network() -> Origin {
    Origin::of("192.0.2.1".parse().unwrap())
}

fn at(seconds: u64) -> Tick {
    Tick::ZERO.saturating_add(Duration::from_secs(seconds))
}

fn grant(account: &str) -> JoinGrant {
    JoinGrant {
        account: account.parse().unwrap(),
        role: Some(Role::Operator),
        groups: Vec::new(),
    }
}

#[test]
fn text_is_crockford_base32_in_groups_of_four() {
    let zeros = JoinToken(Zeroizing::new([0; BYTES]));
    assert_eq!(*zeros.to_text(), "0000-0000-0000-0000-0000-0000-0000-0000");
    let ones = JoinToken(Zeroizing::new([0xff; BYTES]));
    assert_eq!(*ones.to_text(), "ZZZZ-ZZZZ-ZZZZ-ZZZZ-ZZZZ-ZZZZ-ZZZZ-ZZZZ");
    // Computed by hand: 0x01 0x23 0x45 0x67 0x89 are the groups 00000 00100 10001 10100 01010 11001 11100 01001.
    let mut bytes = [0; BYTES];
    bytes[..5].copy_from_slice(&[0x01, 0x23, 0x45, 0x67, 0x89]);
    let token = JoinToken(Zeroizing::new(bytes));
    assert_eq!(*token.to_text(), "04HM-ASW9-0000-0000-0000-0000-0000-0000");
}

/// B-81: a token as a person types it.
#[test]
fn token_is_parsed_in_any_case_with_look_alikes_and_without_dashes() {
    let text = "K0PM-1QXD-9R4T-W3NB-5HJC-8V6Y-ZAEF-G1S0";
    let token = JoinToken::parse(text).unwrap();
    assert_eq!(*token.to_text(), text);
    let variants = [
        "k0pm1qxd9r4tw3nb5hjc8v6yzaefg1s0",
        "KOPM-IQXD-9R4T-W3NB-5HJC-8V6Y-ZAEF-GLSO",
        "kopm-lqxd-9r4t-w3nb-5hjc-8v6y-zaef-giso",
        " K0PM 1QXD 9R4T W3NB\n5HJC 8V6Y ZAEF G1S0\r\n",
        "--K0PM1-QXD9R4TW3NB5HJC8V6YZAEFG1S0-",
    ];
    for variant in variants {
        assert_eq!(JoinToken::parse(variant).unwrap().0, token.0, "{variant}");
    }
}

#[test]
fn wrong_texts_have_clear_errors() {
    let length = |count| TokenTextError::Length {
        count,
        is_longer: false,
    };
    let error = |text: &str| JoinToken::parse(text).unwrap_err();
    assert_eq!(error(""), length(0));
    assert_eq!(error(&"0".repeat(31)), length(31));
    assert_eq!(error(&"0".repeat(33)), length(33));
    let message = error("K0PM-1QXD").to_string();
    assert_eq!(
        message,
        "a joining token has 32 characters, but this has 8; copy the whole token"
    );
    let message = error(&"0".repeat(1 << 20)).to_string();
    assert!(message.contains("256 or more"), "{message}");
    for (text, character, position) in [
        ("K0PU", 'U', 4),
        ("K-0*", '*', 4),
        ("\u{e9}", '\u{e9}', 1),
        ("K\u{0}", '\u{0}', 2),
    ] {
        let expected = TokenTextError::Character {
            character,
            position,
        };
        assert_eq!(error(text), expected);
    }
    let message = error("K0PU").to_string();
    assert!(
        message.starts_with("'U' (character 4) does not occur"),
        "{message}"
    );
}

#[test]
fn token_identifies_the_authority() {
    let token = JoinToken::new(&[1; SECRET_BYTES], &authority());
    assert!(token.is_of_authority(&authority()));
    for byte in 0..AUTHORITY_BYTES {
        let mut other = [0xa5; 32];
        other[byte] ^= 1;
        assert!(!token.is_of_authority(&Fingerprint::from_bytes(other)));
    }
    assert_eq!(token.secret(), &[1; SECRET_BYTES]);
    assert_eq!(format!("{token:?}"), "JoinToken(hidden)");
}

/// B-81: a token is valid once.
#[test]
fn token_is_valid_once() {
    let mut sut = PendingTokens::new(authority());
    let first = sut.issue(grant("boiler"), at(0)).unwrap();
    let second = sut.issue(grant("mixer"), at(0)).unwrap();
    assert!(first.is_of_authority(&authority()));
    assert_ne!(first.secret(), second.secret());
    let typed = JoinToken::parse(&first.to_text()).unwrap();
    let joined = sut.join(typed.secret(), network(), at(1)).unwrap();
    assert_eq!(joined.into_grant(), grant("boiler"));
    let again = sut.join(typed.secret(), network(), at(1)).unwrap_err();
    assert_eq!(again, JoinError::Invalid);
    assert_eq!(
        sut.join(second.secret(), network(), at(1))
            .unwrap()
            .into_grant(),
        grant("mixer")
    );
    assert!(sut.is_empty(at(1)));
}

#[test]
fn token_expires_after_ten_minutes() {
    let mut sut = PendingTokens::new(authority());
    let (early, late) = (
        sut.issue(grant("1"), at(0)).unwrap(),
        sut.issue(grant("2"), at(0)).unwrap(),
    );
    assert!(sut.join(early.secret(), network(), at(599)).is_ok());
    assert_eq!(sut.len(at(599)), 1);
    assert_eq!(sut.len(at(600)), 0);
    let refused = sut.join(late.secret(), network(), at(600)).unwrap_err();
    assert_eq!(refused, JoinError::Invalid);
    assert!(
        refused.to_string().contains("older than 10 minutes"),
        "{refused}"
    );
}

#[test]
fn at_most_100_tokens_are_pending() {
    let mut sut = PendingTokens::new(authority());
    let tokens: Vec<_> = (0..100)
        .map(|i| sut.issue(grant(&i.to_string()), at(i)).unwrap())
        .collect();
    let refused = sut.issue(grant("100"), at(100)).unwrap_err();
    let after = Duration::from_secs(500);
    assert_eq!(refused, IssueError::TooMany { after });
    assert!(refused.to_string().contains("in 500 s"), "{refused}");
    // A used token and an expired one make room.
    assert_eq!(
        sut.join(tokens[50].secret(), network(), at(100))
            .unwrap()
            .into_grant(),
        grant("50")
    );
    let replacement = sut.issue(grant("100"), at(100)).unwrap();
    assert!(sut.issue(grant("101"), at(100)).is_err());
    assert!(
        sut.issue(grant("101"), at(600)).is_ok(),
        "the first token has expired"
    );
    assert_eq!(
        sut.join(tokens[99].secret(), network(), at(600))
            .unwrap()
            .into_grant(),
        grant("99")
    );
    assert_eq!(
        sut.join(replacement.secret(), network(), at(600))
            .unwrap()
            .into_grant(),
        grant("100")
    );
}

fn peer(number: u32) -> Origin {
    Origin::of(std::net::Ipv4Addr::from_bits(0xc000_0200 + number).into())
}

#[test]
fn wrong_tokens_of_a_peer_are_limited_and_lock_out_nobody_else() {
    let mut sut = PendingTokens::new(authority());
    let mut issue = || sut.issue(grant("boiler"), at(0)).unwrap();
    let (token, other_token) = (issue(), issue());
    for second in 0..10u8 {
        let refused = sut
            .join(&[second; 10], peer(1), at(second.into()))
            .unwrap_err();
        assert_eq!(refused, JoinError::Invalid);
    }
    // The limit holds for a correct token as well: its validity is not revealed.
    let refused = sut.join(token.secret(), peer(1), at(10)).unwrap_err();
    let after = Duration::from_secs(50);
    assert_eq!(refused, JoinError::TooMany { after });
    assert!(
        refused.to_string().contains("try again in 50 s"),
        "{refused}"
    );
    assert!(sut.join(other_token.secret(), peer(2), at(10)).is_ok());
    // Refused attempts do not prolong the wait.
    for _ in 0..1000 {
        assert!(sut.join(&[0; 10], peer(1), at(59)).is_err());
    }
    assert_eq!(
        sut.join(&[0; 10], peer(1), at(60)).unwrap_err(),
        JoinError::Invalid
    );
    let refused = sut.join(token.secret(), peer(1), at(60)).unwrap_err();
    assert!(matches!(refused, JoinError::TooMany { .. }));
    assert!(sut.join(token.secret(), peer(1), at(61)).is_ok());
}

#[test]
fn wrong_tokens_of_many_peers_take_bounded_memory() {
    let mut sut = PendingTokens::new(authority());
    let token = sut.issue(grant("boiler"), at(0)).unwrap();
    for number in 0..10_000 {
        let refused = sut.join(&[0; 10], peer(number), at(0)).unwrap_err();
        assert_eq!(refused, JoinError::Invalid);
        assert!(sut.wrong.len() <= WRONG_ORIGINS_MAX);
    }
    assert!(sut.join(token.secret(), peer(20_000), at(0)).is_ok());
    // They are forgotten after the period.
    for number in 0..WRONG_ORIGINS_MAX as u32 {
        let _ = sut.join(&[0; 10], peer(number), at(100));
    }
    let _ = sut.join(&[0; 10], peer(30_000), at(160));
    assert_eq!(sut.wrong.len(), 1);
}

#[test]
fn peers_on_this_machine_are_not_limited() {
    let mut sut = PendingTokens::new(authority());
    let token = sut.issue(grant("boiler"), at(0)).unwrap();
    for _ in 0..1000 {
        assert_eq!(
            sut.join(&[0; 10], Origin::Local, at(0)).unwrap_err(),
            JoinError::Invalid
        );
    }
    assert!(sut.wrong.is_empty());
    for _ in 0..JOINS_WRONG_MAX {
        let _ = sut.join(&[0; 10], network(), at(0));
    }
    assert!(sut.join(token.secret(), network(), at(0)).is_err());
    assert!(sut.join(token.secret(), Origin::Local, at(0)).is_ok());
}

#[test]
fn token_whose_account_was_not_saved_can_be_used_again() {
    let mut sut = PendingTokens::new(authority());
    let token = sut.issue(grant("boiler"), at(0)).unwrap();
    let joined = sut.join(token.secret(), network(), at(1)).unwrap();
    assert_eq!(*joined.grant(), grant("boiler"));
    sut.put_back(joined);
    assert!(
        sut.join(token.secret(), network(), at(600)).is_err(),
        "it keeps its time"
    );
    assert!(sut.join(token.secret(), network(), at(599)).is_ok());
}

#[test]
fn tokens_of_an_account_can_be_revoked() {
    let mut sut = PendingTokens::new(authority());
    let token = sut.issue(grant("boiler"), at(0)).unwrap();
    let other = sut.issue(grant("mixer"), at(0)).unwrap();
    assert_eq!(sut.revoke(|grant| grant.account.as_str() == "boiler"), 1);
    assert!(sut.join(token.secret(), network(), at(0)).is_err());
    assert!(sut.join(other.secret(), network(), at(0)).is_ok());
}

proptest! {
    #[test]
    fn every_token_survives_its_text(bytes in any::<[u8; BYTES]>()) {
        let token = JoinToken(Zeroizing::new(bytes));
        let text = token.to_text();
        prop_assert_eq!(JoinToken::parse(&text).unwrap().0, token.0.clone());
        prop_assert_eq!(JoinToken::parse(&text.to_lowercase()).unwrap().0, token.0.clone());
    }

    #[test]
    fn no_text_causes_a_panic(text in "[0-9A-Za-z -]{0,50}.{0,3}") {
        if let Ok(token) = JoinToken::parse(&text) {
            prop_assert_eq!(JoinToken::parse(&token.to_text()).unwrap().0, token.0.clone());
        }
    }
}
