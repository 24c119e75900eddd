//! Files of stores for backups: completes a copy, and keeps engines away from a file.

use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;

use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;
use trunkline_engine::store::{Damage, StoreError};

use crate::connect;
use crate::error::Error;

/// What a copy of a store has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoreContents {
    /// Identity of the store, which its copies share; `None` if it was damaged.
    pub engine_id: Option<[u8; 16]>,
    /// Rows that were damaged already.
    pub damage: Vec<Damage>,
}

/// Checks a copy of a store and its write-ahead log, and makes it one file.
///
/// # Errors
/// The copy is not a store, or it is damaged as a whole, or of a newer version.
pub fn settle(path: &Path) -> Result<StoreContents, StoreError> {
    try_settle(path).map_err(|error| error.of(path))
}

fn try_settle(path: &Path) -> Result<StoreContents, Error> {
    let (connection, damage) = connect(path)?;
    let verdict: String =
        connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if verdict != "ok" {
        return Err(Error::Damaged(verdict));
    }
    let mut select = connection.prepare("SELECT engine_id FROM start")?;
    let mut ids = select.query_map([], |row| row.get(0))?;
    let engine_id = ids.next().transpose()?;
    drop(ids);
    drop(select);
    let mode: String =
        connection.pragma_update_and_check(None, "journal_mode", "DELETE", |row| row.get(0))?;
    match mode.as_str() {
        "delete" => Ok(StoreContents { engine_id, damage }),
        mode => Err(Error::Damaged(format!("its journal stays \"{mode}\""))),
    }
}

/// Keeps engines of other processes from opening a store, until it is dropped, or this process closes
/// the file elsewhere. The file may be renamed meanwhile.
#[derive(Debug)]
pub struct StoreLock {
    _file: File,
}

impl StoreLock {
    /// Locks the store in this file. Returns `None` if there is no file.
    ///
    /// # Errors
    /// An engine of another process uses the store, or the file cannot be opened.
    pub fn take(path: &Path) -> Result<Option<Self>, StoreError> {
        let file = match File::options().read(true).write(true).open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            file => file.map_err(|error| Error::Io(error).of(path))?,
        };
        // SQLite uses locks of this kind, and respects this one. A connection of SQLite would do more
        // than to lock: it would write the log to the file, and remove a log by its name.
        match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(Errno::AGAIN | Errno::ACCESS) => Err(Error::InUse.of(path)),
            Err(error) => Err(Error::Io(error.into()).of(path)),
        }
    }
}
