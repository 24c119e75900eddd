use proptest::prelude::*;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::FromDer;

use super::*;

/// 2026-07-01T12:00:00.5Z.
const NOW: Timestamp = Timestamp::from_nanos(1_782_907_200_500_000_000);

fn days(count: u64) -> Duration {
    Duration::from_secs(count * DAY)
}

fn seconds(time: Timestamp) -> i64 {
    time.as_nanos().div_euclid(1_000_000_000)
}

fn subject(names: &[&str]) -> EngineSubject {
    EngineSubject {
        name: "plant7".to_owned(),
        host_names: names.iter().map(|name| name.parse().unwrap()).collect(),
    }
}

fn shown(names: &[HostName]) -> Vec<String> {
    names.iter().map(HostName::to_string).collect()
}

#[test]
fn authority_is_valid_ten_years_and_may_only_sign() {
    let sut = Authority::create("plant7", NOW).unwrap();
    let certificate = sut.certificate();
    assert_eq!(certificate.subject(), "Trunkline authority of plant7");
    assert_eq!(seconds(certificate.not_before()), seconds(NOW) - DAY as i64);
    assert_eq!(
        seconds(certificate.not_after()),
        seconds(later(NOW, days(3652)))
    );
    assert!(certificate.is_authority() && certificate.is_signed_by(certificate));
    assert!(certificate.names().is_empty());
    assert_eq!(certificate.fingerprint(), sut.key().fingerprint());
    let (_, parsed) = X509Certificate::from_der(certificate.der()).unwrap();
    let constraints = parsed.basic_constraints().unwrap().unwrap();
    assert!(constraints.critical && constraints.value.ca);
    assert_eq!(constraints.value.path_len_constraint, Some(0));
    let usage = parsed.key_usage().unwrap().unwrap();
    assert!(usage.critical && usage.value.key_cert_sign() && usage.value.crl_sign());
    assert!(!usage.value.digital_signature() && !usage.value.key_agreement());
}

#[test]
fn engine_certificate_is_valid_90_days_for_its_names_and_the_local_ones() {
    let authority = Authority::create("plant7", NOW).unwrap();
    let key = PrivateKey::generate().unwrap();
    let names = [
        "Plant7.example",
        "192.0.2.7",
        "fd00::7",
        "localhost",
        "plant7.example",
    ];
    let sut = authority.issue(&subject(&names), &key, NOW).unwrap();
    assert_eq!(sut.subject(), "plant7");
    let expected = [
        "plant7.example",
        "192.0.2.7",
        "fd00::7",
        "localhost",
        "127.0.0.1",
        "::1",
    ];
    assert_eq!(shown(sut.names()), expected);
    assert_eq!(seconds(sut.not_before()), seconds(NOW) - DAY as i64);
    assert_eq!(seconds(sut.not_after()), seconds(later(NOW, days(90))));
    assert!(sut.is_signed_by(authority.certificate()));
    assert!(!sut.is_authority() && !sut.is_signed_by(&sut));
    assert_eq!(sut.fingerprint(), key.fingerprint());
    assert_ne!(sut.fingerprint(), authority.certificate().fingerprint());
    let (_, parsed) = X509Certificate::from_der(sut.der()).unwrap();
    let usage = parsed.key_usage().unwrap().unwrap();
    assert!(usage.value.digital_signature() && !usage.value.key_cert_sign());
    let extended = parsed.extended_key_usage().unwrap().unwrap();
    assert!(extended.value.server_auth && !extended.value.client_auth && !extended.value.any);
    let has_authority_key = parsed.extensions().iter().any(|extension| {
        matches!(
            extension.parsed_extension(),
            ParsedExtension::AuthorityKeyIdentifier(_)
        )
    });
    assert!(has_authority_key);
}

#[test]
fn certificates_of_another_authority_are_not_ours() {
    let authority = Authority::create("plant7", NOW).unwrap();
    let other = Authority::create("plant7", NOW).unwrap();
    let key = PrivateKey::generate().unwrap();
    let sut = other.issue(&subject(&[]), &key, NOW).unwrap();
    assert!(!sut.is_signed_by(authority.certificate()));
    assert!(sut.is_signed_by(other.certificate()));
    // The same key with another subject: a client could not build a chain, because the names differ.
    let mut renamed = CertificateParams::default();
    renamed.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    let renamed = renamed.self_signed(&other.key.0).unwrap();
    let renamed = Certificate::from_der(renamed.der()).unwrap();
    assert_eq!(renamed.fingerprint(), other.certificate().fingerprint());
    assert!(!sut.is_signed_by(&renamed));
}

#[test]
fn certificate_needs_renewal_when_30_days_are_left() {
    let authority = Authority::create("plant7", NOW).unwrap();
    let key = PrivateKey::generate().unwrap();
    let sut = authority.issue(&subject(&[]), &key, NOW).unwrap();
    let end = sut.not_after();
    let before_end = |duration: Duration| end.saturating_add_nanos(-(duration.as_nanos() as i64));
    for (time, validity, needs_renewal) in [
        (NOW, Validity::Valid, false),
        (
            before_end(days(30) + Duration::from_secs(1)),
            Validity::Valid,
            false,
        ),
        (before_end(days(30)), Validity::Valid, true),
        (end, Validity::Valid, true),
        (later(end, Duration::from_secs(1)), Validity::Expired, true),
        (sut.not_before(), Validity::Valid, false),
        (
            sut.not_before().saturating_add_nanos(-1),
            Validity::NotYet,
            true,
        ),
        (Timestamp::from_nanos(i64::MIN), Validity::NotYet, true),
        (Timestamp::from_nanos(i64::MAX), Validity::Expired, true),
    ] {
        assert_eq!(sut.validity(time), validity, "{time}");
        assert_eq!(sut.needs_renewal(time), needs_renewal, "{time}");
    }
}

#[test]
fn renewal_keeps_key_and_names() {
    let authority = Authority::create("plant7", NOW).unwrap();
    let key = PrivateKey::generate().unwrap();
    let old = authority
        .issue(&subject(&["plant7.example"]), &key, NOW)
        .unwrap();
    let at = later(NOW, days(60));
    let new = authority.renew(&old, &key, at).unwrap();
    assert_eq!((new.names(), new.subject()), (old.names(), old.subject()));
    assert_eq!(new.fingerprint(), old.fingerprint());
    assert_eq!(seconds(new.not_after()), seconds(later(at, days(90))));
    assert!(!new.needs_renewal(at));
    assert!(new.is_signed_by(authority.certificate()));
    let serial = |certificate: &Certificate| {
        let (_, parsed) = X509Certificate::from_der(certificate.der()).unwrap();
        parsed.raw_serial().to_vec()
    };
    assert_ne!(serial(&new), serial(&old));
    assert_eq!(serial(&new).len(), SERIAL_BYTES);
    let other = PrivateKey::generate().unwrap();
    assert_eq!(
        authority.renew(&old, &other, at).unwrap_err(),
        AuthorityError::OtherKey
    );
}

#[test]
fn authority_that_is_not_valid_issues_nothing() {
    let authority = Authority::create("plant7", NOW).unwrap();
    let key = PrivateKey::generate().unwrap();
    let issue = |wall| authority.issue(&subject(&[]), &key, wall);
    let late = issue(later(NOW, days(3653))).unwrap_err().to_string();
    assert!(
        late.contains("is expired; create a new security folder"),
        "{late}"
    );
    let early = issue(NOW.saturating_add_nanos(-(days(2).as_nanos() as i64)));
    let early = early.unwrap_err().to_string();
    assert!(early.contains("not valid yet; check the clock"), "{early}");
    // A certificate is not valid longer than its authority.
    let sut = issue(later(NOW, days(3600))).unwrap();
    assert_eq!(sut.not_after(), authority.certificate().not_after());
}

#[test]
fn clock_that_was_never_set_is_refused() {
    for wall in [Timestamp::UNIX_EPOCH, Timestamp::from_nanos(i64::MIN)] {
        let refused = Authority::create("plant7", wall).unwrap_err();
        assert_eq!(refused, AuthorityError::ClockNotSet);
    }
    assert!(Authority::create("plant7", Timestamp::from_nanos(i64::MAX)).is_ok());
}

#[test]
fn unusable_names_are_refused() {
    for name in ["", " ", "a\nb", "a\0"] {
        assert_eq!(
            Authority::create(name, NOW).unwrap_err(),
            AuthorityError::Name
        );
    }
    let long = Authority::create(&"\u{e9}".repeat(100), NOW).unwrap();
    assert_eq!(long.certificate().subject().chars().count(), 64);
    let many: Vec<String> = (0..98).map(|i| format!("h{i}.example")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let key = PrivateKey::generate().unwrap();
    let refused = long.issue(&subject(&many), &key, NOW).unwrap_err();
    assert_eq!(refused, AuthorityError::TooManyNames { count: 101 });
    let most = long.issue(&subject(&many[1..]), &key, NOW).unwrap();
    assert_eq!(most.names().len(), NAMES_MAX);
}

#[test]
fn authority_read_from_pem_is_equal() {
    let authority = Authority::create("plant7", NOW).unwrap();
    let (certificate, key) = (authority.certificate().to_pem(), authority.key().to_pem());
    let read = Authority::from_pem(&certificate, &key).unwrap();
    assert_eq!(read.certificate(), authority.certificate());
    let engine_key = PrivateKey::generate().unwrap();
    let issued = read.issue(&subject(&[]), &engine_key, NOW).unwrap();
    assert!(issued.is_signed_by(authority.certificate()));
    let debug = format!("{read:?} {engine_key:?}");
    assert!(
        debug.contains("hidden") && !debug.contains("BEGIN"),
        "{debug}"
    );
}

#[test]
fn wrong_pem_texts_are_refused() {
    let authority = Authority::create("plant7", NOW).unwrap();
    let other = Authority::create("plant7", NOW).unwrap();
    let engine_key = PrivateKey::generate().unwrap();
    let engine = authority.issue(&subject(&[]), &engine_key, NOW).unwrap();
    let (certificate, key) = (authority.certificate().to_pem(), authority.key().to_pem());
    let error = |certificate: &str, key: &str| Authority::from_pem(certificate, key).unwrap_err();
    assert_eq!(
        error(&certificate, &other.key().to_pem()),
        AuthorityError::OtherKey
    );
    let refused = error(&engine.to_pem(), &engine_key.to_pem());
    assert_eq!(refused, AuthorityError::NotAnAuthority);
    let swapped = error(&key, &certificate).to_string();
    assert!(
        swapped.contains("`PRIVATE KEY`, but a block `CERTIFICATE`"),
        "{swapped}"
    );
    assert!(matches!(error("", &key), AuthorityError::Certificate(_)));
    assert!(matches!(
        error(&certificate, ""),
        AuthorityError::Pem(PemError::Nothing(_))
    ));
    let ed25519 = crate::pem::encode(PRIVATE_KEY, &[0x30, 0x00]);
    let refused = error(&certificate, &ed25519);
    assert!(
        matches!(refused, AuthorityError::Pem(PemError::Content { .. })),
        "{refused}"
    );
}

proptest! {
    #[test]
    fn no_private_key_causes_a_panic(content in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = PrivateKey::from_pem(&crate::pem::encode(PRIVATE_KEY, &content));
    }
}
