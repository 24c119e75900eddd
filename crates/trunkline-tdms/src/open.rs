//! Defines the limits and the errors of opening a file.

use std::io;

use crate::fault::Finding;

/// Limits on the resources that the reader uses for one file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Maximum number of objects in a file. Default: 1,000,000.
    pub objects_max: usize,
    /// Maximum length of a path in bytes. Default: 65,536.
    pub path_bytes_max: u64,
    /// True to read a file up to a fault after the first segment that would otherwise cause the
    /// file to be rejected. [`Report::incomplete`](crate::Report::incomplete) then contains the
    /// fault. Default: false.
    pub is_salvaging: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            objects_max: 1_000_000,
            path_bytes_max: 64 * 1024,
            is_salvaging: false,
        }
    }
}

/// The reason why a file cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("cannot read the file at byte {position}: {source}")]
    Source {
        /// Position in the source, in bytes.
        position: u64,
        source: io::Error,
    },
    /// The file is not in this format, is inconsistent, or exceeds a limit.
    #[error("{0}")]
    Refused(Finding),
}

impl OpenError {
    pub(crate) fn source(position: u64, source: io::Error) -> Self {
        Self::Source { position, source }
    }
}
