//! Locks a folder, so that only one engine or command at a time can change it.

use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::Path;

use crate::error::Error;
use crate::private;

/// Name of the lock file in the folder of a history.
pub const LOCK: &str = "lock";
/// Maximum number of attempts to lock the folder while other processes hold the lock briefly in [`is_held`].
const ATTEMPTS: u32 = 10_000;

/// Locks the folder until the returned file is dropped.
///
/// # Errors
/// [`Error::InUse`] if an engine or a command has locked the folder.
pub(crate) fn acquire(folder: &Path) -> Result<File, Error> {
    let file = match private::create_file(&folder.join(LOCK)) {
        // On a read-only disk, an existing lock file can still be locked.
        Err(error) if error.kind() == ErrorKind::ReadOnlyFilesystem => {
            File::open(folder.join(LOCK))?
        }
        file => file?,
    };
    for _ in 0..ATTEMPTS {
        if is_free(file.try_lock())? {
            return Ok(file);
        }
        // A shared lock fails only if an engine or a command holds the lock exclusively.
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

/// Returns true if an engine is recording into the folder, or a command is changing it.
pub(crate) fn is_held(folder: &Path) -> Result<bool, Error> {
    let file = match File::open(folder.join(LOCK)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        file => file?,
    };
    Ok(!is_free(file.try_lock_shared())?)
}
