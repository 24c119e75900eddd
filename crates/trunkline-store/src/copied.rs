//! Files of stores for backups: completes a copy, and keeps engines away from a file.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};
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

/// Keeps engines from opening a store, until it is dropped.
#[derive(Debug)]
pub struct StoreLock {
    _connection: Connection,
}

impl StoreLock {
    /// Locks the store in this file. Returns `None` if no engine can use the file anyway, because it
    /// is missing or not a database.
    ///
    /// # Errors
    /// An engine uses the store.
    pub fn take(path: &Path) -> Result<Option<Self>, StoreError> {
        match try_lock(path) {
            Ok(connection) => Ok(Some(Self {
                _connection: connection,
            })),
            Err(error) => match error.sqlite_error_code() {
                Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                    Err(Error::InUse.of(path))
                }
                _ => Ok(None),
            },
        }
    }
}

fn try_lock(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(Duration::ZERO)?;
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    connection.execute_batch("BEGIN EXCLUSIVE; COMMIT")?;
    Ok(connection)
}
