//! Regions: contiguous pieces of a ring that their holders use in place.
//!
//! A device, or a program that acts as one, fills the ring and never waits. The other end lends the
//! ring out in *regions*. Each region is a separate value. It can be moved to another thread, to
//! the kernel for a write in progress, or to the program, and it is returned when it is dropped.
//! Regions may be returned in any order; the ring is freed in the order of the elements.
//!
//! ```text
//!                 released             lent             ready      written
//!                     v                  v                v          v
//!  - - ---------------+--------+---------+----------------+----------+- - -
//!     free            | region | region  |  to be lent    |  a gap   |
//!  - - ---------------+--------+---------+----------------+----------+- - -
//!                     |<------------ at most the capacity ---------->|
//! ```
//!
//! A region never wraps around the end of the memory: there it has fewer elements than requested,
//! and the next region starts at the beginning of the memory. If the requested number of elements
//! divides the capacity, every region has that number.
//!
//! Elements that arrive while the ring is full are lost, as in a device with full memory. The ring
//! counts them and records their position: a region never spans a gap, and the region after a gap
//! reports the number of elements missing before it. Lent memory is never overwritten.
//!
//! Playback is the same with the ends exchanged: a program takes regions, fills them and finishes
//! them in any order, and a device takes elements out. Elements that are not available in time are
//! counted.

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
    /// There are too few elements, or there is too little room. Try again later.
    NotYet {
        /// Number of available elements, or number of elements for which there is room.
        available: u64,
    },
    /// The maximum number of regions is lent. Return one first.
    AllLent {
        /// Maximum number of regions lent at a time.
        limit: usize,
    },
    /// A region to be filled was dropped unfinished, so nothing after it can ever be played. The
    /// ring is unusable.
    Abandoned,
    /// The other end has written invalid positions.
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
                "all {limit} regions are lent; return one first, or create the ring with a higher limit"
            ),
            Self::Abandoned => f.write_str(
                "a region was dropped before it was finished, so nothing after it can be played; \
                 create a new ring",
            ),
            Self::Corrupt => f.write_str(
                "the peer has written invalid positions to the ring; restart the peer and create a \
                 new ring",
            ),
        }
    }
}

impl std::error::Error for NoRegion {}
