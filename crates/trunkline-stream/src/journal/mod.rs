//! Stores the data of an endpoint in a journal on the disk. With journals, a stream survives a crash
//! of either program, and outages that exceed the buffers.
//!
//! ```text
//!   program   WriterJournal                                  ReaderJournal   program
//!     | write   [ kept ... written ] --> ring ==> ring --> [ read ... arrived ]  ^
//!     v               files                                      files           | commit
//! ```
//!
//! A writer's journal keeps written data until it is durable at the reader. A reader's journal
//! keeps received data until the program has processed it. docs/reference/stream-journal.md describes
//! the format of the files and the guarantees. Decision 0031 gives the reasons.
//!
//! # Layout
//! - [`disk`]: the interface to a disk, and the implementation for real disks; `sim_disk`: the
//!   implementation for tests.
//! - `record`: the format; `log`, `read_back`, `sync_job`: the files; `bounds`: their size limits;
//!   `recover`: recovery after a crash.
//! - [`WriterJournal`], [`ReaderJournal`]: the journals of the two ends.

use std::path::PathBuf;

use trunkline_proto::stream::ElementForm;

mod bounds;
pub mod disk;
mod error;
mod log;
mod read_back;
mod reader;
mod record;
mod recover;
#[cfg(any(test, feature = "sim"))]
pub mod sim_disk;
mod sync_job;
mod writer;

pub use self::bounds::Bounds;
pub use self::error::JournalError;
pub use self::reader::{ReaderJournal, ReaderStart};
pub use self::record::Lineage;
pub use self::recover::Owner;
pub use self::sync_job::{SyncJob, Synced};
pub use self::writer::{WriterJournal, WriterStart};
pub use trunkline_proto::stream::{Pair, Secret};

/// Default size limit of a journal: 1 GiB.
pub const JOURNAL_BYTES_MAX_DEFAULT: u64 = 1 << 30;

/// The failures that the data of a completed call survives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Durability {
    /// The data survives the end of the program, for any reason. The operating system has the data.
    #[default]
    Process,
    /// The data also survives a loss of power, because `fdatasync` has returned.
    Disk,
}

/// The point from which elements count as read, and are not delivered again after a crash.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Commit {
    /// Elements count as read when the program reads again, commits, or closes the reader. Until
    /// then, the program may still be processing them.
    #[default]
    ByNextRead,
    /// Elements count as read only when the program commits.
    ByProgram,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JournalOptions {
    /// Folder of the journal, which no other journal may use. It is created if it does not exist.
    pub folder: PathBuf,
    /// Size limit of the files, in bytes. When a writer's journal is full, writing waits, as it does
    /// when a buffer is full.
    pub bytes_max: u64,
    /// The failures that a write or a commit survives.
    pub durability: Durability,
    /// For a reader: when elements count as read.
    pub commit: Commit,
}

impl JournalOptions {
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            bytes_max: JOURNAL_BYTES_MAX_DEFAULT,
            durability: Durability::default(),
            commit: Commit::default(),
        }
    }

    /// # Errors
    /// The limit is too small for a buffer of `buffer_bytes` bytes, or the buffer is not smaller
    /// than 4 GiB.
    pub(crate) fn bounds(&self, buffer_bytes: u64) -> Result<Bounds, JournalError> {
        if buffer_bytes >= u64::from(u32::MAX) {
            return Err(JournalError::BufferTooLarge {
                bytes: buffer_bytes,
            });
        }
        let bytes_min = buffer_bytes.saturating_mul(4).max(1 << 20);
        if self.bytes_max < bytes_min {
            return Err(JournalError::TooSmall {
                bytes_max: self.bytes_max,
                bytes_min,
            });
        }
        Ok(Bounds::of(self.bytes_max))
    }
}

/// Implements the methods that both journals forward to their log.
macro_rules! forward_to_log {
    ($journal:ident) => {
        impl $journal {
            /// Returns the number of the last appended record.
            pub fn mark(&self) -> u64 {
                self.log.appended()
            }

            /// Returns true if the record with this number is as durable as configured.
            pub fn is_safe(&self, mark: u64) -> Result<bool, JournalError> {
                match self.log.broken() {
                    Some(error) => Err(error.clone()),
                    None => Ok(self.durability == Durability::Process || self.log.synced() >= mark),
                }
            }

            /// Stores the identity of the peer endpoint.
            pub fn set_peer(&mut self, peer: Pair) -> Result<(), JournalError> {
                self.log.set_peer(peer)
            }

            /// Empties the journal once the peer has everything, including the end of the stream.
            /// Another stream with this lineage can then begin in the journal.
            pub fn finish(&mut self, lineage: Lineage) -> Result<(), JournalError> {
                self.log.finish(lineage)
            }

            pub(crate) fn error(&self, action: &'static str, cause: io::Error) -> JournalError {
                self.log.error(action, cause)
            }

            /// Records the result of a sync. After a failed sync, the state of the disk is unknown,
            /// and the journal writes nothing more.
            pub fn finish_sync(&mut self, done: Synced) -> Result<(), JournalError> {
                self.log.finish_sync(done)
            }
        }
    };
}

use forward_to_log;

fn form_of(element_bytes: u32) -> ElementForm {
    match element_bytes {
        0 => ElementForm::Variable,
        bytes => ElementForm::Fixed(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(bytes_max: u64, buffer_bytes: u64) -> Result<Bounds, JournalError> {
        let options = JournalOptions {
            bytes_max,
            ..JournalOptions::at("/j")
        };
        options.bounds(buffer_bytes)
    }

    #[test]
    fn journal_smaller_than_four_buffers_is_refused_with_the_minimum_size() {
        assert!(bounds(4 << 20, 1 << 20).is_ok());
        let error = bounds((4 << 20) - 1, 1 << 20).unwrap_err();
        let remedy = "allow at least 4194304 bytes";
        assert!(error.to_string().contains(remedy), "{error}");
    }

    #[test]
    fn buffer_of_4_gib_is_refused_for_any_size_of_the_journal() {
        let error = bounds(u64::MAX, 4 << 30).unwrap_err();
        let expected = JournalError::BufferTooLarge { bytes: 4 << 30 };
        assert_eq!(error, expected);
        assert!(error.to_string().contains("smaller than 4 GiB"), "{error}");
    }
}
