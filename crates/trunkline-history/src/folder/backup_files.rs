//! Lists and checks the files of a history for backups.
//!
//! A copy is consistent if the files are copied in this order: the logs, the catalogue, then the files that
//! the copied catalogue lists. When the copy is opened, logs whose rows are in listed files are dropped.

use std::fs::File;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use trunkline_engine::history::HistoryError;

use crate::catalogue::{Catalogue, PartRow};
pub use crate::database::{CopyError, copy_database};
use crate::error::Error;
use crate::files::footer::{self, Footer};
use crate::files::part::Part;
use crate::files::summary;
pub use crate::lock_file::LOCK;
pub use crate::paths::{CATALOGUE, UNFINISHED};
use crate::{lock_file, log};

/// A log of a history.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogFile {
    /// Number of the segment.
    pub segment: u64,
    /// Path of the log file.
    pub path: PathBuf,
}

/// Returns the logs in a folder, in ascending order of their segments. Returns no logs if the folder does not
/// exist.
///
/// # Errors
/// Returns an error if the folder cannot be read.
pub fn logs(folder: &Path) -> Result<Vec<LogFile>, HistoryError> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let segments = log::segments(folder).map_err(|error| error.of(folder))?;
    let logs = segments.into_iter().map(|segment| LogFile {
        segment,
        path: log::path(folder, segment),
    });
    Ok(logs.collect())
}

/// Describes the damage in a log; empty if the log is intact. An incomplete last commit is not damage.
///
/// # Errors
/// Returns an error if the file cannot be read.
pub fn damage_of_log(log: &LogFile) -> Result<String, HistoryError> {
    let folder = log.path.parent().unwrap_or(Path::new(""));
    match log::recover(&log.path, log.segment) {
        Ok(recovered) if recovered.damage.is_empty() => Ok(String::new()),
        Ok(recovered) => Ok(format!(
            "it is damaged in {} places",
            recovered.damage.len()
        )),
        Err(Error::Damaged(what)) => Ok(what),
        Err(error) => Err(error.of(folder)),
    }
}

/// A Parquet file that the catalogue lists.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    row: PartRow,
}

impl Listed {
    /// Returns the path relative to the history's folder, such as
    /// `samples/date=2026-11-28/0000000011.parquet`.
    pub fn path(&self) -> &str {
        &self.row.path
    }

    /// Returns the length of the file in bytes.
    pub fn bytes(&self) -> u64 {
        self.row.bytes
    }

    /// Returns a checksum that identifies the content.
    pub fn identity(&self) -> u32 {
        self.row.footer
    }

    /// Returns the part of the path that the file shares with its companion files, such as its summary: the
    /// date folder, and the name without the extension.
    pub fn stem(&self) -> &str {
        stem_of(&self.row.path).unwrap_or_default()
    }

    /// Reads this file or one of its companion files, and describes the damage; empty if the file is intact.
    /// `inside` is the path relative to `folder`.
    pub fn damage(&self, folder: &Path, inside: &str) -> String {
        match self.check(folder, inside) {
            Ok(()) => String::new(),
            Err(error) => error.sentence(),
        }
    }

    fn check(&self, folder: &Path, inside: &str) -> Result<(), Error> {
        let row = &self.row;
        let place = folder.join(inside);
        let is_intact = match inside.split_once('/') {
            Some((summary::FOLDER, _)) => summary::read(&place, row.summary)?.is_some(),
            Some((footer::FOLDER, _)) => Footer::from_copy(&place)?.is_some_and(|footer| {
                footer.sum() == row.footer && footer.data_bytes == row.data_bytes
            }),
            _ if inside == row.path => return Part::new(folder, row.clone()).check(),
            _ => true,
        };
        match is_intact {
            true => Ok(()),
            false => Err(Error::damaged("its checksum does not match")),
        }
    }
}

/// Returns true if `inside`, a path relative to the history's folder, names a file that can be derived from
/// the Parquet files: a summary, or a copy of a footer.
#[must_use]
pub fn is_redundant(inside: &str) -> bool {
    let folder = inside.split_once('/').map(|(folder, _)| folder);
    folder.is_some_and(|folder| [summary::FOLDER, footer::FOLDER].contains(&folder))
}

/// Returns the date folder and the name of a file in a folder such as `samples` or `summaries`, without the
/// extension. Returns `None` if the path does not have this form.
pub fn stem_of(path: &str) -> Option<&str> {
    let (_, inside) = path.split_once('/')?;
    let (stem, _) = inside.split_once('.')?;
    inside.starts_with("date=").then_some(stem)
}

/// Checks a copy of a catalogue, merges its write-ahead log into the database file, and returns the Parquet
/// files that the catalogue lists.
///
/// # Errors
/// Returns an error if the copy is not a catalogue, is damaged, or was written by a newer version.
pub fn finish_catalogue_copy(path: &Path) -> Result<Vec<Listed>, HistoryError> {
    try_settle(path).map_err(|error| error.of(path))
}

fn try_settle(path: &Path) -> Result<Vec<Listed>, Error> {
    let mut catalogue = Catalogue::open(path, false)?;
    catalogue.series()?;
    let rows = catalogue.parts()?;
    drop(catalogue);
    let connection = Connection::open(path)?;
    let finding: String =
        connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if finding != "ok" {
        return Err(Error::damaged(format!("its catalogue: {finding}")));
    }
    let mode: String =
        connection.pragma_update_and_check(None, "journal_mode", "DELETE", |row| row.get(0))?;
    if mode != "delete" {
        return Err(Error::damaged(format!(
            "its catalogue: the journal mode cannot be changed from \"{mode}\""
        )));
    }
    Ok(rows.into_iter().map(|row| Listed { row }).collect())
}

/// A lock that keeps engines from recording in a folder. It is released on drop.
#[derive(Debug)]
pub struct FolderLock {
    _file: File,
}

impl FolderLock {
    /// Locks the folder of a history. Returns `None` if the folder does not exist.
    ///
    /// # Errors
    /// Returns an error if an engine is recording in the folder.
    pub fn take(folder: &Path) -> Result<Option<Self>, HistoryError> {
        if !folder.exists() {
            return Ok(None);
        }
        let held = lock_file::acquire(folder).map_err(|error| error.of(folder))?;
        Ok(Some(Self { _file: held }))
    }
}
