//! The lock of a folder: one engine or command at a time changes it.

use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::error::Error;

/// Name of the file that is locked, in the folder of a history.
pub const LOCK: &str = "lock";
/// Attempts to get the lock, and the pause between two of them: [`is_held`] of another process has
/// it for a moment.
const ATTEMPTS: u32 = 10;
const PAUSE: Duration = Duration::from_millis(10);

/// Locks the folder until the file is dropped.
///
/// # Errors
/// [`Error::InUse`].
pub(crate) fn hold(folder: &Path) -> Result<File, Error> {
    let file = File::create(folder.join(LOCK))?;
    for attempt in 1.. {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) if attempt < ATTEMPTS => thread::sleep(PAUSE),
            Err(TryLockError::WouldBlock) => return Err(Error::InUse),
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
    }
    Ok(file)
}

/// Returns true if an engine records into the folder, or a command changes it.
pub(crate) fn is_held(folder: &Path) -> Result<bool, Error> {
    let file = match File::open(folder.join(LOCK)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        file => file?,
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error.into()),
    }
}
