//! One ring that serves as the buffers of both ends, for two processes on one machine.
//!
//! ```text
//!   dialler                                   the other end
//!     | S_HELLO, "may we share?" ---------------> |  creates the ring, with the capacity of both
//!     | <--------- S_WELCOME, "we do"; its file - |
//!     | S_BELL: it is mapped -------------------> |  its program may now use the ring
//! ```
//!
//! The two buffers are one, so no data moves between them; how much each would hold is computed
//! from the capacities ([`SharedFills`]). The connection stays open to carry the end of the stream,
//! keep-alives, and the bell that wakes a waiting program. The end of the connection shows that the
//! other process is gone, whatever it was doing. The ring is anonymous memory, released when the
//! last of the two processes has ended.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use trunkline_net::StreamMemory;
use trunkline_proto::message::stream::{EndState, Incarnation, StreamEnd};
use trunkline_proto::stream::{ElementForm, LinkOptions};
use trunkline_ring::{Corrupt, ElementObserver, RingShape, RingStart, SharedFills};

/// Largest shared ring, in bytes; needed because the other program chooses the size of its part.
const BYTES_MAX: u64 = 4 << 30;

pub(crate) struct SharedRing {
    pub(crate) memory: Arc<StreamMemory>,
    observer: ElementObserver,
    /// Fill levels of the two buffers, in elements.
    pub(crate) fills: SharedFills,
    pub(crate) peer: Incarnation,
    /// The other end is known to have the ring.
    pub(crate) is_confirmed: bool,
}

/// Positions written and read, each with the number of elements before it.
pub(crate) type Seen = ((u64, u64), (u64, u64));

impl SharedRing {
    /// Creates the ring for an endpoint that has offered to share one. `is_touched`: allocates all
    /// memory at once.
    ///
    /// # Errors
    /// The system provides no memory, or the combined buffers are too large.
    pub(crate) fn create(
        own: &LinkOptions,
        peer: &StreamEnd,
        is_touched: bool,
    ) -> io::Result<(Self, OwnedFd)> {
        let shape = shape(own, peer)?;
        let memory = StreamMemory::create(shape, RingStart::default(), is_touched)?;
        let file = memory.as_fd().try_clone_to_owned()?;
        Ok((Self::new(memory, own, peer, false), file))
    }

    /// Maps the ring that the other end has created.
    ///
    /// # Errors
    /// It is not the ring of these two ends, or the system cannot map it.
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
    pub(crate) fn positions(&mut self) -> Result<Seen, Corrupt> {
        let (written, read) = self.observer.positions()?;
        let pair = |place: RingStart| (place.position, place.elements);
        Ok((pair(written), pair(read)))
    }
}

/// The shape of the shared ring: the sum of both ends' buffers.
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
