//! Records data at the speed of the disk, directly from the memory that a device fills, and plays
//! recordings back.
//!
//! ```text
//!   device --> ring of regions --> WriteQueue --> Backend --> file
//!                  ^                   |            |
//!                  +-- released -------+            +-- io_uring | plain writes
//! ```
//!
//! A region is written directly from the memory that the device filled, without a copy by the CPU.
//! Regions that are small or do not begin on a block boundary are copied, unless copying
//! ([`QueueOptions::copying`]) is disabled. Several writes are outstanding at a time and may
//! complete in any order; the file contains the data in the order of the calls.
//!
//! # Every prefix of a file opens
//!
//! The unit of appending is a *segment*: a header followed by regions. The regions are written
//! first, and the header only once they are in the file. If the program is killed at any point, the
//! file therefore contains complete segments and possibly a placeholder after them, which readers
//! treat as an incomplete segment. Only placeholders are ever overwritten.
//!
//! # Durability
//!
//! [`Durability`] defines the two levels of this crate. At the first level, the data is in the file
//! and survives a crash of the program. At the second level, it is on the disk and survives a power
//! loss; data reaches this level only when `fdatasync` returns. With a checksum file
//! ([`QueueOptions::has_sums`]), both levels also cover the checksum, so readers can detect data
//! that a power loss damaged.
//!
//! # Layout
//! - [`WriteQueue`] in `queue`: the state machine that writes a file. It has no thread and uses the
//!   clock of its backend.
//! - [`Backend`] in `backend`: the interface to the disk. [`Uring`] and [`PlainWrites`] implement
//!   it and, with the feature `sim` for tests, `SimDisk`.
//! - [`TdmsRecording`] in `tdms_recording`: records the rows of a ring as TDMS channels.
//! - [`TdmsSeries`] in `tdms_series`: one recording in several files, rotated by size, by age, and
//!   after a failure. [`tdms_queue`] in `tdms_file` opens one of the files.
//! - [`ReadQueue`] in `read_queue`: reads a file into regions.
//! - [`Recording`], [`TdmsPlayback`], [`Pacer`] in `playback`: play a recording into a ring, and
//!   compute when each of its rows is due.
//! - [`VariableRecording`], [`RecordedVariables`] in `variables`: write timestamped updates of
//!   variables to a file and read them back. [`ElementSeries`]: stream elements in the same
//!   channels.
//! - `staging`: aligned memory for headers and copied data.
#![cfg(target_os = "linux")]
#![deny(unsafe_code)]

// Passes memory to the kernel.
#[allow(unsafe_code)]
mod backend;
mod clock;
mod ended;
mod error;
mod playback;
mod watched_path;
// Guarantees to the backend that memory stays mapped.
#[allow(unsafe_code)]
mod queue;
// Guarantees to the backend exclusive access to the memory.
#[allow(unsafe_code)]
mod read_queue;
#[allow(unsafe_code)]
mod staging;
mod tdms_file;
mod tdms_recording;
mod tdms_series;
mod variables;

pub use backend::{
    Backend, BackendChoice, BackendKind, CacheMode, Completed, FallbackReason, FileReport,
    FileToRead, LocalFile, OpenedFile, PlainWrites, Read, Span, Token, Uring, Wait, Write,
    open_file, open_to_read,
};
#[cfg(feature = "sim")]
pub use backend::{SimDisk, SimFault};
pub use ended::ENDED_FILES_MAX;
pub use error::{FailedStep, Failure, QueueError, Refused};
pub use playback::{
    GROUPS_LISTED_MAX, Gap, GapMode, MissingPart, Pace, PacedDrain, Pacer, PlayOptions,
    PlayProgress, PlaybackError, PlayedChannel, Recording, Selection, TdmsPlayback,
};
pub use queue::{
    COPY_BELOW_BYTES, Closed, Copying, Durability, FreeSpace, FreeSpaceAlarm, FreeSpaceState,
    FullDisk, Progress, QueueOptions, Reservation, WritePath, WriteQueue,
};
pub use read_queue::{
    ReadFailure, ReadFault, ReadOptions, ReadProgress, ReadQueue, ReadQueueError, RefusedRead,
};
pub use tdms_file::{series_file, series_path, sums_path, tdms_queue};
pub use tdms_recording::{DiskFullLosses, RecordError, TdmsLayout, TdmsRecording};
pub use tdms_series::{DiscardedResults, EndedFile, Rotation, TdmsSeries};
pub use variables::{
    DiscardedVariableResults, ElementSeries, EndedVariables, PlayedUpdate, PlayedVariable,
    RecordedVariables, SegmentFile, Segments, VariableId, VariableProgress, VariableRecordError,
    VariableRecording, VariableSeries, check_elements,
};
pub use watched_path::{FileLocation, MovedFile};
