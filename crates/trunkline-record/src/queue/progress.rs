//! Defines the progress and the final state that a queue reports.

use super::FreeSpace;
use crate::error::Failure;

/// The kind of crash that written data survives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Durability {
    /// The operating system has the data: it survives a crash of the program, but not necessarily a
    /// power loss.
    InFile,
    /// `fdatasync` has returned: the data survives a power loss, provided that the disk honours the
    /// flush.
    OnDisk,
}

/// Whether disk space is reserved ahead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reservation {
    /// Space is reserved ahead of the written data.
    Ahead,
    /// The file system cannot reserve space.
    Unsupported,
    /// The options disable reservation.
    NotWanted,
}

/// How a region gets into the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WritePath {
    /// The region is written directly from its memory, except for a partial block at its end.
    InPlace,
    /// The region is copied to staging memory and written from there.
    Copied,
}

/// The progress of a queue. Positions are offsets in the file, in bytes, at which a region or a
/// segment ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Position up to which data was appended.
    pub accepted: u64,
    /// Position up to which all data is in the file ([`Durability::InFile`]).
    pub written: u64,
    /// Position up to which all data is on the disk ([`Durability::OnDisk`]).
    pub durable: u64,
    /// Number of regions or number of segments that are not in the file, whichever is larger.
    pub outstanding: usize,
    /// Whether disk space is reserved ahead.
    pub reservation: Reservation,
    /// The free space on the disk.
    pub free_space: FreeSpace,
    /// How the last region was written; `None` before the first region.
    pub path: Option<WritePath>,
    /// Number of regions written directly from their memory.
    pub regions_in_place: u64,
    /// Number of regions copied before they were written.
    pub regions_copied: u64,
    /// Number of bytes of copied regions that are not in a segment yet.
    pub bytes_collected: usize,
    /// Number of bytes that the CPU copied: whole copied regions, and the unaligned ends of others.
    pub bytes_copied: u64,
    /// The failure that ended the file, if any. The file accepts no more data after it.
    pub failure: Option<Failure>,
}

/// The final state of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Closed {
    pub length: u64,
    /// The durability of the whole file.
    pub durability: Durability,
    /// The system error number if the file could not be truncated to `length`; extra bytes may
    /// then follow the data.
    pub truncate_error: Option<i32>,
    /// The failure, if the file did not end normally.
    pub failure: Option<Failure>,
}

/// Counts of the appended regions by write path.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) path: Option<WritePath>,
    pub(super) regions_in_place: u64,
    pub(super) regions_copied: u64,
    pub(super) bytes_copied: u64,
}
