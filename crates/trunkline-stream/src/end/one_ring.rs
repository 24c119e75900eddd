//! Implements a ring in shared memory that serves as the buffers of both ends, for two processes on
//! one machine.
//!
//! ```text
//!   dialling end                               dialled end
//!     | S_HELLO, offers to share ---------------> |  creates the ring, with the capacity of both
//!     | <------ S_WELCOME, accepts; the file ---- |
//!     | S_BELL, the ring is mapped -------------> |  lets the program use the ring
//! ```
//!
//! The two buffers are one ring, so no data moves between them. [`SharedFills`] computes from the
//! capacities how many elements each buffer would hold. The connection stays open to carry the end of
//! the stream, keep-alives, and the bell that wakes a waiting program. When a process ends for any
//! reason, the connection ends too. The ring is anonymous memory, which is released when both
//! processes have ended.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use trunkline_net::StreamMemory;
use trunkline_proto::message::stream::{EndState, Incarnation, StreamEnd};
use trunkline_proto::stream::{ElementForm, LinkOptions};
use trunkline_ring::{Corrupt, ElementObserver, RingShape, RingStart, SharedFills};

/// Maximum size of a shared ring, in bytes. The limit is necessary because the other program chooses
/// the size of its own buffer.
const BYTES_MAX: u64 = 4 << 30;

pub(crate) struct SharedRing {
    pub(crate) memory: Arc<StreamMemory>,
    observer: ElementObserver,
    /// Fill levels of the two buffers, in elements.
    pub(crate) fills: SharedFills,
    /// The incarnation of the peer that shares the ring.
    pub(crate) peer: Incarnation,
    /// The peer has confirmed that it uses the ring.
    pub(crate) is_confirmed: bool,
}

/// Positions written and read, each with the number of elements before it.
pub(crate) type Positions = ((u64, u64), (u64, u64));

impl SharedRing {
    /// Creates the ring for a peer that has offered to share one. If `is_preallocated` is true, all
    /// memory is allocated at once.
    ///
    /// # Errors
    /// The system provides no memory, or the combined buffers are too large.
    pub(crate) fn create(
        own: &LinkOptions,
        peer: &StreamEnd,
        is_preallocated: bool,
    ) -> io::Result<(Self, OwnedFd)> {
        let shape = shape(own, peer)?;
        let memory = StreamMemory::create(shape, RingStart::default(), is_preallocated)?;
        let file = memory.as_fd().try_clone_to_owned()?;
        Ok((Self::new(memory, own, peer, false), file))
    }

    /// Maps the ring that the peer has created.
    ///
    /// # Errors
    /// The file is not the ring of these two ends, or the system cannot map it.
    pub(crate) fn accept(file: OwnedFd, own: &LinkOptions, peer: &StreamEnd) -> io::Result<Self> {
        let memory = StreamMemory::accept(file, shape(own, peer)?, RingStart::default())?;
        Ok(Self::new(memory, own, peer, true))
    }

    fn new(
        memory: Arc<StreamMemory>,
        own: &LinkOptions,
        peer: &StreamEnd,
        is_confirmed: bool,
    ) -> Self {
        let (writer, reader) = match peer.state {
            EndState::Reader(_) => (own.capacity, peer.capacity),
            EndState::Writer(_) => (peer.capacity, own.capacity),
        };
        Self {
            observer: memory.element_memory().observer(),
            memory,
            fills: SharedFills { writer, reader },
            peer: peer.incarnation,
            is_confirmed,
        }
    }

    /// Returns the positions written and read.
    ///
    /// # Errors
    /// [`Corrupt`]: the other program has written impossible positions.
    pub(crate) fn positions(&mut self) -> Result<Positions, Corrupt> {
        let (written, read) = self.observer.positions()?;
        let pair = |place: RingStart| (place.position, place.elements);
        Ok((pair(written), pair(read)))
    }
}

/// Returns the shape of the shared ring, which is as large as the buffers of both ends together.
fn shape(own: &LinkOptions, peer: &StreamEnd) -> io::Result<RingShape> {
    let capacity = own.capacity.checked_add(peer.capacity);
    let bytes = own.bytes_max.checked_add(peer.bytes_max);
    let size = |number: Option<u64>| usize::try_from(number?).ok();
    let shape = match (own.form, size(capacity), size(bytes)) {
        (ElementForm::Fixed(element), Some(capacity), _) => {
            RingShape::fixed(element as usize, capacity)
        }
        (ElementForm::Variable, Some(capacity), Some(bytes)) => {
            RingShape::variable(bytes, capacity)
        }
        _ => None,
    };
    shape
        .filter(|shape| shape.bytes_max() as u64 <= BYTES_MAX)
        .ok_or(io::ErrorKind::OutOfMemory.into())
}
