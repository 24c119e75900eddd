//! Why something is not read.

use std::io;
use std::time::Duration;

use trunkline_ring::{NoRegion, WriteRegion};

/// What went wrong with a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ReadFault {
    /// The system says so, by its number.
    System(i32),
    /// The file has ended: it was made shorter since it was opened.
    Ended,
}

impl ReadFault {
    /// What the system says.
    pub(super) fn of(error: &io::Error) -> Self {
        let unknown = rustix::io::Errno::IO.raw_os_error();
        Self::System(error.raw_os_error().unwrap_or(unknown))
    }
}

impl std::fmt::Display for ReadFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::System(number) => write!(f, "{}", io::Error::from_raw_os_error(*number)),
            Self::Ended => f.write_str("the file ends there; it was made shorter meanwhile"),
        }
    }
}

/// Why nothing more is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("reading at byte {position} failed: {fault}; what stands before it was read")]
pub struct ReadFailure {
    /// Where in the file.
    pub position: u64,
    /// What.
    pub fault: ReadFault,
}

/// Why the queue does not read something, or did not come to an end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadQueueError {
    /// All reads that may be outstanding are, and none was done in time.
    #[error(
        "all {outstanding} reads that may be outstanding still are after {waited:?}; the disk is \
         too slow, or stands: read less, wait for longer, or allow more"
    )]
    Busy {
        /// How many are outstanding.
        outstanding: usize,
        /// How long was waited for one of them.
        waited: Duration,
    },
    /// Not everything was done in time.
    #[error("{outstanding} reads were not done after {waited:?}; the disk is too slow, or stands")]
    NotDone {
        /// How many are outstanding.
        outstanding: usize,
        /// How long was waited.
        waited: Duration,
    },
    /// A read has failed.
    #[error(transparent)]
    Failed(#[from] ReadFailure),
    /// More was to be read than the file has.
    #[error(
        "{bytes} bytes from byte {position} on are more than the file has, which ends at {length}; \
         ask for fewer"
    )]
    BeyondEnd {
        /// From where on.
        position: u64,
        /// How many.
        bytes: u64,
        /// Bytes of the file.
        length: u64,
    },
    /// A region takes more than is left to be read.
    #[error(
        "the region takes {bytes} bytes and {left} are left to be read; acquire a region of that"
    )]
    TooLong {
        /// Bytes of the region.
        bytes: u64,
        /// What is left.
        left: u64,
    },
    /// There is no region to read into, and never will be.
    #[error(transparent)]
    Ring(#[from] NoRegion),
    /// The backend itself has failed.
    #[error("the system does not take the call: {0}")]
    Backend(#[from] io::Error),
}

/// A region that was not taken, and why. It can be given again.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct RefusedRead {
    /// The region, still held.
    pub region: WriteRegion,
    /// Why.
    #[source]
    pub error: ReadQueueError,
}
