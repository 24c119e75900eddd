//! Joining tokens, with which a new program gets an account for its key.
//!
//! ```text
//! K7PM-2QXD-9R4T-W3NB - 5HJC-8V6Y-ZAEF-G1S0
//! \______ secret _____/   \____ authority ____/
//!    80 random bits         first 80 bits of the SHA-256 of the authority's public key (SPKI)
//! ```
//!
//! The second half identifies the authority of the engine to the client, before the client sends
//! anything. Only the first half is sent.

mod pending;

pub use pending::{
    IssueError, JOINS_WRONG_MAX, JoinError, JoinGrant, Joined, PENDING_MAX, PendingTokens,
    TOKEN_LIFETIME, WRONG_PERIOD,
};

use std::fmt;

use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::fingerprint::Fingerprint;

/// Length of the secret part of a token, in bytes.
pub const SECRET_BYTES: usize = 10;

/// Length of the part of a token that identifies the authority, in bytes.
pub const AUTHORITY_BYTES: usize = 10;

/// Number of characters of a token, without dashes.
pub const TOKEN_CHARS: usize = 32;

/// Characters between two dashes.
const GROUP_CHARS: usize = 4;

/// Bits of a character.
const CHAR_BITS: usize = 5;

/// The digits of Crockford's base32: without I, L, O and U.
const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// Maximum length of a text that is parsed, in bytes.
const TEXT_BYTES_MAX: usize = 256;

const BYTES: usize = SECRET_BYTES + AUTHORITY_BYTES;
const _: () = assert!(BYTES * 8 == TOKEN_CHARS * CHAR_BITS);

/// A joining token. It is erased from memory when it is dropped, and `Debug` does not show it.
#[derive(Clone)]
pub struct JoinToken(Zeroizing<[u8; BYTES]>);

/// A text that is not a joining token.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TokenTextError {
    /// The text has too few or too many characters.
    #[error(
        "a joining token has {TOKEN_CHARS} characters, but this has {count}{}; copy the whole token",
        if *.is_longer { " or more" } else { "" }
    )]
    Length {
        /// Number of its characters without dashes and white space.
        count: usize,
        /// True if counting ended early because the text is far too long.
        is_longer: bool,
    },
    /// A character does not occur in tokens.
    #[error(
        "{character:?} (character {position}) does not occur in a joining token; a token has digits and the \
         letters A to Z except U; compare it with the original"
    )]
    Character {
        /// The character.
        character: char,
        /// Its number in the text, from 1, dashes included.
        position: usize,
    },
}

impl JoinToken {
    pub(crate) fn new(secret: &[u8; SECRET_BYTES], authority: &Fingerprint) -> Self {
        let mut bytes = Zeroizing::new([0; BYTES]);
        let (first, second) = bytes.split_at_mut(SECRET_BYTES);
        first.copy_from_slice(secret);
        second.copy_from_slice(authority_part(authority));
        Self(bytes)
    }

    /// Parses a token as a person types it: upper or lower case; dashes and white space anywhere or nowhere; O
    /// for 0, and I or L for 1.
    ///
    /// # Errors
    /// [`TokenTextError`] with the first character that is wrong, or the number of characters.
    pub fn parse(text: &str) -> Result<Self, TokenTextError> {
        let mut bytes = Zeroizing::new([0u8; BYTES]);
        let mut count: usize = 0;
        // The bits that do not fill a byte yet.
        let mut pending = Zeroizing::new(0u16);
        let mut pending_bits = 0;
        let mut filled = bytes.iter_mut();
        for (position, character) in (1..).zip(text.chars()) {
            if position > TEXT_BYTES_MAX {
                let is_longer = true;
                return Err(TokenTextError::Length { count, is_longer });
            }
            if character == '-' || character.is_whitespace() {
                continue;
            }
            let digit = digit(character).ok_or(TokenTextError::Character {
                character,
                position,
            })?;
            count = count.saturating_add(1);
            *pending = (*pending << CHAR_BITS) | u16::from(digit);
            pending_bits += CHAR_BITS;
            if pending_bits >= 8 {
                pending_bits -= 8;
                if let Some(byte) = filled.next() {
                    *byte = (*pending >> pending_bits).to_le_bytes()[0];
                }
                *pending &= (1 << pending_bits) - 1;
            }
        }
        match count {
            TOKEN_CHARS => Ok(Self(bytes)),
            count => Err(TokenTextError::Length {
                count,
                is_longer: false,
            }),
        }
    }

    /// Returns the text: upper case, in groups of four characters.
    pub fn to_text(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(2 * TOKEN_CHARS));
        let mut count: usize = 0;
        let mut pending = Zeroizing::new(0u16);
        let mut pending_bits = 0;
        for byte in self.0.iter() {
            *pending = (*pending << 8) | u16::from(*byte);
            pending_bits += 8;
            while pending_bits >= CHAR_BITS {
                pending_bits -= CHAR_BITS;
                let digit = usize::from(*pending >> pending_bits) % DIGITS.len();
                *pending &= (1 << pending_bits) - 1;
                if count > 0 && count.is_multiple_of(GROUP_CHARS) {
                    text.push('-');
                }
                text.push(char::from(*DIGITS.get(digit).unwrap_or(&b'0')));
                count = count.saturating_add(1);
            }
        }
        text
    }

    /// Returns the part that the client sends.
    pub fn secret(&self) -> &[u8; SECRET_BYTES] {
        // A token has more bytes than its secret part.
        self.0.first_chunk().unwrap_or(&[0; SECRET_BYTES])
    }

    /// Returns the first bytes of the SHA-256 of the public key (SPKI) of the engine's authority.
    pub fn authority(&self) -> &[u8; AUTHORITY_BYTES] {
        // A token has exactly these bytes after its secret part.
        self.0.last_chunk().unwrap_or(&[0; AUTHORITY_BYTES])
    }

    /// Returns true if the token was issued by an engine whose authority has the public key with this
    /// fingerprint. Otherwise the client must not send the token to that engine.
    pub fn is_of_authority(&self, authority: &Fingerprint) -> bool {
        let (_, part) = self.0.split_at(SECRET_BYTES);
        part.ct_eq(authority_part(authority)).into()
    }
}

impl fmt::Debug for JoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JoinToken(hidden)")
    }
}

fn authority_part(authority: &Fingerprint) -> &[u8] {
    let bytes = authority.as_bytes();
    bytes.split_at(AUTHORITY_BYTES).0
}

/// Returns the value of a digit of Crockford's base32.
fn digit(character: char) -> Option<u8> {
    let upper = match character.to_ascii_uppercase() {
        'O' => '0',
        'I' | 'L' => '1',
        upper => upper,
    };
    let found = (0..).zip(DIGITS).find(|(_, d)| char::from(**d) == upper);
    found.map(|(value, _)| value)
}

#[cfg(test)]
mod tests;
