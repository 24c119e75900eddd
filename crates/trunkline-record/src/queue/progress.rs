//! What a queue says of itself.

use super::Room;
use crate::error::Failure;

/// What is safe from what.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Durability {
    /// In the file as the system has it: a program that is killed does not lose it; a loss of power
    /// may.
    InFile,
    /// `fdatasync` has returned: a loss of power does not lose it, as far as the disk keeps its
    /// word.
    OnDisk,
}

/// Room that is set aside on the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Reservation {
    /// Ahead of what is written.
    Ahead,
    /// The file system cannot do it.
    Unsupported,
    /// As the options say.
    NotWanted,
}

/// How the last region went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WritePath {
    /// It was written from where it lies, but for an odd end.
    InPlace,
    /// It was copied first.
    Copied,
}

/// How far a queue is. Positions are bytes of the file, where a region or a segment ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Progress {
    /// Appended.
    pub accepted: u64,
    /// In the file, all of it ([`Durability::InFile`]).
    pub written: u64,
    /// On the disk ([`Durability::OnDisk`]).
    pub durable: u64,
    /// Regions that are not in the file, or segments, whichever are more.
    pub outstanding: usize,
    /// Whether room is set aside.
    pub reservation: Reservation,
    /// Room on the disk.
    pub room: Room,
    /// How the last region went; none before the first.
    pub path: Option<WritePath>,
    /// Regions that were written from where they lie.
    pub regions_in_place: u64,
    /// Regions that were copied first.
    pub regions_copied: u64,
    /// Bytes of those that wait for more, and are in no segment yet.
    pub bytes_collected: usize,
    /// Bytes of regions that the CPU has copied: of those that were, and of others the odd ends.
    pub bytes_copied: u64,
    /// Why the file takes nothing more.
    pub failure: Option<Failure>,
}

/// What a file has come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Closed {
    /// Its length.
    pub length: u64,
    /// How safe all of that is.
    pub durability: Durability,
    /// The number of the system's error where it could not be cut to its length: behind that may be
    /// what is no part of it.
    pub untrimmed: Option<i32>,
    /// Why it takes nothing more, where it was not closed in order.
    pub failure: Option<Failure>,
}
