//! Translates SQLite's errors into errors with a remedy.

use std::io::{self, ErrorKind};
use std::path::Path;

use rusqlite::ErrorCode;
use rusqlite::types::FromSqlError;
use trunkline_engine::store::{StoreError, StoreTrouble};
use trunkline_types::wire::DecodeError;

/// The reason why a step failed.
#[derive(Debug)]
pub(crate) enum Problem {
    Sqlite(rusqlite::Error),
    Damaged(String),
    Newer { found: u32, known: u32 },
    ReadOnly,
    InUse,
    Replaced,
    NoMemory,
    Io(io::Error),
}

impl Problem {
    pub(crate) fn damaged(what: &str) -> Self {
        Problem::Damaged(what.to_owned())
    }

    /// Returns true if the disk failed, so that its content is unknown.
    pub(crate) fn is_of_the_disk(&self) -> bool {
        match self {
            Problem::Sqlite(error) => error.sqlite_error_code() == Some(ErrorCode::SystemIoFailure),
            Problem::Io(_) => true,
            _ => false,
        }
    }

    /// Converts the problem into an error of the store in this file.
    pub(crate) fn of(self, path: &Path) -> StoreError {
        let trouble = match self {
            Problem::Damaged(what) => StoreTrouble::Damaged(what),
            Problem::Newer { found, known } => StoreTrouble::Newer { found, known },
            Problem::ReadOnly => StoreTrouble::ReadOnly,
            Problem::InUse => StoreTrouble::InUse,
            Problem::Replaced => StoreTrouble::Replaced,
            Problem::NoMemory => StoreTrouble::NoMemory,
            Problem::Io(error) => of_system(&error),
            Problem::Sqlite(error) => of_sqlite(&error),
        };
        StoreError {
            location: path.display().to_string(),
            trouble,
        }
    }
}

fn of_sqlite(error: &rusqlite::Error) -> StoreTrouble {
    let sentence = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreTrouble::Full,
        Some(ErrorCode::OutOfMemory) => StoreTrouble::NoMemory,
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => StoreTrouble::ReadOnly,
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreTrouble::InUse,
        Some(ErrorCode::CannotOpen) => StoreTrouble::CannotOpen(sentence),
        Some(ErrorCode::SystemIoFailure) => StoreTrouble::Failed(sentence),
        // The content read is not what was written: a column of another type, a missing row, or an
        // invalid page.
        _ => StoreTrouble::Damaged(sentence),
    }
}

fn of_system(error: &io::Error) -> StoreTrouble {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => StoreTrouble::Full,
        ErrorKind::OutOfMemory => StoreTrouble::NoMemory,
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => StoreTrouble::ReadOnly,
        ErrorKind::NotFound | ErrorKind::NotADirectory => {
            StoreTrouble::CannotOpen(error.to_string())
        }
        _ => StoreTrouble::Failed(error.to_string()),
    }
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        Problem::Io(error)
    }
}

impl From<FromSqlError> for Problem {
    fn from(error: FromSqlError) -> Self {
        Problem::Damaged(error.to_string())
    }
}

impl From<rusqlite::Error> for Problem {
    fn from(error: rusqlite::Error) -> Self {
        Problem::Sqlite(error)
    }
}

impl From<DecodeError> for Problem {
    fn from(error: DecodeError) -> Self {
        Problem::Damaged(error.to_string())
    }
}
