use proptest::prelude::*;

use super::*;

fn origin(number: u32) -> Origin {
    Origin::of(std::net::Ipv4Addr::from(0x0a00_0000 | number).into())
}

fn at(seconds: u64) -> Tick {
    Tick::ZERO.saturating_add(Duration::from_secs(seconds))
}

/// Makes an attempt that fails as soon as one is permitted, and returns its time.
fn fail_next(sut: &mut LoginAttempts, account: &str, origin: Origin, now: Tick) -> Tick {
    match sut.begin(account, origin, now) {
        Ok(_) => now,
        Err(TooEarly { after }) => {
            let now = now.saturating_add(after);
            let _ = sut.begin(account, origin, now).unwrap();
            now
        }
    }
}

#[test]
fn delay_grows_to_its_maximum_after_the_free_attempts() {
    let mut sut = LoginAttempts::new();
    for _ in 0..ATTEMPTS_FREE {
        let _ = sut.begin("anna", origin(1), at(0)).unwrap();
    }
    let mut now = at(0);
    for expected in [1, 2, 4, 8, 16, 32, 60, 60, 60] {
        let refused = sut.begin("anna", origin(1), now).unwrap_err();
        assert_eq!(refused.after, Duration::from_secs(expected));
        now = now.saturating_add(refused.after);
        let _ = sut.begin("anna", origin(1), now).unwrap();
    }
    let refused = sut.begin("anna", origin(1), now).unwrap_err();
    let message = "too many attempts to log in; try again in 60 s";
    assert_eq!(refused.to_string(), message);
    let nearly = now.saturating_add(Duration::from_millis(59_500));
    let refused = sut.begin("anna", origin(1), nearly).unwrap_err();
    assert!(refused.to_string().ends_with("in 1 s"), "{refused}");
}

#[test]
fn refused_attempts_do_not_prolong_the_delay() {
    let mut sut = LoginAttempts::new();
    for _ in 0..ATTEMPTS_FREE {
        let _ = sut.begin("anna", origin(1), at(0)).unwrap();
    }
    for _ in 0..1000 {
        assert!(sut.begin("anna", origin(1), at(0)).is_err());
    }
    assert!(sut.begin("anna", origin(1), at(1)).is_ok());
}

/// CR 1.11: 10^4 wrong logins; the operator still gets in.
#[test]
fn after_10_000_wrong_logins_the_operator_gets_in() {
    let mut sut = LoginAttempts::new();
    let mut now = at(0);
    for _ in 0..10_000 {
        now = fail_next(&mut sut, "operator", origin(1), now);
    }
    // From another origin and from this machine at once, from the same origin after the delay.
    let elsewhere = sut.begin("operator", origin(2), now).unwrap();
    sut.succeeded(elsewhere);
    let local = sut.begin("operator", Origin::Local, now).unwrap();
    sut.succeeded(local);
    let refused = sut.begin("operator", origin(1), now).unwrap_err();
    assert!(refused.after <= DELAY_MAX);
    let later = now.saturating_add(refused.after);
    let same_origin = sut.begin("operator", origin(1), later).unwrap();
    sut.succeeded(same_origin);
    assert!(sut.is_empty());
    for _ in 0..ATTEMPTS_FREE {
        assert!(
            sut.begin("operator", origin(1), later).is_ok(),
            "all is forgotten"
        );
    }
}

#[test]
fn local_peers_are_never_delayed() {
    let mut sut = LoginAttempts::new();
    for _ in 0..10_000 {
        assert!(sut.begin("admin", Origin::Local, at(0)).is_ok());
    }
    assert!(sut.is_empty());
}

#[test]
fn attempts_at_the_same_time_count_before_they_have_failed() {
    let mut sut = LoginAttempts::new();
    let started = (0..100).filter(|_| sut.begin("anna", origin(1), at(0)).is_ok());
    assert_eq!(started.count(), ATTEMPTS_FREE as usize);
}

#[test]
fn attempt_that_was_not_verified_does_not_count() {
    let mut sut = LoginAttempts::new();
    for _ in 0..1000 {
        let attempt = sut.begin("anna", origin(1), at(0)).unwrap();
        sut.withdrawn(attempt);
    }
    assert!(sut.is_empty());
    let attempts: Vec<_> = (0..ATTEMPTS_FREE)
        .map(|_| sut.begin("anna", origin(1), at(0)).unwrap())
        .collect();
    assert!(sut.begin("anna", origin(1), at(0)).is_err());
    for attempt in attempts {
        sut.withdrawn(attempt);
    }
    assert!(sut.begin("anna", origin(1), at(0)).is_ok());
}

#[test]
fn accounts_and_origins_are_counted_separately() {
    let mut sut = LoginAttempts::new();
    for _ in 0..ATTEMPTS_FREE {
        let _ = sut.begin("anna", origin(1), at(0)).unwrap();
    }
    assert!(sut.begin("anna", origin(1), at(0)).is_err());
    assert!(sut.begin("Anna", origin(1), at(0)).is_ok());
    assert!(sut.begin("anna", origin(2), at(0)).is_ok());
}

#[test]
fn attempts_are_forgotten_after_an_hour() {
    let mut sut = LoginAttempts::new();
    let mut now = at(0);
    for _ in 0..20 {
        now = fail_next(&mut sut, "anna", origin(1), now);
    }
    let later = now.saturating_add(FORGOTTEN_AFTER);
    for _ in 0..ATTEMPTS_FREE {
        assert!(sut.begin("anna", origin(1), later).is_ok());
    }
    assert!(sut.begin("anna", origin(1), later).is_err());
}

#[test]
fn table_is_bounded_and_an_attacker_displaces_only_itself() {
    let mut sut = LoginAttempts::new();
    for _ in 0..ATTEMPTS_FREE {
        let _ = sut.begin("anna", origin(1), at(0)).unwrap();
    }
    for number in 0..PAIRS_MAX + 500 {
        let now = at(0).saturating_add(Duration::from_millis(number as u64 / 50));
        let _ = sut.begin(&number.to_string(), origin(2), now).unwrap();
    }
    assert_eq!(sut.len(), PAIRS_MAX);
    assert!(
        sut.begin("anna", origin(1), at(0)).is_err(),
        "still remembered"
    );
    let counted: usize = sut.origins.values().map(HashMap::len).sum();
    assert_eq!(counted, PAIRS_MAX);
    assert!(
        sut.find(
            match origin(2) {
                Origin::Network(origin) => origin,
                Origin::Local => panic!(),
            },
            &account_digest("0")
        )
        .is_none()
    );
    // What is forgotten makes room first.
    let later = at(10_000);
    let _ = sut.begin("anna", origin(3), later).unwrap();
    assert_eq!(sut.len(), 1);
}

#[test]
fn with_one_account_per_origin_the_oldest_is_displaced() {
    let mut sut = LoginAttempts::new();
    for number in 0..=PAIRS_MAX as u32 {
        let now = at(0).saturating_add(Duration::from_millis(number.into()));
        let _ = sut.begin("anna", origin(number), now).unwrap();
    }
    assert_eq!(sut.len(), PAIRS_MAX);
    let Origin::Network(first) = origin(0) else {
        panic!("not local");
    };
    assert!(!sut.origins.contains_key(&first));
}

#[derive(Clone, Debug)]
enum Step {
    Fail(u8, u8),
    Succeed(u8, u8),
    Withdraw(u8, u8),
    Wait(u16),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0u8..4, 0u8..4).prop_map(|(account, origin)| Step::Fail(account, origin)),
        (0u8..4, 0u8..4).prop_map(|(account, origin)| Step::Succeed(account, origin)),
        (0u8..4, 0u8..4).prop_map(|(account, origin)| Step::Withdraw(account, origin)),
        any::<u16>().prop_map(Step::Wait),
    ]
}

proptest! {
    #[test]
    fn no_sequence_locks_an_account(steps in proptest::collection::vec(step(), 0..200)) {
        let mut sut = LoginAttempts::new();
        let mut now = at(0);
        for step in steps {
            let mut begin = |account: u8, number: u8| {
                sut.begin(&account.to_string(), origin(number.into()), now)
            };
            match step {
                Step::Fail(a, o) => drop(begin(a, o)),
                Step::Succeed(a, o) => {
                    if let Ok(attempt) = begin(a, o) {
                        sut.succeeded(attempt);
                    }
                }
                Step::Withdraw(a, o) => {
                    if let Ok(attempt) = begin(a, o) {
                        sut.withdrawn(attempt);
                    }
                }
                Step::Wait(millis) => {
                    now = now.saturating_add(Duration::from_millis(millis.into()));
                }
            }
            let counted: usize = sut.origins.values().map(HashMap::len).sum();
            prop_assert_eq!(sut.len(), counted);
            prop_assert!(sut.origins.values().all(|accounts| !accounts.is_empty()));
        }
        for account in 0..4u8 {
            for number in 0..4 {
                let later = now.saturating_add(DELAY_MAX);
                prop_assert!(sut.begin(&account.to_string(), origin(number), later).is_ok());
            }
        }
    }
}
