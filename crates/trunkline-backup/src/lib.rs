//! Backs up and restores the store and the history of an engine. The engine may be running during a backup.
//!
//! ```text
//! manifest.json              list of all files of the backup, with their sizes and checksums
//! backup.lock                locked by the command that writes the backup
//! 1/store.db                 files of the first run
//! 1/history/catalogue.sqlite
//! 1/history/log-0000000012.tlh
//! 1/history/samples/date=2026-11-28/0000000011.parquet
//! 2/..                       files that the second run copied
//! ```
//!
//! Each run copies files to its own folder, and then replaces the manifest atomically. Until then, the older
//! backup remains complete; afterwards, the new backup is complete. A file of the history that has not
//! changed stays in the folder of the run that copied it.
//!
//! # Layout
//! - [`create`]: creates or renews a backup.
//! - [`verify`]: compares the files of a backup with its manifest.
//! - [`restore`]: replaces the engine's files with those of a backup.
//! - `manifest`, `files` and `error` are shared by these modules.

#![forbid(unsafe_code)]

mod create;
mod error;
mod files;
mod manifest;
mod restore;
mod verify;

use std::path::PathBuf;

pub use create::{Created, create};
pub use error::Error;
pub use manifest::{Finding, Manifest};
pub use restore::{Restored, restore, unfinished_restore};
pub use verify::{Verified, verify};

/// The paths of the files of an engine.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EnginePaths {
    /// The file of the store; `None` if the engine has none.
    pub store: Option<PathBuf>,
    /// The folder of the history; `None` if the engine records none.
    pub history: Option<PathBuf>,
}

/// The progress of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// Number of files copied or checked.
    pub files: u64,
    /// Number of bytes copied or checked.
    pub bytes: u64,
    /// Total number of bytes; `None` if it is not known.
    pub of_bytes: Option<u64>,
}

/// A callback that receives the progress of a command. If it returns false, the command ends with
/// [`Error::Interrupted`].
pub type Watch<'a> = dyn FnMut(Progress) -> bool + 'a;
