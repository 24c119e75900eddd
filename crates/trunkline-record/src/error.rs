//! Why something is not written.

use std::io;
use std::time::Duration;

use trunkline_ring::ReadRegion;

/// Which step of a segment has failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum FailedStep {
    /// Writing the body.
    Body,
    /// Writing the header.
    Header,
    /// Writing checksums.
    Sums,
    /// `fdatasync`. What was written since the last one may be lost, even if a later one succeeds.
    Sync,
    /// The file was removed or replaced while it was written: nothing of it is left.
    Removed,
    /// Cutting the file to its length when it ends.
    Trim,
}

impl std::fmt::Display for FailedStep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Body => "writing data",
            Self::Header => "writing the header of data",
            Self::Sums => "writing checksums of data",
            Self::Sync => "syncing",
            Self::Removed => "finding the file at its name",
            Self::Trim => "cutting off what is no part of the file",
        })
    }
}

/// Why a file takes nothing more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failure {
    /// What was being done.
    pub step: FailedStep,
    /// Where in the file the segment begins that is not in it, or the region.
    pub position: u64,
    /// The number of the system's error.
    pub os_error: i32,
    /// Everything before is in the file.
    pub written: u64,
}

impl std::error::Error for Failure {}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.step == FailedStep::Removed {
            return f.write_str(
                "the file was removed or replaced while it was written, and what was in it is \
                 lost; record in another file, which no program removes",
            );
        }
        let (step, position, written) = (self.step, self.position, self.written);
        let error = io::Error::from_raw_os_error(self.os_error);
        write!(
            f,
            "{step} at byte {position} failed: {error}; the file is whole up to byte {written}; go \
             on in another file"
        )
    }
}

/// Why the queue does not take something, or did not come to an end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueueError {
    /// All writes that may be outstanding are, and none was done in time.
    #[error(
        "all {outstanding} writes that may be outstanding still are after {waited:?}; the disk is \
         too slow, or stands: write less, wait for longer, or allow more"
    )]
    Busy {
        /// How many are outstanding.
        outstanding: usize,
        /// How long was waited for one of them.
        waited: Duration,
    },
    /// Not everything was done in time.
    #[error("{outstanding} writes were not done after {waited:?}; the disk is too slow, or stands")]
    NotDone {
        /// How many are outstanding; 0 where only the sync was.
        outstanding: usize,
        /// How long was waited.
        waited: Duration,
    },
    /// The file takes nothing more.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The file was closed.
    #[error("the file is closed; go on in another one")]
    Closed,
    /// The region does not begin where a direct write may, and may not be copied.
    #[error(
        "the region begins at address {address:#x}, and direct writes need a multiple of \
         {block_bytes}; acquire regions of whole blocks, write through the system's cache, or allow \
         regions of {bytes} bytes to be copied (copying; now {copy_bytes_max})"
    )]
    Unaligned {
        /// Where it begins.
        address: usize,
        /// What it has to be a multiple of.
        block_bytes: usize,
        /// Bytes of the region.
        bytes: usize,
        /// Longest region that is copied; 0: none is.
        copy_bytes_max: usize,
    },
    /// The header does not fit into the memory set aside for it.
    #[error(
        "the header has {bytes} bytes and the memory for it {limit}; set header_bytes_max, or name \
         fewer channels and properties"
    )]
    HeaderTooLong {
        /// Its bytes.
        bytes: usize,
        /// The most.
        limit: usize,
    },
    /// Header and region do not make whole blocks.
    #[error(
        "header and body end at byte {end} of the file, and direct writes need whole blocks of \
         {block_bytes} bytes; pad them"
    )]
    OddBlocks {
        /// Where they end, one of them.
        end: u64,
        /// Bytes of a block.
        block_bytes: usize,
    },
    /// There is no room on the disk for what is to come. Nothing of it was written.
    #[error("there is no room on the disk for {bytes} more bytes; free some, or record elsewhere")]
    DiskFull {
        /// How many were to be reserved.
        bytes: u64,
    },
    /// The backend itself has failed.
    #[error("the system does not take the call: {0}")]
    Backend(#[from] io::Error),
}

/// A region that was not taken, and why. It can be appended again.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Refused {
    /// The region, still held.
    pub region: ReadRegion,
    /// Why.
    #[source]
    pub error: QueueError,
}

/// The number of the system's error; that of an error of reading or writing where there is none.
pub(crate) fn os_error(error: &io::Error) -> i32 {
    let unknown = rustix::io::Errno::IO.raw_os_error();
    error.raw_os_error().unwrap_or(unknown)
}
