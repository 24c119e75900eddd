//! The parts of HELLO with which a client proves its identity.
//!
//! A proof with a key costs no round trip: the client signs keying material that both ends derive
//! from the TLS connection (RFC 9266). The material differs for each connection, so nobody can
//! use a recorded proof again, and a third party between the two ends has different material.

use std::fmt;

use zeroize::Zeroize;

use super::form::{Fixed, forms};
use super::layout::{FieldValue, record};
use crate::limits::HELLO_TEXT_BYTES_MAX;

/// Number of bytes of the keying material that a proof signs.
pub const BINDING_BYTES: usize = 32;

/// Number of random bytes of a joining token.
pub const TOKEN_BYTES: usize = 10;

record! {
    /// A public key, and the proof that the client has its private key.
    #[derive(Copy, Eq)]
    pub struct KeyProof {
        /// An Ed25519 public key.
        pub public_key: [u8; 32] = Fixed,
        /// The Ed25519 signature over `trunkline login 1`, a zero byte, and the connection's keying
        /// material.
        pub signature: [u8; 64] = Fixed,
    }
}

/// The secret part of a joining token. `Debug` does not show it, and its memory is erased when it
/// is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenSecret(pub [u8; TOKEN_BYTES]);

/// A password. `Debug` does not show it, and its memory is erased when it is dropped.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Password(String);

/// The password is longer than a HELLO can carry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the password has more than {HELLO_TEXT_BYTES_MAX} bytes; use a shorter one")]
pub struct PasswordTooLong;

impl Password {
    /// # Errors
    /// The password has more than 256 bytes.
    pub fn new(text: String) -> Result<Self, PasswordTooLong> {
        let password = Self(text);
        match password.0.len() > HELLO_TEXT_BYTES_MAX {
            true => Err(PasswordTooLong),
            false => Ok(password),
        }
    }

    /// Returns the password in clear text.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The text to show in place of a secret.
const HIDDEN: &str = "(hidden)";

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

impl Drop for Password {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for TokenSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

impl Drop for TokenSecret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// A password up to the end of a field. The golden vectors do not show it.
#[derive(Debug)]
pub enum PasswordText {}

/// A token's secret part. The golden vectors do not show it.
#[derive(Debug)]
pub enum TokenText {}

forms! {
    PasswordText: Password, 0,
        |out, password, _| out.extend_from_slice(password.0.as_bytes()),
        |field, _| {
            let text = field.rest_text()?;
            let length = text.len() as u64;
            Password::new(text.to_owned())
                .map_err(|_| field.unexpected("a password of at most 256 bytes", length))
        },
        |_, name, to| to.field(name, FieldValue::Text(HIDDEN)),
        |source, _| Password(source.text().chars().take(60).collect());
    TokenText: TokenSecret, TOKEN_BYTES,
        |out, secret, _| out.extend_from_slice(&secret.0),
        |field, _| field.read(|reader| reader.array()).map(TokenSecret),
        |_, name, to| to.field(name, FieldValue::Text(HIDDEN)),
        |source, _| TokenSecret(std::array::from_fn(|_| source.number() as u8));
}
