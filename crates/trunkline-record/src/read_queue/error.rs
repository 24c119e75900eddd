//! Defines the errors of reading a file into a ring.

use std::io;
use std::time::Duration;

use trunkline_ring::{NoRegion, WriteRegion};

/// The cause of a failed read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadFault {
    /// The system reported this error number.
    System(i32),
    /// The file ended early because it was truncated after it was opened.
    Ended,
}

impl ReadFault {
    pub(super) fn of(error: &io::Error) -> Self {
        let unknown = rustix::io::Errno::IO.raw_os_error();
        Self::System(error.raw_os_error().unwrap_or(unknown))
    }
}

impl std::fmt::Display for ReadFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::System(number) => write!(f, "{}", io::Error::from_raw_os_error(*number)),
            Self::Ended => {
                f.write_str("the file ends there because it was truncated after it was opened")
            }
        }
    }
}

/// The failure that stopped reading.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("cannot read at byte {position}: {fault}; all data before this byte was read")]
pub struct ReadFailure {
    pub position: u64,
    pub fault: ReadFault,
}

/// An error from starting a read or from waiting for reads.
#[derive(Debug, thiserror::Error)]
pub enum ReadQueueError {
    #[error(
        "{outstanding} reads, the maximum, are still outstanding after {waited:?}: the disk is too \
         slow or has stalled; read less, wait longer, or allow more outstanding reads"
    )]
    Busy {
        outstanding: usize,
        waited: Duration,
    },
    #[error(
        "{outstanding} reads did not complete within {waited:?}: the disk is too slow or has \
         stalled; wait longer, or check the disk"
    )]
    TimedOut {
        outstanding: usize,
        waited: Duration,
    },
    #[error(transparent)]
    Failed(#[from] ReadFailure),
    #[error(
        "cannot read {bytes} bytes at byte {position}: the file ends at byte {length}; request \
         fewer bytes"
    )]
    BeyondEnd {
        position: u64,
        bytes: u64,
        length: u64,
    },
    #[error(
        "the region holds {bytes} bytes, but only {remaining} bytes are left to read; acquire a smaller \
         region"
    )]
    TooLong { bytes: u64, remaining: u64 },
    /// The ring cannot provide a region to read into, now or later.
    #[error(transparent)]
    Ring(#[from] NoRegion),
    #[error("the operating system refused the operation: {0}")]
    Backend(#[from] io::Error),
}

/// A region that the queue refused, and the reason. The caller can pass the region again.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct RefusedRead {
    pub region: WriteRegion,
    #[source]
    pub error: ReadQueueError,
}
