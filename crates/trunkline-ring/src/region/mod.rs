//! Regions: contiguous pieces of a ring that are used in place by their holder.
//!
//! A device, or a program that acts as one, fills the ring and never waits. The other end lends the
//! ring out in *regions*. Each region is a separate value. It can move to another thread, to the
//! kernel for a write in progress, or to the program, and it is given back once, when it is
//! dropped. Regions may come back in any order; the ring becomes free again in the order of the
//! elements.
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
//! A region never wraps around the end of the memory: there it has fewer elements than requested,
//! and the next one starts at the beginning. If the number of elements requested divides the
//! capacity, every region has that number.
//!
//! Elements that arrive while the ring is full are lost, as in a device with full memory. The ring
//! counts them and records where: a region never spans a gap, and the region behind a gap holds the
//! number of elements missing before it. Lent memory is never overwritten.
//!
//! Playback is the same with the ends exchanged: a program takes regions to fill and finishes them
//! in any order, and a device takes elements out. Elements that are not there in time are counted.

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

/// The reason why no region can be lent now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoRegion {
    /// Too few elements, or too little room. Try again later.
    NotYet {
        /// Number of elements available, or of elements that there is room for.
        available: u64,
    },
    /// The maximum number of regions is lent. Give one back first.
    AllLent {
        /// Maximum number of regions lent at a time.
        limit: usize,
    },
    /// A region to be filled was dropped unfinished, so nothing behind it can ever be played. The
    /// ring is unusable.
    Abandoned,
    /// The other end has written positions that cannot be valid.
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
                "only {available} elements are available now; ask for fewer, or try again later"
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
                "the peer has written positions to the ring that are not valid; it is at \
                 fault, and nothing in the ring can be trusted",
            ),
        }
    }
}

impl std::error::Error for NoRegion {}
