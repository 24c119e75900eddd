//! Copies the store and the history of an engine, which may be running, and restores them.
//!
//! ```text
//! manifest.json              every file of the backup, with its size and checksum
//! backup.lock                held by the command that writes the backup
//! 1/store.db                 files of the first run
//! 1/history/catalogue.sqlite
//! 1/history/log-0000000012.tlh
//! 1/history/samples/date=2026-11-28/0000000011.parquet
//! 2/..                       files copied by the second run
//! ```
//!
//! Each run copies files to a folder of its own, and then replaces the manifest in one step: until then
//! the older backup is complete, and afterwards the new one is. Unchanged files of the history stay
//! where an earlier run copied them.
//!
//! # Layout
//! - [`create`]: creates or renews a backup.
//! - [`verify`]: compares the files of a backup with its manifest.
//! - [`restore`]: replaces the engine's files by those of a backup.
//! - `manifest`, `files`, `error`: shared by these.

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

/// The paths of an engine's files.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Places {
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
    /// Bytes copied or checked.
    pub bytes: u64,
    /// Total bytes, if known.
    pub of_bytes: Option<u64>,
}

/// Callback with the progress of a command. If it returns false, the command ends with
/// [`Error::Interrupted`].
pub type Watch<'a> = dyn FnMut(Progress) -> bool + 'a;
