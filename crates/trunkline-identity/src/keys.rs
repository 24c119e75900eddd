//! The Ed25519 keys by which programs prove their identity.
//!
//! A program proves that it has the private key by signing keying material of its connection. The
//! material differs for each connection, so a recorded signature proves nothing on another one.
//!
//! Only the PKCS #8 form of a private key is erased from memory when it is dropped. `ring` keeps the expanded
//! key without erasing it.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use zeroize::Zeroizing;

use crate::files::{self, Existing, FileError, Secrecy};
use crate::pem::{self, PRIVATE_KEY, PemError};
use crate::random::{self, RandomError};

/// Length of a signature, in bytes.
pub const SIGNATURE_BYTES: usize = 64;

/// Length of the keying material of a connection that a signature covers, in bytes.
pub const BINDING_BYTES: usize = 32;

/// Maximum size of a private key file, in bytes.
pub const KEY_FILE_BYTES_MAX: usize = 16 << 10;

/// The prefix that a login signature covers, before the keying material. No other signature by this key may
/// cover data with this prefix.
const LOGIN_CONTEXT: &[u8] = b"trunkline login 1\0";

/// The DER of an Ed25519 key in PKCS #8 (RFC 8410, version 1, which all tools read), up to its 32 bytes.
const PKCS8_PREFIX: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

/// The private key of a program, with its public key.
pub struct ProgramKey {
    pair: Ed25519KeyPair,
    public: PublicKey,
    pkcs8: Zeroizing<Vec<u8>>,
}

/// An error when a private key file is read or written.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read or written, or others can access it.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file does not contain a private key in PEM form.
    #[error("{path}: {error}")]
    Pem {
        /// The file, quoted as one shell word.
        path: String,
        /// The reason.
        error: PemError,
    },
    /// The key is not an Ed25519 key.
    #[error(
        "{path} does not contain an Ed25519 key in PKCS #8 ({reason}); specify the correct file, \
         or create a new key"
    )]
    NotEd25519 {
        /// The file, quoted as one shell word.
        path: String,
        /// The reason, from the library that reads the key.
        reason: String,
    },
    /// The random generator of the system failed.
    #[error(transparent)]
    Random(#[from] RandomError),
}

impl ProgramKey {
    /// Generates a key, without saving it.
    ///
    /// # Errors
    /// [`RandomError`] if the system's random generator fails.
    pub fn generate() -> Result<Self, RandomError> {
        let mut pkcs8 = Zeroizing::new(Vec::with_capacity(PKCS8_PREFIX.len() + 32));
        pkcs8.extend_from_slice(&PKCS8_PREFIX);
        pkcs8.extend_from_slice(&*random::bytes::<32>()?);
        // The form is correct by construction.
        Self::from_pkcs8(pkcs8).map_err(|_| RandomError)
    }

    /// Generates a key and saves it as a new file with mode 0600. Creates a missing folder with mode 0700.
    ///
    /// # Errors
    /// [`KeyError::File`] with [`FileError::Exists`] if a file is there: a key is never overwritten.
    pub fn create(path: &Path) -> Result<Self, KeyError> {
        let key = Self::generate()?;
        files::create_folder(files::folder_of(path))?;
        let text = pem::encode(PRIVATE_KEY, &key.pkcs8);
        files::write(path, text.as_bytes(), Secrecy::Private, Existing::Refuse)?;
        Ok(key)
    }

    /// Loads a key from a PEM file, which may have been made by other tools (`openssl genpkey -algorithm
    /// ed25519`).
    ///
    /// # Errors
    /// [`KeyError::File`] if the file is not a regular file, if its owner is neither this program's user nor
    /// root, or if other users can access it; otherwise, an error for its content.
    pub fn load(path: &Path) -> Result<Self, KeyError> {
        let text = files::read(path, Secrecy::Private, KEY_FILE_BYTES_MAX)?;
        let shown = || files::ShellWord(path).to_string();
        let pkcs8 = pem::first(&text, PRIVATE_KEY).map_err(|error| KeyError::Pem {
            path: shown(),
            error,
        })?;
        Self::from_pkcs8(pkcs8).map_err(|rejected| KeyError::NotEd25519 {
            path: shown(),
            reason: rejected.to_string(),
        })
    }

    fn from_pkcs8(pkcs8: Zeroizing<Vec<u8>>) -> Result<Self, ring::error::KeyRejected> {
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(&pkcs8)?;
        let mut public = [0; 32];
        public.copy_from_slice(pair.public_key().as_ref());
        Ok(Self {
            pair,
            public: PublicKey(public),
            pkcs8,
        })
    }

    /// Returns the public key.
    pub fn public(&self) -> PublicKey {
        self.public
    }
}

/// Shows the public key only.
impl fmt::Debug for ProgramKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProgramKey({})", self.public)
    }
}

/// Signs the keying material of a connection, to prove on this connection that the program has the key.
///
/// `binding` is what the connection exported with the label `EXPORTER-Channel-Binding` (RFC 9266).
pub fn login_signature(key: &ProgramKey, binding: &[u8; BINDING_BYTES]) -> [u8; SIGNATURE_BYTES] {
    let mut signature = [0; SIGNATURE_BYTES];
    let signed = key.pair.sign(&login_message(binding));
    signature.copy_from_slice(signed.as_ref());
    signature
}

/// Verifies that the peer of a connection has the private key of `public`.
///
/// Verify before the account of the key is looked up, so that only the holder of a key learns whether an
/// account has it.
///
/// # Errors
/// [`SignatureError`] if `signature` was not made with that key for the connection with this `binding`.
pub fn verify_login(
    public: &PublicKey,
    binding: &[u8; BINDING_BYTES],
    signature: &[u8; SIGNATURE_BYTES],
) -> Result<(), SignatureError> {
    UnparsedPublicKey::new(&ED25519, public.0)
        .verify(&login_message(binding), signature)
        .map_err(|_| SignatureError)
}

fn login_message(binding: &[u8; BINDING_BYTES]) -> [u8; LOGIN_CONTEXT.len() + BINDING_BYTES] {
    let mut message = [0; LOGIN_CONTEXT.len() + BINDING_BYTES];
    let (context, rest) = message.split_at_mut(LOGIN_CONTEXT.len());
    context.copy_from_slice(LOGIN_CONTEXT);
    rest.copy_from_slice(binding);
    message
}

/// A signature was not made with the key, or not for this connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "the signature does not prove the key on this connection; the client, or a proxy between the client and \
     the engine, is at fault"
)]
pub struct SignatureError;

/// An Ed25519 public key. Its text form is `ed25519:` and base64.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey([u8; 32]);

/// A public key that cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PublicKeyError {
    /// The text does not begin with `ed25519:`.
    #[error("a public key begins with `ed25519:`; copy the whole key")]
    Prefix,
    /// The text after the prefix is not base64.
    #[error("the part after `ed25519:` is not base64; copy the whole key")]
    NotBase64,
    /// The key has a length other than 32 bytes.
    #[error("the key does not have 32 bytes; copy the whole key")]
    Length,
    /// Signatures of the key prove nothing.
    #[error(
        "the key is one of the 14 weak keys, for which anyone can make signatures; create a new key"
    )]
    Weak,
}

const PUBLIC_PREFIX: &str = "ed25519:";

impl PublicKey {
    /// Returns the key with these bytes.
    ///
    /// # Errors
    /// [`PublicKeyError::Weak`] for the points of small order, with which a signature can be forged.
    pub fn from_bytes(bytes: [u8; 32]) -> Result<Self, PublicKeyError> {
        match is_weak(&bytes) {
            true => Err(PublicKeyError::Weak),
            false => Ok(Self(bytes)),
        }
    }

    /// Returns the bytes of the key.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl FromStr for PublicKey {
    type Err = PublicKeyError;

    /// Parses `ed25519:` and base64, with or without padding.
    fn from_str(text: &str) -> Result<Self, PublicKeyError> {
        let base64 = text
            .strip_prefix(PUBLIC_PREFIX)
            .ok_or(PublicKeyError::Prefix)?;
        // 32 bytes are 43 characters of base64, or 44 with padding. A longer text needs no decoding.
        let base64 = base64.strip_suffix('=').unwrap_or(base64);
        let mut padded = [b'='; 44];
        let (characters, _) = padded.split_at_mut(43);
        if base64.len() != characters.len() {
            return Err(PublicKeyError::Length);
        }
        characters.copy_from_slice(base64.as_bytes());
        let mut bytes = [0; 33];
        let decoded = STANDARD.decode_slice(padded, &mut bytes);
        decoded.map_err(|_| PublicKeyError::NotBase64)?;
        let (bytes, _) = bytes
            .split_first_chunk::<32>()
            .ok_or(PublicKeyError::Length)?;
        Self::from_bytes(*bytes)
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PUBLIC_PREFIX}{}", STANDARD.encode(self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Returns true for the encodings of the eight points of small order, and for the other encodings that some
/// libraries decode to them.
fn is_weak(bytes: &[u8; 32]) -> bool {
    // The sign bit does not matter: a point and its negative have the same order.
    let mut y = *bytes;
    if let Some(last) = y.last_mut() {
        *last &= 0x7f;
    }
    WEAK_Y.contains(&y)
}

/// The y-coordinates of the points of small order, in little-endian: 0, 1, the two of order 8, and p-1; then
/// p and p+1, which are other encodings of 0 and 1.
const WEAK_Y: [[u8; 32]; 7] = [
    y_ending(0x00, 0x00, 0x00),
    y_ending(0x01, 0x00, 0x00),
    [
        0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98,
        0xf0, 0xd5, 0xdf, 0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53,
        0xfc, 0x05,
    ],
    [
        0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67,
        0x0f, 0x2a, 0x20, 0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac,
        0x03, 0x7a,
    ],
    y_ending(0xec, 0xff, 0x7f),
    y_ending(0xed, 0xff, 0x7f),
    y_ending(0xee, 0xff, 0x7f),
];

/// Returns the 32 bytes `first`, 30 times `middle`, `last`.
const fn y_ending(first: u8, middle: u8, last: u8) -> [u8; 32] {
    let mut y = [middle; 32];
    y[0] = first;
    y[31] = last;
    y
}

#[cfg(test)]
mod tests;
