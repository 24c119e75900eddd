//! The recorder: from the memory where data was put to a file, where it lies, at the disk's speed.
//!
//! ```text
//!   device --> ring of regions --> WriteQueue --> Backend --> file
//!                  ^                   |            |
//!                  +-- given back -----+            +-- io_uring | plain writes | simulated disk
//! ```
//!
//! A region is written from where the device has put it, and the CPU copies nothing; but regions
//! that are small or begin within a block are copied, unless [`Copying`] is switched off. Several
//! writes run at a time, in any order; the file has them in the order of the calls.
//!
//! # Every prefix opens
//!
//! What is appended is a *segment*: a header, and regions behind it. Those are written first, and
//! the header only when they are in the file. So a program that is killed anywhere leaves whole
//! segments, and behind them nothing that looks like one. Nothing that was written is ever changed.
//!
//! # Durable
//!
//! [`Durability`] says what a figure of this crate means: in the file, which outlives the program;
//! or on the disk, which outlives a loss of power. The second is true only when `fdatasync` has
//! returned. With checksums in a file beside it ([`QueueOptions::has_sums`]) either is true only
//! when it is so of the checksum as well, and what a loss of power has spoiled can be told.
//!
//! # Layout
//! - [`WriteQueue`] in `queue`: the state machine. It has no thread, and its clock is its
//!   backend's.
//! - [`Backend`] in `backend`: what it writes with. [`Uring`], [`PlainWrites`], [`SimDisk`].
//! - [`TdmsRecording`] in `tdms_recording`: rows of a ring as TDMS channels.
//! - [`TdmsSeries`] in `tdms_series`: one recording in several files, by size, by time, and when
//!   one has failed. [`tdms_queue`] in `tdms_file` opens one of them.
//! - [`ReadQueue`] in `read_queue`: the same reversed, from a file into regions.
//! - [`Recording`], [`TdmsPlayback`], [`Pacer`] in `playback`: a recording into a ring, and when
//!   each of its rows is due.
//! - [`VariableRecording`], [`RecordedVariables`] in `variables`: updates of variables, each with
//!   its time, to a file and back. [`ElementSeries`]: elements of a stream in the same channels.
//! - [`card`]: a simulated acquisition card, the bench of it all.
//! - `staging`: aligned memory for headers.
#![cfg(target_os = "linux")]
#![deny(unsafe_code)]

// It hands memory to the kernel.
#[allow(unsafe_code)]
mod backend;
pub mod card;
mod clock;
mod error;
mod place;
mod playback;
// It promises the backend that memory stays where it is.
#[allow(unsafe_code)]
mod queue;
// It promises the backend that nobody else has the memory.
#[allow(unsafe_code)]
mod read_queue;
#[allow(unsafe_code)]
mod staging;
mod tdms_file;
mod tdms_recording;
mod tdms_series;
mod variables;

pub use backend::{
    Backend, BackendKind, BackendWanted, Completed, Directness, FileReport, FileToRead, OpenedFile,
    PlainWrites, Read, SimDisk, SimFault, Span, Token, Uring, Wait, WhyNot, Write, open_file,
    open_to_read,
};
pub use error::{FailedStep, Failure, QueueError, Refused};
pub use place::{Displaced, Whereabouts};
pub use playback::{
    GROUPS_TOLD, Gap, Gaps, MissingPart, Pace, PacedDrain, Pacer, PlayOptions, PlayProgress,
    PlaybackError, PlayedChannel, Recording, Selection, TdmsPlayback,
};
pub use queue::{
    COPY_BELOW_BYTES, Closed, Copying, Durability, FullDisk, Progress, QueueOptions, Reservation,
    Room, RoomAlarm, RoomState, WritePath, WriteQueue,
};
pub use read_queue::{
    ReadFailure, ReadFault, ReadOptions, ReadProgress, ReadQueue, ReadQueueError, RefusedRead,
};
pub use tdms_file::{series_file, series_path, sums_path, tdms_queue};
pub use tdms_recording::{DiskStop, RecordError, TdmsLayout, TdmsRecording};
pub use tdms_series::{EndedFile, Rotation, TdmsSeries};
pub use variables::{
    ElementSeries, EndedVariables, PlayedUpdate, PlayedVariable, RecordedVariables, SegmentFile,
    Segments, VariableId, VariableProgress, VariableRecordError, VariableRecording, VariableSeries,
    check_elements,
};
