//! The passwords of people: rules, hashes, and verification with bounded cost.

mod hash;
mod verifier;

pub use hash::{HashError, HashTextError, PasswordHash};
pub use verifier::{
    PasswordCandidate, PasswordCheck, PasswordVerifier, VERIFICATIONS_MAX, WAITING_MAX,
};

use std::fmt;

use zeroize::Zeroizing;

/// Minimum number of characters of a new password.
pub const PASSWORD_CHARS_MIN: usize = 12;

/// Maximum length of a password in bytes of UTF-8, which is also the limit of the login.
pub const PASSWORD_BYTES_MAX: usize = 256;

/// A password in clear. It is erased from memory when it is dropped, and no format shows it.
///
/// The characters are used as they are: a person must type the same characters each time. In particular,
/// an accented letter as one character and as a letter with a combining accent differ.
pub struct Password(Zeroizing<String>);

impl Password {
    /// Takes a password, without any check: for a login, a wrong password has the same outcome whatever its
    /// form is.
    ///
    /// `text` should have been created with its final capacity, because a text that grows leaves copies of
    /// itself in memory.
    pub fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    /// Checks whether this may become the password of an account.
    ///
    /// # Errors
    /// [`PasswordRuleError`] if it is too short or too long.
    pub fn check_rules(&self) -> Result<(), PasswordRuleError> {
        let count = self.0.chars().count();
        if count < PASSWORD_CHARS_MIN {
            return Err(PasswordRuleError::TooShort { count });
        }
        let bytes = self.0.len();
        if bytes > PASSWORD_BYTES_MAX {
            return Err(PasswordRuleError::TooLong { bytes });
        }
        Ok(())
    }

    fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl From<Zeroizing<String>> for Password {
    fn from(text: Zeroizing<String>) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(hidden)")
    }
}

/// A text that cannot become a password.
///
/// There is no rule about kinds of characters: such rules lead to predictable passwords, and length makes
/// guessing harder.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PasswordRuleError {
    /// The password has fewer than [`PASSWORD_CHARS_MIN`] characters.
    #[error(
        "the password has {count} characters, but needs at least {PASSWORD_CHARS_MIN}, because \
         programs guess shorter ones; several words with spaces make a good password"
    )]
    TooShort {
        /// Number of its characters.
        count: usize,
    },
    /// The password has more than [`PASSWORD_BYTES_MAX`] bytes.
    #[error(
        "the password has {bytes} bytes, but a login takes at most {PASSWORD_BYTES_MAX}; use a shorter one"
    )]
    TooLong {
        /// Its length in bytes of UTF-8.
        bytes: usize,
    },
}

#[cfg(test)]
mod tests;
