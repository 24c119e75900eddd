//! Why a variable is not recorded, and how far a recording is.

use std::io;

use trunkline_tdms::WriteError;
use trunkline_types::DataType;
use trunkline_types::wire::VALUE_BYTES_MAX;

use crate::place::{Displaced, Whereabouts};

/// Why a variable, or an update of it, is not recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VariableRecordError {
    /// Values of this type have no channel.
    #[error("{name} holds {data_type}, which is not recorded; record its parts on their own")]
    Type {
        /// The variable.
        name: String,
        /// Its type.
        data_type: DataType,
    },
    /// A struct of more parts than there are channels for.
    #[error("{name}: its type makes more than {max} channels; record its parts on their own")]
    TooManyParts {
        /// The variable.
        name: String,
        /// Most channels of one variable.
        max: usize,
    },
    /// A variable, or an update of it, is of another type than the variable was when it was added.
    #[error("{name}: an update of another type than it had before; record it in another file")]
    OtherType {
        /// The variable.
        name: String,
    },
    /// A value that is longer than any a variable can have.
    #[error("{name}: a value of more than {VALUE_BYTES_MAX} bytes; record it as a stream")]
    TooLong {
        /// The variable.
        name: String,
    },
    /// The format does not have that.
    #[error("{name}: {source}")]
    Format {
        /// The variable.
        name: String,
        /// What.
        source: Box<WriteError>,
    },
    /// There is no such variable in this recording.
    #[error("a variable of another recording; add it to this one first")]
    Unknown,
    /// The file takes nothing now. What waits is written when it does.
    #[error("the file takes nothing now: {0}; what waits is tried again")]
    File(#[from] io::Error),
    /// The file was removed or replaced while it was written.
    #[error(
        "{}, and what was in it is lost ({updates} updates); record in another file, which no \
         program removes{}",
        displaced,
        copy_hint(displaced)
    )]
    Removed {
        /// The file.
        displaced: Box<Displaced>,
        /// Updates that were in it.
        updates: u64,
    },
    /// A sync has failed, now or before. Updates are still written.
    #[error(
        "syncing failed: {}; updates behind the first {on_disk} may not outlive a loss of power, \
         even if a later sync succeeds; go on in another file",
        io::Error::from_raw_os_error(*os_error)
    )]
    Sync {
        /// The number of the system's error.
        os_error: i32,
        /// Updates that had outlived a loss of power before.
        on_disk: u64,
    },
}

impl VariableRecordError {
    /// Whether there is no room on the disk: what waits is written when there is.
    #[must_use]
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

fn copy_hint(displaced: &Displaced) -> String {
    match &displaced.now {
        Whereabouts::Removed {
            copy_from: Some(from),
        } => format!(
            "; until the recording ends, its data can be copied from {}",
            from.display()
        ),
        _ => String::new(),
    }
}

/// How far a recording of variables is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct VariableProgress {
    /// Variables in it.
    pub variables: u64,
    /// Updates that were taken.
    pub updates: u64,
    /// Updates that are in the file, which outlives the program.
    pub in_file: u64,
    /// Updates that outlive a loss of power. In one file no more than there were when a sync has
    /// failed.
    pub on_disk: u64,
    /// The number of the system's error when a sync has failed, the first one in a series: updates
    /// that were not safe before never count as `on_disk`.
    pub sync_failure: Option<i32>,
    /// Updates that are missing, before the recording or in it, as far as their number is known.
    pub lost: u64,
    /// How often an unknown number was lost.
    pub unknown_gaps: u64,
    /// Bytes of the file, or of all files of a series.
    pub bytes: u64,
    /// Bytes that wait to be written.
    pub waiting_bytes: usize,
}
