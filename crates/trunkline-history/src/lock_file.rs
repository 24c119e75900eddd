//! The lock of a folder: only one engine or command at a time may change it.

use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::Path;

use crate::error::Error;

/// Name of the lock file in the folder of a history.
pub const LOCK: &str = "lock";
/// Maximum number of attempts to take the lock while only [`is_held`] in other processes holds it briefly.
const ATTEMPTS: u32 = 10_000;

/// Locks the folder until the returned file is dropped.
///
/// # Errors
/// [`Error::InUse`].
pub(crate) fn hold(folder: &Path) -> Result<File, Error> {
    let file = match File::create(folder.join(LOCK)) {
        // An existing file can be locked nevertheless.
        Err(error) if error.kind() == ErrorKind::ReadOnlyFilesystem => {
            File::open(folder.join(LOCK))?
        }
        file => file?,
    };
    for _ in 0..ATTEMPTS {
        if is_free(file.try_lock())? {
            return Ok(file);
        }
        // An engine holds its lock exclusively.
        if !is_free(file.try_lock_shared())? {
            break;
        }
        file.unlock()?;
        std::thread::yield_now();
    }
    Err(Error::InUse)
}

fn is_free(locked: Result<(), TryLockError>) -> Result<bool, Error> {
    match locked {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error.into()),
    }
}

/// Returns true if an engine records into the folder, or a command changes it.
pub(crate) fn is_held(folder: &Path) -> Result<bool, Error> {
    let file = match File::open(folder.join(LOCK)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        file => file?,
    };
    Ok(!is_free(file.try_lock_shared())?)
}
