//! The journal of an endpoint. With a journal, a stream survives a crash of either program, and
//! outages that exceed its buffer.
//!
//! ```text
//!   program   WriterJournal                                  ReaderJournal   program
//!     | write   [ kept ... written ] --> ring ==> ring --> [ read ... arrived ]  ^
//!     v               files                                      files           | commit
//! ```
//!
//! A writer's journal keeps written data until it is durable at the reader. A reader's journal
//! keeps received data until its program has processed it. The format of the files and their
//! guarantees are described in docs/reference/stream-journal.md, the reasons in decision 0031.
//!
//! # Layout
//! - [`disk`]: the interface to the disk, and the real one; `sim_disk`: one for tests.
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

/// The failures that a completed call survives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Durability {
    /// The end of the program, for any reason: the operating system has the bytes.
    #[default]
    Process,
    /// A loss of power as well: `fdatasync` has returned.
    Disk,
}

/// The point from which elements count as read, and are not delivered again after a crash.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Commit {
    /// When the program reads again, commits, or closes the reader; until then it may still be
    /// processing them.
    #[default]
    ByNextRead,
    /// Only when the program commits.
    ByProgram,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JournalOptions {
    /// Folder of the journal, used by no other journal. Created if it does not exist.
    pub folder: PathBuf,
    /// Size limit of the files, in bytes. When a writer's journal is full, writing waits as for a
    /// full buffer.
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
        let least = buffer_bytes.saturating_mul(4).max(1 << 20);
        if self.bytes_max < least {
            return Err(JournalError::TooSmall {
                bytes_max: self.bytes_max,
                least,
            });
        }
        Ok(Bounds::of(self.bytes_max))
    }
}

/// The methods that both journals forward to their log.
macro_rules! forward_to_log {
    ($journal:ident) => {
        impl $journal {
            /// The number of the last appended record.
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

            /// Stores the identity of the other end.
            pub fn set_peer(&mut self, peer: Pair) -> Result<(), JournalError> {
                self.log.set_peer(peer)
            }

            /// Empties the journal, once the other end has everything, including the end of the
            /// stream. Another stream, with this lineage, may begin in it.
            pub fn finish(&mut self, lineage: Lineage) -> Result<(), JournalError> {
                self.log.finish(lineage)
            }

            pub(crate) fn error(&self, action: &'static str, cause: io::Error) -> JournalError {
                self.log.error(action, cause)
            }

            /// Records the result of a sync. If it failed, the state of the disk is unknown, and
            /// nothing more is written to it.
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
    fn a_journal_smaller_than_four_buffers_is_refused_with_the_least_size() {
        assert!(bounds(4 << 20, 1 << 20).is_ok());
        let error = bounds((4 << 20) - 1, 1 << 20).unwrap_err();
        assert!(error.to_string().contains("allow it 4194304"), "{error}");
    }

    #[test]
    fn a_buffer_of_4_gib_is_refused_whatever_the_journal_allows() {
        let error = bounds(u64::MAX, 4 << 30).unwrap_err();
        let expected = JournalError::BufferTooLarge { bytes: 4 << 30 };
        assert_eq!(error, expected);
        assert!(error.to_string().contains("smaller than 4 GiB"), "{error}");
    }
}
