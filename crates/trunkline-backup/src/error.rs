//! Defines the errors of backup commands. Each message names a remedy.

use std::io;
use std::path::{Path, PathBuf};

use trunkline_engine::history::HistoryError;
use trunkline_engine::store::StoreError;

use crate::manifest::Finding;

/// An error of a backup command.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder cannot be read or written.
    #[error("{}: {}", path.display(), reason(error))]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The store cannot be copied or replaced.
    #[error("{0}")]
    Store(StoreError),
    /// The history cannot be copied or replaced.
    #[error("{0}")]
    History(HistoryError),
    /// The engine has neither a store nor a history.
    #[error(
        "the configuration names neither a store nor a history, so there is nothing to copy; \
         specify the configuration and the --store with which `trunkline serve` is started"
    )]
    NothingConfigured,
    /// The files of the engine do not exist, probably because the engine has never run.
    #[error("there is no {0}; start the engine once, or specify the configuration that it uses")]
    NoEngineFiles(String),
    /// The destination is a folder that contains other files.
    #[error("{} contains files and is not a backup; specify a new or an empty folder", .0.display())]
    NotEmpty(PathBuf),
    /// The destination is inside the history's folder, or contains that folder.
    #[error(
        "{} is inside the folder of the history, or contains it; specify another folder",
        .0.display()
    )]
    OverlapsHistory(PathBuf),
    /// Another command is writing this backup.
    #[error("another command is writing {}; wait for that command to end, then try again", .0.display())]
    InUse(PathBuf),
    /// The folder contains a backup of another engine.
    #[error(
        "{} is the backup of another engine, named {engine}; specify another folder",
        path.display()
    )]
    OtherEngine {
        /// The folder of the backup.
        path: PathBuf,
        /// Name of the other engine.
        engine: String,
    },
    /// The backup has a part that the engine does not have now.
    #[error(
        "the backup has a {0}, but the engine has none now; mount the disk of the {0}, or specify \
         the same {0} as for `trunkline serve`; to back up without it, specify a new folder"
    )]
    PartMissing(&'static str),
    /// Reading a copy returned other content than was written.
    #[error(
        "{} does not contain what was written to it; check the disk of the backup",
        .0.display()
    )]
    Unreliable(PathBuf),
    /// The database changed during every attempt to copy it.
    #[error(
        "{} changed during every attempt to copy it; try again when the engine is writing less data",
        .0.display()
    )]
    Changing(PathBuf),
    /// Files of the history were replaced during every attempt to copy them.
    #[error(
        "the engine replaced files of the history {} during every attempt to copy them; try again",
        .0.display()
    )]
    Replaced(PathBuf),
    /// The folder does not contain a complete backup.
    #[error(
        "there is no backup in {}: manifest.json does not exist there; specify the folder of a backup",
        .0.display()
    )]
    NoBackup(PathBuf),
    /// A newer version made the backup.
    #[error(
        "a newer version of trunkline made the backup {}; use that version",
        .0.display()
    )]
    Newer(PathBuf),
    /// The manifest is damaged.
    #[error("{} is damaged ({what}); use another backup", path.display())]
    Manifest {
        /// The file of the manifest.
        path: PathBuf,
        /// Description of the damage.
        what: String,
    },
    /// Files of the backup are damaged.
    #[error(
        "the backup {0} is damaged, and nothing was changed; if the files of the engine still \
         exist, `trunkline backup create {0}` with the configuration of the engine copies the \
         damaged files again; otherwise, use another backup", backup.display()
    )]
    Damaged {
        /// The folder of the backup.
        backup: PathBuf,
        /// The damaged files, with descriptions.
        findings: Vec<Finding>,
    },
    /// The configuration names no destination for a part of the backup.
    #[error(
        "the backup has a {0}, but the configuration names none; add a {0} to the configuration"
    )]
    NotConfigured(&'static str),
    /// A destination of the restore exists.
    #[error("{} exists; add --replace to move it aside", .0.display())]
    Exists(PathBuf),
    /// An earlier restore was interrupted while it replaced files.
    #[error(
        "a restore was interrupted, as {} describes; run the same `trunkline backup restore` again \
         to complete it", .0.display()
    )]
    Unfinished(PathBuf),
    /// The destination is a mount point, which cannot be moved.
    #[error(
        "{} is a mount point, and cannot be moved aside; nothing was changed; specify a folder \
         or file inside it in the configuration", .0.display()
    )]
    MountPoint(PathBuf),
    /// A file or folder cannot be moved, and nothing was changed.
    #[error(
        "{} cannot be moved to {}: {why}; nothing was changed; remove the cause, or specify \
         another path in the configuration", from.display(), to.display()
    )]
    NotMoved {
        /// The file or folder to move.
        from: PathBuf,
        /// Its destination.
        to: PathBuf,
        /// The reason for the failure.
        why: String,
    },
    /// A file or folder cannot be moved after others were moved, so the restore is incomplete.
    #[error("{} cannot be moved to {}: {why}; move it yourself, then run the command again",
        from.display(), to.display())]
    IncompleteMove {
        /// The file or folder to move.
        from: PathBuf,
        /// Its destination.
        to: PathBuf,
        /// The reason for the failure.
        why: String,
    },
    /// The caller interrupted the command.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        |error| Self::Io {
            path: path.to_owned(),
            error,
        }
    }

    /// Returns true if a file does not exist.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { error, .. } if error.kind() == io::ErrorKind::NotFound)
    }
}

/// Returns the reason why a file or folder cannot be used, for users.
pub(crate) fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ResourceBusy => "another program uses it, or it is a mount point".to_owned(),
        io::ErrorKind::CrossesDevices => "it is on another file system".to_owned(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "its disk is full; free some space, then try again".to_owned()
        }
        io::ErrorKind::PermissionDenied => {
            "this user has no permission; run the command as the user of the engine".to_owned()
        }
        io::ErrorKind::ReadOnlyFilesystem => "its disk is read-only".to_owned(),
        io::ErrorKind::NotFound => "it does not exist".to_owned(),
        _ => error.to_string(),
    }
}
