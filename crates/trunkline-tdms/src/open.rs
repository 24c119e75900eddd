//! Opening: from bytes to a map of what is in them.

use std::io;

use crate::fault::Finding;
use crate::file::TdmsFile;
use crate::read_at::ReadAt;
use crate::walk::{Kind, Walk};

/// Bounds on what a file may make its reader do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Objects in a file; 1,000,000 unless set.
    pub objects_max: usize,
    /// Bytes of a path; 65,536 unless set.
    pub path_bytes_max: u64,
    /// Whether a file that contradicts itself behind its first segment is read up to there, instead
    /// of refused. What is wrong is then [`Report::incomplete`](crate::Report::incomplete).
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

/// Why a file cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The source failed.
    #[error("reading at byte {position} failed: {source}")]
    Source {
        /// Where, in the source that failed.
        position: u64,
        /// What it says.
        source: io::Error,
    },
    /// The file is not of this format, or contradicts itself.
    #[error("{0}")]
    Refused(Finding),
}

impl<R: ReadAt> TdmsFile<R> {
    /// Opens a data file.
    ///
    /// Files that were not closed, or lost their end, are opened with what is left;
    /// [`TdmsFile::report`] says so.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(source: R) -> Result<Self, OpenError> {
        Self::open_with(source, Limits::default())
    }

    /// Opens a data file within limits.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open_with(source: R, limits: Limits) -> Result<Self, OpenError> {
        let map = Walk::new(&source, None::<&[u8]>, Kind::Data, limits)?.run()?;
        Ok(Self::of(source, map))
    }

    /// Opens a data file, and compares its index file with it.
    ///
    /// The result is the same with any index, or none: what the data file says counts. An index
    /// that differs, because it is old, damaged or of another file, is a finding
    /// ([`Fault::StaleIndex`](crate::Fault::StaleIndex)).
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open_indexed<I: ReadAt>(source: R, index: I, limits: Limits) -> Result<Self, OpenError> {
        let map = Walk::new(&source, Some(&index), Kind::Data, limits)?.run()?;
        Ok(Self::of(source, map))
    }

    /// Opens an index file alone: objects and properties, and no data.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open_index(source: R, limits: Limits) -> Result<Self, OpenError> {
        let map = Walk::new(&source, None::<&[u8]>, Kind::IndexAlone, limits)?.run()?;
        Ok(Self::of(source, map))
    }
}
