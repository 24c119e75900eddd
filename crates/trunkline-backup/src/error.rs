//! Reasons why a backup cannot be made, read or restored, each with its remedy.

use std::io;
use std::path::{Path, PathBuf};

use trunkline_engine::history::HistoryError;
use trunkline_engine::store::StoreError;

use crate::manifest::Finding;

/// The error of a backup command. It displays as a sentence with its remedy.
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
        "the engine of this configuration has neither a store nor a history, so there is nothing \
         to copy; name the configuration that `trunkline serve` uses, and its --store"
    )]
    Nothing,
    /// The engine has never run.
    #[error("there is no {0}; start the engine once, or name the configuration that it uses")]
    NotThere(String),
    /// The destination is a folder with other files.
    #[error("{} has other files and is not a backup; name a new or an empty folder", .0.display())]
    NotEmpty(PathBuf),
    /// The destination is inside the history, or contains it.
    #[error("{} is a part of the engine's own files; name another folder", .0.display())]
    Inside(PathBuf),
    /// Another command writes this backup.
    #[error("{} is in use by another command; wait until it has ended", .0.display())]
    InUse(PathBuf),
    /// The folder has a backup of another engine.
    #[error("{} is a backup of another engine, {engine}; name another folder", path.display())]
    OtherEngine {
        /// The backup.
        path: PathBuf,
        /// Name of the engine.
        engine: String,
    },
    /// The backup has a part that the engine lacks now.
    #[error(
        "the backup has a {0}, but the engine has none now: mount its disk, or name it as \
         `trunkline serve` does; to back up without it, name a new folder"
    )]
    PartMissing(&'static str),
    /// A copy reads back differently from what was written.
    #[error("{} cannot be read as it was written; check the disk of the backup", .0.display())]
    Unreliable(PathBuf),
    /// The database changes faster than it can be copied.
    #[error(
        "{} changed all the time while it was copied; try again when the engine has less to store",
        .0.display()
    )]
    Changing(PathBuf),
    /// The history's files are replaced faster than they can be copied.
    #[error("files of the history {} were replaced again and again; try again", .0.display())]
    Replaced(PathBuf),
    /// There is no complete backup.
    #[error("{} is not a backup: it has no manifest.json; name the folder of a backup", .0.display())]
    NoBackup(PathBuf),
    /// A newer version made the backup.
    #[error("{} was made by a newer version; use that version", .0.display())]
    Newer(PathBuf),
    /// The manifest is damaged.
    #[error("{} is damaged ({what}); use another backup", path.display())]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// Description of the damage.
        what: String,
    },
    /// Files of the backup are damaged.
    #[error(
        "{0} is damaged, and nothing was changed; if the files of the engine are still there, \
         `trunkline backup create {0}` with its configuration copies damaged files again; otherwise \
         use another backup", backup.display()
    )]
    Damaged {
        /// The backup.
        backup: PathBuf,
        /// The damaged files, with descriptions.
        findings: Vec<Finding>,
    },
    /// The configuration has no place for a part of the backup.
    #[error("the backup has a {0}, but the configuration has none; add it to the configuration")]
    NoPlace(&'static str),
    /// A destination of the restore exists.
    #[error("{} exists; --replace moves it aside", .0.display())]
    Exists(PathBuf),
    /// An earlier restore was interrupted after it had begun to replace files.
    #[error(
        "a restore was interrupted, see {}; run the same `trunkline backup restore` again to \
         complete it", .0.display()
    )]
    Unfinished(PathBuf),
    /// The destination is a mount point, which cannot be replaced by another folder.
    #[error(
        "{} is a mount point, and cannot be moved aside; nothing was changed; name a place below it \
         in the configuration", .0.display()
    )]
    MountPoint(PathBuf),
    /// A file or folder cannot be moved; everything is as before.
    #[error(
        "{} cannot be moved to {}: {why}; nothing was changed; correct this, or name another place in \
         the configuration", from.display(), to.display()
    )]
    NotMoved {
        /// The file or folder to move.
        from: PathBuf,
        /// Its destination.
        to: PathBuf,
        /// The reason for the failure.
        why: String,
    },
    /// The restore cannot be completed.
    #[error("{} cannot be moved to {}: {why}; move it yourself, then run the command again",
        from.display(), to.display())]
    Stuck {
        /// The file or folder to move.
        from: PathBuf,
        /// Its destination.
        to: PathBuf,
        /// The reason for the failure.
        why: String,
    },
    /// The caller has ended the command.
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

    /// Returns true if the error is a missing file.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { error, .. } if error.kind() == io::ErrorKind::NotFound)
    }
}

/// Describes why a file or folder cannot be used.
pub(crate) fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ResourceBusy => "something is mounted there, or uses it".to_owned(),
        io::ErrorKind::CrossesDevices => "it is on another file system".to_owned(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "its disk is full; make room, then try again".to_owned()
        }
        io::ErrorKind::PermissionDenied => {
            "this user has no permission; use the user of the engine".to_owned()
        }
        io::ErrorKind::ReadOnlyFilesystem => "its disk is read-only".to_owned(),
        io::ErrorKind::NotFound => "it is missing".to_owned(),
        _ => error.to_string(),
    }
}
