//! The fingerprint of a public key.

use std::fmt;
use std::str::FromStr;

use ring::digest::{SHA256, digest};

/// The SHA-256 of the public key (SPKI) of a certificate. Its text form is `sha256:` and hexadecimal digits.
///
/// It identifies the key, so it stays the same when the certificate is renewed for the same key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; 32]);

/// A text that is not a fingerprint.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FingerprintError {
    /// The text does not begin with `sha256:`.
    #[error("a fingerprint begins with `sha256:`; copy the whole fingerprint")]
    Prefix,
    /// The text does not have 64 hexadecimal digits after the prefix.
    #[error("a fingerprint has 64 hexadecimal digits after `sha256:`; copy the whole fingerprint")]
    Digits,
}

const PREFIX: &str = "sha256:";

impl Fingerprint {
    /// Returns the fingerprint of a public key in DER (SubjectPublicKeyInfo).
    pub fn of_spki(spki: &[u8]) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest(&SHA256, spki).as_ref());
        Self(bytes)
    }

    /// Returns the fingerprint with these bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl FromStr for Fingerprint {
    type Err = FingerprintError;

    /// Parses `sha256:` and 64 hexadecimal digits in upper or lower case, with or without a colon after every
    /// second one.
    fn from_str(text: &str) -> Result<Self, FingerprintError> {
        let digits = text.strip_prefix(PREFIX).ok_or(FingerprintError::Prefix)?;
        let has_colons = digits.contains(':');
        let mut characters = digits.chars();
        let mut bytes = [0; 32];
        for (index, byte) in bytes.iter_mut().enumerate() {
            if has_colons && index > 0 && characters.next() != Some(':') {
                return Err(FingerprintError::Digits);
            }
            for _ in 0..2 {
                let digit = characters.next().and_then(|digit| digit.to_digit(16));
                let digit = digit.ok_or(FingerprintError::Digits)?;
                *byte = (*byte << 4) | digit as u8;
            }
        }
        match characters.next() {
            None => Ok(Self(bytes)),
            Some(_) => Err(FingerprintError::Digits),
        }
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PREFIX)?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fingerprint_of_nothing_is_the_known_digest() {
        let text = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Fingerprint::of_spki(b"").to_string(), text);
        assert_eq!(text.parse(), Ok(Fingerprint::of_spki(b"")));
        assert_eq!(
            text.to_uppercase().replace("SHA", "sha").parse(),
            Ok(Fingerprint::of_spki(b""))
        );
        let (_, digits) = text.split_once(':').unwrap();
        let bytes = digits.as_bytes().chunks(2);
        let digits: Vec<_> = bytes
            .map(|byte| std::str::from_utf8(byte).unwrap())
            .collect();
        let with_colons = format!("sha256:{}", digits.join(":"));
        assert_eq!(with_colons.parse(), Ok(Fingerprint::of_spki(b"")));
    }

    #[test]
    fn wrong_texts_are_refused() {
        let good = Fingerprint::of_spki(b"").to_string();
        let bad = [
            String::new(),
            good.replace("sha256:", ""),
            good.replace("sha256", "sha1"),
        ];
        for text in bad {
            assert_eq!(
                text.parse::<Fingerprint>(),
                Err(FingerprintError::Prefix),
                "{text}"
            );
        }
        let bad = [
            good.replace("e3", ""),
            good.replace("e3", "e3e3"),
            good.replace("e3", "g3"),
            good.replace("e3", "e3:"),
            good.replace("sha256:", "sha256::"),
            good.replace("e3", "\u{e9}3"),
            "sha256:".to_owned(),
        ];
        for text in bad {
            assert_eq!(
                text.parse::<Fingerprint>(),
                Err(FingerprintError::Digits),
                "{text}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_text_causes_a_panic(text in "(sha256:)?[0-9a-f:]{0,100}.{0,3}") {
            if let Ok(fingerprint) = text.parse::<Fingerprint>() {
                prop_assert_eq!(fingerprint.to_string().parse(), Ok(fingerprint));
            }
        }
    }
}
