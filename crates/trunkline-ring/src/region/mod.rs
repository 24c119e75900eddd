//! Regions: pieces of a ring that are used where they lie, by whoever holds them.
//!
//! A device, or a program in its place, fills the ring and never waits. The other end lends the
//! ring out in *regions*: each is a value of its own, can go to another thread, to the kernel for a
//! write that is still running, or to the program, and is given back once, when it is dropped.
//! Regions may come back in any order; the ring is free again in the order of the elements.
//!
//! ```text
//!                 given back           lent             there      written
//!                     v                  v                v          v
//!  - - ---------------+--------+---------+----------------+----------+- - -
//!     free            | region | region  |  to be lent    |  a gap   |
//!  - - ---------------+--------+---------+----------------+----------+- - -
//!                     |<------------ at most the capacity ---------->|
//! ```
//!
//! A region does not go over the end of the memory: there it has fewer elements than were asked
//! for. The next one begins at the beginning. With a number of elements that divides the capacity
//! every region has as many.
//!
//! What has no room when it comes is lost, as it is in a device whose memory is full. The ring
//! counts it, and says where: a region never goes over a gap, and the one behind it says how many
//! elements are missing before it. What was lent is never overwritten.
//!
//! Playing back is the same with the ends exchanged: a program takes regions to be filled, which it
//! finishes in any order, and a device takes elements out; what is not there in time is counted.

#[cfg(all(not(loom), target_os = "linux"))]
mod acquisition_memory;
mod drain;
mod filler;
mod loans;
mod losses;
#[cfg(all(not(loom), target_os = "linux"))]
mod pages;
mod parts;
mod reader;
mod writer;

#[cfg(all(not(loom), target_os = "linux"))]
pub use self::acquisition_memory::RegionMemory;
pub use self::drain::RegionDrain;
pub use self::filler::RegionFiller;
#[cfg(all(not(loom), target_os = "linux"))]
pub use self::pages::{Pages, PagesWanted};
#[cfg(loom)]
pub use self::parts::{region_ring_to_play, region_ring_to_record};
pub use self::reader::{ReadRegion, RegionReader};
pub use self::writer::{RegionWriter, WriteRegion};

use crate::byte_ring::Corrupt;

/// Why there is no region now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum NoRegion {
    /// Not enough elements are there, or not enough room. Ask again later.
    NotYet {
        /// Elements that are there, or that there is room for.
        available: u64,
    },
    /// As many regions are lent as may be. One has to be given back first.
    AllLent {
        /// How many may be lent at a time.
        limit: usize,
    },
    /// A region that was to be filled was dropped unfinished: what comes behind it can never be
    /// played. The ring is of no use any more.
    Abandoned,
    /// The other end has written positions that cannot be true.
    Corrupt,
}

impl From<Corrupt> for NoRegion {
    fn from(Corrupt: Corrupt) -> Self {
        Self::Corrupt
    }
}

impl std::fmt::Display for NoRegion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotYet { available } => write!(
                f,
                "only {available} elements can be had now; ask for fewer, or again later"
            ),
            Self::AllLent { limit } => write!(
                f,
                "all {limit} regions are lent; give one back first, or allow more when the ring is \
                 made"
            ),
            Self::Abandoned => f.write_str(
                "a region was dropped before it was filled, so nothing behind it can be played; \
                 make a new ring",
            ),
            Self::Corrupt => f.write_str(
                "the other end of the ring has written positions that cannot be true; it is at \
                 fault, and nothing in the ring can be believed",
            ),
        }
    }
}

impl std::error::Error for NoRegion {}
