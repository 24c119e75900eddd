//! Password hashes: Argon2id in PHC string format.

use std::fmt;
use std::str::FromStr;

use argon2::password_hash::phc;
use argon2::{ARGON2ID_IDENT, Algorithm, Argon2, Params, Version};
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use subtle::{Choice, ConstantTimeEq};
use zeroize::Zeroizing;

use super::{PASSWORD_BYTES_MAX, Password, PasswordRuleError};
use crate::random::{self, RandomError};

/// Memory of a hash, in KiB: 19 MiB.
///
/// With two passes and one lane, this is the minimum that OWASP recommends for Argon2id. More would make an
/// engine on a small machine miss its other work. One hash takes 21 ms on one core of an AMD EPYC (release build,
/// November 2026; `examples/timing.rs` measures it).
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

/// The hash of a password, in a text form such as
/// `$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHRzYWx0$aGFzaA...`.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash {
    costs: Costs,
    salt: Vec<u8>,
    output: Vec<u8>,
}

/// The parameters of Argon2id.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Costs {
    /// In KiB.
    memory: u32,
    passes: u32,
    lanes: u32,
}

/// The costs of new hashes.
const COSTS: Costs = Costs {
    memory: MEMORY_KIB,
    passes: PASSES,
    lanes: LANES,
};

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
        "a password hash has a form such as `$argon2id$v=19$m=19456,t=2,p=1$SALT$HASH`; set the password again"
    )]
    Form,
    /// The hash is by another function than Argon2id in version 19.
    #[error(
        "the password hash was not created with argon2id version 19, the only supported function; \
         set the password again"
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
        let salt = random::bytes::<SALT_BYTES>()?.to_vec();
        let mut output = vec![0; OUTPUT_BYTES];
        compute(password.as_bytes(), &salt, COSTS, &mut output)?;
        Ok(Self {
            costs: COSTS,
            salt,
            output,
        })
    }

    /// Returns a hash whose verification costs as much as that of a hash by [`PasswordHash::of`]. Passwords
    /// compared with it are refused, whatever the outcome is.
    pub(crate) fn dummy() -> Self {
        Self {
            costs: COSTS,
            salt: vec![0; SALT_BYTES],
            output: vec![0; OUTPUT_BYTES],
        }
    }

    /// Compares a password with the hash. The time depends on the parameters of the hash, and not on the
    /// password, except on its length.
    ///
    /// A password longer than [`PASSWORD_BYTES_MAX`] does not match, and takes the time of an empty one.
    ///
    /// # Errors
    /// [`HashError::Memory`] if there is not enough memory.
    pub(super) fn matches(&self, password: &Password) -> Result<Choice, HashError> {
        let is_bounded = password.as_bytes().len() <= PASSWORD_BYTES_MAX;
        let bytes = match is_bounded {
            true => password.as_bytes(),
            false => &[],
        };
        let mut output = Zeroizing::new(vec![0; self.output.len()]);
        compute(bytes, &self.salt, self.costs, &mut output)?;
        Ok(output.ct_eq(&self.output) & Choice::from(u8::from(is_bounded)))
    }

    /// Returns true if the hash was made with other parameters than new hashes. Its verification then takes
    /// another time than that of an unknown account, which reveals that the account exists. Setting the
    /// password again removes the difference.
    pub fn is_outdated(&self) -> bool {
        self.costs != COSTS
    }
}

/// Computes a hash of `output.len()` bytes.
fn compute(password: &[u8], salt: &[u8], costs: Costs, output: &mut [u8]) -> Result<(), HashError> {
    let Costs {
        memory,
        passes,
        lanes,
    } = costs;
    // The parameters and lengths are permitted ones, so only memory can be missing.
    let params = Params::new(memory, passes, lanes, Some(output.len()));
    let params = params.map_err(|_| HashError::Memory)?;
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into(password, salt, output)
        .map_err(|_| HashError::Memory)
}

#[cfg(test)]
impl PasswordHash {
    /// Makes this the hash of a text, without any rule.
    pub(super) fn set_output_of(&mut self, text: &[u8]) {
        compute(text, &self.salt, self.costs, &mut self.output).unwrap();
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
        let has_other_inputs = !params.keyid().is_empty() || !params.data().is_empty();
        if has_other_inputs || salt.len() < argon2::MIN_SALT_LEN {
            return Err(HashTextError::Form);
        }
        Ok(Self {
            costs: Costs {
                memory,
                passes,
                lanes,
            },
            salt: salt.to_vec(),
            output: output.as_bytes().to_vec(),
        })
    }
}

/// Formats the text for the file of the accounts.
impl fmt::Display for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Costs {
            memory,
            passes,
            lanes,
        } = self.costs;
        let base64 = |bytes: &[u8]| STANDARD_NO_PAD.encode(bytes);
        let (salt, output) = (base64(&self.salt), base64(&self.output));
        write!(
            f,
            "$argon2id$v=19$m={memory},t={passes},p={lanes}${salt}${output}"
        )
    }
}

/// Does not show the hash, because it helps to guess the password.
impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordHash(hidden)")
    }
}
