//! Errors of reading.

use std::io;
use std::time::Duration;

use trunkline_ring::{NoRegion, WriteRegion};

/// The cause of a failed read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ReadFault {
    /// The system's error number.
    System(i32),
    /// The file has ended: it was truncated after it was opened.
    Ended,
}

impl ReadFault {
    /// Converts the system's error.
    pub(super) fn of(error: &io::Error) -> Self {
        let unknown = rustix::io::Errno::IO.raw_os_error();
        Self::System(error.raw_os_error().unwrap_or(unknown))
    }
}

impl std::fmt::Display for ReadFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::System(number) => write!(f, "{}", io::Error::from_raw_os_error(*number)),
            Self::Ended => f.write_str("the file ends there; it became shorter meanwhile"),
        }
    }
}

/// The failure after which nothing more is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("reading at byte {position} failed: {fault}; everything before it was read")]
pub struct ReadFailure {
    /// The position in the file.
    pub position: u64,
    /// The cause.
    pub fault: ReadFault,
}

/// An error of reading into a region or of finishing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadQueueError {
    /// The maximum number of reads is outstanding, and none completed in time.
    #[error(
        "the maximum of {outstanding} reads is still outstanding after {waited:?}; the disk is too \
         slow or stuck: read less, wait longer, or allow more"
    )]
    Busy {
        /// Number of outstanding reads.
        outstanding: usize,
        /// Time spent waiting for one of them.
        waited: Duration,
    },
    /// Some reads did not complete in time.
    #[error("{outstanding} reads were not done after {waited:?}; the disk is too slow or stuck")]
    NotDone {
        /// Number of outstanding reads.
        outstanding: usize,
        /// Time spent waiting.
        waited: Duration,
    },
    /// A read failed.
    #[error(transparent)]
    Failed(#[from] ReadFailure),
    /// The read extends beyond the end of the file.
    #[error(
        "{bytes} bytes from byte {position} on are more than the file has, which ends at {length}; \
         ask for fewer"
    )]
    BeyondEnd {
        /// Position of the first byte.
        position: u64,
        /// Number of bytes.
        bytes: u64,
        /// Length of the file in bytes.
        length: u64,
    },
    /// The region is longer than the rest of the total to read.
    #[error(
        "the region takes {bytes} bytes and {left} are left to be read; acquire a region of that"
    )]
    TooLong {
        /// Bytes of the region.
        bytes: u64,
        /// Bytes left to read.
        left: u64,
    },
    /// The ring has no region to read into and never will.
    #[error(transparent)]
    Ring(#[from] NoRegion),
    /// The backend itself failed.
    #[error("the system refused the call: {0}")]
    Backend(#[from] io::Error),
}

/// A region that was not accepted, with the error. It can be passed again.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct RefusedRead {
    /// The region, still held.
    pub region: WriteRegion,
    /// The reason why it was not accepted.
    #[source]
    pub error: ReadQueueError,
}
