//! Bounds and errors of opening a file.

use std::io;

use crate::fault::Finding;

/// Bounds on the resources that a file may make its reader use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Maximum number of objects in a file. Default: 1,000,000.
    pub objects_max: usize,
    /// Maximum length of a path in bytes. Default: 65,536.
    pub path_bytes_max: u64,
    /// If a fault after the first segment would cause the file to be rejected, reads the file up to
    /// that fault instead. The fault is then in [`Report::incomplete`](crate::Report::incomplete).
    /// Default: false.
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
    #[error("reading at byte {position} failed: {source}")]
    Source {
        /// The position in the source that failed.
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
