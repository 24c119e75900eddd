use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};

use proptest::prelude::*;

use super::*;

/// The example key of RFC 8410, section 10.3, as `openssl genpkey` writes keys.
const RFC_KEY: &str = "-----BEGIN PRIVATE KEY-----\n\
                       MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n\
                       -----END PRIVATE KEY-----\n";

/// Its public key, from section 10.1.
const RFC_PUBLIC: &str = "ed25519:Gb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=";

/// The same key in version 2, with its public key.
const RFC_KEY_2: &str = "-----BEGIN PRIVATE KEY-----\n\
                         MHICAQEwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n\
                         oB8wHQYKKoZIhvcNAQkJFDEPDA1DdXJkbGUgQ2hhaXJzgSEAGb9ECWmEzf6FQbrB\n\
                         Z9w7lshQhqowtrbLDFw4rXAxZuE=\n\
                         -----END PRIVATE KEY-----\n";

/// A key for ECDSA P-256, made by `openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256`.
const OTHER_KEY: &str = "-----BEGIN PRIVATE KEY-----\n\
                         MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg4wsSqE0U2KikgO7m\n\
                         wTPJYlwcf2yI+61HKkjIARWqce2hRANCAAQ7MQTjwMn9LjKY/zz9IC2JPBDzfYmg\n\
                         y1iJKv8Ht1MXQfhYmtZFO3LgAHCPWzAdtSmsWnLzXQMykN0h135x0qI+\n\
                         -----END PRIVATE KEY-----\n";

fn save(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn created_key_is_loaded_again_from_a_private_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("program/key.pem");
    let created = ProgramKey::create(&path).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    let loaded = ProgramKey::load(&path).unwrap();
    assert_eq!(loaded.public(), created.public());
    assert_ne!(created.public(), ProgramKey::generate().unwrap().public());
    let refused = ProgramKey::create(&path).unwrap_err();
    assert!(
        matches!(refused, KeyError::File(FileError::Exists(_))),
        "{refused}"
    );
    assert_eq!(ProgramKey::load(&path).unwrap().public(), created.public());
}

#[test]
fn keys_of_other_tools_are_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key.pem");
    let expected: PublicKey = RFC_PUBLIC.parse().unwrap();
    save(&path, RFC_KEY);
    let key = ProgramKey::load(&path).unwrap();
    assert_eq!(key.public(), expected);
    assert_eq!(
        *pem::encode(PRIVATE_KEY, &key.pkcs8),
        RFC_KEY,
        "our form is the same"
    );
}

#[test]
fn version_2_of_pkcs8_must_have_the_matching_public_key() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key.pem");
    let own = Ed25519KeyPair::generate_pkcs8(&ring::rand::SystemRandom::new()).unwrap();
    save(&path, &pem::encode(PRIVATE_KEY, own.as_ref()));
    let key = ProgramKey::load(&path).unwrap();
    let mut other = own.as_ref().to_vec();
    *other.last_mut().unwrap() ^= 1;
    save(&path, &pem::encode(PRIVATE_KEY, &other));
    let refused = ProgramKey::load(&path).unwrap_err();
    assert!(matches!(refused, KeyError::NotEd25519 { .. }), "{refused}");
    assert_ne!(key.public(), RFC_PUBLIC.parse().unwrap());
    // A key with attributes is refused by the library, and not misread.
    save(&path, RFC_KEY_2);
    if let Ok(key) = ProgramKey::load(&path) {
        assert_eq!(key.public(), RFC_PUBLIC.parse().unwrap());
    }
}

#[test]
fn unusable_files_are_refused_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key.pem");
    let refusal = |text: &str| {
        save(&path, text);
        ProgramKey::load(&path).unwrap_err().to_string()
    };
    let mentions = |text: &str, word: &str| {
        let message = refusal(text);
        assert!(message.contains(word), "{message}");
        assert!(message.contains(&path.display().to_string()), "{message}");
    };
    mentions(OTHER_KEY, "does not contain an Ed25519 key");
    mentions("", "no `-----BEGIN PRIVATE KEY-----`");
    mentions(
        &RFC_KEY.replace("PRIVATE KEY", "CERTIFICATE"),
        "`CERTIFICATE`",
    );
    mentions(
        &RFC_KEY.replace("PRIVATE KEY", "OPENSSH PRIVATE KEY"),
        "PKCS #8",
    );
    mentions(&RFC_KEY.replace("MC4C", "MC4!"), "not base64");
    mentions(&RFC_KEY.replace("MC4C", ""), "does not contain");
    mentions(RFC_KEY.split_at(60).0, "no end");
    mentions(&"x".repeat(KEY_FILE_BYTES_MAX + 1), "16384 bytes");
}

#[test]
fn file_that_others_can_access_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key.pem");
    ProgramKey::create(&path).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    let refused = ProgramKey::load(&path).unwrap_err();
    let remedy = format!("`chmod 600 {}`", path.display());
    assert!(refused.to_string().contains(&remedy), "{refused}");
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    let link = folder.path().join("link.pem");
    symlink(&path, &link).unwrap();
    let refused = ProgramKey::load(&link).unwrap_err();
    assert!(
        matches!(refused, KeyError::File(FileError::SymbolicLink(_))),
        "{refused}"
    );
    assert!(matches!(
        ProgramKey::load(folder.path()),
        Err(KeyError::File(FileError::NotAFile(_)))
    ));
}

/// B-81: a recorded signature is worthless on another connection.
#[test]
fn signature_proves_the_key_on_one_connection_only() {
    let (key, other) = (
        ProgramKey::generate().unwrap(),
        ProgramKey::generate().unwrap(),
    );
    let binding = [7; BINDING_BYTES];
    let signature = login_signature(&key, &binding);
    assert_eq!(verify_login(&key.public(), &binding, &signature), Ok(()));
    let mut later = binding;
    later[31] ^= 1;
    assert_eq!(
        verify_login(&key.public(), &later, &signature),
        Err(SignatureError)
    );
    assert_eq!(
        verify_login(&other.public(), &binding, &signature),
        Err(SignatureError)
    );
    for bit in [0, 255, 256, 511] {
        let mut bad = signature;
        bad[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(
            verify_login(&key.public(), &binding, &bad),
            Err(SignatureError)
        );
    }
    let zero = [0; SIGNATURE_BYTES];
    assert_eq!(
        verify_login(&key.public(), &binding, &zero),
        Err(SignatureError)
    );
}

#[test]
fn signature_covers_the_context_and_the_binding() {
    let key = ProgramKey::generate().unwrap();
    let signature = login_signature(&key, &[7; BINDING_BYTES]);
    let message = [b"trunkline login 1\0".as_slice(), &[7; 32]].concat();
    let verifier = UnparsedPublicKey::new(&ED25519, key.public().0);
    verifier.verify(&message, &signature).unwrap();
}

#[test]
fn text_of_a_public_key_is_parsed_with_and_without_padding() {
    let key: PublicKey = RFC_PUBLIC.parse().unwrap();
    assert_eq!(key.to_string(), RFC_PUBLIC);
    assert_eq!(RFC_PUBLIC.trim_end_matches('=').parse(), Ok(key));
    let bad = [
        ("", PublicKeyError::Prefix),
        (
            "Gb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=",
            PublicKeyError::Prefix,
        ),
        (
            "ED25519:Gb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=",
            PublicKeyError::Prefix,
        ),
        ("ed25519:", PublicKeyError::Length),
        (
            "ed25519:Gb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE==",
            PublicKeyError::Length,
        ),
        (
            "ed25519:Gb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZu=",
            PublicKeyError::Length,
        ),
        (
            "ed25519:Gb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZu E",
            PublicKeyError::Length,
        ),
        (
            "ed25519:Gb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZu-=",
            PublicKeyError::NotBase64,
        ),
        // Bits that no byte contains must be zero, so that a key has one text.
        (
            "ed25519:Gb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuF=",
            PublicKeyError::NotBase64,
        ),
    ];
    for (text, expected) in bad {
        assert_eq!(text.parse::<PublicKey>(), Err(expected), "{text}");
    }
}

#[test]
fn weak_keys_are_refused_because_anyone_can_sign_for_them() {
    // With the neutral element as public key, the signature R = neutral, S = 0 holds for every message.
    let mut neutral = [0; 32];
    neutral[0] = 1;
    let mut forged = [0; SIGNATURE_BYTES];
    forged[0] = 1;
    let accepted = verify_login(&PublicKey(neutral), &[7; 32], &forged);
    assert_eq!(accepted, Ok(()), "the library accepts what we must refuse");
    let mut count = 0;
    for y in WEAK_Y {
        for sign in [0, 0x80] {
            let mut bytes = y;
            bytes[31] |= sign;
            assert_eq!(PublicKey::from_bytes(bytes), Err(PublicKeyError::Weak));
            assert_eq!(
                PublicKey(bytes).to_string().parse::<PublicKey>(),
                Err(PublicKeyError::Weak)
            );
            count += 1;
        }
    }
    assert_eq!(count, 14);
}

#[test]
fn debug_output_has_no_secrets() {
    let key = ProgramKey::generate().unwrap();
    assert_eq!(format!("{key:?}"), format!("ProgramKey({})", key.public()));
}

proptest! {
    #[test]
    fn no_text_of_a_public_key_causes_a_panic(text in "(ed25519:)?[A-Za-z0-9+/=\u{e9}]{0,60}") {
        if let Ok(key) = text.parse::<PublicKey>() {
            prop_assert_eq!(key.to_string().parse(), Ok(key));
        }
    }

    #[test]
    fn no_private_key_causes_a_panic(content in proptest::collection::vec(any::<u8>(), 0..100)) {
        let _ = ProgramKey::from_pkcs8(Zeroizing::new(content));
    }
}
