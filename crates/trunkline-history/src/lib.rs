//! Records updates of variables, and answers queries about them.
//!
//! Updates are first made durable in an append log, and then moved to Parquet files in the background.
//! Both are in one folder, which other programs may read at any time:
//!
//! ```text
//! catalogue.sqlite                          series and files
//! log-0000000012.tlh                        rows that are not in files yet
//! samples/date=2026-11-28/0000000011.parquet    rows by UTC date and segment of the log
//! summaries/date=..                         buckets of the rows, for plots
//! unfinished/                               files that are being written
//! footers/date=..                           second copies of the metadata of the files
//! set-apart/                                files that are not in the catalogue
//! lock                                      held by the engine that records
//! identity                                  identity of the history, if it has a spool
//! spool                                     path of the spool
//! ```
//!
//! A row is in the log or in a file, never in both: the catalogue decides, in one transaction. After
//! a crash the log is read again, and its rows that are already in a finished file are dropped. While
//! the folder cannot be written, the log continues in a second folder, the spool.
//!
//! # Layout
//! Each module imports only those below it (`cargo xtask layers`).
//!
//! - `engine`: [`FileHistory`], the history of an engine; `recorder` takes updates from the engine;
//!   `spooling` decides which folder holds the log.
//! - `folder`: [`HistoryFolder`] reads a folder without recording; the commands [`verify`], [`rebuild`]
//!   and [`compact`]; [`backup_files`] for backups; [`arrow_batch`] for other programs.
//! - `query`: answers queries, page by page.
//! - `files`: Parquet files. `part` is a single file, `schema` defines its columns, `row_groups` writes
//!   them, `run_columns` encodes those that consist of runs, `footer` is its metadata and their second copy,
//!   `summary` its buckets for plots; `seal` writes files, `join` joins small ones, `merge` reads several in
//!   row order, `unsealed` reads the logs beside them, `orphans` handles files that the catalogue does not
//!   list.
//! - `log`: the append log; `tail`: rows that are only in the log, held in memory;
//!   `spool`: the folder on another disk that holds the log while the first folder cannot be written.
//! - `catalogue`: series and files; `snapshot`: a copy of it.
//! - `rules`: what the configuration says about a variable; `paths`: names of files;
//!   `lock_file`: the lock of a folder; `database`: copies a database that is in use.

#![forbid(unsafe_code)]

mod catalogue;
mod database;
mod engine;
mod error;
mod files;
mod folder;
mod lock_file;
mod log;
mod paths;
mod query;
mod rules;
mod sync;

pub use crate::engine::{FileHistory, open};
pub use crate::folder::compact::{Compacted, compact};
pub use crate::folder::export::{arrow_batch, arrow_schema};
pub use crate::folder::rebuild::{Rebuilt, rebuild};
pub use crate::folder::spooled::Spooled;
pub use crate::folder::verify::{Finding, Verified, verify};
pub use crate::folder::{FolderError, FolderInfo, FolderSeries, HistoryFolder, backup_files};

/// Entry points for the fuzz targets.
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing {
    /// Parses the content of a log, and returns its number of rows.
    pub fn log_rows(bytes: &[u8]) -> Option<usize> {
        let recovered = crate::log::parse(bytes, 1).ok()?;
        Some(recovered.rows.iter().map(|(_, rows)| rows.len()).sum())
    }
}
