use proptest::prelude::*;
use rcgen::{CertificateParams, KeyPair, SanType};

use super::*;

/// Made by `openssl req -x509`, with an e-mail address and a URI among its names.
const OTHER: &str = "-----BEGIN CERTIFICATE-----
MIIBtjCCAV2gAwIBAgIBBzAKBggqhkjOPQQDAjAgMQ4wDAYDVQQKDAVPdGhlcjEO
MAwGA1UEAwwFaG1pIDMwHhcNMjYxMTMwMDUwMjEwWhcNMjYxMjAxMDUwMjEwWjAg
MQ4wDAYDVQQKDAVPdGhlcjEOMAwGA1UEAwwFaG1pIDMwWTATBgcqhkjOPQIBBggq
hkjOPQMBBwNCAARz37Krjq/kQYe+iasAdnM+OXVN/z2+frP2Z4VrnIxjRL7UsdqL
pUUb5H07sXP+xgdrmhx92BTpfGER/S565yhZo4GHMIGEMB0GA1UdDgQWBBRPAGFE
+UHW2kOZYP6O3hGs1CHczzAfBgNVHSMEGDAWgBRPAGFE+UHW2kOZYP6O3hGs1CHc
zzAPBgNVHRMBAf8EBTADAQH/MDEGA1UdEQQqMCiCDEhNSTMuZXhhbXBsZYcEwAAC
A4ELYUBiLmV4YW1wbGWGBXVybjp4MAoGCCqGSM49BAMCA0cAMEQCIAtRnJeMX0E8
OlMAlJhah+tyyiaSbZkMXf/dDMyDz6PoAiBMOsCOZglTON0fVQkJvKcDruMfG/Pn
+7J9BdO40og4cQ==
-----END CERTIFICATE-----
";

#[test]
fn certificate_of_another_tool_is_read() {
    let sut = Certificate::from_pem(OTHER).unwrap();
    assert_eq!(sut.subject(), "hmi 3");
    assert_eq!(
        sut.not_before().to_string(),
        "2026-11-30T05:02:10.000000000Z"
    );
    assert_eq!(
        sut.not_after().to_string(),
        "2026-12-01T05:02:10.000000000Z"
    );
    // From `openssl x509 -pubkey | openssl pkey -pubin -outform DER | sha256sum`.
    let fingerprint = "sha256:601a5b4f279593b17a7ab09e50eaad06cad0d1c1bfcab78e5ca87191b876d55c";
    assert_eq!(sut.fingerprint().to_string(), fingerprint);
    let names: Vec<String> = sut.names().iter().map(HostName::to_string).collect();
    assert_eq!(names, ["hmi3.example", "192.0.2.3"]);
    assert_eq!(sut.to_pem(), OTHER);
    let chain = format!("text\n{OTHER}{}", OTHER.replace("MIIB", "AAAA"));
    assert_eq!(Certificate::from_pem(&chain), Ok(sut));
}

#[test]
fn wildcards_and_the_year_9999_are_accepted() {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.subject_alt_names = vec![SanType::DnsName("*.example".try_into().unwrap())];
    params.not_after = rcgen::date_time_ymd(9999, 12, 31);
    params.not_before = rcgen::date_time_ymd(1600, 1, 1);
    let der = params.self_signed(&key).unwrap();
    let sut = Certificate::from_der(der.der()).unwrap();
    assert!(sut.names().is_empty());
    assert_eq!(sut.not_after(), Timestamp::from_nanos(i64::MAX));
    assert_eq!(sut.not_before(), Timestamp::from_nanos(i64::MIN));
    assert!(!sut.needs_renewal(Timestamp::UNIX_EPOCH));
}

#[test]
fn damaged_certificates_are_refused() {
    let good = Certificate::from_pem(OTHER).unwrap();
    let error = |der: &[u8]| Certificate::from_der(der).unwrap_err();
    assert_eq!(
        error(&[good.der(), &[0]].concat()),
        CertificateError::Trailing
    );
    for length in 0..good.der().len() {
        assert!(matches!(
            error(&good.der()[..length]),
            CertificateError::NotX509 { .. }
        ));
    }
    let large = vec![0x30; CERTIFICATE_BYTES_MAX + 1];
    assert_eq!(error(&large), CertificateError::TooLarge);
    assert!(matches!(
        Certificate::from_pem("x"),
        Err(CertificateError::Pem(_))
    ));
}

proptest! {
    #[test]
    fn no_change_of_a_certificate_causes_a_panic(
        changes in proptest::collection::vec((0usize..442, any::<u8>()), 1..6)
    ) {
        let good = Certificate::from_pem(OTHER).unwrap();
        let mut der = good.der().to_vec();
        for (at, byte) in changes {
            if let Some(changed) = der.get_mut(at) {
                *changed = byte;
            }
        }
        if let Ok(read) = Certificate::from_der(&der) {
            let _ = (read.is_authority(), read.is_signed_by(&good), good.is_signed_by(&read));
        }
    }
}
