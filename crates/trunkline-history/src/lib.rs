//! Records updates of variables, and answers queries about them.
//!
//! Updates are first made durable in an append log, and then moved to Parquet files in the background.
//! Both are in one folder, which other programs may read at any time:
//!
//! ```text
//! catalogue.sqlite                          series and files
//! log-0000000012.tlh                        rows that are not in files yet
//! samples/date=2026-11-28/0000000011.parquet    rows of one UTC date and one log segment
//! summaries/date=..                         aggregates of the rows over time buckets, for plots
//! unfinished/                               files that are still being written
//! footers/date=..                           copies of the Parquet footers
//! set-apart/                                files that the catalogue did not list at a start
//! lock                                      held by the engine that records
//! identity                                  identity of the history, if it has a spool
//! spool                                     path of the spool
//! ```
//!
//! Each row counts once, either in the log or in a file: one transaction of the catalogue enters the files
//! of a log segment, and from then on the log of that segment is ignored. After a crash, the logs of all
//! other segments are read again. While the folder cannot be written, the log continues in a second folder,
//! the spool.
//!
//! # Layout
//! A module imports only modules that are listed below it (`cargo xtask layers`).
//!
//! - `engine`: [`FileHistory`], the history of an engine; `recorder` takes updates from the engine;
//!   `spooling` decides which folder holds the log.
//! - `folder`: [`HistoryFolder`] reads a folder without recording; [`verify`], [`rebuild`] and [`compact`]
//!   are the commands for a folder; [`backup_files`] supports backups; [`arrow_batch`] exports rows.
//! - `query`: answers queries, page by page.
//! - `files`: Parquet files. `part` is a single file; `schema` defines the columns, `row_groups` writes
//!   them, and `run_columns` encodes columns that consist of runs; `footer` stores the metadata twice;
//!   `summary` stores buckets for plots; `seal` moves a log segment to files, `join` joins small files, and
//!   `merge` reads several files in row order; `unsealed` reads the logs whose rows are not in files;
//!   `orphans` handles files that the catalogue does not list.
//! - `log`: the append-only log; `tail` holds the rows in memory that are not in files yet; `spool` is the
//!   folder on another disk that holds the log while the history's folder cannot be written.
//! - `catalogue`: the database of series and files; `snapshot` reads a copy of it.
//! - `rules`: the configured settings of a variable; `paths`: names of files; `lock_file`: the lock of a
//!   folder; `database`: copies a database that is in use.

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
mod private;
mod query;
mod rules;
mod sync;

pub use crate::engine::{FileHistory, open};
pub use crate::folder::compact::{Compacted, compact};
pub use crate::folder::export::{arrow_batch, arrow_schema};
pub use crate::folder::rebuild::{PossibleDuplicates, Rebuilt, rebuild};
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
