//! Makes records durable against power loss. A job is separate from the log, so that the log can be
//! used while the job runs.

use std::path::PathBuf;
use std::sync::Arc;

use super::disk::DiskFile;
use super::error::{JournalError, SYNCED};

/// Data to sync. A sync can take long, so run it without holding a lock.
#[derive(Debug)]
pub struct SyncJob {
    /// Folder of the journal. The job does not hold the disk itself, whose lock would otherwise be
    /// held as long as the job exists.
    pub(super) folder: PathBuf,
    pub(super) file: Arc<dyn DiskFile>,
    /// Number of the last record when the job was created.
    pub(super) records: u64,
    /// Stream position after the last byte in the journal when the job was created.
    pub(super) end: u64,
    /// Number of the segment.
    pub(super) seq: u64,
    /// Length of the segment when the job was created, in bytes.
    pub(super) len: u64,
}

/// The result of a [`SyncJob`]; the fields have the same meaning as those of the job.
#[derive(Debug)]
pub struct Synced {
    pub(super) records: u64,
    pub(super) end: u64,
    pub(super) seq: u64,
    pub(super) len: u64,
    pub(super) result: Result<(), JournalError>,
}

impl SyncJob {
    pub fn run(self) -> Synced {
        let result = self.file.sync();
        Synced {
            records: self.records,
            end: self.end,
            seq: self.seq,
            len: self.len,
            result: result.map_err(|cause| JournalError::disk(&self.folder, SYNCED, cause)),
        }
    }
}
