//! Random bytes from the system.

use ring::rand::{SecureRandom, SystemRandom};
use zeroize::Zeroizing;

/// The system has no random bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "the random generator of the system failed; check that this program can use getrandom or /dev/urandom"
)]
pub struct RandomError;

/// Returns random bytes, which are erased from memory when they are dropped.
pub(crate) fn bytes<const N: usize>() -> Result<Zeroizing<[u8; N]>, RandomError> {
    let mut bytes = Zeroizing::new([0; N]);
    let filled = SystemRandom::new().fill(&mut *bytes);
    filled.map_err(|_| RandomError)?;
    Ok(bytes)
}
