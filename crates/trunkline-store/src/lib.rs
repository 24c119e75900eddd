//! Stores an engine's state in an SQLite file, so that it survives restarts.
//!
//! The state consists of the number of starts, the deployed libraries, the newest values of retained
//! variables, the audit trail, and the states of alarms with their journal.
//!
//! Every call is one transaction, which is on the disk when the call returns (write-ahead log,
//! `synchronous = FULL`). If the program is killed or power is lost during a call, the store later opens in
//! the state before or after this call. Only one engine can open a store at a time.
//!
//! ```text
//! start      count | engine_id                              one row
//! library    place | name | description | state | variables        in the order of `place`
//! retained   name | type | value | source_timestamp | quality
//! audit      number | at | who | origin | action | name | type | old | new | outcome .. monotonic | hash
//! audit_anchor   number | hash                              one row: the last removed audit entry
//! alarm_state    variable | alarm | definition | process | hidden | delayed_since | state ..
//! alarm_journal  number | at | event | variable | alarm | priority | area | from_state | who ..
//! ```
//!
//! Each row has a checksum in the additional column `sum`. A row that does not match its checksum is reported
//! and moved to the table `damaged`. The rest of the store stays in use.
//!
//! # Layout
//! - [`SqliteStore`]: opens the file, and runs the transactions.
//! - `schema`: the tables, and the migration of older files.
//! - `library`: libraries and their variables; `retained`: values; `audit`: the audit entries;
//!   `alarm`: states of alarms and the entries of their journal; `log`: the common part of the audit trail
//!   and the journal.
//! - `verification`: checks the hash chain of the audit trail.
//! - `creation`: creates the file; `damage`: finds and moves damaged rows.
//! - `copied`: store files that no engine uses, for backups.
//! - `error`: translates SQLite's errors into errors with a remedy.

#![forbid(unsafe_code)]

mod alarm;
mod audit;
mod copied;
mod creation;
mod damage;
mod error;
mod library;
mod log;
mod retained;
mod schema;
mod verification;

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, Row, Transaction, TransactionBehavior};
use trunkline_engine::LibraryState;
use trunkline_engine::figures::Space;
use trunkline_engine::store::{
    Damage, LogBound, RetainedValue, Start, Store, StoreError, StoredLibrary,
};
use trunkline_types::alarm::{AlarmEntry, AlarmJournalPage, AlarmJournalQuery, SavedAlarm};
use trunkline_types::audit::AuditHead;
use trunkline_types::{AuditEntry, AuditPage, AuditQuery, LibraryDefinition};

pub use crate::copied::{StoreContents, StoreLock, complete_copy};
pub use crate::verification::verify_audit;

use crate::error::Error;

/// A store in a file. Its write-ahead log is next to it, with `-wal` appended to the name.
pub struct SqliteStore {
    path: PathBuf,
    /// `None` before the first use and after a disk error. After a disk error, the page cache may differ from
    /// the file, so the next call opens the file again.
    connection: Option<Connection>,
    /// Identity of the file that was opened first. If the path later leads to another file, the store was
    /// replaced.
    file: Option<FileId>,
    damage: Vec<Damage>,
}

/// Device and inode, which identify a file regardless of its name.
type FileId = (u64, u64);

impl SqliteStore {
    /// Opens the store in this file. Creates the file if there is none; its folder must exist.
    ///
    /// # Errors
    /// The store is in use by another engine, is damaged, has a newer version, or cannot be opened.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let mut store = Self::unopened(path);
        store.transaction(|_| Ok(()))?;
        Ok(store)
    }

    /// Returns a store that is opened on first use. If opening fails, each later use tries again.
    pub fn unopened(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            connection: None,
            file: None,
            damage: Vec::new(),
        }
    }

    /// Runs `work` as one transaction.
    fn transaction<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, Error>,
    ) -> Result<T, StoreError> {
        let result = self.try_transaction(work);
        result.map_err(|error| {
            if error.is_disk_error() {
                self.connection = None;
            }
            error.into_store_error(&self.path)
        })
    }

    fn try_transaction<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => {
                if self.file.is_some() {
                    check_same_file(&self.path, self.file)?;
                }
                let (connection, damage) = connect(&self.path)?;
                let connection = none.insert(connection);
                self.damage = damage;
                match self.file {
                    // The disk error may have left changes only in the log. This merges the log into the
                    // file, and syncs the file.
                    Some(_) => connection.pragma_update(None, "wal_checkpoint", "TRUNCATE")?,
                    None => self.file = file_id(&self.path),
                }
                connection
            }
        };
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let value = work(&transaction)?;
        transaction.commit()?;
        // Changes to a file that was removed or replaced are lost.
        check_same_file(&self.path, self.file)?;
        Ok(value)
    }
}

fn file_id(path: &Path) -> Option<FileId> {
    let file = std::fs::metadata(path).ok()?;
    Some((file.dev(), file.ino()))
}

fn check_same_file(path: &Path, expected: Option<FileId>) -> Result<(), Error> {
    match file_id(path) == expected {
        true => Ok(()),
        false => Err(Error::Replaced),
    }
}

/// Returns true if the header permits writing only by a newer version of SQLite: byte 18 is neither 1 nor 2.
fn header_forbids_writing(path: &Path) -> io::Result<bool> {
    let mut header = [0; 19];
    File::open(path)?.read_exact(&mut header)?;
    Ok(!matches!(header[18], 1 | 2))
}

/// Opens the file exclusively. Also returns the damaged rows.
fn connect(path: &Path) -> Result<(Connection, Vec<Damage>), Error> {
    creation::create_if_missing(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    // If a file is write-protected or its header contains an unknown file format, SQLite opens the file for
    // reading only, and then cannot lock it.
    if OpenOptions::new().write(true).open(path).is_err() {
        return Err(Error::ReadOnly);
    }
    if connection.is_readonly(rusqlite::MAIN_DB)? || header_forbids_writing(path)? {
        return Err(Error::damaged(
            "it does not have the header of an SQLite file of a known version",
        ));
    }
    // Another engine holds the lock for as long as it runs, so waiting here would not help.
    connection.busy_timeout(Duration::ZERO)?;
    // SQLite takes the lock on first access and keeps it, so the log needs no shared index file.
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    let mode = |row: &Row<'_>| row.get::<_, String>(0);
    let mode = connection.pragma_update_and_check(None, "journal_mode", "WAL", mode)?;
    if mode != "wal" {
        return Err(Error::Damaged(format!(
            "its journal mode is \"{mode}\", not \"wal\""
        )));
    }
    connection.pragma_update(None, "synchronous", "FULL")?;
    let damage = schema::prepare(&mut connection)?;
    Ok((connection, damage))
}

impl Store for SqliteStore {
    fn location(&self) -> String {
        self.path.display().to_string()
    }

    fn damage(&mut self) -> Vec<Damage> {
        self.damage.clone()
    }

    fn check_place(&mut self) -> Result<(), StoreError> {
        match self.file {
            Some(_) => check_same_file(&self.path, self.file)
                .map_err(|error| error.into_store_error(&self.path)),
            None => Ok(()),
        }
    }

    fn disk_space(&mut self) -> Option<Space> {
        let stats = rustix::fs::statvfs(self.path.parent()?).ok()?;
        Some(Space {
            total_bytes: stats.f_blocks.saturating_mul(stats.f_frsize),
            free_bytes: stats.f_bavail.saturating_mul(stats.f_frsize),
        })
    }

    fn record_start(&mut self) -> Result<Start, StoreError> {
        self.transaction(|transaction| {
            // If the row was damaged, it is missing. The count then restarts with a new engine id.
            transaction.execute(
                "INSERT INTO start (count, engine_id) SELECT 0, randomblob(16)
                 WHERE NOT EXISTS (SELECT * FROM start)",
                [],
            )?;
            let (count, engine_id): (i64, [u8; 16]) = transaction.query_row(
                "UPDATE start SET count = count + 1, sum = row_sum(count + 1, engine_id)
                 RETURNING count, engine_id",
                [],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )?;
            let count =
                u64::try_from(count).map_err(|_| Error::damaged("its start count is negative"))?;
            Ok(Start { engine_id, count })
        })
    }

    fn libraries(&mut self) -> Result<Vec<StoredLibrary>, StoreError> {
        self.transaction(library::all)
    }

    fn save_library(&mut self, library: &StoredLibrary) -> Result<(), StoreError> {
        self.transaction(|transaction| {
            library::save(transaction, library)?;
            retained::keep_only(transaction, &library.definition)?;
            alarm::keep_only(transaction, &library.definition)
        })
    }

    fn set_state(&mut self, name: &str, state: LibraryState) -> Result<(), StoreError> {
        self.transaction(|transaction| library::set_state(transaction, name, state))
    }

    fn remove_library(&mut self, name: &str) -> Result<(), StoreError> {
        self.transaction(|transaction| {
            library::remove(transaction, name)?;
            retained::remove_all(transaction, name)?;
            alarm::remove_all(transaction, name)
        })
    }

    fn retained(&mut self, library: &str) -> Result<Vec<RetainedValue>, StoreError> {
        self.transaction(|transaction| retained::read_library(transaction, library))
    }

    fn retain(&mut self, values: &[RetainedValue]) -> Result<(), StoreError> {
        if values.is_empty() {
            return Ok(());
        }
        self.transaction(|transaction| retained::put(transaction, values))
    }

    fn audit_end(&mut self) -> Result<AuditHead, StoreError> {
        self.transaction(audit::head)
    }

    fn append_audit(
        &mut self,
        entries: &[AuditEntry],
        bound: LogBound,
    ) -> Result<AuditHead, StoreError> {
        self.transaction(|transaction| audit::append(transaction, entries, bound))
    }

    fn audit(&mut self, query: &AuditQuery) -> Result<AuditPage, StoreError> {
        self.transaction(|transaction| audit::page(transaction, query))
    }

    fn alarms(&mut self, library: &str) -> Result<Vec<SavedAlarm>, StoreError> {
        self.transaction(|transaction| alarm::read_library(transaction, library))
    }

    fn keep_only_alarms(&mut self, library: &LibraryDefinition) -> Result<(), StoreError> {
        self.transaction(|transaction| alarm::keep_only(transaction, library))
    }

    fn alarm_journal_end(&mut self) -> Result<u64, StoreError> {
        self.transaction(|transaction| alarm::JOURNAL.end(transaction))
    }

    fn keep_alarms(
        &mut self,
        states: &[SavedAlarm],
        entries: &[AlarmEntry],
        bound: LogBound,
    ) -> Result<u64, StoreError> {
        self.transaction(|transaction| {
            alarm::put(transaction, states)?;
            alarm::append(transaction, entries, bound)
        })
    }

    fn alarm_journal(&mut self, query: &AlarmJournalQuery) -> Result<AlarmJournalPage, StoreError> {
        self.transaction(|transaction| alarm::page(transaction, query))
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}
