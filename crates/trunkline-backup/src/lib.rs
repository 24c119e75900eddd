//! Copies the store and the history of an engine, while it runs or not, and restores them.
//!
//! ```text
//! manifest.json              every file of the backup, with its size and checksum
//! backup.lock                held by the command that writes the backup
//! 1/store.db                 files of the first run
//! 1/history/catalogue.sqlite
//! 1/history/log-0000000012.tlh
//! 1/history/samples/date=2026-11-28/0000000011.parquet
//! 2/..                       what the second run has copied
//! ```
//!
//! Each run copies to a folder of its own, and then replaces the manifest in one step: before that,
//! the older backup is complete, and afterwards the new one is. Files of the history that do not
//! change stay where an earlier run has copied them.
//!
//! # Layout
//! - [`create`]: makes or renews a backup.
//! - [`verify`]: compares the files of a backup with its manifest.
//! - [`restore`]: puts a backup in the place of the engine's files.
//! - `manifest`, `files`, `error`: what these share.

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

/// The places of an engine's files.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Places {
    /// The file of the store; `None` if the engine has none.
    pub store: Option<PathBuf>,
    /// The folder of the history; `None` if the engine records none.
    pub history: Option<PathBuf>,
}

/// How far a command has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// Number of files that were copied or checked.
    pub files: u64,
    /// Bytes that were copied or checked.
    pub bytes: u64,
    /// Bytes of all files, if they are known.
    pub of_bytes: Option<u64>,
}

/// Is called while a command works. It ends with [`Error::Interrupted`] when this returns false.
pub type Watch<'a> = dyn FnMut(Progress) -> bool + 'a;
