//! Opens a file: walks over its bytes and builds a map of its content.

use std::io;

use crate::fault::Finding;
use crate::file::TdmsFile;
use crate::read_at::ReadAt;
use crate::walk::{Kind, Walk};

/// Bounds on the resources that a file may make its reader use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Maximum number of objects in a file. Default: 1,000,000.
    pub objects_max: usize,
    /// Maximum length of a path in bytes. Default: 65,536.
    pub path_bytes_max: u64,
    /// Reads a file that contradicts itself after its first segment up to that point, instead of
    /// refusing it. The fault is then in [`Report::incomplete`](crate::Report::incomplete).
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
#[non_exhaustive]
pub enum OpenError {
    /// The source failed.
    #[error("reading at byte {position} failed: {source}")]
    Source {
        /// The position in the source that failed.
        position: u64,
        /// Its error.
        source: io::Error,
    },
    /// The file is not in this format, or contradicts itself.
    #[error("{0}")]
    Refused(Finding),
}

impl OpenError {
    pub(crate) fn source(position: u64, source: io::Error) -> Self {
        Self::Source { position, source }
    }
}

impl<R: ReadAt> TdmsFile<R> {
    /// Opens a data file.
    ///
    /// Files that were not closed or lost their end are opened as far as they go;
    /// [`TdmsFile::report`] describes the damage.
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
    /// The result is the same with any index or none, because the data file takes precedence. An
    /// index that differs, because it is old, damaged or belongs to another file, is a finding
    /// ([`Fault::StaleIndex`](crate::Fault::StaleIndex)).
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open_indexed<I: ReadAt>(source: R, index: I, limits: Limits) -> Result<Self, OpenError> {
        let map = Walk::new(&source, Some(&index), Kind::Data, limits)?.run()?;
        Ok(Self::of(source, map))
    }

    /// Opens an index file without its data file: objects and properties, but no data.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open_index(source: R, limits: Limits) -> Result<Self, OpenError> {
        let map = Walk::new(&source, None::<&[u8]>, Kind::IndexAlone, limits)?.run()?;
        Ok(Self::of(source, map))
    }
}
