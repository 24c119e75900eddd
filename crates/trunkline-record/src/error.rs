//! Errors of writing.

use std::io;
use std::time::Duration;

use trunkline_ring::ReadRegion;

/// The step of writing a segment that failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FailedStep {
    Body,
    Header,
    /// Writing checksums.
    Sums,
    /// `fdatasync`. Data written since the last successful one may be lost, even if a later one
    /// succeeds.
    Sync,
    /// The file was removed or replaced while it was being written; none of its data is left.
    Removed,
    /// Truncating the file to its length when it ends.
    Trim,
}

impl std::fmt::Display for FailedStep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Body => "writing data",
            Self::Header => "writing the header of data",
            Self::Sums => "writing checksums of data",
            Self::Sync => "syncing",
            Self::Removed => "finding the file under its name",
            Self::Trim => "truncating data that is not part of the file",
        })
    }
}

/// The failure after which a file accepts no more data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failure {
    pub step: FailedStep,
    /// The position in the file of the first segment or region that is missing.
    pub position: u64,
    pub os_error: i32,
    /// The number of bytes at the beginning of the file that are complete.
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

/// Returns what did not complete. Without outstanding writes, it is something that follows them.
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
        "the maximum of {outstanding} writes is still outstanding after {waited:?}; the disk is too \
         slow or stuck: write less, wait longer, or allow more"
    )]
    Busy {
        outstanding: usize,
        waited: Duration,
    },
    #[error(
        "{} did not complete within {waited:?}; the disk is too slow or stuck",
        unfinished(*outstanding)
    )]
    NotDone {
        /// Number of outstanding writes; 0 if only syncing or writing checksums did not complete.
        outstanding: usize,
        waited: Duration,
    },
    /// The file has failed and accepts no more data.
    #[error(transparent)]
    Failed(#[from] Failure),
    #[error("the file is closed; continue in another one")]
    Closed,
    #[error(
        "the region begins at address {address:#x}, and direct writes need a multiple of \
         {block_bytes}; acquire regions of whole blocks, write through the system's cache, or allow \
         regions of {bytes} bytes to be copied (copying; now {copy_bytes_max})"
    )]
    Unaligned {
        address: usize,
        /// The required alignment in bytes.
        block_bytes: usize,
        bytes: usize,
        /// The longest region that is copied; 0 if copying is off.
        copy_bytes_max: usize,
    },
    #[error(
        "the header is {bytes} bytes long, but at most {limit} bytes fit; increase \
         header_bytes_max, or use fewer channels and properties"
    )]
    HeaderTooLong {
        bytes: usize,
        /// The longest header that fits.
        limit: usize,
    },
    #[error(
        "the header or body ends at byte {end}, but direct writes need whole blocks of \
         {block_bytes} bytes; pad it"
    )]
    PartialBlock {
        /// The end position of the header or of the body.
        end: u64,
        block_bytes: usize,
    },
    /// The disk has no room for the next bytes to be reserved. Nothing was written.
    #[error("there is no room on the disk for {bytes} more bytes; free some, or record elsewhere")]
    DiskFull { bytes: u64 },
    #[error("the system refused the call: {0}")]
    Backend(#[from] io::Error),
}

/// A region that was not accepted, with the error. It can be appended again.
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
