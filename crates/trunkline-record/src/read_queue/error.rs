//! Errors of reading.

use std::io;
use std::time::Duration;

use trunkline_ring::{NoRegion, WriteRegion};

/// The cause of a failed read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadFault {
    System(i32),
    /// The file has ended: it was truncated after it was opened.
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
            Self::Ended => f.write_str("the file ends there; it was truncated after it was opened"),
        }
    }
}

/// The failure after which nothing more is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("reading at byte {position} failed: {fault}; everything before it was read")]
pub struct ReadFailure {
    pub position: u64,
    pub fault: ReadFault,
}

/// An error of reading into a region or of finishing.
#[derive(Debug, thiserror::Error)]
pub enum ReadQueueError {
    #[error(
        "the maximum of {outstanding} reads is still outstanding after {waited:?}; the disk is too \
         slow or stuck: read less, wait longer, or allow more"
    )]
    Busy {
        outstanding: usize,
        waited: Duration,
    },
    #[error(
        "{outstanding} reads did not complete within {waited:?}; the disk is too slow or stuck"
    )]
    NotDone {
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
    /// The ring has no region to read into and never will.
    #[error(transparent)]
    Ring(#[from] NoRegion),
    #[error("the system refused the call: {0}")]
    Backend(#[from] io::Error),
}

/// A region that was not accepted, with the error. It can be passed again.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct RefusedRead {
    pub region: WriteRegion,
    #[source]
    pub error: ReadQueueError,
}
