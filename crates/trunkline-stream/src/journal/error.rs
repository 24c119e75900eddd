//! What can go wrong with a journal, and who is to do what about it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why a journal cannot be used, or not now. Shown to people as it is.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The disk does not do what it is asked.
    #[error("the journal in {} cannot be {action}: {cause}; {}", folder.display(), hint(cause.kind()))]
    Disk {
        /// The journal's folder.
        folder: PathBuf,
        /// What was to be done.
        action: &'static str,
        /// What the system said.
        #[source]
        cause: Arc<io::Error>,
    },
    /// The files are not what this program has written.
    #[error(
        "the journal in {} is damaged: {what}; keep a copy of the folder if it matters, then remove \
         it and create both ends of the stream anew", folder.display()
    )]
    Damaged {
        /// The journal's folder.
        folder: PathBuf,
        /// Where.
        what: String,
    },
    /// It is the journal of another endpoint.
    #[error(
        "the journal in {} is that of {of}; give each endpoint a folder of its own", folder.display()
    )]
    NotOurs {
        /// The journal's folder.
        folder: PathBuf,
        /// Whose it is.
        of: String,
    },
    /// It has more than the buffer of the endpoint holds.
    #[error(
        "the journal in {} has {bytes} bytes in {elements} elements that were not read, more than \
         this endpoint's buffer holds: create it with a larger one", folder.display()
    )]
    Unread {
        /// The journal's folder.
        folder: PathBuf,
        /// So much it has.
        bytes: u64,
        /// In so many elements.
        elements: u64,
    },
    /// Its bound is too small for the buffer of the endpoint.
    #[error(
        "a journal of at most {bytes_max} bytes is too small for this endpoint's buffer: allow it \
         {least} or more"
    )]
    TooSmall {
        /// What it was to have.
        bytes_max: u64,
        /// What it needs.
        least: u64,
    },
}

/// Two are the same that say the same.
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

    /// Whether it may go away while the endpoint is there: the disk is full, or does not let us.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Disk { action, .. } if *action != SYNCED)
    }
}

/// A disk that could not do this has to be taken for one that has lost what it was given.
pub(super) const SYNCED: &str = "brought to the disk";

fn hint(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "make room on that disk: what the journal has is intact, and the stream goes on"
        }
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            "let this program write there: what the journal has is intact"
        }
        io::ErrorKind::WouldBlock => {
            "another endpoint uses it: end that one, or give each a folder of its own"
        }
        _ => "look after the disk, then create the endpoint again",
    }
}
