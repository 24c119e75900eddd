//! The errors and the progress of recording variables.

use std::io;

use trunkline_tdms::WriteError;
use trunkline_types::DataType;
use trunkline_types::wire::VALUE_BYTES_MAX;

use crate::watched_path::{FileLocation, MovedFile};

/// The reason why a variable, or an update of it, is not recorded.
#[derive(Debug, thiserror::Error)]
pub enum VariableRecordError {
    #[error("{name} holds {data_type}, which is not recorded; record its parts separately")]
    Type { name: String, data_type: DataType },
    #[error("{name}: its type needs more than {max} channels; record its parts separately")]
    TooManyParts { name: String, max: usize },
    /// A variable, or an update of it, has a different type than the variable had when it was added.
    #[error("{name}: an update has a different type than earlier ones; record it in another file")]
    OtherType { name: String },
    #[error("{name}: a value has more than {VALUE_BYTES_MAX} bytes; record it as a stream")]
    TooLong { name: String },
    /// The format cannot represent the variable.
    #[error("{name}: {source}")]
    Format {
        name: String,
        source: Box<WriteError>,
    },
    #[error("the variable belongs to another recording; add it to this one first")]
    Unknown,
    #[error(
        "cannot write to the file: {0}; the waiting updates stay in memory until the next attempt"
    )]
    File(#[from] io::Error),
    #[error(
        "{}, and its content is lost ({updates} updates); record to another file, and make \
         sure that no program removes it{}",
        moved_file,
        copy_hint(moved_file)
    )]
    Removed {
        /// The file and its location.
        moved_file: Box<MovedFile>,
        /// Number of updates that were in it.
        updates: u64,
    },
    /// A sync failed, now or earlier. Updates are still written.
    #[error(
        "syncing failed: {}; updates after the first {on_disk} may not survive a power loss, even \
         if a later sync succeeds; continue in another file",
        io::Error::from_raw_os_error(*os_error)
    )]
    Sync {
        os_error: i32,
        /// Number of updates that were durable before the failure.
        on_disk: u64,
    },
}

impl VariableRecordError {
    /// Returns true if the disk is full. Waiting updates are written once there is room.
    pub fn is_disk_full(&self) -> bool {
        matches!(
            self,
            Self::File(error) if matches!(
                error.kind(),
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
            )
        )
    }
}

fn copy_hint(moved_file: &MovedFile) -> String {
    match &moved_file.location {
        FileLocation::Removed {
            copy_from: Some(from),
        } => format!(
            "; until the recording ends, its data can be copied from {}",
            from.display()
        ),
        _ => String::new(),
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct VariableProgress {
    pub variables: u64,
    /// Updates accepted.
    pub updates: u64,
    /// Updates in the file; they survive a crash of the program.
    pub in_file: u64,
    /// Updates that survive a power loss. After a failed sync, this no longer grows for that file.
    pub on_disk: u64,
    /// The system's error number of the first failed sync of the series, if any. Updates that were
    /// not durable before it never count as `on_disk`.
    pub sync_failure: Option<i32>,
    /// Updates missing before or during the recording, as far as their number is known.
    pub lost: u64,
    /// Number of times that an unknown number of updates was lost.
    pub unknown_gaps: u64,
    /// Size of the file, or of all files of a series, in bytes.
    pub bytes: u64,
    pub waiting_bytes: usize,
}
