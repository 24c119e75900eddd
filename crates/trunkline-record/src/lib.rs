//! The recorder: from the memory where data was put to a file, where it lies, at the disk's speed.
//!
//! ```text
//!   device --> ring of regions --> WriteQueue --> Backend --> file
//!                  ^                   |            |
//!                  +-- given back -----+            +-- io_uring | plain writes | simulated disk
//! ```
//!
//! A region is written from where the device has put it: the CPU copies nothing, unless
//! [`Copying`] allows it for regions that are small or begin within a block. Several writes run at
//! a time, in any order; the file has them in the order of the calls.
//!
//! # Every prefix opens
//!
//! What is appended is a *segment*: a header and a body. The body is written first, and the header
//! only when the body is in the file. So a program that is killed anywhere leaves whole segments,
//! and behind them nothing that looks like one. Nothing that was written is ever changed.
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
//!   one has failed. [`tdms_queue`] opens one of them.
//! - `staging`: aligned memory for headers.
#![cfg(target_os = "linux")]
#![deny(unsafe_code)]

// It hands memory to the kernel.
#[allow(unsafe_code)]
mod backend;
mod clock;
mod error;
// It promises the backend that memory stays where it is.
#[allow(unsafe_code)]
mod queue;
#[allow(unsafe_code)]
mod staging;
mod tdms_recording;
mod tdms_series;

pub use backend::{
    Backend, BackendKind, BackendWanted, Completed, Directness, FileReport, OpenedFile,
    PlainWrites, SimDisk, SimFault, Span, Token, Uring, Wait, WhyNot, Write, open_file,
};
pub use error::{FailedStep, Failure, QueueError, Refused};
pub use queue::{
    COPY_BELOW_BYTES, Closed, Copying, Durability, FullDisk, Progress, QueueOptions, Reservation,
    Room, RoomAlarm, RoomState, WritePath, WriteQueue,
};
pub use tdms_recording::{DiskStop, RecordError, TdmsLayout, TdmsRecording};
pub use tdms_series::{EndedFile, Rotation, TdmsSeries, series_path, sums_path, tdms_queue};
