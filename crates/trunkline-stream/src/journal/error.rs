//! Defines the errors of a journal. Each message names the remedy.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An error that prevents the use of a journal, permanently or at present. The message is written
/// for users.
#[derive(Clone, Debug, thiserror::Error)]
pub enum JournalError {
    #[error(
        "the journal in {} cannot be {action}: {}; {}",
        folder.display(), reason(cause), hint(cause.kind())
    )]
    Disk {
        folder: PathBuf,
        /// The operation that failed.
        action: &'static str,
        #[source]
        cause: Arc<io::Error>,
    },
    #[error("{} is a file, but a journal needs a folder; specify a folder instead", path.display())]
    NotAFolder { path: PathBuf },
    #[error(
        "the system cannot start a thread for the journal in {}: {cause}; too many threads are \
         running, or memory is low: stop some programs, then create the endpoint again", folder.display()
    )]
    Thread {
        folder: PathBuf,
        #[source]
        cause: Arc<io::Error>,
    },
    #[error(
        "the journal in {} is damaged: {what}; keep a copy of the folder if you need it, then \
         remove it and re-create both ends of the stream", folder.display()
    )]
    Damaged {
        folder: PathBuf,
        /// The damaged part.
        what: String,
    },
    #[error(
        "the journal in {} belongs to {owner}; give each endpoint its own folder", folder.display()
    )]
    WrongOwner {
        folder: PathBuf,
        /// The endpoint that owns the journal, for messages.
        owner: String,
    },
    #[error(
        "the journal in {} has {bytes} bytes in {elements} elements that were not read, more than \
         this endpoint's buffer holds: create the endpoint with a larger buffer", folder.display()
    )]
    Unread {
        folder: PathBuf,
        bytes: u64,
        elements: u64,
    },
    #[error(
        "a journal of at most {bytes_max} bytes is too small for this endpoint's buffer: allow at \
         least {bytes_min} bytes"
    )]
    TooSmall {
        /// The configured limit, in bytes.
        bytes_max: u64,
        /// The smallest permitted limit, in bytes.
        bytes_min: u64,
    },
    #[error(
        "an endpoint with a journal needs a buffer smaller than 4 GiB, but this buffer has {bytes} \
         bytes: create the endpoint with a smaller buffer"
    )]
    BufferTooLarge {
        /// Size of the buffer, in bytes.
        bytes: u64,
    },
}

/// Two errors are equal if their messages are equal.
impl PartialEq for JournalError {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Eq for JournalError {}

impl JournalError {
    pub(crate) fn disk(folder: &Path, action: &'static str, cause: io::Error) -> Self {
        Self::Disk {
            folder: folder.to_owned(),
            action,
            cause: Arc::new(cause),
        }
    }

    pub(super) fn damaged(folder: &Path, what: impl Into<String>) -> Self {
        Self::Damaged {
            folder: folder.to_owned(),
            what: what.into(),
        }
    }

    /// Returns true if the error may be temporary, such as a full disk or denied access.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Disk { action, .. } if *action != SYNCED)
    }
}

/// After this operation fails, everything written to the disk must be considered lost.
pub(super) const SYNCED: &str = "flushed to the disk";

fn reason(cause: &io::Error) -> String {
    match cause.kind() {
        io::ErrorKind::NotFound => "there is no such file or folder".to_owned(),
        _ => cause.to_string(),
    }
}

fn hint(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "free some space on its disk; the journal is intact, and the stream continues"
        }
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            "give this program write access; the journal is intact"
        }
        io::ErrorKind::WouldBlock => {
            "another endpoint is using it: close that endpoint, or give each endpoint its own folder"
        }
        _ => "check the folder and the disk, then try again",
    }
}
