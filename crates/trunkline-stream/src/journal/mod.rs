//! The journal of an endpoint: with it a stream outlives the crash of either program, and outages
//! longer than its buffer.
//!
//! ```text
//!   program   WriterJournal                                  ReaderJournal   program
//!     | write   [ kept ... written ] --> ring ==> ring --> [ read ... arrived ]  ^
//!     v               files                                      files           | commit
//! ```
//!
//! A writer's journal has what the program has written until the reader has made it safe; a
//! reader's what has arrived until its program is done with it. The format of the files and what
//! they promise is in docs/reference/stream-journal.md, the reasons in decision 0031.
//!
//! # Layout
//! - [`disk`]: the disk as it is used here, and the real one; [`sim_disk`]: one for tests.
//! - `record`: the format; `log`, `read_back`, `sync_job`: the files; `bounds`: how large they may
//!   become; `recover`: what is there after a crash.
//! - [`WriterJournal`], [`ReaderJournal`]: what the endpoints have.

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

/// Bytes of a journal where nothing else is said: 1 GiB.
pub const JOURNAL_BYTES_MAX_DEFAULT: u64 = 1 << 30;

/// What a call of the program survives once it has returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Durability {
    /// The end of the program, however it comes: the system has the bytes.
    #[default]
    Process,
    /// The end of the machine's power too: `fdatasync` has returned.
    Disk,
}

/// When what a program has read counts as read, so that it does not come again after a crash.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Commit {
    /// When it reads again, or commits or closes the end: until then it may still be at work on it.
    #[default]
    ByNextRead,
    /// When it says so.
    ByProgram,
}

/// The journal of an endpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JournalOptions {
    /// Its folder, for it alone. It is made if it is not there.
    pub folder: PathBuf,
    /// Bytes that its files may have. When a writer's is full, writing waits as for a full buffer.
    pub bytes_max: u64,
    /// What a write, or a commit, survives.
    pub durability: Durability,
    /// Of a reader: when elements count as read.
    pub commit: Commit,
}

impl JournalOptions {
    /// In this folder, with the defaults of everything else.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            bytes_max: JOURNAL_BYTES_MAX_DEFAULT,
            durability: Durability::default(),
            commit: Commit::default(),
        }
    }

    /// # Errors
    /// It cannot hold what a buffer of so many bytes holds.
    pub(crate) fn bounds(&self, buffer_bytes: u64) -> Result<Bounds, JournalError> {
        let least = buffer_bytes.saturating_mul(4).max(1 << 20);
        if self.bytes_max < least || buffer_bytes >= u64::from(u32::MAX) {
            return Err(JournalError::TooSmall {
                bytes_max: self.bytes_max,
                least,
            });
        }
        Ok(Bounds::of(self.bytes_max))
    }
}

fn form_of(element_bytes: u32) -> ElementForm {
    match element_bytes {
        0 => ElementForm::Variable,
        bytes => ElementForm::Fixed(bytes),
    }
}
