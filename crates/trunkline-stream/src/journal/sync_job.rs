//! What makes records safe from a loss of power, apart from the files it is done to,
//! because it takes a while.

use std::path::PathBuf;
use std::sync::Arc;

use super::disk::DiskFile;
use super::error::{JournalError, SYNCED};

/// Bytes that are to be made safe, which takes the disk a while: run it without any lock.
#[derive(Debug)]
pub struct SyncJob {
    /// Of the journal; not its disk, which stays locked for as long as anybody has it.
    pub(super) folder: PathBuf,
    pub(super) file: Arc<dyn DiskFile>,
    /// Number of the last record, and where the stream went on then.
    pub(super) records: u64,
    pub(super) end: u64,
    /// The segment, and its bytes then.
    pub(super) seq: u64,
    pub(super) len: u64,
}

/// What became of a [`SyncJob`].
#[derive(Debug)]
pub struct Synced {
    pub(super) records: u64,
    pub(super) end: u64,
    pub(super) seq: u64,
    pub(super) len: u64,
    pub(super) result: Result<(), JournalError>,
}

impl SyncJob {
    /// Does it.
    pub fn run(self) -> Synced {
        let result = match () {
            #[cfg(feature = "planted")]
            () if trunkline_types::planted::is(trunkline_types::planted::Bug::SyncSkipped) => {
                Ok(())
            }
            () => self.file.sync(),
        };
        Synced {
            records: self.records,
            end: self.end,
            seq: self.seq,
            len: self.len,
            result: result.map_err(|cause| JournalError::disk(&self.folder, SYNCED, cause)),
        }
    }
}
