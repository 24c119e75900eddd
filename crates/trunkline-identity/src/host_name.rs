//! The names of a machine in its certificate.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A name by which clients reach an engine.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum HostName {
    /// A DNS name in lower case, without the dot at its end.
    Dns(DnsName),
    /// An address.
    Address(IpAddr),
}

/// A DNS name: labels of letters, digits, `-` and `_`, joined by dots.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DnsName(String);

impl DnsName {
    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for DnsName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// A text that is neither a host name nor an address.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HostNameError {
    /// The text is empty.
    #[error("the host name is empty; write one such as plant7.example or 192.0.2.7")]
    Empty,
    /// The name has more than 253 characters.
    #[error("the host name has more than 253 characters; write a shorter one")]
    TooLong,
    /// The name has a label that is empty or has more than 63 characters, or begins or ends with `-`.
    #[error(
        "{name:?} is not a host name: each part between dots has 1 to 63 characters, and does not begin or end \
         with '-'"
    )]
    Label {
        /// The name.
        name: String,
    },
    /// The name has a character that host names cannot have.
    #[error(
        "{name:?} is not a host name, because of the character {character:?}; write letters, digits, '-' and \
         '.', and other letters in the form that begins with xn--"
    )]
    Character {
        /// The name.
        name: String,
        /// The character.
        character: char,
    },
    /// The last part of the name is a number, as in an address.
    #[error("{name:?} is neither an address nor a host name; write an address such as 192.0.2.7")]
    Number {
        /// The name.
        name: String,
    },
}

impl HostName {
    /// Parses an address or a host name. Upper case becomes lower case.
    ///
    /// # Errors
    /// [`HostNameError`] if the text is neither. Patterns (`*.example`) are refused: a certificate of an engine
    /// is for that engine alone.
    pub fn parse(text: &str) -> Result<Self, HostNameError> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self::Address(address.to_canonical()));
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        if name.is_empty() {
            return Err(HostNameError::Empty);
        }
        if name.len() > 253 {
            return Err(HostNameError::TooLong);
        }
        let is_permitted = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if let Some(character) = name.chars().find(|c| !is_permitted(*c)) {
            return Err(HostNameError::Character { name, character });
        }
        let is_label = |label: &str| {
            (1..=63).contains(&label.len()) && !label.starts_with('-') && !label.ends_with('-')
        };
        if !name.split('.').all(is_label) {
            return Err(HostNameError::Label { name });
        }
        let last = name.rsplit('.').next().unwrap_or_default();
        if last.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(HostNameError::Number { name });
        }
        Ok(Self::Dns(DnsName(name)))
    }
}

impl FromStr for HostName {
    type Err = HostNameError;

    fn from_str(text: &str) -> Result<Self, HostNameError> {
        Self::parse(text)
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dns(name) => f.write_str(&name.0),
            Self::Address(address) => write!(f, "{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn host_names_and_addresses_are_parsed() {
        let dns = |name: &str| HostName::Dns(DnsName(name.to_owned()));
        assert_eq!("Plant7.Example.".parse(), Ok(dns("plant7.example")));
        assert_eq!("localhost".parse(), Ok(dns("localhost")));
        assert_eq!(
            "xn--mller-kva.example".parse(),
            Ok(dns("xn--mller-kva.example"))
        );
        assert_eq!("plc_7".parse(), Ok(dns("plc_7")));
        let address = |text: &str| HostName::Address(text.parse().unwrap());
        assert_eq!("192.0.2.7".parse(), Ok(address("192.0.2.7")));
        assert_eq!("::1".parse(), Ok(address("::1")));
        assert_eq!("::ffff:192.0.2.7".parse(), Ok(address("192.0.2.7")));
    }

    #[test]
    fn other_texts_are_refused_with_the_reason() {
        let error = |text: &str| HostName::parse(text).unwrap_err();
        let name = |text: &str| text.to_owned();
        for empty in ["", "."] {
            assert_eq!(error(empty), HostNameError::Empty);
        }
        assert_eq!(error(&"a.".repeat(200)), HostNameError::TooLong);
        for text in ["a..b", ".a", "-a", "a-.b", "a.."] {
            assert!(matches!(error(text), HostNameError::Label { .. }), "{text}");
        }
        assert!(matches!(
            error(&"a".repeat(64)),
            HostNameError::Label { .. }
        ));
        for (text, character) in [
            ("*.example", '*'),
            ("a b", ' '),
            ("m\u{fc}ller", '\u{fc}'),
            ("a/b", '/'),
            ("a:5850", ':'),
            ("a\0", '\0'),
        ] {
            let expected = HostNameError::Character {
                name: name(text),
                character,
            };
            assert_eq!(error(text), expected);
        }
        for text in ["192.0.2", "1", "192.0.2.300", "example.7"] {
            assert_eq!(error(text), HostNameError::Number { name: name(text) });
        }
    }

    proptest! {
        #[test]
        fn no_text_causes_a_panic(text in "[a-z0-9.:_-]{0,70}.{0,2}") {
            if let Ok(name) = HostName::parse(&text) {
                prop_assert_eq!(name.to_string().parse(), Ok(name));
            }
        }
    }
}
