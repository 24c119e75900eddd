//! Defines the errors of writing a file.

use std::io;
use std::time::Duration;

use trunkline_ring::ReadRegion;

/// The step of writing a segment that failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FailedStep {
    /// Writing the data of a segment.
    Body,
    /// Writing the header of a segment.
    Header,
    /// Writing the checksums of segments.
    Sums,
    /// Syncing the file with `fdatasync`. Data written since the last successful sync may be lost,
    /// even if a later sync succeeds.
    Sync,
    /// Finding the file by its name. The file was removed or replaced while it was being written,
    /// and none of its data is left.
    Removed,
    /// Truncating the file to its final length.
    Trim,
}

impl std::fmt::Display for FailedStep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Body => "writing data",
            Self::Header => "writing a header",
            Self::Sums => "writing checksums",
            Self::Sync => "syncing",
            Self::Removed => "finding the file by its name",
            Self::Trim => "truncating extra bytes",
        })
    }
}

/// The failure that ended a file. The file accepts no more data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failure {
    pub step: FailedStep,
    /// Position in the file of the first missing segment or region.
    pub position: u64,
    /// Error number of the operating system.
    pub os_error: i32,
    /// Number of complete bytes at the beginning of the file.
    pub written: u64,
}

impl std::error::Error for Failure {}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.step == FailedStep::Removed {
            return f.write_str(
                "the file was removed or replaced while it was being written, and its content is lost; \
                 record to another file, and make sure that no program removes it",
            );
        }
        let (step, position, written) = (self.step, self.position, self.written);
        let error = io::Error::from_raw_os_error(self.os_error);
        write!(
            f,
            "{step} at byte {position} failed: {error}; the file is complete up to byte {written}; \
             continue in another file"
        )
    }
}

/// Describes the operations that did not complete. Other operations follow once no write is
/// outstanding.
fn unfinished(outstanding: usize) -> String {
    match outstanding {
        0 => "syncing or writing checksums".to_owned(),
        1 => "1 write".to_owned(),
        count => format!("{count} writes"),
    }
}

/// An error of appending to a queue or of closing it.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    #[error(
        "{outstanding} writes, the maximum, are still outstanding after {waited:?}: the disk is too \
         slow or has stalled; write less, wait longer, or allow more outstanding writes"
    )]
    Busy {
        outstanding: usize,
        waited: Duration,
    },
    #[error(
        "{} did not complete within {waited:?}: the disk is too slow or has stalled; wait longer, or \
         check the disk",
        unfinished(*outstanding)
    )]
    TimedOut {
        /// Number of outstanding writes; 0 if only syncing or writing checksums did not complete.
        outstanding: usize,
        waited: Duration,
    },
    /// The file has failed and accepts no more data.
    #[error(transparent)]
    Failed(#[from] Failure),
    #[error("the file is closed; continue in another file")]
    Closed,
    #[error(
        "the region begins at address {address:#x}, but direct writes need a multiple of \
         {block_bytes}; acquire regions of whole blocks, write through the page cache, or allow \
         regions of {bytes} bytes to be copied (copying allows {copy_bytes_max})"
    )]
    Unaligned {
        address: usize,
        /// The required alignment in bytes.
        block_bytes: usize,
        bytes: usize,
        /// Maximum length in bytes of a region that is copied; 0 if copying is disabled.
        copy_bytes_max: usize,
    },
    #[error(
        "the header has {bytes} bytes, but at most {limit} bytes are allowed; increase \
         header_bytes_max, or use fewer channels and properties"
    )]
    HeaderTooLong {
        bytes: usize,
        /// Maximum length of a header in bytes.
        limit: usize,
    },
    #[error(
        "the header or body ends at byte {end}, but direct writes need whole blocks of \
         {block_bytes} bytes; pad the header or body"
    )]
    PartialBlock {
        /// Position in the file at which the header or the body ends.
        end: u64,
        block_bytes: usize,
    },
    /// The disk does not have enough free space for the next data. Nothing was written.
    #[error(
        "the disk does not have {bytes} more bytes of free space; free some space, or record to \
         another disk"
    )]
    DiskFull { bytes: u64 },
    #[error("the operating system refused the operation: {0}")]
    Backend(#[from] io::Error),
}

/// A region that the queue refused, and the reason. The caller can append the region again.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Refused {
    pub region: ReadRegion,
    #[source]
    pub error: QueueError,
}

/// Returns true if the system postponed the operation.
pub(crate) fn is_transient(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock
    )
}

/// Returns the operating system's error number, or `EIO` if the error has none.
pub(crate) fn os_error(error: &io::Error) -> i32 {
    let unknown = rustix::io::Errno::IO.raw_os_error();
    error.raw_os_error().unwrap_or(unknown)
}
