//! One ring that is the buffers of both ends, where these are processes of one machine.
//!
//! ```text
//!   dialler                                   the other end
//!     | S_HELLO, "may we share?" ---------------> |  makes the ring, for the capacity of both
//!     | <--------- S_WELCOME, "we do"; its file - |
//!     | S_BELL: it is mapped -------------------> |  now its program may use it
//! ```
//!
//! Nothing is moved between two buffers that are one: what would be where is computed from the
//! capacities ([`SharedFills`]). The connection stays: for the end of the stream, for signs of
//! life, and for the bell that wakes a program which waits. That the other process is gone, at
//! whatever instruction, is the end of the connection; the ring is memory without a name, and goes
//! with the last of the two.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use trunkline_net::StreamMemory;
use trunkline_proto::message::stream::{EndState, Incarnation, StreamEnd};
use trunkline_proto::stream::{ElementForm, LinkOptions};
use trunkline_ring::{Corrupt, ElementObserver, RingShape, RingStart, SharedFills};

/// Bytes of a shared ring at most: the other program says how large its part is to be.
const BYTES_MAX: u64 = 4 << 30;

/// The ring of both ends.
pub(crate) struct SharedRing {
    pub(crate) memory: Arc<StreamMemory>,
    observer: ElementObserver,
    /// In elements.
    pub(crate) fills: SharedFills,
    /// The life of the other end that uses it.
    pub(crate) peer: Incarnation,
    /// The other end is known to have it.
    pub(crate) is_confirmed: bool,
}

/// Positions, each with the elements before it.
pub(crate) type Seen = ((u64, u64), (u64, u64));

impl SharedRing {
    /// Makes the ring with an end that has offered to share one. `is_touched`: all of its memory
    /// is there at once.
    ///
    /// # Errors
    /// The system gives no memory, or the two buffers are too large to be one.
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

    /// Maps the ring that the other end has made.
    ///
    /// # Errors
    /// It is not the ring of these two ends, or the system does not map it.
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

    /// How far it is written, and read.
    ///
    /// # Errors
    /// [`Corrupt`]: the other program has written what cannot be true.
    pub(crate) fn look(&mut self) -> Result<Seen, Corrupt> {
        let (written, read) = self.observer.look()?;
        let pair = |place: RingStart| (place.position, place.elements);
        Ok((pair(written), pair(read)))
    }
}

/// What may lie in the ring of two ends: what may lie in their buffers together.
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
