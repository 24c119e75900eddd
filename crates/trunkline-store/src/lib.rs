//! What an engine remembers from one start to the next, in an SQLite file: the count of its starts,
//! the libraries deployed to it, the newest values of the variables that are to keep them, and who
//! did what.
//!
//! Every call is one transaction that is on the disk when it returns (write-ahead log,
//! `synchronous = FULL`). Killed or cut off from power at any point, the store opens as it was
//! before the call or as it is after it. It is open in one engine at a time.
//!
//! ```text
//! start      count | engine_id                              one row
//! library    place | name | description | state | variables        in the order of `place`
//! retained   name | type | value | source_timestamp | quality
//! audit      number | at | who | origin | action | name | type | old | new | outcome ..
//! ```
//!
//! # Layout
//! - [`SqliteStore`]: opening, and the transactions.
//! - `schema`: the tables, and how an older file gets them.
//! - `library`: libraries and their variables; `retained`: values; `audit`: who did
//!   what.
//! - `trouble`: SQLite's errors in the words of who has to act.

#![forbid(unsafe_code)]

mod audit;
mod library;
mod retained;
mod schema;
mod trouble;

use std::fmt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags, Row, Transaction, TransactionBehavior};
use trunkline_engine::LibraryState;
use trunkline_engine::store::{RetainedValue, Start, Store, StoreError, StoredLibrary};
use trunkline_types::{AuditEntry, AuditPage, AuditQuery};

use crate::trouble::Problem;

/// A store in a file. Beside it lies its write-ahead log, of the same name with `-wal` behind.
pub struct SqliteStore {
    path: PathBuf,
    /// `None` after an error of the disk: what the system still holds in memory of the file is not
    /// trusted then, and the next call opens it again.
    connection: Option<Connection>,
}

impl SqliteStore {
    /// Opens the store in this file, which is made if it is not there; its folder has to be.
    ///
    /// # Errors
    /// Another engine uses it, it is damaged or of a newer version, or cannot be opened.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let path = path.into();
        let connection = connect(&path).map_err(|problem| problem.of(&path))?;
        Ok(Self {
            path,
            connection: Some(connection),
        })
    }

    /// Runs `work` as one transaction.
    fn transaction<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, Problem>,
    ) -> Result<T, StoreError> {
        let result = self.try_transaction(work);
        result.map_err(|problem| {
            if problem.is_of_the_disk() {
                self.connection = None;
            }
            problem.of(&self.path)
        })
    }

    fn try_transaction<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => {
                let connection = none.insert(connect(&self.path)?);
                // What was in the log when the disk failed goes into the file itself, and to disk.
                connection.pragma_update(None, "wal_checkpoint", "TRUNCATE")?;
                connection
            }
        };
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let value = work(&transaction)?;
        transaction.commit()?;
        Ok(value)
    }
}

/// Opens the file for this process alone.
fn connect(path: &Path) -> Result<Connection, Problem> {
    refuse_stump(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    // SQLite opens a file that may not be written for reading, and then cannot lock it.
    if connection.is_readonly(rusqlite::MAIN_DB)? {
        return Err(Problem::ReadOnly);
    }
    // The lock is taken with the first access and kept, so the log needs no shared index file.
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    let mode = |row: &Row<'_>| row.get::<_, String>(0);
    let mode = connection.pragma_update_and_check(None, "journal_mode", "WAL", mode)?;
    if mode != "wal" {
        return Err(Problem::Damaged(format!(
            "its journal is \"{mode}\", not \"wal\""
        )));
    }
    connection.pragma_update(None, "synchronous", "FULL")?;
    schema::prepare(&mut connection)?;
    Ok(connection)
}

/// SQLite takes a file that is shorter than its header for a new one, and would write over what is
/// left of a store. Beside a journal it is one whose making was cut off.
fn refuse_stump(path: &Path) -> Result<(), Problem> {
    const HEADER_BYTES: u64 = 512;
    let length = std::fs::metadata(path).map_or(0, |file| file.len());
    let mut journal = path.as_os_str().to_owned();
    journal.push("-journal");
    if (1..HEADER_BYTES).contains(&length) && !Path::new(&journal).exists() {
        return Err(Problem::Damaged(format!(
            "only {length} bytes of it are left"
        )));
    }
    Ok(())
}

impl Store for SqliteStore {
    fn location(&self) -> String {
        self.path.display().to_string()
    }

    fn begin_start(&mut self) -> Result<Start, StoreError> {
        self.transaction(|transaction| {
            let (count, engine_id): (i64, [u8; 16]) = transaction.query_row(
                "UPDATE start SET count = count + 1 RETURNING count, engine_id",
                [],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )?;
            let count = u64::try_from(count)
                .map_err(|_| Problem::damaged("its count of starts is negative"))?;
            Ok(Start { engine_id, count })
        })
    }

    fn libraries(&mut self) -> Result<Vec<StoredLibrary>, StoreError> {
        self.transaction(library::all)
    }

    fn save_library(&mut self, library: &StoredLibrary) -> Result<(), StoreError> {
        self.transaction(|transaction| {
            library::save(transaction, library)?;
            retained::keep_only(transaction, &library.definition)
        })
    }

    fn set_state(&mut self, name: &str, state: LibraryState) -> Result<(), StoreError> {
        self.transaction(|transaction| library::set_state(transaction, name, state))
    }

    fn remove_library(&mut self, name: &str) -> Result<(), StoreError> {
        self.transaction(|transaction| {
            library::remove(transaction, name)?;
            retained::remove_all(transaction, name)
        })
    }

    fn retained(&mut self, library: &str) -> Result<Vec<RetainedValue>, StoreError> {
        self.transaction(|transaction| retained::of_library(transaction, library))
    }

    fn retain(&mut self, values: &[RetainedValue]) -> Result<(), StoreError> {
        if values.is_empty() {
            return Ok(());
        }
        self.transaction(|transaction| retained::put(transaction, values))
    }

    fn audit_end(&mut self) -> Result<u64, StoreError> {
        self.transaction(audit::end)
    }

    fn append_audit(&mut self, entries: &[AuditEntry], keep: u64) -> Result<(), StoreError> {
        if entries.is_empty() {
            return Ok(());
        }
        self.transaction(|transaction| audit::append(transaction, entries, keep))
    }

    fn audit(&mut self, query: &AuditQuery) -> Result<AuditPage, StoreError> {
        self.transaction(|transaction| audit::page(transaction, query))
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}
