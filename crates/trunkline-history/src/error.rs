//! Converts errors of the operating system, of SQLite and of Parquet into errors that name a remedy.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use parquet::errors::ParquetError;
use rusqlite::ErrorCode;
use trunkline_engine::history::{ForeignSpoolReason, HistoryError};
use trunkline_engine::store::{OpenFault, StoreErrorKind};
use trunkline_types::wire::DecodeError;

/// The reason why a step failed.
#[derive(Debug)]
pub(crate) enum Error {
    Io(io::Error),
    Sqlite(rusqlite::Error),
    /// A file is damaged, as described.
    Damaged(String),
    /// A newer version wrote the catalogue.
    Newer {
        found: u32,
        known: u32,
    },
    /// An earlier release wrote a log, in a format that this release cannot read.
    EarlierLog,
    /// The file `identity` of the history has an unknown format.
    Identity,
    /// Another engine or command has locked the folder.
    InUse,
    /// The folder is not the spool of this history; `reason` says why.
    Foreign {
        spool: PathBuf,
        reason: ForeignSpoolReason,
    },
    /// The history's folder was replaced by another folder while it was in use.
    Replaced,
    /// The folder does not exist, or contains no history.
    NoHistory,
    /// The folder is a spool.
    IsSpool,
    /// The folder changed during every attempt to read it.
    Changing,
    /// The cursor of a query was not issued by this engine.
    Cursor,
    /// An error that already names its location, for example the spool.
    Located(HistoryError),
}

impl Error {
    pub(crate) fn damaged(what: impl Into<String>) -> Self {
        Error::Damaged(what.into())
    }

    /// Returns true if the disk is full, fails or cannot be written. A later attempt may succeed.
    pub(crate) fn is_disk_failure(&self) -> bool {
        match self {
            Error::Io(_) | Error::Replaced => true,
            Error::Sqlite(error) => !matches!(of_sqlite(error), StoreErrorKind::Damaged(_)),
            _ => false,
        }
    }

    /// Describes damage, an unknown format or an I/O error for users; empty for all other errors.
    pub(crate) fn sentence(&self) -> String {
        match self {
            Error::Io(error) => error.to_string(),
            Error::Sqlite(error) => error.to_string(),
            Error::Damaged(what) => what.clone(),
            Error::Newer { .. } => "a newer release wrote it".to_owned(),
            Error::EarlierLog => "an earlier release wrote it".to_owned(),
            Error::Identity
            | Error::InUse
            | Error::Foreign { .. }
            | Error::Replaced
            | Error::NoHistory
            | Error::IsSpool
            | Error::Changing
            | Error::Cursor
            | Error::Located(_) => String::new(),
        }
    }

    /// Converts the error into an error of the history in this folder.
    pub(crate) fn of(self, folder: &Path) -> HistoryError {
        let kind = match self {
            Error::Located(error) => return error,
            Error::Io(error) => of_system(&error),
            Error::Sqlite(error) => of_sqlite(&error),
            Error::Damaged(what) => StoreErrorKind::Damaged(what),
            Error::Newer { found, known } => StoreErrorKind::Newer { found, known },
            Error::EarlierLog => StoreErrorKind::CannotOpen(OpenFault::EarlierLog),
            Error::Identity => StoreErrorKind::CannotOpen(OpenFault::Identity),
            Error::InUse => StoreErrorKind::InUse,
            Error::Foreign { spool, reason } => {
                return HistoryError::ForeignSpool {
                    location: spool.display().to_string(),
                    reason,
                };
            }
            Error::Replaced => StoreErrorKind::CannotOpen(OpenFault::OtherFolder),
            Error::NoHistory => StoreErrorKind::CannotOpen(OpenFault::NoHistory),
            Error::IsSpool => StoreErrorKind::CannotOpen(OpenFault::Spool),
            Error::Changing => {
                let sentence = "the engine changed its files during every attempt to read them; try \
                                again";
                StoreErrorKind::Failed(sentence.to_owned())
            }
            Error::Cursor => {
                let sentence = "the cursor of the page does not come from an answer to this query; \
                                request the first page again";
                return HistoryError::Query(sentence.to_owned());
            }
        };
        HistoryError::Files {
            location: folder.display().to_string(),
            kind,
        }
    }

    /// Converts the error into an error of the spool in this folder.
    pub(crate) fn of_spool(self, folder: &Path) -> HistoryError {
        match self {
            // This error may be one of the history's folder.
            Error::Located(error) => error,
            error => match error.of(folder) {
                HistoryError::Files { location, kind } => HistoryError::Spool { location, kind },
                error => error,
            },
        }
    }
}

fn of_system(error: &io::Error) -> StoreErrorKind {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => StoreErrorKind::Full,
        ErrorKind::OutOfMemory => StoreErrorKind::NoMemory,
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => StoreErrorKind::ReadOnly,
        ErrorKind::NotFound => StoreErrorKind::CannotOpen(OpenFault::Missing),
        ErrorKind::NotADirectory => StoreErrorKind::CannotOpen(OpenFault::FileInPath),
        _ => StoreErrorKind::Failed(error.to_string()),
    }
}

fn of_sqlite(error: &rusqlite::Error) -> StoreErrorKind {
    let sentence = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreErrorKind::Full,
        Some(ErrorCode::OutOfMemory) => StoreErrorKind::NoMemory,
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => StoreErrorKind::ReadOnly,
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreErrorKind::InUse,
        Some(ErrorCode::CannotOpen) => StoreErrorKind::CannotOpen(OpenFault::Database(sentence)),
        Some(ErrorCode::SystemIoFailure) => StoreErrorKind::Failed(sentence),
        _ => StoreErrorKind::Damaged(format!("its catalogue: {sentence}")),
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Error::Io(error)
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

impl From<ParquetError> for Error {
    fn from(error: ParquetError) -> Self {
        match error {
            ParquetError::External(inner) => match inner.downcast::<io::Error>() {
                Ok(error) => Error::Io(*error),
                Err(other) => Error::Damaged(other.to_string()),
            },
            other => Error::Damaged(other.to_string()),
        }
    }
}

impl From<arrow_schema::ArrowError> for Error {
    fn from(error: arrow_schema::ArrowError) -> Self {
        match error {
            arrow_schema::ArrowError::IoError(_, error) => Error::Io(error),
            arrow_schema::ArrowError::ParquetError(what) => Error::Damaged(what),
            other => Error::Damaged(other.to_string()),
        }
    }
}
