//! Translates SQLite's errors into errors with a remedy.

use std::io::{self, ErrorKind};
use std::path::Path;

use rusqlite::ErrorCode;
use rusqlite::types::FromSqlError;
use trunkline_engine::store::{OpenFault, StoreError, StoreErrorKind};
use trunkline_types::wire::DecodeError;

/// The reason why a call of the store fails.
#[derive(Debug)]
pub(crate) enum Error {
    Sqlite(rusqlite::Error),
    Damaged(String),
    Newer { found: u32, known: u32 },
    ReadOnly,
    InUse,
    Replaced,
    NoMemory,
    Io(io::Error),
}

impl Error {
    pub(crate) fn damaged(what: &str) -> Self {
        Error::Damaged(what.to_owned())
    }

    /// Returns true if the disk failed, so that the content of the file is unknown.
    pub(crate) fn is_disk_error(&self) -> bool {
        match self {
            Error::Sqlite(error) => error.sqlite_error_code() == Some(ErrorCode::SystemIoFailure),
            Error::Io(_) => true,
            _ => false,
        }
    }

    /// Converts the error into the error of the store in this file.
    pub(crate) fn into_store_error(self, path: &Path) -> StoreError {
        let kind = match self {
            Error::Damaged(what) => StoreErrorKind::Damaged(what),
            Error::Newer { found, known } => StoreErrorKind::Newer { found, known },
            Error::ReadOnly => StoreErrorKind::ReadOnly,
            Error::InUse => StoreErrorKind::InUse,
            Error::Replaced => StoreErrorKind::Replaced,
            Error::NoMemory => StoreErrorKind::NoMemory,
            Error::Io(_) | Error::Sqlite(_) if path.is_dir() => StoreErrorKind::Folder,
            Error::Io(error) => io_kind(&error),
            Error::Sqlite(error) => sqlite_kind(&error),
        };
        StoreError {
            location: path.display().to_string(),
            kind,
        }
    }
}

fn sqlite_kind(error: &rusqlite::Error) -> StoreErrorKind {
    let sentence = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreErrorKind::Full,
        Some(ErrorCode::OutOfMemory) => StoreErrorKind::NoMemory,
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => StoreErrorKind::ReadOnly,
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreErrorKind::InUse,
        Some(ErrorCode::CannotOpen) => StoreErrorKind::CannotOpen(OpenFault::Database(sentence)),
        Some(ErrorCode::SystemIoFailure) => StoreErrorKind::Failed(sentence),
        // The file no longer has the content that was written: a column has another type, a row is missing, or
        // a page is invalid.
        _ => StoreErrorKind::Damaged(sentence),
    }
}

fn io_kind(error: &io::Error) -> StoreErrorKind {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => StoreErrorKind::Full,
        ErrorKind::OutOfMemory => StoreErrorKind::NoMemory,
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => StoreErrorKind::ReadOnly,
        ErrorKind::NotFound => StoreErrorKind::CannotOpen(OpenFault::Missing),
        ErrorKind::NotADirectory => StoreErrorKind::CannotOpen(OpenFault::FileInPath),
        _ => StoreErrorKind::Failed(error.to_string()),
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Error::Io(error)
    }
}

impl From<FromSqlError> for Error {
    fn from(error: FromSqlError) -> Self {
        Error::Damaged(error.to_string())
    }
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        Error::Sqlite(error)
    }
}

impl From<DecodeError> for Error {
    fn from(error: DecodeError) -> Self {
        Error::Damaged(error.to_string())
    }
}
