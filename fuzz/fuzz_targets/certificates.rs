#![no_main]
//! What identities come from: certificates and keys in PEM and DER, joining tokens, public keys.

use libfuzzer_sys::fuzz_target;
use trunkline_identity::{Authority, Certificate, JoinToken, PublicKey};

fuzz_target!(|bytes: &[u8]| {
    if let Err(error) = Certificate::from_der(bytes) {
        assert!(!error.to_string().is_empty());
    }
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(certificate) = Certificate::from_pem(text) {
        let again = Certificate::from_der(certificate.der()).expect("it was accepted before");
        assert_eq!(again.der(), certificate.der());
    }
    let _ = Certificate::all_from_pem(text);
    // A text with a certificate and a key.
    if let Ok(authority) = Authority::from_pem(text, text) {
        let certificate = authority.certificate().der();
        assert!(Certificate::from_der(certificate).is_ok());
    }
    if let Ok(token) = JoinToken::parse(text) {
        let again = JoinToken::parse(&token.to_text()).expect("it is its own text");
        assert_eq!(again.secret(), token.secret());
    }
    if let Ok(key) = text.parse::<PublicKey>() {
        assert_eq!(key.to_string().parse(), Ok(key));
    }
});
