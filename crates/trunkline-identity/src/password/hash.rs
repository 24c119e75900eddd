//! Password hashes: Argon2id in PHC string format.

use std::fmt;
use std::str::FromStr;

use argon2::password_hash::phc::{self, Output, ParamsString, Salt};
use argon2::{ARGON2ID_IDENT, Algorithm, Argon2, Params, Version};
use subtle::{Choice, ConstantTimeEq};
use zeroize::Zeroizing;

use super::{PASSWORD_CHARS_MAX, Password, PasswordRuleError};
use crate::random::{self, RandomError};

/// Memory of a hash, in KiB: 19 MiB.
///
/// With two passes and one lane, this is the minimum that OWASP recommends for Argon2id. More would make an
/// engine on a small machine miss its other work. One hash takes 25 ms on one core of a server of 2020.
const MEMORY_KIB: u32 = 19 << 10;

/// Passes over the memory.
const PASSES: u32 = 2;

/// Lanes, which are computed one after the other.
const LANES: u32 = 1;

/// Length of a salt and of a hash, in bytes.
const SALT_BYTES: usize = 16;
const OUTPUT_BYTES: usize = 32;

/// Maximum memory of a hash from a file, in KiB: 256 MiB.
pub(super) const MEMORY_KIB_MAX: u32 = 256 << 10;

/// Maximum number of passes of a hash from a file.
pub(super) const PASSES_MAX: u32 = 16;

/// Maximum number of lanes of a hash from a file.
const LANES_MAX: u32 = 16;

/// Minimum length of a hash from a file, in bytes. A short hash is matched by other passwords as well.
const OUTPUT_BYTES_MIN: usize = 16;

/// Maximum length of the text of a hash, in bytes.
const TEXT_BYTES_MAX: usize = 512;

/// The hash of a password. It is a text such as
/// `$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHRzYWx0$aGFzaA...`.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash {
    hash: phc::PasswordHash,
    params: Params,
    salt: Salt,
    output: Output,
}

/// A password that cannot be hashed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HashError {
    /// The password violates a rule.
    #[error(transparent)]
    Rule(#[from] PasswordRuleError),
    /// The random generator of the system failed.
    #[error(transparent)]
    Random(#[from] RandomError),
    /// There is not enough memory for the hash.
    #[error("there is not enough memory for a password hash, which needs 19 MiB; try again later")]
    Memory,
}

/// A text that is not a usable password hash.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HashTextError {
    /// The text is not in PHC string format.
    #[error(
        "a password hash is a text such as `$argon2id$v=19$m=19456,t=2,p=1$SALT$HASH`; set the password again"
    )]
    Form,
    /// The hash is by another function than Argon2id in version 19.
    #[error(
        "the password hash is not by argon2id version 19, the only supported function; set the password again"
    )]
    Function,
    /// Verification would need too much memory or time.
    #[error(
        "the password hash costs too much (m={memory}, t={passes}, p={lanes}; at most m={MEMORY_KIB_MAX}, \
         t={PASSES_MAX}, p={LANES_MAX}), so that logins would delay the engine; set the password again"
    )]
    TooCostly {
        /// Memory in KiB.
        memory: u32,
        /// Number of passes.
        passes: u32,
        /// Number of lanes.
        lanes: u32,
    },
    /// The hash has too few bytes to tell passwords apart.
    #[error("the password hash is shorter than {OUTPUT_BYTES_MIN} bytes; set the password again")]
    TooShort,
}

impl PasswordHash {
    /// Hashes a new password with a random salt. This takes about 25 ms and 19 MiB.
    ///
    /// # Errors
    /// [`HashError`] if the password violates a rule, or the system lacks memory or random bytes.
    pub fn of(password: &Password) -> Result<Self, HashError> {
        password.check_rules()?;
        let salt = random::bytes::<SALT_BYTES>()?;
        Self::compute(password, &*salt)
    }

    /// Returns a hash that no password has, and whose verification costs as much as that of a hash by
    /// [`PasswordHash::of`].
    pub(crate) fn dummy() -> Result<Self, RandomError> {
        let salt = random::bytes::<SALT_BYTES>()?;
        // Finding a password with this output is as hard as inverting the hash.
        let output = random::bytes::<OUTPUT_BYTES>()?;
        Self::from_parts(&*salt, &*output).ok_or(RandomError)
    }

    fn compute(password: &Password, salt: &[u8]) -> Result<Self, HashError> {
        let params = Params::new(MEMORY_KIB, PASSES, LANES, Some(OUTPUT_BYTES));
        let params = params.map_err(|_| HashError::Memory)?;
        let mut output = Zeroizing::new([0; OUTPUT_BYTES]);
        let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
        // The lengths of the inputs are permitted ones, so only memory can be missing.
        argon2
            .hash_password_into(password.as_bytes(), salt, &mut *output)
            .map_err(|_| HashError::Memory)?;
        Self::from_parts(salt, &*output).ok_or(HashError::Memory)
    }

    fn from_parts(salt: &[u8], output: &[u8]) -> Option<Self> {
        let params = Params::new(MEMORY_KIB, PASSES, LANES, Some(output.len())).ok()?;
        let (salt, output) = (Salt::new(salt).ok()?, Output::new(output).ok()?);
        let hash = phc::PasswordHash {
            algorithm: ARGON2ID_IDENT,
            version: Some(Version::V0x13.into()),
            params: ParamsString::try_from(&params).ok()?,
            salt: Some(salt),
            hash: Some(output),
        };
        Some(Self {
            hash,
            params,
            salt,
            output,
        })
    }

    /// Compares a password with the hash. The time depends on the parameters of the hash, and not on the
    /// password, except on its length.
    ///
    /// A password longer than [`PASSWORD_CHARS_MAX`] does not match, and takes the time of an empty one.
    ///
    /// # Errors
    /// [`HashError::Memory`] if there is not enough memory.
    pub(super) fn matches(&self, password: &Password) -> Result<Choice, HashError> {
        let is_bounded = password.as_bytes().len() <= 4 * PASSWORD_CHARS_MAX;
        let bytes = match is_bounded {
            true => password.as_bytes(),
            false => &[],
        };
        let expected = self.output.as_bytes();
        let mut output = Zeroizing::new(vec![0; expected.len()]);
        Argon2::new(Algorithm::Argon2id, Version::V0x13, self.params.clone())
            .hash_password_into(bytes, self.salt.as_ref(), &mut output)
            .map_err(|_| HashError::Memory)?;
        Ok(output.as_slice().ct_eq(expected) & Choice::from(u8::from(is_bounded)))
    }

    /// Returns true if the hash was made with other parameters than new hashes. Its verification then takes
    /// another time than that of an unknown account, which tells that the account exists. Setting the
    /// password again removes the difference.
    pub fn is_outdated(&self) -> bool {
        let costs = (
            self.params.m_cost(),
            self.params.t_cost(),
            self.params.p_cost(),
        );
        costs != (MEMORY_KIB, PASSES, LANES)
    }
}

impl FromStr for PasswordHash {
    type Err = HashTextError;

    fn from_str(text: &str) -> Result<Self, HashTextError> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(HashTextError::Form);
        }
        let hash = phc::PasswordHash::new(text).map_err(|_| HashTextError::Form)?;
        let is_supported =
            hash.algorithm == ARGON2ID_IDENT && hash.version == Some(Version::V0x13.into());
        if !is_supported {
            return Err(HashTextError::Function);
        }
        let (Some(salt), Some(output)) = (hash.salt, hash.hash) else {
            return Err(HashTextError::Form);
        };
        if output.len() < OUTPUT_BYTES_MIN {
            return Err(HashTextError::TooShort);
        }
        let params = Params::try_from(&hash).map_err(|_| HashTextError::Form)?;
        let (memory, passes, lanes) = (params.m_cost(), params.t_cost(), params.p_cost());
        if memory > MEMORY_KIB_MAX || passes > PASSES_MAX || lanes > LANES_MAX {
            return Err(HashTextError::TooCostly {
                memory,
                passes,
                lanes,
            });
        }
        if salt.len() < argon2::MIN_SALT_LEN {
            return Err(HashTextError::Form);
        }
        Ok(Self {
            hash,
            params,
            salt,
            output,
        })
    }
}

/// Formats the text for the file of the accounts.
impl fmt::Display for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.hash, f)
    }
}

/// Does not show the hash, because it helps to guess the password.
impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordHash(hidden)")
    }
}
