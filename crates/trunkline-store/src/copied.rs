//! Completes copies of store files for backups, and locks store files so that engines cannot open them.

use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;

use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;
use trunkline_engine::store::{Damage, StoreError};

use crate::connect;
use crate::error::Error;

/// The contents of a copied store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoreContents {
    /// Identity of the store, which all its copies share; `None` if the identity was damaged.
    pub engine_id: Option<[u8; 16]>,
    /// Rows that were damaged in the copied store.
    pub damage: Vec<Damage>,
}

/// Checks a copy of a store and its write-ahead log, and merges them into one file.
///
/// # Errors
/// The copy is not a store, is damaged as a whole, or has a newer version.
pub fn complete_copy(path: &Path) -> Result<StoreContents, StoreError> {
    try_complete_copy(path).map_err(|error| error.into_store_error(path))
}

fn try_complete_copy(path: &Path) -> Result<StoreContents, Error> {
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
        mode => Err(Error::Damaged(format!(
            "its journal mode cannot be changed from \"{mode}\""
        ))),
    }
}

/// A lock that prevents the engines of other processes from opening a store. The lock ends when this value is
/// dropped, or when this process closes another handle of the file. The file may be renamed while it is
/// locked.
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
            file => file.map_err(|error| Error::Io(error).into_store_error(path))?,
        };
        // SQLite uses and respects locks of this kind. A connection of SQLite would not only lock the file,
        // but also write the log to the file, and delete a log by its name.
        match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(Errno::AGAIN | Errno::ACCESS) => Err(Error::InUse.into_store_error(path)),
            Err(error) => Err(Error::Io(error.into()).into_store_error(path)),
        }
    }
}
