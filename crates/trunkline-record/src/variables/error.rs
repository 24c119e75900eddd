//! Defines the errors and the progress of recording variables.

use std::io;

use trunkline_tdms::WriteError;
use trunkline_types::DataType;
use trunkline_types::wire::VALUE_BYTES_MAX;

use crate::watched_path::{FileLocation, MovedFile};

/// The reason why a variable or an update is not recorded.
#[derive(Debug, thiserror::Error)]
pub enum VariableRecordError {
    #[error(
        "{name} has the type {data_type}, which cannot be recorded; record its parts separately"
    )]
    Type { name: String, data_type: DataType },
    #[error("{name} has a type that needs more than {max} channels; record its parts separately")]
    TooManyParts { name: String, max: usize },
    /// A variable or an update does not have the type with which the variable was added.
    #[error(
        "{name} has an update whose type differs from earlier updates; record this variable to \
         another file"
    )]
    OtherType { name: String },
    #[error(
        "{name} has a value of more than {VALUE_BYTES_MAX} bytes; transfer it through a stream, and \
         record the stream"
    )]
    TooLong { name: String },
    /// The format cannot represent the variable.
    #[error("{name}: {source}")]
    Format {
        name: String,
        source: Box<WriteError>,
    },
    #[error("the variable belongs to another recording; add it to this recording first")]
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
        /// Number of updates that the file contained.
        updates: u64,
    },
    /// This sync or an earlier one failed. Updates are still written.
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
    /// Returns true if the disk is full. Waiting updates are written once there is free space.
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
    /// Number of accepted updates.
    pub updates: u64,
    /// Number of updates in the file, which survive a crash of the program.
    pub in_file: u64,
    /// Number of updates that survive a power loss. After a failed sync of a file, it no longer
    /// grows for that file.
    pub on_disk: u64,
    /// The system's error number of the first failed sync of the series, if any. Updates that were
    /// not durable before that sync never count as `on_disk`.
    pub sync_failure: Option<i32>,
    /// Known number of updates missing before or during the recording.
    pub lost: u64,
    /// Number of times that an unknown number of updates was lost.
    pub unknown_gaps: u64,
    /// Size of the file, or of all files of a series, in bytes.
    pub bytes: u64,
    /// Number of bytes of updates that wait in memory.
    pub waiting_bytes: usize,
}
