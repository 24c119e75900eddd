//! Stores strings of files, which may not be valid UTF-8.

use std::borrow::{Borrow, Cow};
use std::fmt;

/// A string of a file. Some files contain strings that are not UTF-8, so the bytes are kept
/// unchanged. For display, they are decoded with replacement characters.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Text(Box<[u8]>);

impl Text {
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the text for display, without one trailing NUL character and with U+FFFD in place of
    /// invalid UTF-8.
    pub fn to_str(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.0.strip_suffix(&[0]).unwrap_or(&self.0))
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().into())
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(text.into_bytes().into())
    }
}

impl From<&[u8]> for Text {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }
}

impl From<Vec<u8>> for Text {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }
}

impl Borrow<[u8]> for Text {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        *self.0 == *other.as_bytes()
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        *self == **other
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.to_str())
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&String::from_utf8_lossy(&self.0), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_utf8_is_kept_and_shown_with_replacements() {
        let text = Text::from(&b"20 \xb0C\0"[..]);
        assert_eq!(text.to_string(), "20 \u{fffd}C");
        assert_eq!(text.as_bytes(), b"20 \xb0C\0");
    }
}
